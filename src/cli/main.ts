#!/usr/bin/env -S node --max-semi-space-size=16
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import nodeModule, { createRequire } from 'node:module'
import { constants } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/*
 * An older Node also runs this file, so it only uses the language and the library of Node 18. Everything else is only
 * loaded on a new one.
 */

async function runHere(): Promise<void> {
  // A reader that stops reading (`vicinal query … | head -1`) is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

  // When running from sources, cache the compiled files: otherwise every thread would strip types at every start.
  if (import.meta.filename.endsWith('.ts')) {
    process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../../node_modules/.cache/node-compile')
    nodeModule.enableCompileCache(process.env.NODE_COMPILE_CACHE)
  }

  const { runProgram } = await import('./program.ts')
  process.exitCode = await runProgram(process.argv.slice(2), process.env)
  // After a signal, pending input or a request in progress must not delay the exit.
  if (process.exitCode > 128) process.exit()
}

function runOnOther(): void {
  const node = findBundledNode(import.meta.url)
  if (node === undefined) fail(noNodeMessage())
  runOn(node, fileURLToPath(import.meta.url), { ...environment, VICINAL_LAUNCHER: String(process.pid) })
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}

const nodeMajorMin = 24

function isNodeNewEnough(): boolean {
  return Number.parseInt(process.versions.node, 10) >= nodeMajorMin
}

/**
 * Finds the Node of the package vicinal-node: beside this package, where `npm install` puts it, or among npm's global
 * packages.
 */
function findBundledNode(module: string): string | undefined {
  return (
    nodeOf(() => createRequire(module).resolve(manifest)) ?? nodeOf(() => join(globalPackages(), manifest))
  )
}

/** @param find returns the path of vicinal-node's package.json */
function nodeOf(find: () => string): string | undefined {
  try {
    return createRequire(find()).resolve(`node-${process.platform}-${process.arch}/bin/node`)
  } catch {
    // Not installed, or vicinal-node has no Node for this platform.
    return undefined
  }
}

const manifest = 'vicinal-node/package.json'

function globalPackages(): string {
  const { status, stdout } = spawnSync('npm', ['root', '--global'], { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : '/'
}

/** The message when there is no suitable Node. */
function noNodeMessage(): string {
  return (
    `vicinal needs Node ${nodeMajorMin} or later, and this is ${process.versions.node}: install a newer one ` +
    '(https://nodejs.org), or one for vicinal alone, on Linux: npm install --global vicinal-node'
  )
}

/**
 * Runs `script` on another Node with this process's options, arguments and standard streams. Passes signals on to it,
 * and ends like it: with its exit code or by its signal.
 */
function runOn(node: string, script: string, environment: NodeJS.ProcessEnv): void {
  const child = spawn(node, [...process.execArgv, script, ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: environment,
  })
  for (const signal of passedOn) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    console.error(`vicinal: ${node} cannot be run: ${error.message}`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    for (const each of passedOn) process.removeAllListeners(each)
    if (signal === null) process.exit(code ?? 1)
    // The code is for the first process of a container, which its own signal does not end.
    process.exitCode = 128 + constants.signals[signal]
    process.kill(process.pid, signal)
  })
}

const passedOn: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT']

/**
 * Sends SIGTERM to this process when the process that started it has ended, and no other process can pass signals on.
 *
 * - `npx vicinal serve` is npm, a shell and the service. npm passes SIGTERM on to the shell, and the shell ends. The
 *   service would keep running alone, and hold its ports and its data directory. The same happens with a script of
 *   package.json that contains `vicinal serve` without `exec`.
 * - The process that passes signals on to a newer Node may be killed by a signal that it cannot pass
 *   on.
 *
 * In all other cases it does nothing. A service started by a shell, `nohup`, `setsid` or a supervisor outlives its
 * parent, like any process. A script in which `vicinal` is not the only command may have put it into the background.
 *
 * @param launcher the process that runs this one on a newer Node
 */
function stopWithParent(
  { npm_lifecycle_script: script }: NodeJS.ProcessEnv,
  launcher: number | undefined,
): void {
  const started = launcher === undefined ? npmAbove(script) : [launcher]
  if (started === undefined) return
  const check = (): void => {
    if (isAbove(started)) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }
  const timer = setInterval(check, intervalMs)
  // The timer does not keep a process alive that has nothing else to do.
  timer.unref()
  check()
}

/** Returns the parents of this process up to npm, nearest first, if npm runs only `vicinal`. */
function npmAbove(script = ''): readonly number[] | undefined {
  if (!plainCommand.test(script)) return undefined
  const parent = parentProcess(process.ppid)
  if (parent === undefined) return undefined
  // Some shells replace themselves with the command that they run.
  if (isNpm(parent)) return [process.ppid]
  const grandparent = parentProcess(parent.parent)
  return grandparent !== undefined && isNpm(grandparent) ? [process.ppid, parent.parent] : undefined
}

/** Checks who is whose parent. Orphans get another parent, and process numbers are reused. */
function isAbove([parent, grandparent]: readonly number[]): boolean {
  if (process.ppid !== parent) return false
  return grandparent === undefined || parentProcess(parent)?.parent === grandparent
}

interface ParentProcess {
  readonly name: string
  readonly parent: number
}

/** Returns undefined if there is no such process, or the system has no /proc. */
function parentProcess(pid: number): ParentProcess | undefined {
  try {
    // `4711 (npm exec vicinal) S 4242 …`; a name may contain any characters, also parentheses.
    const [, name, parent] = /\((.*)\) \S+ (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))!
    return { name: name!, parent: Number(parent) }
  } catch {
    return undefined
  }
}

/** npm names its process after the command, like `npm exec vicinal`. */
function isNpm({ name }: ParentProcess): boolean {
  return name.startsWith('npm')
}

/** `vicinal serve`, `'vicinal'`, `DATA_DIR=data vicinal`: without operators of the shell. */
const plainCommand = /^\s*(?:\w+=[^\s&|;]*\s+)*(['"]?)vicinal\1(?:\s[^&|;\n]*)?$/

/** Ports and lock are free after about this time plus the drain. Reading two lines of /proc costs almost nothing. */
const intervalMs = 1000

const { VICINAL_LAUNCHER: launcher, ...environment } = process.env
delete process.env.VICINAL_LAUNCHER
stopWithParent(environment, launcher === undefined ? undefined : Number(launcher))

if (isNodeNewEnough()) await runHere()
else if (launcher === undefined) runOnOther()
else fail(noNodeMessage())
