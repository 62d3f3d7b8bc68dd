import {
  chmodSync,
  closeSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { open as openLmdb, type RootDatabase, type Transaction } from 'lmdb'
import { beyondRepair, DatabaseError, isOpenFailure } from '../../base/errors.ts'
import { syncDirectory } from '../../base/files.ts'

/** Whether an environment is opened for writing, or only for reading, which a read-only file system allows. */
export type Access = 'write' | 'read'

/**
 * Opens the environment of an LMDB file and its tables. All threads of a process share one environment for each file.
 *
 * @param tables opens the tables
 * @throws DatabaseError if LMDB cannot open the file
 */
export function openEnvironment<Opened>(
  path: string,
  access: Access,
  tables: (root: RootDatabase) => Opened,
): Opened {
  try {
    // With `overlappingSync: false`, a transaction ends after its fsync, not already when it becomes visible.
    const options = { path, noSubdir: true, maxDbs: 6, overlappingSync: false, mapSize }
    if (access === 'read') return tables(openLmdb({ ...options, readOnly: true }))
    const root = openLmdb(options)
    for (const file of [path, lockPath(path)]) chmodSync(file, 0o600)
    return tables(root)
  } catch (error) {
    throw beyondRepair(path, error instanceof Error ? error.message : String(error))
  }
}

/**
 * An environment as the main thread reads it. After some failed writes, LMDB also refuses to read until the file is
 * opened again. Nothing is written then, so it is opened only for reading.
 */
export class ReadEnvironment<Opened extends { readonly root: RootDatabase }> {
  #opened: Opened
  #isOpen = true
  #bytes = 0

  constructor(opened: Opened) {
    this.#opened = opened
  }

  get opened(): Opened {
    return this.#opened
  }

  /** The number of bytes of the file that are in use; as before while it cannot be read. */
  get bytes(): number {
    if (this.#isOpen && canRead(this.#opened.root)) this.#bytes = databaseBytes(this.#opened.root)
    return this.#bytes
  }

  /**
   * Call after a failed write, when the writer has closed its side, and again if it fails.
   *
   * @param beforeClose ends all reads in progress; not called if LMDB can still read
   * @throws DatabaseError if the file cannot be opened now
   */
  async reopen(beforeClose: () => Promise<void>, open: () => Opened): Promise<void> {
    if (this.#isOpen) {
      if (canRead(this.#opened.root)) return
      await beforeClose()
      await this.close()
    }
    this.#opened = open()
    this.#isOpen = true
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#opened.root.close()
  }
}

function canRead(root: RootDatabase): boolean {
  try {
    root.resetReadTxn()
    root.getStats()
    return true
  } catch {
    // Whatever the reason: the next step is to open the file again.
    return false
  }
}

/** The number of bytes of the file that are in use. */
export function databaseBytes(root: RootDatabase): number {
  const { pageSize, lastPageNumber } = root.getStats() as {
    readonly pageSize: number
    readonly lastPageNumber: number
  }
  return pageSize * (lastPageNumber + 1)
}

/**
 * Creates an environment. The file gets its final name only when it is durable: LMDB does not sync the first pages of a
 * file before the first commit, so after a power failure they might not be a database.
 *
 * @param fill opens the new file, creates its tables and their first entries, and returns its root
 */
export async function makeEnvironment(path: string, fill: (making: string) => RootDatabase): Promise<void> {
  const making = `${path}.new`
  makeRoom(making)
  tryToOpen(making, 'write')
  await fill(making).close()
  rmSync(lockPath(making), { force: true })
  const file = openSync(making, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(making, path)
  syncDirectory(dirname(path))
}

/** Creates an empty file. @throws Error if the disk has no room for a small file */
function makeRoom(path: string): void {
  const file = openSync(path, 'w', 0o600)
  try {
    writeSync(file, Buffer.alloc(firstBytes))
    fsyncSync(file)
    ftruncateSync(file)
  } finally {
    closeSync(file)
  }
}

/** Tries what LMDB will do: open the file, create its lock file, and open as many descriptors. */
export function tryToOpen(path: string, access: Access): void {
  try {
    // LMDB writes the lock file through a memory map, which would end the process on a full disk. So allocate its
    // blocks here. Nothing in it outlives the process, and the caller holds the lock of the directory.
    writeFileSync(lockPath(path), Buffer.alloc(lockBytes), { mode: 0o600 })
  } catch (error) {
    // On a read-only file system, LMDB reads without a lock file.
    const isOptional = access === 'read' && (error as NodeJS.ErrnoException).code === 'EROFS'
    if (!isOptional) throw cannotOpen(path, error)
  }
  tryDescriptors(path, access)
}

/** Opens as many descriptors as LMDB will use, and closes them. */
export function tryDescriptors(path: string, access: Access = 'write'): void {
  const files: number[] = []
  try {
    while (files.length < descriptors) files.push(openSync(path, access === 'read' ? 'r' : 'r+'))
  } catch (error) {
    throw cannotOpen(path, error)
  } finally {
    for (const file of files) closeSync(file)
  }
}

function cannotOpen(path: string, cause: unknown): DatabaseError {
  const reason = isOpenFailure(cause) ? 'files_exhausted' : 'internal'
  return new DatabaseError(reason, `${path} cannot be opened: ${(cause as Error).message}`, { cause })
}

function lockPath(path: string): string {
  return `${path}-lock`
}

/** More than the size of a new, empty LMDB file. */
const firstBytes = 64 * 1024
/** The size of LMDB's lock file, for 126 readers. */
const lockBytes = 8272
/** More than LMDB and the writer thread will open. */
const descriptors = 16

/**
 * Address space, not memory or disk. LMDB would double a smaller map as the file grows, while other threads read it.
 * The lmdb package keeps the old maps for them, but it is better not to depend on that.
 */
const mapSize = 64 * 1024 ** 3

/**
 * Limits the read transactions of one environment that are held for longer than a moment. LMDB has room for 126 readers
 * in all threads; without a free one, every read fails. There are two kinds, each with its own limit:
 *
 * - during a commit, so that reads do not see it before it is acknowledged: a commit beyond the limit waits
 * - for a snapshot, as long as its reader takes: a snapshot beyond the limit is refused
 */
export class HeldReads {
  #count = 0
  readonly #waiting: (() => void)[] = []
  #snapshots = 0

  /** Resolves when there is room for one more transaction. Call `leave` at its end. */
  async enter(): Promise<void> {
    if (this.#count < heldMax) this.#count += 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }

  leave(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#count -= 1
    else next()
  }

  /** Call before a snapshot is opened, and `leaveSnapshot` at its end. @throws DatabaseError `overloaded` */
  enterSnapshot(): void {
    if (this.#snapshots >= snapshotsMax) {
      throw new DatabaseError(
        'overloaded',
        `snapshots of ${snapshotsMax} collections are being read, no more can be read at a time: try again later`,
      )
    }
    this.#snapshots += 1
  }

  leaveSnapshot(): void {
    this.#snapshots -= 1
  }
}

/** Returns a read transaction that sees everything committed before, and nothing committed later. */
export function currentRead(root: RootDatabase): Transaction {
  // The transaction that is already open may be older than the last acknowledged commit.
  root.resetReadTxn()
  return root.useReadTransaction()
}

const heldMax = 64
/** With `heldMax`, this leaves 30 readers for all other reads. */
const snapshotsMax = 32
