import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { runProgram } from '../../src/cli/program.ts'
import { vicinal } from './programs.ts'

export interface Ended {
  /** The exit code; null when a signal ended the process. */
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

const { NODE_COMPILE_CACHE } = process.env

/** The only inherited variable: Node caches compiled sources there, which makes a start a fifth faster. */
export const compileCache: Readonly<Record<string, string>> =
  NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }

/** The real `vicinal`, or another program of ours, as a child process with only the given environment variables. */
export class Command {
  readonly child: ChildProcessWithoutNullStreams
  readonly ended: Promise<Ended>
  stdout = ''
  stderr = ''

  constructor(
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
    program: string = vicinal,
  ) {
    this.child = spawn(process.execPath, [program, ...args], { env: { ...compileCache, ...environment } })
    this.child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
    this.ended = once(this.child, 'close').then(([code]) => ({
      code: code as number | null,
      stdout: this.stdout,
      stderr: this.stderr,
    }))
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal)
  }

  /** Resolves when standard output matches `pattern`; fails if the process ends without a match. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.stdout)
      if (found !== null) return found
      const more = once(this.child.stdout, 'data').then(() => true)
      const isAlive = await Promise.race([more, this.ended.then(() => false)])
      if (!isAlive && !pattern.test(this.stdout)) {
        assert.fail(`ended without saying ${pattern}:\n${this.stdout}\n${this.stderr}`)
      }
    }
  }
}

/**
 * Runs a command line of `vicinal` to its end: in this process, since starting one takes far longer than most commands.
 * Commands with variables for Node itself get a process of their own, and so do tests of signals and standard input,
 * and services that start, through `Command`. Of a service that refuses to start, the result has no log.
 */
export async function run(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const needsProcess = Object.keys(environment).some((name) => name.startsWith('NODE_'))
  if (needsProcess) return await new Command(args, environment).ended
  const settings = args[0] === 'serve' ? { LOG_LEVEL: 'silent', ...environment } : environment
  const captured = {
    stdout: new StringDecoder(),
    stderr: new StringDecoder(),
    text: { stdout: '', stderr: '' },
  }
  captureOutput()
  const before = stopSignals.map((signal) => process.listeners(signal))
  const code = await outputs.run(captured, () => runProgram(args, settings))
  // A command that can be interrupted listens until its process ends.
  for (const [index, signal] of stopSignals.entries()) {
    for (const listener of process.listeners(signal)) {
      if (!before[index]!.includes(listener)) process.removeListener(signal, listener)
    }
  }
  return { code, ...captured.text }
}

/** What the commands in progress write. */
const outputs = new AsyncLocalStorage<
  Readonly<Record<OutputName, StringDecoder>> & { readonly text: Record<OutputName, string> }
>()

type OutputName = 'stdout' | 'stderr'

/** From then on, what a command writes to standard output and standard error goes to its result. */
function captureOutput(): void {
  if (isCapturing) return
  isCapturing = true
  for (const name of ['stdout', 'stderr'] as const) {
    const write = process[name].write.bind(process[name])
    process[name].write = (chunk: string | Uint8Array, ...rest: readonly unknown[]): boolean => {
      const output = outputs.getStore()
      if (output === undefined) return (write as (...args: readonly unknown[]) => boolean)(chunk, ...rest)
      output.text[name] += typeof chunk === 'string' ? chunk : output[name].write(Buffer.from(chunk))
      for (const each of rest) if (typeof each === 'function') process.nextTick(each)
      return true
    }
  }
}

let isCapturing = false

const stopSignals = ['SIGINT', 'SIGTERM'] as const

/** @param stderr expected standard error, by default empty */
export function assertEnded(ended: Ended, code: number, stderr: RegExp | '' = ''): void {
  assert.equal(ended.code, code, ended.stderr)
  if (stderr === '') assert.equal(ended.stderr, '')
  else assert.match(ended.stderr, stderr)
}

/** A server as a child process, on free ports, over a data directory that outlives it. */
export class ServerProcess implements AsyncDisposable {
  readonly command: Command
  readonly grpcAddress: string
  /** Empty when HTTP is disabled. */
  readonly httpUrl: string

  private constructor(command: Command, grpcAddress: string, httpUrl: string) {
    this.command = command
    this.grpcAddress = grpcAddress
    this.httpUrl = httpUrl
  }

  /**
   * Resolves when the server is ready.
   *
   * @param onProcess called with the number of the process as soon as it runs
   */
  static async start(
    dataDir: string,
    environment: Readonly<Record<string, string>> = {},
    onProcess: (pid: number) => void = () => {},
  ): Promise<ServerProcess> {
    const settings = { GRPC_PORT: '0', HTTP_PORT: '0', THREADS: '1' }
    const command = new Command(['serve'], { DATA_DIR: dataDir, ...settings, ...environment })
    if (command.child.pid !== undefined) onProcess(command.child.pid)
    await command.says(/"msg":"ready"/)
    const grpcPort = /"port":(\d+),"msg":"gRPC listens"/.exec(command.stdout)![1]
    const httpUrl = /"url":"([^"]+)"/.exec(command.stdout)?.[1] ?? ''
    return new ServerProcess(command, `localhost:${grpcPort}`, httpUrl)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.command.kill('SIGKILL')
    await this.command.ended
  }
}

/** A temporary directory, removed at the end of its scope. */
export async function temporaryDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'vicinal-test-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** The files in a directory that this process has open. */
export function openFiles(directory: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((number) => {
    try {
      const path = readlinkSync(join('/proc/self/fd', number))
      return path.startsWith(directory) ? [path] : []
    } catch {
      // The file was closed in the meantime, like the descriptor that lists the directory.
      return []
    }
  })
}
