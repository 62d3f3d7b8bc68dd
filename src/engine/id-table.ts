import { idBytes, idToBytes } from '../base/ids.ts'

/**
 * Point ids in memory, both ways: slot to id for answers, id to slot for GET and DELETE.
 *
 * Ids are stored by slot, as 16 bytes each, in pages. The reverse direction is an open-addressing hash table of slot
 * numbers with linear probing, cut into 256 partitions by the id's first byte: growing moves one partition at a
 * time, so that no insert stalls the event loop. A `Map<string, number>` costs about 120 bytes a point and
 * gives the garbage collector a million strings to walk; this takes 16 bytes and 4 to 11 more for the table.
 *
 * Ids are random version 4 UUIDs that we generate, so their bytes serve as their hash. Callers cannot choose
 * ids, and looking up a crafted one only probes.
 *
 * Main thread only, except for the ids of a start: see `pages`.
 */
export class IdTable {
  readonly #pages: Page[] = []
  readonly #partitions: Partition[]
  #size = 0

  /** @param expected ids that will be set soon: the table then need not grow for them */
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

  /** Assigns the 16-byte `id` to `slot`. Neither may be in the table. */
  set(slot: number, id: Uint8Array): void {
    writePagedId(this.pages(slot + 1), slot, id)
    this.enter(slot)
  }

  /** The pages of all slots below `slotCount`: for other threads to write the ids of slots that have none. */
  pages(slotCount: number): IdPages {
    if (slotCount <= slotsPerPage) this.#growFirst(slotCount)
    else {
      this.#growFirst(slotsPerPage)
      while (this.#pages.length * slotsPerPage < slotCount) this.#pages.push(emptyPage(slotsPerPage))
    }
    return this.#pages
  }

  /** The first page is as large as it has to be: there can be thousands of small tables. */
  #growFirst(slots: number): void {
    const [first] = this.#pages
    if (slots === 0 || (first !== undefined && first.length >= slots * idBytes)) return
    const grown = emptyPage(Math.min(slotsPerPage, Math.max(slotsMin, 2 ** Math.ceil(Math.log2(slots)))))
    if (first !== undefined) grown.set(first)
    this.#pages[0] = grown
  }

  /** Adds the id that another thread wrote to the page of `slot`. Neither may be in the table. */
  enter(slot: number): void {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]!
    const at = (slot % slotsPerPage) * idBytes
    const partition = this.#partitions[page[at]!]!
    if (partition.count + 1 > partition.slots.length * maxLoad) this.#grow(partition)
    insertInto(partition.slots, hashOf(page, at), slot)
    partition.count += 1
    this.#size += 1
  }

  /** The slot of a well-formed id in either case, or -1. */
  find(id: string): number {
    const bytes = idToBytes(id)
    const { slots } = this.#partitions[bytes[0]!]!
    const position = this.#position(slots, bytes)
    return position === -1 ? -1 : slots[position]! - 1
  }

  /** Copies the 16 bytes of the id of a slot, which has one, to `target` at `at`. */
  copyId(slot: number, target: Uint8Array, at: number): void {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]!
    const from = (slot % slotsPerPage) * idBytes
    for (let index = 0; index < idBytes; index += 1) target[at + index] = page[from + index]!
  }

  /** Removes the id of `slot` from the table. The slot must have one. */
  delete(slot: number): void {
    const offset = (slot % slotsPerPage) * idBytes
    const id = this.#pages[Math.floor(slot / slotsPerPage)]!.slice(offset, offset + idBytes)
    const partition = this.#partitions[id[0]!]!
    this.#close(partition.slots, this.#position(partition.slots, id))
    partition.count -= 1
    this.#size -= 1
  }

  #position(slots: Uint32Array, id: Uint8Array): number {
    const mask = slots.length - 1
    let position = hashOf(id, 0) & mask
    while (slots[position] !== 0) {
      if (this.#hasId(slots[position]! - 1, id)) return position
      position = (position + 1) & mask
    }
    return -1
  }

  #hasId(slot: number, id: Uint8Array): boolean {
    const page = this.#pages[Math.floor(slot / slotsPerPage)]!
    const offset = (slot % slotsPerPage) * idBytes
    for (let index = 0; index < idBytes; index += 1) {
      if (page[offset + index] !== id[index]) return false
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
    return hashOf(this.#pages[Math.floor(slot / slotsPerPage)]!, (slot % slotsPerPage) * idBytes)
  }
}

/** Ids by slot, 16 bytes each, in memory that threads share. */
export type IdPages = readonly Page[]
type Page = Uint8Array<SharedArrayBuffer>

function emptyPage(slots: number): Page {
  return new Uint8Array(new SharedArrayBuffer(slots * idBytes))
}

/** Writes the id of a slot into its page, which must be there. */
export function writePagedId(pages: IdPages, slot: number, id: Uint8Array): void {
  const page = pages[Math.floor(slot / slotsPerPage)]!
  const at = (slot % slotsPerPage) * idBytes
  for (let index = 0; index < idBytes; index += 1) page[at + index] = id[index]!
}

/** Bytes of an id and of its entry in the table, at most; see the class. */
export const idTableBytesPerSlot: number = idBytes + 11

/** A power of two of entries; an entry is a slot plus one, 0 is empty. */
interface Partition {
  slots: Uint32Array
  count: number
}

const slotsPerPage = 65_536
/** Of the first page. */
const slotsMin = 64
const initialPartitionSize = 16
/** Share of entries in use above which a partition grows. */
const maxLoad = 0.7

/** Bytes 1 to 4: byte 0 has chosen the partition, and bytes 6 and 8 hold fixed version bits. */
function hashOf(id: Uint8Array, offset: number): number {
  return (id[offset + 1]! | (id[offset + 2]! << 8) | (id[offset + 3]! << 16) | (id[offset + 4]! << 24)) >>> 0
}

function insertInto(slots: Uint32Array, hash: number, slot: number): void {
  const mask = slots.length - 1
  let position = hash & mask
  while (slots[position] !== 0) position = (position + 1) & mask
  slots[position] = slot + 1
}
