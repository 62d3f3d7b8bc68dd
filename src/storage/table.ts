import type { Database, RootDatabase, Transaction } from 'lmdb'

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
