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
import { beyondRepair, syncDirectory } from './data-directory.ts'

/**
 * Opens the environment of an LMDB file and its tables. Inside a process lmdb gives all threads the one environment,
 * which it knows by the file.
 *
 * @param tables opens the tables
 * @throws DatabaseError when LMDB cannot open it
 */
export function openEnvironment<Opened>(path: string, tables: (root: RootDatabase) => Opened): Opened {
  try {
    // `overlappingSync` off: a transaction then ends after its fsync, not when it is visible.
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
 * It gets its name when it is on the disk: LMDB does not sync the first pages of a file before the first
 * commit, and what a loss of power left of them would be no database.
 *
 * @param fill opens the new file, makes its tables and what they begin with, and gives its root
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

/** Leaves an empty file where there is room for a small one. */
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

/** Does what LMDB will do: opens the file for writing, makes its lock file, and takes as many descriptors. */
export function tryToOpen(path: string): void {
  try {
    // LMDB writes it through memory, which on a full disk ends the process: so it gets its blocks here. Nothing in it
    // outlives the process, and whoever is here holds the lock of the directory.
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

/** The file as LMDB makes it, before there is anything in it, and then some. */
const firstBytes = 64 * 1024
/** Of LMDB's lock file, for 126 readers. */
const lockBytes = 8272
/** More than LMDB and the writer thread take. */
const descriptors = 16

/**
 * Address space, not memory or disk. A smaller map is doubled as the file grows, under the feet of readers in
 * other threads; lmdb keeps the old maps for them, but not having to is better.
 */
const mapSize = 64 * 1024 ** 3
