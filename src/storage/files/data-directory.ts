import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseError } from '../../base/errors.ts'
import { syncDirectory } from '../../base/files.ts'

/** The files of a data directory: key-layout.ts and catalog.ts describe their contents. */
export const lockPath = (dataDir: string): string => join(dataDir, 'lock.db')
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
/** The points that a repair removed. They are for people; the program never reads them. */
export const setAsidePath = (dataDir: string): string => join(dataDir, 'set-aside')
/** Exists if the last program closed the directory after its work: see `takeClosedMark`. */
const closedPath = (dataDir: string): string => join(dataDir, 'closed')
/** The database of the default collection in directories of earlier versions. */
const formerPath = (dataDir: string): string => join(dataDir, 'points.mdb')

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
 * @throws Error that names the directory, its setting and the fault
 */
export function checkWritable(dataDir: string): void {
  orUnusable(dataDir, () => accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK))
  for (const file of writtenPaths.map((path) => path(dataDir))) {
    if (existsSync(file)) orUnusable(dataDir, () => accessSync(file, constants.R_OK | constants.W_OK))
  }
}

const writtenPaths: readonly ((dataDir: string) => string)[] = [
  databasePath,
  reservePath,
  lockPath,
  collectionsDirectory,
]

/**
 * Checks that no earlier version wrote the directory.
 *
 * @throws DatabaseError that names the way over
 */
export function refuseFormer(dataDir: string): void {
  if (!existsSync(formerPath(dataDir))) return
  throw new DatabaseError(
    'internal',
    `${dataDir} was written by an earlier version, whose files this version does not read. Nothing is damaged: export the collections with that version (vicinal export), and import them into a new data directory with this one (vicinal import).`,
  )
}

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
  EACCES: `this user${process.getuid === undefined ? '' : ` (${process.getuid()})`} may not write there: change the owner, or set DATA_DIR to another directory`,
  EROFS: 'the file system is mounted read-only: set DATA_DIR to a directory on another',
  EEXIST: 'it is a file: set DATA_DIR to a directory',
  ENOTDIR: 'a part of its path is a file: set DATA_DIR to a directory',
}

/** The error for damage that a repair can set aside: the file, the fault, and what to do. */
export function damaged(path: string, fault: string, cause?: unknown): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${repairableAdvice}`, { cause })
}

/** The error for undamaged data of another format version. */
export function ofOtherVersion(path: string, fault: string): DatabaseError {
  return new DatabaseError(
    'internal',
    `${path} cannot be used: ${fault}. Nothing is damaged: start the program that wrote it, and see docs/upgrading.md.`,
  )
}

/** The error for damage that no repair can fix. */
export function beyondRepair(path: string, fault: string): DatabaseError {
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${lostAdvice}`)
}

/** The error for a file that the system refuses to open, as it is a directory or belongs to another user. */
export function unopenable(path: string, cause: NodeJS.ErrnoException): DatabaseError {
  const fault = `the system does not open it (${cause.code})`
  return new DatabaseError('internal', `${path} cannot be used: ${fault}. ${unopenableAdvice}`, { cause })
}

const unopenableAdvice = 'Check that it is a file that the service may read and write.'

const repairableAdvice =
  '`vicinal doctor` lists all damage, `vicinal doctor --repair` sets damaged points aside so that the rest can be served. Or restore a snapshot.'

const lostAdvice =
  'No repair can fix this: restore the newest snapshot into another directory, and keep this one as it is.'

/**
 * Finds the error that reports damaged data, among an error and its causes. It recognizes the text, because an error
 * from another thread keeps nothing else.
 */
export function damageIn(error: unknown): Error | undefined {
  return errorWith([repairableAdvice, lostAdvice], error)
}

/** Like `damageIn`, and finds a file that cannot be opened too; its data may be undamaged. */
export function unusableIn(error: unknown): Error | undefined {
  return errorWith([repairableAdvice, lostAdvice, unopenableAdvice], error)
}

function errorWith(advices: readonly string[], error: unknown): Error | undefined {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { message } = each
    if (advices.some((advice) => message.endsWith(advice))) return each
  }
  return undefined
}
