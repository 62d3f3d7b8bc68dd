import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { type Database, open as openLmdb, type RootDatabase } from 'lmdb'
import { DatabaseError } from '../base/errors.ts'
import {
  beyondRepair,
  damaged,
  databasePath,
  ofOtherVersion,
  rowFilePath,
  syncDirectory,
} from './data-directory.ts'
import { damagedBlock, faultOfDatabase } from './database-check.ts'
import { decodeBlock, decodeDatabaseId, decodeMeta, type Meta, metaKeys } from './key-layout.ts'

/** The tables in LMDB: see key-layout.ts for their keys and values. */
export interface Tables {
  readonly root: RootDatabase
  readonly payloads: Database<Buffer, number>
  readonly live: Database<Buffer, number>
  readonly meta: Database<Buffer, number>
}

/**
 * Opens the tables as the first in the process, and makes them where there are none.
 *
 * The package `lmdb` ends the process when it cannot open its file, and LMDB over some that are damaged. So
 * what it needs is tried before, and the file checked.
 *
 * @throws DatabaseError that says why it cannot be opened, or what is damaged
 */
export async function openDatabase(dataDir: string): Promise<Tables> {
  const path = databasePath(dataDir)
  if (!existsSync(path)) await makeDatabase(dataDir)
  return openChecked(path, false)
}

/**
 * The same for a repair: opens a database whatever its tables hold, as long as LMDB can bear it.
 *
 * @throws DatabaseError that says what no repair can mend
 */
export function openDamagedDatabase(dataDir: string): Tables {
  const path = databasePath(dataDir)
  if (!existsSync(path)) throw beyondRepair(path, 'it is missing')
  return openChecked(path, true)
}

function openChecked(path: string, isForRepair: boolean): Tables {
  tryToOpen(path)
  const found = faultOfDatabase(path)
  if (found !== undefined && !found.isRepairable) throw beyondRepair(path, found.fault)
  if (found !== undefined && !isForRepair) throw damaged(path, found.fault)
  return openTablesAt(path)
}

/**
 * Opens the tables of a database that another thread of this process has opened: inside the process lmdb gives
 * them all the one environment, which it knows by the file. If just then it cannot open that, it makes another environment
 * over it, and what the two read is wrong: so it is tried before.
 *
 * @throws DatabaseError that says why it cannot be opened
 */
export function openTables(dataDir: string): Tables {
  const path = databasePath(dataDir)
  tryDescriptors(path)
  return openTablesAt(path)
}

function openTablesAt(path: string): Tables {
  const format = { keyEncoding: 'uint32', encoding: 'binary' } as const
  try {
    // `overlappingSync` off: a transaction then ends after its fsync, not when it is visible.
    const root = openLmdb({ path, noSubdir: true, maxDbs: 4, overlappingSync: false, mapSize })
    for (const file of [path, lockPath(path)]) chmodSync(file, 0o600)
    const table = (name: string): Database<Buffer, number> => root.openDB<Buffer, number>({ name, ...format })
    return { root, payloads: table('payloads'), live: table('live'), meta: table('meta') }
  } catch (error) {
    throw beyondRepair(path, error instanceof Error ? error.message : String(error))
  }
}

/**
 * It gets its name when it is on the disk: LMDB does not sync the first pages of a file before the first
 * commit, and what a loss of power left of them would be no database.
 */
async function makeDatabase(dataDir: string): Promise<void> {
  const path = databasePath(dataDir)
  if (existsSync(rowFilePath(dataDir))) throw beyondRepair(path, 'it is missing, though there are vectors')
  const making = `${path}.new`
  makeRoom(making)
  tryToOpen(making)
  await openTablesAt(making).root.close()
  rmSync(lockPath(making), { force: true })
  const file = openSync(making, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(making, path)
  syncDirectory(dataDir)
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
function tryToOpen(path: string): void {
  try {
    // LMDB writes it through memory, which on a full disk ends the process: so it gets its blocks here. Nothing in it
    // outlives the process, and whoever is here holds the lock of the directory.
    writeFileSync(lockPath(path), Buffer.alloc(lockBytes), { mode: 0o600 })
  } catch (error) {
    throw cannotOpen(path, error)
  }
  tryDescriptors(path)
}

function tryDescriptors(path: string): void {
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
 * Undefined when there is none: nothing has been stored yet.
 *
 * @throws DatabaseError when the record is damaged or of another format version, or missing where there are rows
 */
export function readMeta(dataDir: string, tables: Tables): Meta | undefined {
  const value = tables.meta.getBinary(metaKeys.state)
  if (value === undefined) {
    // A store writes the record before anything else, so what it described is lost with it.
    if (existsSync(rowFilePath(dataDir)))
      throw beyondRepair(databasePath(dataDir), 'its meta record is missing')
    return undefined
  }
  const meta = decodeMeta(value)
  if ('fault' in meta) {
    throw (meta.isOtherVersion ? ofOtherVersion : beyondRepair)(databasePath(dataDir), meta.fault)
  }
  return meta
}

/**
 * Names one history of changes: made at random with the database, and anew by a restore. Undefined until a program
 * that knows of it has opened the database.
 *
 * @throws DatabaseError when it is damaged
 */
export function readDatabaseId(dataDir: string, tables: Tables): string | undefined {
  const value = tables.meta.getBinary(metaKeys.databaseId)
  if (value === undefined) return undefined
  const id = decodeDatabaseId(value)
  if (id === undefined) throw damaged(databasePath(dataDir), 'its id does not match its checksum')
  return id
}

/**
 * The bits of live slots, by block.
 *
 * @throws DatabaseError when a block is damaged
 */
export function readLive(dataDir: string, tables: Tables): Map<number, Buffer> {
  const blocks = new Map<number, Buffer>()
  for (const { key, value } of tables.live.getRange()) {
    const bits = decodeBlock(key, value)
    if (bits === undefined) {
      throw damaged(databasePath(dataDir), damagedBlock(key))
    }
    blocks.set(key, bits)
  }
  return blocks
}

/** @throws DatabaseError when not as many payloads and live bits are there as points were stored */
export function checkCounts(
  dataDir: string,
  tables: Tables,
  meta: Meta,
  live: ReadonlyMap<number, Buffer>,
): void {
  const { entryCount } = tables.payloads.getStats() as { entryCount: number }
  let bits = 0
  for (const block of live.values()) for (const byte of block) bits += bitsOfByte[byte]!
  if (entryCount === meta.pointCount && bits === meta.pointCount) return
  throw damaged(
    databasePath(dataDir),
    `it should hold ${meta.pointCount} points, but has ${entryCount} payloads and ${bits} live slots`,
  )
}

const bitsOfByte = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)

/**
 * Address space, not memory or disk. A smaller map is doubled as the file grows, under the feet of readers in
 * other threads; lmdb keeps the old maps for them, but not having to is better.
 */
const mapSize = 64 * 1024 ** 3
