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
import { open as openLmdb, type RootDatabase } from 'lmdb'
import { DatabaseError } from '../base/errors.ts'
import { syncDirectory } from '../base/sync-directory.ts'
import { beyondRepair } from './data-directory.ts'

/**
 * Opens the environment of an LMDB file and its tables. All threads of a process share one environment for each file.
 *
 * @param tables opens the tables
 * @throws DatabaseError if LMDB cannot open the file
 */
export function openEnvironment<Opened>(path: string, tables: (root: RootDatabase) => Opened): Opened {
  try {
    // With `overlappingSync: false`, a transaction ends after its fsync, not already when it becomes visible.
    const root = openLmdb({ path, noSubdir: true, maxDbs: 6, overlappingSync: false, mapSize })
    for (const file of [path, lockPath(path)]) chmodSync(file, 0o600)
    return tables(root)
  } catch (error) {
    throw beyondRepair(path, error instanceof Error ? error.message : String(error))
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
  tryToOpen(making)
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

/** Tries what LMDB will do: open the file for writing, create its lock file, and open as many descriptors. */
export function tryToOpen(path: string): void {
  try {
    // LMDB writes the lock file through a memory map, which would end the process on a full disk. So allocate its
    // blocks here. Nothing in it outlives the process, and the caller holds the lock of the directory.
    writeFileSync(lockPath(path), Buffer.alloc(lockBytes), { mode: 0o600 })
  } catch (error) {
    throw cannotOpen(path, error)
  }
  tryDescriptors(path)
}

/** Opens as many descriptors as LMDB will use, and closes them. */
export function tryDescriptors(path: string): void {
  const files: number[] = []
  try {
    while (files.length < descriptors) files.push(openSync(path, 'r+'))
  } catch (error) {
    throw cannotOpen(path, error)
  } finally {
    for (const file of files) closeSync(file)
  }
}

function cannotOpen(path: string, cause: unknown): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be opened: ${(cause as Error).message}`, { cause })
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
