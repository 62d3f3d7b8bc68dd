import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createGrpcClient, createHttpClient, type VectorClient } from '../../src/client/index.ts'
import { vicinal } from '../support/programs.ts'
import { apiKey, childThreads } from '../support/service.ts'

const { PATH, NODE_COMPILE_CACHE, VICINAL_TEST_BUILT: built } = process.env
const main = built === undefined ? vicinal : join(built, 'cli/main.js')
/** Without it, a program other than `vicinal` would strip the types of all sources at each start. */
const cache = NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }

export interface Addresses {
  readonly httpUrl: string
  readonly grpcAddress: string
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** The real service as a child process on free ports, which can be killed at any time, including start-up. */
export class CrashServer implements AsyncDisposable {
  /** Rejects with the whole output if the process ends before it is ready. */
  readonly ready: Promise<Addresses>
  readonly ended: Promise<Exit>
  /** The output of both streams. */
  output = ''
  readonly #process: ChildProcess

  constructor(
    dataDir: string,
    options: {
      /** A command and its arguments that runs Node. */
      readonly wrapper?: readonly string[]
      /** The module that serves, and its arguments; default: `vicinal serve`. */
      readonly program?: readonly string[]
      readonly env?: Readonly<Record<string, string>>
    } = {},
  ) {
    const { wrapper = [], program = [main, 'serve'] } = options
    const [command, ...args] = [...wrapper, process.execPath, ...program]
    this.#process = spawn(command!, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH, ...cache, ...settings, DATA_DIR: dataDir, ...options.env },
    })
    this.#process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.output += text
    })
    this.ended = once(this.#process, 'close').then(([code, signal]) => ({ code, signal }) as Exit)
    this.ready = this.#untilReady()
    // Many tests kill the server while it starts.
    this.ready.catch(() => {})
  }

  get pid(): number {
    return this.#process.pid!
  }

  get isRunning(): boolean {
    return this.#process.exitCode === null && this.#process.signalCode === null
  }

  /** Also kills a tracer that holds the process at a call: otherwise the process would stay a zombie. */
  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    const tracer = signal === 'SIGKILL' ? tracerOf(this.pid) : 0
    this.#process.kill(signal)
    if (tracer > 0) process.kill(tracer, 'SIGKILL')
  }

  /** The last lines of its output. */
  get lastOutput(): string {
    return this.output.trimEnd().split('\n').slice(-20).join('\n')
  }

  /** Stops the service as an operator would. */
  async stop(): Promise<Exit> {
    this.kill('SIGTERM')
    return this.ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill()
    await this.ended
  }

  async #untilReady(): Promise<Addresses> {
    let httpUrl = ''
    let grpcAddress = ''
    const lines = createInterface(this.#process.stdout!)
    return new Promise((resolve, reject) => {
      lines.on('line', (line) => {
        this.output += `${line}\n`
        const entry = parsed(line)
        if (entry.msg === 'HTTP listens') httpUrl = entry.url!
        if (entry.msg === 'gRPC listens') grpcAddress = `localhost:${entry.port}`
        if (entry.msg === 'ready') resolve({ httpUrl, grpcAddress })
      })
      this.ended.then(({ code, signal }) =>
        reject(new Error(`the service ended (${signal ?? code}) before it was ready:\n${this.output}`)),
      )
    })
  }
}

/** Pid of the process that traces another; 0 for none. */
function tracerOf(pid: number): number {
  try {
    return Number(/^TracerPid:\t(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    // The process has ended, or this system has no such file and thus no strace.
    return 0
  }
}

/** A client of each transport to one server. */
export class Clients implements AsyncDisposable {
  readonly http: VectorClient
  readonly grpc: VectorClient

  constructor({ httpUrl, grpcAddress }: Addresses) {
    this.http = createHttpClient({ baseUrl: httpUrl, retries: 0 })
    this.grpc = createGrpcClient({ address: grpcAddress, apiKey, timeoutMs: 60_000, retries: 0 })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.grpc.close()
  }
}

const settings = {
  GRPC_PORT: '0',
  HTTP_PORT: '0',
  GRPC_ROOT_PASSWORD: apiKey,
  LOG_LEVEL: 'info',
  THREADS: childThreads,
  SHUTDOWN_TIMEOUT_MS: '500',
  MAX_LIMIT: '1000000',
}

interface LogEntry {
  readonly msg?: string
  readonly url?: string
  readonly port?: number
}

/** Parses a log line. Node itself may print other lines. */
function parsed(line: string): LogEntry {
  try {
    return JSON.parse(line)
  } catch {
    return {}
  }
}
