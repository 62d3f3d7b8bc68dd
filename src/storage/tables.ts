import { existsSync } from 'node:fs'
import type { Database, RootDatabase, Transaction } from 'lmdb'
import { damagedBlock, faultOfDatabase } from './check/database-check.ts'
import {
  beyondRepair,
  collectionsPath,
  damaged,
  databasePath,
  ofOtherVersion,
  rowFilePath,
} from './files/data-directory.ts'
import {
  type Access,
  makeEnvironment,
  openEnvironment,
  tryDescriptors,
  tryToOpen,
} from './files/environment.ts'
import { decodeBlock, decodeDatabaseId, decodeMeta, type Meta, metaKeys } from './key-layout.ts'

/** The tables of one collection: see key-layout.ts for their keys and values. */
export interface Tables {
  readonly root: RootDatabase
  readonly files: StoreFiles
  readonly payloads: Table
  readonly live: Table
  readonly meta: Table
}

/** The files with the points of one collection. */
export interface StoreFiles {
  /** LMDB's file. */
  readonly database: string
  readonly rows: string
  /** Name of the collection, for messages; undefined for the default one, which its files identify. */
  readonly collection?: string
}

/** The files of the default collection. */
function mainFiles(dataDir: string): StoreFiles {
  return { database: databasePath(dataDir), rows: rowFilePath(dataDir) }
}

/** Adds the name of the collection to the text of a fault, if the files do not identify the collection. */
export function faultIn({ collection }: StoreFiles, fault: string): string {
  return collection === undefined ? fault : `collection ${collection}: ${fault}`
}

/**
 * Opens the tables before any other thread of the process does. Creates them if missing.
 *
 * The package `lmdb` ends the process if it cannot open its file, and LMDB crashes on some damaged files. So this
 * function first tries everything that LMDB needs, and checks the file.
 *
 * @throws DatabaseError if they cannot be opened, or are damaged
 */
export async function openDatabase(dataDir: string): Promise<Tables> {
  const path = databasePath(dataDir)
  if (!existsSync(path)) await makeDatabase(dataDir)
  return openChecked(dataDir, 'write', false)
}

/**
 * Opens the tables only for reading, after a failed write. No other thread has them open.
 *
 * @throws DatabaseError if they cannot be opened, or are damaged
 */
export function openDatabaseToRead(dataDir: string): Tables {
  return openChecked(dataDir, 'read', false)
}

/**
 * Opens the tables for a repair: like `openDatabase`, but with any damage that LMDB can handle.
 *
 * @throws DatabaseError if the damage is beyond repair
 */
export function openDamagedDatabase(dataDir: string): Tables {
  const path = databasePath(dataDir)
  if (!existsSync(path)) throw beyondRepair(path, 'it is missing')
  return openChecked(dataDir, 'write', true)
}

function openChecked(dataDir: string, access: Access, isForRepair: boolean): Tables {
  const path = databasePath(dataDir)
  tryToOpen(path, access)
  const found = faultOfDatabase(path)
  if (found !== undefined && !found.isRepairable) throw beyondRepair(path, found.fault)
  if (found !== undefined && !isForRepair) throw damaged(path, found.fault)
  return openTablesAt(path, mainFiles(dataDir), access)
}

/**
 * Opens the tables of a database that another thread of this process has opened. All threads of a process share one
 * LMDB environment for each file. If lmdb cannot open the file now, it creates a second environment for it, and both
 * read wrong data. So this function tries to open the file first.
 *
 * @throws DatabaseError if it cannot be opened
 */
export function openTables(dataDir: string): Tables {
  const path = databasePath(dataDir)
  tryDescriptors(path)
  return openTablesAt(path, mainFiles(dataDir))
}

function openTablesAt(path: string, files: StoreFiles, access: Access = 'write'): Tables {
  return openEnvironment(path, access, (root) => {
    const table = (name: string): Table => openTable(root, name)
    return { root, files, payloads: table('payloads'), live: table('live'), meta: table('meta') }
  })
}

async function makeDatabase(dataDir: string): Promise<void> {
  const files = mainFiles(dataDir)
  const lost = existsSync(files.rows) ? 'vectors' : existsSync(collectionsPath(dataDir)) ? 'collections' : ''
  if (lost !== '') throw beyondRepair(files.database, `it is missing, though there are ${lost}`)
  await makeEnvironment(files.database, (making) => openTablesAt(making, files).root)
}

/**
 * Reads the meta record; returns undefined if there is none because nothing has been stored.
 *
 * @throws DatabaseError if the record is damaged, has another format version, or is missing although there are rows
 */
export function readMeta({ files, meta: table }: Tables): Meta | undefined {
  const value = table.getBinary(metaKeys.state)
  if (value === undefined) {
    // The record is written first, or together with a named collection. If it is missing, other data are lost too.
    if (files.collection !== undefined || existsSync(files.rows))
      throw beyondRepair(files.database, faultIn(files, 'its meta record is missing'))
    return undefined
  }
  const meta = decodeMeta(value)
  if ('fault' in meta) {
    throw (meta.isOtherVersion ? ofOtherVersion : beyondRepair)(files.database, faultIn(files, meta.fault))
  }
  return meta
}

/**
 * Reads the database id, which identifies one history of changes: it is chosen at random when a database is created or
 * restored. Undefined until a program that knows this id has opened the database.
 *
 * @throws DatabaseError if the id is damaged
 */
export function readDatabaseId({ files, meta }: Tables): string | undefined {
  const value = meta.getBinary(metaKeys.databaseId)
  if (value === undefined) return undefined
  const id = decodeDatabaseId(value)
  if (id === undefined) throw damaged(files.database, faultIn(files, 'its id does not match its checksum'))
  return id
}

/**
 * Reads the bits of live slots, by block.
 *
 * @throws DatabaseError if a block is damaged
 */
export function readLive({ files, live }: Tables): Map<number, Buffer> {
  const blocks = new Map<number, Buffer>()
  for (const { key, value } of live.getRange()) {
    const bits = decodeBlock(key, value)
    if (bits === undefined) {
      throw damaged(files.database, faultIn(files, damagedBlock(key)))
    }
    blocks.set(key, bits)
  }
  return blocks
}

/** @throws DatabaseError if the numbers of payloads and live bits differ from the number of stored points */
export function checkCounts(
  { files, payloads }: Tables,
  meta: Meta,
  live: ReadonlyMap<number, Buffer>,
): void {
  const count = payloads.count()
  let bits = 0
  for (const block of live.values()) for (const byte of block) bits += bitsOfByte[byte]!
  if (count === meta.pointCount && bits === meta.pointCount) return
  throw damaged(
    files.database,
    faultIn(
      files,
      `it should hold ${meta.pointCount} points, but has ${count} payloads and ${bits} live slots`,
    ),
  )
}

const bitsOfByte = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)

/** An LMDB table with u32 keys: a whole table, or one collection's part of a shared table. */
export interface Table {
  /** Returns a copy of the value in `transaction`: by default, the transaction that is open in this thread. */
  getBinary(key: number, transaction?: Transaction): Buffer | undefined
  /** Writes within the open transaction of the environment, or in its own transaction. */
  putSync(key: number, value: Buffer): void
  removeSync(key: number): void
  /** Yields keys in ascending order, like `getRange`. */
  getKeys(options?: TableRange): Iterable<number>
  getRange(options?: TableRange): Iterable<TableEntry>
  count(): number
  /** Pages of the table. For a shared table, of the whole table. */
  readonly pages: TablePages
}

export interface TableRange {
  /** The first key; 0 by default. */
  readonly start?: number
  /** The largest number of entries. */
  readonly limit?: number
}

export interface TableEntry {
  readonly key: number
  readonly value: Buffer
}

/** A table of only one collection. */
class WholeTable implements Table {
  readonly #database: Database<Buffer, number>

  constructor(database: Database<Buffer, number>) {
    this.#database = database
  }

  getBinary(key: number, transaction?: Transaction): Buffer | undefined {
    return transaction === undefined
      ? this.#database.getBinary(key)
      : this.#database.get(key, { transaction })
  }

  putSync(key: number, value: Buffer): void {
    this.#database.putSync(key, value)
  }

  removeSync(key: number): void {
    this.#database.removeSync(key)
  }

  getKeys(options: TableRange = {}): Iterable<number> {
    return this.#database.getKeys({ ...options })
  }

  getRange(options: TableRange = {}): Iterable<TableEntry> {
    return this.#database.getRange({ ...options })
  }

  count(): number {
    return (this.#database.getStats() as { entryCount: number }).entryCount
  }

  get pages(): TablePages {
    return pagesOf(this.#database.getStats() as TreeStats)
  }
}

/** LMDB's statistics of one tree. */
export interface TreeStats {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}

/** The pages of a table in the file. */
export interface TablePages {
  /** Pages of its tree. Each is rewritten when a record on it changes. */
  readonly tree: number
  /** Pages of values that have their own pages. */
  readonly overflow: number
}

export function pagesOf({ treeBranchPageCount, treeLeafPageCount, overflowPages }: TreeStats): TablePages {
  return { tree: treeBranchPageCount + treeLeafPageCount, overflow: overflowPages }
}

/** Opens a table. Creates it if missing. */
export function openTable(root: RootDatabase, name: string): Table {
  return new WholeTable(root.openDB<Buffer, number>({ name, keyEncoding: 'uint32', encoding: 'binary' }))
}

/** Bytes of a key in a table that collections share: number of the collection u32, key u32, both big-endian. */
const scopedKeyBytes = 8

/**
 * One collection's part of a table that all named collections share. LMDB orders these keys byte by byte, so the
 * entries of a collection are adjacent, in the order of their keys.
 */
export class ScopedTable implements Table {
  readonly #database: Database<Buffer, Buffer>
  readonly #collection: number
  /** LMDB copies a key before it returns, so one buffer is enough for all keys. */
  readonly #key: Buffer

  constructor(database: Database<Buffer, Buffer>, collection: number) {
    this.#database = database
    this.#collection = collection
    this.#key = scopedKey(collection, 0)
  }

  getBinary(key: number, transaction?: Transaction): Buffer | undefined {
    const scoped = this.#scoped(key)
    return transaction === undefined
      ? this.#database.getBinary(scoped)
      : this.#database.get(scoped, { transaction })
  }

  putSync(key: number, value: Buffer): void {
    this.#database.putSync(this.#scoped(key), value)
  }

  removeSync(key: number): void {
    this.#database.removeSync(this.#scoped(key))
  }

  getKeys(options: TableRange = {}): Iterable<number> {
    return this.#database.getKeys(this.#bounds(options)).map((key) => key.readUInt32BE(4))
  }

  getRange(options: TableRange = {}): Iterable<TableEntry> {
    return this.#database
      .getRange(this.#bounds(options))
      .map(({ key, value }) => ({ key: key.readUInt32BE(4), value }))
  }

  count(): number {
    return this.#database.getKeysCount(this.#bounds({}))
  }

  get pages(): TablePages {
    return pagesOf(this.#database.getStats() as TreeStats)
  }

  #scoped(key: number): Buffer {
    this.#key.writeUInt32BE(key, 4)
    return this.#key
  }

  #bounds({ start = 0, limit }: TableRange): { start: Buffer; end: Buffer; limit?: number } {
    return {
      start: scopedKey(this.#collection, start),
      end: scopedKey(this.#collection + 1, 0),
      ...(limit === undefined ? {} : { limit }),
    }
  }
}

function scopedKey(collection: number, key: number): Buffer {
  const bytes = Buffer.alloc(scopedKeyBytes)
  bytes.writeUInt32BE(collection)
  bytes.writeUInt32BE(key, 4)
  return bytes
}
