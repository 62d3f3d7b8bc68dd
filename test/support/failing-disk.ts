import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { threadId } from 'node:worker_threads'

/** The fault that replaces calls on the row file. */
export interface DiskFault {
  readonly operation: 'open' | 'write' | 'fdatasync'
  /** An errno, or `thread exit`, which ends the thread in the middle of the call. */
  readonly code: 'ENOSPC' | 'EIO' | 'EMFILE' | 'ENFILE' | 'ENOMEM' | 'thread exit'
  /** Calls that succeed before the first failure. */
  readonly after: number
  /** Calls that fail after that; -1: all of them, until the next order. */
  readonly times: number
}

/**
 * A disk that fails on demand, for threads and processes started with `execArgv`. Their calls on the real row file fail
 * as they would in the kernel. The order is passed in a file, so that it reaches every thread of every process.
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
    // No order: the disk works.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Writes the order atomically, because another thread can read or write it at any time. */
export function writeOrder(path: string, fault: DiskFault): void {
  const newPath = `${path}.${process.pid}.${threadId}.new`
  writeFileSync(newPath, JSON.stringify(fault))
  renameSync(newPath, path)
}
