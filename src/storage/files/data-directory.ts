import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  opendirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { syncDirectory } from '../../base/files.ts'

/** The files of a data directory: key-layout.ts and catalog.ts describe their contents. */
const lockPath = (dataDir: string): string => join(dataDir, 'lock.db')
export const reservePath = (dataDir: string): string => join(dataDir, 'reserve')
/** The LMDB file of all collections. */
export const databasePath = (dataDir: string): string => join(dataDir, 'collections.mdb')
/** The other files of collections. Each collection has a directory, named after its number. */
export const collectionsDirectory = (dataDir: string): string => join(dataDir, 'collections')
export const collectionDirectory = (dataDir: string, number: number): string =>
  join(collectionsDirectory(dataDir), String(number))
export const rowFilePath = (dataDir: string, number: number): string =>
  join(collectionDirectory(dataDir, number), 'vectors.rows')
export const indexDirectory = (dataDir: string, number: number): string =>
  join(collectionDirectory(dataDir, number), 'index')
/** The journal of changes: see change-journal.ts. */
export const changesPath = (dataDir: string): string => join(dataDir, 'changes')
/** The points that a repair removed. They are for people; the program never reads them. */
export const setAsidePath = (dataDir: string): string => join(dataDir, 'set-aside')
/** Exists if the last program closed the directory after its work: see `takeClosedMark`. */
const closedPath = (dataDir: string): string => join(dataDir, 'closed')

/**
 * Creates the directory and its parents durably, if missing.
 *
 * @throws Error that names the directory, its setting and the fault
 */
export function makeDirectory(dataDir: string): void {
  const first = orUnusable(dataDir, () => mkdirSync(dataDir, { recursive: true, mode: 0o700 }))
  if (first === undefined) return
  for (let made = dataDir; made.length >= first.length; made = dirname(made)) syncDirectory(dirname(made))
}

/**
 * Checks that this user may write to the directory and its files. The errors of LMDB and SQLite would only say that a
 * file cannot be opened.
 *
 * @returns false if there is no such directory
 * @throws Error that names the directory, its setting and the fault
 */
export function checkWritable(dataDir: string): boolean {
  const isThere = orUnusable(dataDir, () => {
    if (statSync(dataDir, { throwIfNoEntry: false }) === undefined) return false
    // Also says so if it is a file.
    opendirSync(dataDir).closeSync()
    accessSync(dataDir, constants.W_OK | constants.X_OK)
    return true
  })
  for (const file of writtenPaths.map((path) => path(dataDir))) {
    if (existsSync(file)) orUnusable(dataDir, () => accessSync(file, constants.R_OK | constants.W_OK))
  }
  return isThere
}

const writtenPaths: readonly ((dataDir: string) => string)[] = [
  databasePath,
  reservePath,
  lockPath,
  collectionsDirectory,
]

/**
 * Returns whether the last program closed the directory after its work, and LMDB's file has not changed since. Removes
 * the mark durably, because it is wrong from the first change on. The caller holds the lock of the directory.
 */
export function takeClosedMark(dataDir: string): boolean {
  const path = closedPath(dataDir)
  if (!existsSync(path)) return false
  const isSame = existsSync(databasePath(dataDir)) && readFileSync(path, 'utf8') === markOf(dataDir)
  rmSync(path)
  syncDirectory(dataDir)
  return isSame
}

/** Call when LMDB's file is closed and undamaged, as far as is known. */
export function leaveClosedMark(dataDir: string): void {
  try {
    writeFileSync(closedPath(dataDir), markOf(dataDir), { mode: 0o600 })
  } catch {
    // The disk is full, for example. Then the next start checks the file.
  }
}

/** Size and time of the last change of LMDB's file. */
function markOf(dataDir: string): string {
  const { size, mtimeNs } = statSync(databasePath(dataDir), { bigint: true })
  return `${size} ${mtimeNs}\n`
}

function orUnusable<Result>(dataDir: string, use: () => Result): Result {
  try {
    return use()
  } catch (error) {
    const { code = '', path = dataDir } = error as NodeJS.ErrnoException
    throw new Error(
      `data directory ${dataDir} (DATA_DIR) cannot be used: ${faults[code] ?? (error as Error).message} (${path})`,
      { cause: error },
    )
  }
}

const faults: Readonly<Record<string, string>> = {
  EACCES: `this user${process.getuid === undefined ? '' : ` (${process.getuid()})`} may not write there: run it as the owner, change the owner, or set DATA_DIR to another directory`,
  EROFS: 'the file system is mounted read-only: set DATA_DIR to a directory on another',
  EEXIST: 'it is a file: set DATA_DIR to a directory',
  ENOTDIR: 'a part of its path is a file: set DATA_DIR to a directory',
}

/**
 * Locks a data directory against a second server. Node offers no file locks, but SQLite does: an exclusive
 * transaction on an otherwise empty database holds a kernel lock, which is released however the process ends.
 */
export class DirectoryLock {
  readonly #database: DatabaseSync
  readonly #ownerPath: string

  private constructor(database: DatabaseSync, ownerPath: string) {
    this.#database = database
    this.#ownerPath = ownerPath
  }

  /** @throws Error that names the directory and the process that holds it, or what this user may not write */
  static acquire(dataDir: string): DirectoryLock {
    checkWritable(dataDir)
    const ownerPath = join(dataDir, 'lock.pid')
    const path = lockPath(dataDir)
    const database = new DatabaseSync(path)
    chmodSync(path, 0o600)
    try {
      database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
      // SQLite opens a file that it cannot write as read-only, and several processes can lock that. Only a change
      // fails.
      database.exec('PRAGMA user_version = 1')
    } catch (error) {
      database.close()
      if (/not a database|malformed/i.test(String(error))) {
        throw new Error(`${path} is damaged: it contains only the lock, so delete it and start again`, {
          cause: error,
        })
      }
      if (/readonly/i.test(String(error))) {
        throw new Error(
          `${path} cannot be opened for writing: too many files are open, or another user owns it`,
          {
            cause: error,
          },
        )
      }
      if (!/locked|busy/i.test(String(error))) throw error
      throw new Error(`data directory ${dataDir} is in use by process ${ownerOf(ownerPath)}`, {
        cause: error,
      })
    }
    writeFileSync(ownerPath, `${process.pid}\n`, { mode: 0o600 })
    return new DirectoryLock(database, ownerPath)
  }

  release(): void {
    try {
      rmSync(this.#ownerPath, { force: true })
    } catch {
      // On a read-only file system, for example. The lock does not depend on this file.
    }
    this.#database.close()
  }
}

/** Returns the owner for the error message. The lock does not depend on this file. */
function ownerOf(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    // The owner may not have written the file yet, and only the message needs it.
    return '(unknown)'
  }
}

/**
 * Replaces the data of a cluster's node by those of another node. The process can be killed at any time:
 *
 *   DATA_DIR/refetch   contains the reason why the data must no longer be used
 *   DATA_DIR/joining   a data directory that is being filled; removed and started again after a kill
 *   DATA_DIR/joined    the complete directory: its files replace the old files, and every start continues that
 *
 * All of them are within the data directory, because that can be a mount point.
 */
const reasonPath = (dataDir: string): string => join(dataDir, 'refetch')
const joiningPath = (dataDir: string): string => join(dataDir, 'joining')
const joinedPath = (dataDir: string): string => join(dataDir, 'joined')

/** Notes durably that the data of the directory must no longer be used. */
export function requestReplacement(dataDir: string, reason: string): void {
  writeDurably(reasonPath(dataDir), `${reason}\n`)
}

/** Returns why the data must not be used; undefined if they may be used. */
export function replacementReason(dataDir: string): string | undefined {
  return existsSync(reasonPath(dataDir)) ? readFileSync(reasonPath(dataDir), 'utf8').trim() : undefined
}

/** Creates an empty directory to fill. */
export async function beginReplacement(dataDir: string): Promise<string> {
  const joining = joiningPath(dataDir)
  await rm(joining, { recursive: true, force: true })
  mkdirSync(joining, { mode: 0o700 })
  return joining
}

/**
 * Replaces the data by the filled directory, which is durable and closed. The caller holds the lock of the data
 * directory.
 */
export function commitReplacement(dataDir: string): void {
  syncDirectory(joiningPath(dataDir))
  renameSync(joiningPath(dataDir), joinedPath(dataDir))
  syncDirectory(dataDir)
  finishReplacement(dataDir)
}

/**
 * Continues a replacement whose data were complete when its process ended. The caller holds the lock of the directory.
 */
export function finishReplacement(dataDir: string): void {
  const joined = joinedPath(dataDir)
  if (!existsSync(joined)) return
  // When this file exists, the old data have been removed. A kill can also leave the directory without it at the end,
  // when the new data have been moved.
  const cleared = join(joined, 'cleared')
  if (!existsSync(cleared) && existsSync(databasePath(joined))) {
    for (const path of dataPaths(dataDir)) rmSync(path, { recursive: true, force: true })
    syncDirectory(dataDir)
    writeDurably(cleared, '')
  }
  for (const [index, path] of dataPaths(joined).entries()) {
    if (existsSync(path)) renameSync(path, dataPaths(dataDir)[index]!)
  }
  syncDirectory(dataDir)
  rmSync(reasonPath(dataDir), { force: true })
  rmSync(joined, { recursive: true })
  syncDirectory(dataDir)
}

/**
 * Checks that the files of the directory are not a mixture of old and new ones. A service finishes a replacement when it
 * starts; other programs change nothing.
 *
 * @throws Error that says what to do
 */
export function checkReplaced(dataDir: string): void {
  if (!existsSync(joinedPath(dataDir))) return
  throw new Error(
    `the process ended while the data in ${dataDir} were being replaced by those of another node: start the service, which finishes that, and try again`,
  )
}

/** All files of a store, including LMDB's lock file. */
function dataPaths(dataDir: string): readonly string[] {
  const database = databasePath(dataDir)
  return [database, `${database}-lock`, reservePath(dataDir), collectionsDirectory(dataDir)]
}

function writeDurably(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flush: true })
  syncDirectory(dirname(path))
}
