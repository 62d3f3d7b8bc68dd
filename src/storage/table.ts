import type { Database, RootDatabase, Transaction } from 'lmdb'
import { emptyBlock, slotsPerBlock } from './key-layout.ts'

/**
 * The entries of one collection in an LMDB table that all collections share. A key is the number of the collection u32
 * and a number u32, both big-endian: LMDB orders keys byte by byte, so the entries of a collection are adjacent, in the
 * order of their numbers.
 */
export class Table {
  readonly #database: Database<Buffer, Buffer>
  readonly #collection: number
  /** LMDB copies a key before it returns, so one buffer is enough for all keys. */
  readonly #key: Buffer

  constructor(database: Database<Buffer, Buffer>, collection: number) {
    this.#database = database
    this.#collection = collection
    this.#key = keyOf(collection, 0)
  }

  /** Returns a copy of the value in `transaction`: by default, the transaction that is open in this thread. */
  getBinary(key: number, transaction?: Transaction): Buffer | undefined {
    const whole = this.#whole(key)
    return transaction === undefined
      ? this.#database.getBinary(whole)
      : this.#database.get(whole, { transaction })
  }

  /** Writes within the open transaction of the environment, or in its own transaction. */
  putSync(key: number, value: Buffer): void {
    this.#database.putSync(this.#whole(key), value)
  }

  removeSync(key: number): void {
    this.#database.removeSync(this.#whole(key))
  }

  /** Yields keys in ascending order, like `getRange`. */
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

  /** Pages of the table, with the entries of all collections. */
  get pages(): TablePages {
    return pagesOf(this.#database.getStats() as TreeStats)
  }

  #whole(key: number): Buffer {
    this.#key.writeUInt32BE(key, 4)
    return this.#key
  }

  #bounds({ start = 0, limit }: TableRange): { start: Buffer; end: Buffer; limit?: number } {
    return {
      start: keyOf(this.#collection, start),
      end: keyOf(this.#collection + 1, 0),
      ...(limit === undefined ? {} : { limit }),
    }
  }
}

/** Opens a table that collections share. Creates it if missing. */
export function openShared(root: RootDatabase, name: string): Database<Buffer, Buffer> {
  return root.openDB<Buffer, Buffer>({ name, keyEncoding: 'binary', encoding: 'binary' })
}

interface TableRange {
  /** The first key; 0 by default. */
  readonly start?: number
  /** The largest number of entries. */
  readonly limit?: number
}

export interface TableEntry {
  readonly key: number
  readonly value: Buffer
}

/** LMDB's statistics of one tree. */
export interface TreeStats {
  readonly treeBranchPageCount: number
  readonly treeLeafPageCount: number
  readonly overflowPages: number
}

/** The size of LMDB's pages in new files. */
export const pageBytes = 4096

/** The pages of a table in the file. */
interface TablePages {
  /** Pages of its tree. Each is rewritten when a record on it changes. */
  readonly tree: number
  /** Pages of values that have their own pages. */
  readonly overflow: number
}

export function pagesOf({ treeBranchPageCount, treeLeafPageCount, overflowPages }: TreeStats): TablePages {
  return { tree: treeBranchPageCount + treeLeafPageCount, overflow: overflowPages }
}

function keyOf(collection: number, key: number): Buffer {
  const bytes = Buffer.alloc(keyBytes)
  bytes.writeUInt32BE(collection)
  bytes.writeUInt32BE(key, 4)
  return bytes
}

const keyBytes = 8

/** Sets of slots as bits, in the blocks of the table `live`. A set only takes memory for blocks with slots. */

/** Whether the bit of a slot is set. The first of these bits is slot 0. */
export function hasBit(bits: Uint8Array, slot: number): boolean {
  return (bits[slot >> 3]! & (1 << (slot & 7))) !== 0
}

export function hasSlot(blocks: ReadonlyMap<number, Uint8Array>, slot: number): boolean {
  const bits = blocks.get(blockOf(slot))
  return bits !== undefined && hasBit(bits, slot % slotsPerBlock)
}

export function addSlot(blocks: Map<number, Buffer>, slot: number): void {
  const block = blockOf(slot)
  let bits = blocks.get(block)
  if (bits === undefined) {
    bits = Buffer.alloc(emptyBlock.length)
    blocks.set(block, bits)
  }
  setBit(bits, slot, true)
}

export function setBit(block: Buffer, slot: number, isSet: boolean): void {
  const at = slot % slotsPerBlock
  if (hasBit(block, at) !== isSet) block[at >> 3]! ^= 1 << (at & 7)
}

/** Yields the slots in the order of the blocks. */
export function* slotsIn(blocks: ReadonlyMap<number, Uint8Array>): Generator<number, undefined> {
  for (const [block, bits] of blocks) {
    for (let slot = 0; slot < slotsPerBlock; slot += 1) {
      if (hasBit(bits, slot)) yield block * slotsPerBlock + slot
    }
  }
}

/** The number of slots in a set. */
export function countSlots(blocks: ReadonlyMap<number, Uint8Array>): number {
  let count = 0
  for (const block of blocks.values()) for (const byte of block) count += bitsOfByte[byte]!
  return count
}

const bitsOfByte = Uint8Array.from({ length: 256 }, (_, byte) => byte.toString(2).replaceAll('0', '').length)

/** The block that a slot's bit is in. */
export function blockOf(slot: number): number {
  return Math.floor(slot / slotsPerBlock)
}

/** The fault of a block that does not match its checksum. */
export function damagedBlock(block: number): string {
  return `block ${block} of live slots does not match its checksum`
}
