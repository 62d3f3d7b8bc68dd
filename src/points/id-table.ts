import { randomFillSync } from 'node:crypto'
import { idBytes, idFromBytes, idToBytes } from '../base/ids.ts'

/**
 * Point ids in memory, in both directions: slot to id for answers, id to slot for GET and DELETE.
 *
 * Ids are stored by slot, as 16 bytes each, in pages. The reverse direction is an open-addressing hash table of slot
 * numbers with linear probing. It is cut into 256 partitions by the id's hash and grows one partition at a time, so
 * that no insert stalls the event loop. A `Map<string, number>` costs about 120 bytes per point and gives the garbage
 * collector a million strings to walk. This table takes 16 bytes, plus 4 to 11 for its entry.
 *
 * Callers may choose ids: they can be sequential, share long prefixes, or be crafted to collide. The hash has a random
 * key per process (`hashId`), so that nobody can choose ids that cause long probes.
 *
 * Main thread only, except that other threads write ids at a start: see `pages`.
 */
export class IdTable {
  readonly #pages: Page[] = []
  readonly #partitions: Partition[]
  #size = 0

  /** @param expected the number of ids that will be set soon; the table then need not grow for them */
  constructor(expected = 0) {
    const entries = Math.max(initialPartitionSize, 2 ** Math.ceil(Math.log2(expected / 256 / maxLoad + 1)))
    this.#partitions = Array.from({ length: 256 }, () => ({ slots: new Uint32Array(entries), count: 0 }))
  }

  /** The number of ids in the table. */
  get size(): number {
    return this.#size
  }

  /** Bytes that the pages and the table take. */
  get memoryBytes(): number {
    const tables = this.#partitions.reduce((sum, { slots }) => sum + slots.byteLength, 0)
    return this.#pages.reduce((sum, page) => sum + page.length, 0) + tables
  }

  /** Assigns the 16-byte `id` to `slot`. Neither may be in the table yet. */
  set(slot: number, id: Uint8Array): void {
    writePagedId(this.pages(slot + 1), slot, id)
    this.enter(slot)
  }

  /** Returns the pages of all slots below `slotCount`. Other threads may write the ids of slots that have none. */
  pages(slotCount: number): IdPages {
    if (slotCount <= slotsPerPage) this.#growFirst(slotCount)
    else {
      this.#growFirst(slotsPerPage)
      while (this.#pages.length * slotsPerPage < slotCount) this.#pages.push(emptyPage(slotsPerPage))
    }
    return this.#pages
  }

  /** Grows the first page only as needed, because there can be thousands of small tables. */
  #growFirst(slots: number): void {
    const [first] = this.#pages
    if (slots === 0 || (first !== undefined && first.length >= slots * idBytes)) return
    const grown = emptyPage(Math.min(slotsPerPage, Math.max(slotsMin, 2 ** Math.ceil(Math.log2(slots)))))
    if (first !== undefined) grown.set(first)
    this.#pages[0] = grown
  }

  /** Enters a slot whose id another thread has written to its page. Neither may be in the table yet. */
  enter(slot: number): void {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]!
    const at = (slot % slotsPerPage) * idBytes
    const hash = hashId(page, at)
    const partition = this.#partitions[hash >>> partitionShift]!
    if (partition.count + 1 > partition.slots.length * maxLoad) this.#grow(partition)
    insertInto(partition.slots, hash, slot)
    partition.count += 1
    this.#size += 1
  }

  /** Returns the slot of a well-formed id in either case, or -1. */
  find(id: string): number {
    return this.findBytes(idToBytes(id), 0)
  }

  /** Returns the slot of the 16-byte id at an offset, or -1. */
  findBytes(bytes: Uint8Array, at: number): number {
    const hash = hashId(bytes, at)
    const { slots } = this.#partitions[hash >>> partitionShift]!
    const position = this.#position(slots, bytes, at, hash)
    return position === -1 ? -1 : slots[position]! - 1
  }

  /** The longest run of entries that a lookup may have to probe, over all partitions. For tests. */
  get longestProbe(): number {
    return Math.max(...this.#partitions.map(({ slots }) => longestRun(slots)))
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
    const page = this.#pages[Math.floor(slot / slotsPerPage)]!
    const from = (slot % slotsPerPage) * idBytes
    for (let index = 0; index < idBytes; index += 1) target[at + index] = page[from + index]!
  }

  /** Removes the id of a slot from the table. The slot must have one. */
  delete(slot: number): void {
    const offset = (slot % slotsPerPage) * idBytes
    const id = this.#pages[Math.floor(slot / slotsPerPage)]!.slice(offset, offset + idBytes)
    const hash = hashId(id, 0)
    const partition = this.#partitions[hash >>> partitionShift]!
    this.#close(partition.slots, this.#position(partition.slots, id, 0, hash))
    partition.count -= 1
    this.#size -= 1
  }

  #position(slots: Uint32Array, id: Uint8Array, at: number, hash: number): number {
    const mask = slots.length - 1
    let position = hash & mask
    while (slots[position] !== 0) {
      if (this.#hasId(slots[position]! - 1, id, at)) return position
      position = (position + 1) & mask
    }
    return -1
  }

  #hasId(slot: number, id: Uint8Array, at: number): boolean {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]!
    const offset = (slot % slotsPerPage) * idBytes
    for (let index = 0; index < idBytes; index += 1) {
      if (page[offset + index] !== id[at + index]) return false
    }
    return true
  }

  /** Empties a position by moving later entries of its run back (Knuth 6.4, algorithm R): no tombstones. */
  #close(slots: Uint32Array, emptied: number): void {
    const mask = slots.length - 1
    let hole = emptied
    let position = (hole + 1) & mask
    while (slots[position] !== 0) {
      const home = this.#hashOfSlot(slots[position]! - 1) & mask
      if (((position - home) & mask) >= ((position - hole) & mask)) {
        slots[hole] = slots[position]!
        hole = position
      }
      position = (position + 1) & mask
    }
    slots[hole] = 0
  }

  #grow(partition: Partition): void {
    const grown = new Uint32Array(partition.slots.length * 2)
    for (const entry of partition.slots) {
      if (entry !== 0) insertInto(grown, this.#hashOfSlot(entry - 1), entry - 1)
    }
    partition.slots = grown
  }

  #hashOfSlot(slot: number): number {
    return hashId(this.#pages[Math.floor(slot / slotsPerPage)]!, (slot % slotsPerPage) * idBytes)
  }
}

/** Ids by slot, 16 bytes each, in memory shared between threads. */
export type IdPages = readonly Page[]
type Page = Uint8Array<SharedArrayBuffer>

function emptyPage(slots: number): Page {
  return new Uint8Array(new SharedArrayBuffer(slots * idBytes))
}

/** Writes the id of a slot into its page, which must exist. */
export function writePagedId(pages: IdPages, slot: number, id: Uint8Array): void {
  const page = pages[Math.floor(slot / slotsPerPage)]!
  const at = (slot % slotsPerPage) * idBytes
  for (let index = 0; index < idBytes; index += 1) page[at + index] = id[index]!
}

/** The most bytes of an id and of its entry in the table; see the class. */
export const idTableBytesPerSlot: number = idBytes + 11

/** The number of entries is a power of two. An entry is a slot plus one; 0 is empty. */
interface Partition {
  slots: Uint32Array
  count: number
}

const slotsPerPage = 65_536
/** The smallest size of the first page. */
const slotsMin = 64
const initialPartitionSize = 16
/** Share of entries in use above which a partition grows. */
const maxLoad = 0.7

/**
 * The highest 8 bits of a hash select the partition, and its lowest bits the position. A partition has at most 2^24
 * positions.
 */
const partitionShift = 24

function longestRun(slots: Uint32Array): number {
  let longest = 0
  let run = 0
  // Goes round twice, because a run can wrap around the end.
  for (let at = 0; at < 2 * slots.length && run < slots.length; at += 1) {
    run = slots[at % slots.length] === 0 ? 0 : run + 1
    longest = Math.max(longest, run)
  }
  return longest
}

function insertInto(slots: Uint32Array, hash: number, slot: number): void {
  const mask = slots.length - 1
  let position = hash & mask
  while (slots[position] !== 0) position = (position + 1) & mask
  slots[position] = slot + 1
}

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

const words = randomFillSync(new Uint32Array(idBytes * 256))
