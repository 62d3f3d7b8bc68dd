import { randomFillSync } from 'node:crypto'
import { HashedNumbers } from '../attributes/hashed-numbers.ts'
import { MemoryCount } from '../attributes/memory-count.ts'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'

/**
 * Point ids in memory, in both directions: slot to id for answers, id to slot for GET and DELETE.
 *
 * Ids are stored by slot, as 16 bytes each, in pages. A hash table of slots leads in the reverse direction. A
 * `Map<string, number>` costs about 120 bytes per point and gives the garbage collector a million strings to walk. This
 * table takes 16 bytes, plus 4 to 11 for its entry.
 *
 * Callers may choose ids: they can be sequential, share long prefixes, or be crafted to collide. The hash has a random
 * key per process (`hashId`), so that nobody can choose ids that cause long probes.
 *
 * Main thread only, except that other threads write ids at a start: see `pages`.
 */
export class IdTable {
  readonly #pages: Page[] = []
  readonly #memory = new MemoryCount()
  readonly #slots: HashedNumbers
  readonly #listeners: ((memory: SharedArrayBuffer) => void)[] = []
  readonly #entryListeners: ((memory: SharedArrayBuffer, partition: number) => void)[] = []

  /** @param expected the number of ids that will be set soon; the table then need not grow for them */
  constructor(expected = 0) {
    this.#slots = new HashedNumbers(
      this.#memory,
      (slot) => this.#hashOf(slot),
      expected,
      ({ buffer }, partition) => {
        for (const listener of this.#entryListeners) listener(buffer as SharedArrayBuffer, partition)
      },
    )
  }

  /** The number of ids in the table. */
  get size(): number {
    return this.#slots.count
  }

  /** Bytes that the pages and the table take. */
  get memoryBytes(): number {
    return this.#pages.reduce((sum, page) => sum + page.length, 0) + this.#memory.bytes
  }

  /** Assigns the 16-byte `id` to `slot`. Neither may be in the table yet. */
  set(slot: number, id: Uint8Array): void {
    writePagedId(this.pages(slot + 1), slot, id)
    this.enter(slot)
  }

  /** Returns the pages of all slots below `slotCount`. Other threads may write the ids of slots that have none. */
  pages(slotCount: number): IdPages {
    if (slotCount > 0) this.#growFirst(Math.min(slotCount, slotsPerPage))
    while (this.#pages.length * slotsPerPage < slotCount) this.#add(emptyPage(slotsPerPage))
    return this.#pages
  }

  /** Calls `listener` with the memory of every page, now and when one is added. The first page's memory grows. */
  onPage(listener: (memory: SharedArrayBuffer) => void): void {
    for (const { buffer } of this.#pages) listener(buffer)
    this.#listeners.push(listener)
  }

  /** The memory of the entries by which slots are found, in partitions: see `HashedNumbers`. */
  get entries(): readonly SharedArrayBuffer[] {
    return this.#slots.entries.map(({ buffer }) => buffer as SharedArrayBuffer)
  }

  /** Calls `listener` with the memory of each partition that gets other entries. */
  onEntries(listener: (memory: SharedArrayBuffer, partition: number) => void): void {
    this.#entryListeners.push(listener)
  }

  #add(page: Page): void {
    this.#pages.push(page)
    for (const listener of this.#listeners) listener(page.buffer)
  }

  /** Grows the first page only as needed, because there can be thousands of small tables. */
  #growFirst(slots: number): void {
    const [first] = this.#pages
    if (first !== undefined && first.length >= slots * idBytes) return
    const length = Math.min(slotsPerPage, Math.max(slotsMin, 2 ** Math.ceil(Math.log2(slots))))
    if (first === undefined) this.#add(emptyPage(length))
    else {
      first.buffer.grow(length * idBytes)
      this.#pages[0] = new Uint8Array(first.buffer, 0, length * idBytes)
    }
  }

  /** Enters a slot whose id another thread has written to its page. Neither may be in the table yet. */
  enter(slot: number): void {
    this.#slots.add(slot, this.#hashOf(slot))
  }

  /** Returns the slot of a well-formed id in either case, or -1. */
  find(id: string): number {
    return this.findBytes(idToBytes(id), 0)
  }

  /** Returns the slot of the 16-byte id at an offset, or -1. */
  findBytes(bytes: Uint8Array, at: number): number {
    const hash = hashId(bytes, at)
    return findIn(this.#slots.entriesOf(hash), hash, this.#pages, bytes, at)
  }

  /** Returns the id of a slot as text. The slot must have one. */
  idOf(slot: number): string {
    return idFromBytes(this.#pages[Math.floor(slot / slotsPerPage)]!, (slot % slotsPerPage) * idBytes)
  }

  /** Returns the first byte of a slot's id: the number of its partition in a cluster. The slot must have an id. */
  firstByteOf(slot: number): number {
    return this.#pages[Math.floor(slot / slotsPerPage)]![(slot % slotsPerPage) * idBytes]!
  }

  /** Copies the 16-byte id of a slot to `target` at `at`. The slot must have one. */
  copyId(slot: number, target: Uint8Array, at: number): void {
    copyPagedId(this.#pages, slot, target, at)
  }

  /** Removes the id of a slot from the table. The slot must have one. */
  delete(slot: number): void {
    this.#slots.delete(slot, this.#hashOf(slot))
  }

  #hashOf(slot: number): number {
    return hashId(this.#pages[Math.floor(slot / slotsPerPage)]!, (slot % slotsPerPage) * idBytes)
  }
}

/** Returns the slot of an id among the entries of its partition, or -1. */
function findIn(entries: Uint32Array, hash: number, pages: IdPages, id: Uint8Array, at: number): number {
  const mask = entries.length - 1
  let position = hash & mask
  while (entries[position] !== 0) {
    if (hasId(pages, entries[position]! - 1, id, at)) return entries[position]! - 1
    position = (position + 1) & mask
  }
  return -1
}

function hasId(pages: IdPages, slot: number, id: Uint8Array, at: number): boolean {
  const page = pages[Math.floor(slot / slotsPerPage)]
  // Only another thread can know an entry before the page.
  if (page === undefined) return false
  const offset = (slot % slotsPerPage) * idBytes
  for (let index = 0; index < idBytes; index += 1) {
    if (page[offset + index] !== id[at + index]) return false
  }
  return true
}

/**
 * An id table on another thread than its own. Finds most ids that are in the table: while it changes, one can be
 * missed, or found although it has just left.
 */
export class IdTableView {
  readonly #pages: Page[] = []
  readonly #entries: Uint32Array[]

  constructor(pages: readonly SharedArrayBuffer[], entries: readonly SharedArrayBuffer[]) {
    for (const page of pages) this.addPage(page)
    this.#entries = entries.map((memory) => new Uint32Array(memory))
  }

  addPage(memory: SharedArrayBuffer): void {
    this.#pages.push(new Uint8Array(memory, 0, memory.byteLength))
  }

  /** Call when a partition has other entries. */
  setEntries(memory: SharedArrayBuffer, partition: number): void {
    this.#entries[partition] = new Uint32Array(memory)
  }

  /** Returns the slot of a well-formed id, or -1. */
  find(id: string): number {
    const bytes = idToBytes(id)
    const hash = hashId(bytes, 0)
    const entries = this.#entries[this.#entries.length === 1 ? 0 : hash >>> 24]
    // While the table is divided, partitions become known one by one.
    if (entries === undefined) return -1
    this.#growFirst()
    return findIn(entries, hash, this.#pages, bytes, 0)
  }

  /** Copies the id of a slot; returns false if its page is not known here yet. */
  copyId(slot: number, target: Uint8Array, at: number): boolean {
    if (slot < slotsPerPage) this.#growFirst()
    const page = this.#pages[Math.floor(slot / slotsPerPage)]
    if (page === undefined || page.length < ((slot % slotsPerPage) + 1) * idBytes) return false
    copyPagedId(this.#pages, slot, target, at)
    return true
  }

  /** The first page grows in place. */
  #growFirst(): void {
    const [first] = this.#pages
    if (first !== undefined && first.length < first.buffer.byteLength)
      this.#pages[0] = new Uint8Array(first.buffer, 0, first.buffer.byteLength)
  }
}

/** Ids by slot, 16 bytes each, in memory shared between threads. */
export type IdPages = readonly Page[]
type Page = Uint8Array<SharedArrayBuffer>

function emptyPage(slots: number): Page {
  return new Uint8Array(
    new SharedArrayBuffer(slots * idBytes, { maxByteLength: slotsPerPage * idBytes }),
    0,
    slots * idBytes,
  )
}

/** Copies the 16-byte id of a slot, whose page must exist, to `target` at `at`. */
function copyPagedId(pages: IdPages, slot: number, target: Uint8Array, at: number): void {
  const page = pages[Math.floor(slot / slotsPerPage)]!
  const from = (slot % slotsPerPage) * idBytes
  for (let index = 0; index < idBytes; index += 1) target[at + index] = page[from + index]!
}

/** Writes the id of a slot into its page, which must exist. */
export function writePagedId(pages: IdPages, slot: number, id: Uint8Array): void {
  const page = pages[Math.floor(slot / slotsPerPage)]!
  const at = (slot % slotsPerPage) * idBytes
  for (let index = 0; index < idBytes; index += 1) page[at + index] = id[index]!
}

/** The most bytes of an id and of its entry in the table; see the class. */
export const idTableBytesPerSlot: number = idBytes + 11

export const slotsPerPage = 65_536
/** The smallest size of the first page. */
const slotsMin = 64

/**
 * A hash of 16-byte ids with a random key per process.
 *
 * This is simple tabulation hashing: each byte of the id selects a random word from its own table, and the words are
 * combined by xor. With it, linear probing takes expected constant time for any set of ids that was chosen without
 * knowledge of the tables (Patrascu and Thorup, "The Power of Simple Tabulation Hashing", 2012). Unlike multiplicative
 * hashes, it has no sets of ids that collide under every key. The tables take 16 KiB, so they stay in the first-level
 * cache.
 */
function hashId(id: Uint8Array, offset: number): number {
  let hash = 0
  for (let index = 0; index < idBytes; index += 1) hash ^= words[(index << 8) | id[offset + index]!]!
  return hash >>> 0
}

let words = randomFillSync(new Uint32Array(idBytes * 256))

/** The key of the hash, which all threads that find ids in one table need. */
export function idHashKey(): Uint32Array {
  return words
}

export function useIdHashKey(key: Uint32Array): void {
  words = key as typeof words
}
