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
 * Opens the environment of an LMDB file and its tables. Within a process, lmdb shares one environment between all
 * threads, which it identifies by the file.
 *
 * @param tables opens the tables
 * @throws DatabaseError when LMDB cannot open it
 */
export function openEnvironment<Opened>(path: string, tables: (root: RootDatabase) => Opened): Opened {
  try {
    // Without `overlappingSync`, a transaction ends after its fsync, not when it becomes visible.
    const root = openLmdb({ path, noSubdir: true, maxDbs: 6, overlappingSync: false, mapSize })
    for (const file of [path, lockPath(path)]) chmodSync(file, 0o600)
    return tables(root)
  } catch (error) {
    throw beyondRepair(path, error instanceof Error ? error.message : String(error))
  }
}

/** Bytes of the file that are in use. */
export function databaseBytes(root: RootDatabase): number {
  const { pageSize, lastPageNumber } = root.getStats() as {
    readonly pageSize: number
    readonly lastPageNumber: number
  }
  return pageSize * (lastPageNumber + 1)
}

/**
 * Creates an environment. The file gets its name when it is durable: LMDB does not sync the first pages of a file
 * before the first commit, and after a loss of power they might not be a database.
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

/** Creates an empty file, if there is room for a small one. */
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

/** Tries what LMDB will do: opens the file for writing, creates its lock file, and opens as many descriptors. */
export function tryToOpen(path: string): void {
  try {
    // LMDB writes it through a memory map, which on a full disk ends the process: so its blocks are allocated here. Nothing
    // in it outlives the process, and the caller holds the lock of the directory.
    writeFileSync(lockPath(path), Buffer.alloc(lockBytes), { mode: 0o600 })
  } catch (error) {
    throw cannotOpen(path, error)
  }
  tryDescriptors(path)
}

/** Opens as many descriptors as LMDB will take, and closes them. */
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
/** More than LMDB and the writer thread open. */
const descriptors = 16

/**
 * Address space, not memory or disk. A smaller map would be doubled as the file grows, while other threads read it;
 * lmdb keeps the old maps for them, but it is better not to depend on that.
 */
const mapSize = 64 * 1024 ** 3
