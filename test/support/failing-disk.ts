import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What is to happen to the row file, instead of one of its calls. */
export interface DiskFault {
  readonly operation: 'write' | 'fdatasync'
  /** An errno; or `thread exit`, which ends the thread in the middle of the call. */
  readonly code: 'ENOSPC' | 'EIO' | 'thread exit'
  /** Calls that go well before. */
  readonly after: number
  /** Calls that then fail. */
  readonly times: number
}

/**
 * A disk that fails when told to, for threads and processes that were started with `execArgv`: their own calls
 * on the real row file fail as the kernel would let them fail. The order goes through a file, so that it
 * reaches any thread of any process.
 */
export class FailingDisk implements Disposable {
  /** Options for Node, for a thread or a process. */
  readonly execArgv: readonly string[]
  readonly #directory: string = mkdtempSync(join(tmpdir(), 'vicinal-faults-'))

  constructor() {
    const preload = new URL('./failing-disk-preload.ts', import.meta.url)
    preload.searchParams.set('order', this.#orderPath)
    this.execArgv = ['--import', preload.href]
  }

  fail(fault: Pick<DiskFault, 'operation' | 'code'> & Partial<DiskFault>): void {
    writeOrder(this.#orderPath, { after: 0, times: 1, ...fault })
  }

  /** Calls that are still to fail. */
  get left(): number {
    return readOrder(this.#orderPath)?.times ?? 0
  }

  [Symbol.dispose](): void {
    rmSync(this.#directory, { recursive: true })
  }

  get #orderPath(): string {
    return join(this.#directory, 'order')
  }
}

export function readOrder(path: string): DiskFault | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    // No order: the disk is sound.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Whole or not at all: another thread reads it at any time. */
export function writeOrder(path: string, fault: DiskFault): void {
  writeFileSync(`${path}.new`, JSON.stringify(fault))
  renameSync(`${path}.new`, path)
}
