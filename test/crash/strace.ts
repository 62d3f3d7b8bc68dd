import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Why a test that holds, fails or records system calls was skipped. */
export const noStrace = 'it needs strace and the right to trace'

let isThere: boolean | undefined

/** Whether this machine has strace and lets this process use it. */
export function canTrace(): boolean {
  isThere ??= spawnSync('strace', [...quietly, '-o', '/dev/null', 'true']).status === 0
  return isThere
}

/**
 * `-D` keeps the traced process our own child, so that signals reach it and not strace. With `--seccomp-bpf`, only the
 * selected calls stop in the tracer: everything else runs at full speed.
 */
const quietly = ['-D', '-f', '--seccomp-bpf', '-qq']

/** Where to hold a process: before a system call, or after the call but before it returns. */
export interface HoldPoint {
  readonly call: string
  readonly side: 'before' | 'after'
  /** Counted for each thread of the process. */
  readonly nth: number
}

/** Holds a process at one system call on the files of a data directory, so that a test can kill it there. */
export class HeldCall implements Disposable {
  /** The command that runs the process. */
  readonly wrapper: readonly string[]
  readonly #directory: string = mkdtempSync(join(tmpdir(), 'vicinal-held-'))
  readonly #side: HoldPoint['side']

  constructor(dataDir: string, { call, side, nth }: HoldPoint) {
    this.#side = side
    this.wrapper = [
      'strace',
      ...quietly,
      '-o',
      this.#log,
      ...filesOf(dataDir).flatMap((path) => ['-P', path]),
      '-e',
      `trace=${call}`,
      '-e',
      `inject=${call}:delay_${side === 'before' ? 'enter' : 'exit'}=${holdUs}:when=${nth}`,
    ]
  }

  /** Resolves with true once the process is held, or with false if `giveUp` returns true first. */
  async reached(giveUp: () => boolean): Promise<boolean> {
    for (let last = ''; !giveUp(); await delay(pollMs)) {
      const log = this.#read()
      if (this.#side === 'after' ? log.includes('(DELAYED)') : isCut(log) && log === last) return true
      last = log
    }
    return false
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }

  get #log(): string {
    return join(this.#directory, 'log')
  }

  #read(): string {
    try {
      return readFileSync(this.#log, 'utf8')
    } catch {
      // The trace has not begun yet.
      return ''
    }
  }
}

/** Makes the kernel fail system calls of a process, and records its calls. */
export class FailingCalls implements Disposable {
  readonly wrapper: readonly string[]
  readonly #directory: string = mkdtempSync(join(tmpdir(), 'vicinal-failing-'))

  /**
   * @param paths only calls on these files count
   * @param fault in strace's syntax: `fdatasync:error=EIO:when=5`; counted per thread
   */
  constructor(paths: readonly string[], fault: string) {
    const [call] = fault.split(':')
    this.wrapper = [
      'strace',
      ...quietly,
      '-y',
      '-o',
      this.#log,
      ...paths.flatMap((path) => ['-P', path]),
      '-e',
      `trace=${[...new Set([call, ...committingCalls])].join(',')}`,
      '-e',
      `inject=${fault}`,
    ]
  }

  get hasFailed(): boolean {
    return this.#lines().some((line) => line.includes('(INJECTED)'))
  }

  /** Calls on the same file after the first failed one. */
  get callsAfterwards(): string[] {
    const lines = this.#lines()
    const failed = lines.findIndex((line) => line.includes('(INJECTED)'))
    const file = /<([^>]*)>/.exec(lines[failed] ?? '')?.[1]
    return lines.slice(failed + 1).filter((line) => line.includes(`<${file}>`))
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }

  get #log(): string {
    return join(this.#directory, 'log')
  }

  #lines(): string[] {
    return readFileSync(this.#log, 'utf8').split('\n')
  }
}

/** Whether the log ends with a call without a result: strace ends the line with the result. */
function isCut(log: string): boolean {
  return log !== '' && !log.endsWith('\n')
}

/** The files that the service creates and writes in its data directory. */
export function filesOf(dataDir: string): string[] {
  const index = join(dataDir, 'collections/0/index')
  const graph = join(index, 'graph-0-0.bin')
  const names = [
    'collections/0/vectors.rows',
    'collections.mdb',
    'collections.mdb.new',
    'reserve',
    'lock.db',
    'lock.pid',
  ]
  const keys = ['api-key', 'api-key.new']
  return [
    dataDir,
    join(dataDir, 'collections/0'),
    index,
    graph,
    `${graph}.new`,
    ...[...names, ...keys].map((name) => join(dataDir, name)),
  ]
}

/** The calls of a commit. */
export const committingCalls: readonly string[] = ['pwrite64', 'writev', 'fdatasync', 'fsync']
/** All calls with which the service changes files. The additional ones belong to the start and to checkpoints. */
export const changingCalls: readonly string[] = [...committingCalls, 'write', 'rename', 'unlink', 'openat']

/** Longer than any test waits before it kills a held process. */
const holdUs = 15_000_000
const pollMs = 25
