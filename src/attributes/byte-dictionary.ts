import { ByteArena } from './byte-arena.ts'
import { hashBytes } from './hash-bytes.ts'
import type { MemoryCount } from './memory-count.ts'
import { type Piece, RecordReader, recordPieces } from './pieces.ts'
import { Uint32Pages } from './uint32-pages.ts'

/**
 * Stores distinct byte strings and numbers them from 0. These ordinals are reused after a value is removed. A hash
 * table of ordinals finds a value. A large table is divided into partitions, so that growing never stalls the event
 * loop. No string or object is kept for a value.
 */
export class ByteDictionary {
  readonly #memory: MemoryCount
  readonly #arena: ByteArena
  /** By ordinal: the place of its value. For a free ordinal: the next free ordinal plus one. */
  readonly #places: Uint32Pages
  readonly #hashes: Uint32Pages
  /** One bit for each ordinal: whether it has a value. */
  readonly #used: Uint32Pages
  /** Either one partition, or 256, indexed by the highest byte of the hash. */
  #partitions: Partition[]
  #end = 0
  #count = 0
  /** A free ordinal plus one; 0 for none. */
  #free = 0

  constructor(memory: MemoryCount) {
    this.#memory = memory
    this.#places = new Uint32Pages(memory)
    this.#hashes = new Uint32Pages(memory)
    this.#used = new Uint32Pages(memory)
    this.#arena = new ByteArena(memory, (ordinal, place) => this.#places.set(ordinal, place))
    this.#partitions = [this.#emptyPartition(sizeMin)]
    memory.add(dictionaryBytes)
  }

  get count(): number {
    return this.#count
  }

  /** One more than the highest ordinal ever used. */
  get end(): number {
    return this.#end
  }

  isUsed(ordinal: number): boolean {
    return ((this.#used.get(ordinal >>> 5) >>> (ordinal & 31)) & 1) === 1
  }

  /** Returns the ordinal of a value; -1 if it is unknown. */
  find(value: Uint8Array, hash: number = hashBytes(value)): number {
    const { entries } = this.#partitionOf(hash)
    return entries[this.#position(entries, value, hash)]! - 1
  }

  /** Returns the ordinal of a value. Adds the value if it is new. */
  add(value: Uint8Array): number {
    const hash = hashBytes(value)
    const found = this.find(value, hash)
    if (found !== -1) return found
    const ordinal = this.#takeOrdinal()
    this.#fill(ordinal, value, hash)
    return ordinal
  }

  #load(ordinal: number, value: Uint8Array): void {
    if (ordinal < this.#end && this.isUsed(ordinal)) throw new Error(`ordinal ${ordinal} has two values`)
    this.#extend(Math.max(this.#end, ordinal + 1))
    this.#fill(ordinal, value, hashBytes(value))
  }

  /** Makes an ordinal without a value available for reuse. */
  release(ordinal: number): void {
    this.#places.set(ordinal, this.#free)
    this.#free = ordinal + 1
  }

  delete(ordinal: number): void {
    const partition = this.#partitionOf(this.#hashes.get(ordinal))
    this.#close(partition.entries, this.#positionOf(partition.entries, ordinal))
    partition.count -= 1
    this.#count -= 1
    this.#arena.free(this.#places.get(ordinal))
    this.#used.set(ordinal >>> 5, this.#used.get(ordinal >>> 5) & ~(1 << (ordinal & 31)))
    this.release(ordinal)
  }

  /** Yields the values as pieces of a file. Values may be added or removed meanwhile; the others occur exactly once. */
  *pieces(written: (value: Uint8Array) => Uint8Array = (value) => value): Generator<Piece, void> {
    yield* recordPieces('values', this.#usedOrdinals(), (ordinal, records) => {
      records.u32(ordinal)
      records.padded(written(this.read(ordinal)))
    })
  }

  *#usedOrdinals(): Generator<number, void> {
    for (let ordinal = 0; ordinal < this.#end; ordinal += 1) if (this.isUsed(ordinal)) yield ordinal
  }

  /** Loads the values of a piece. After the last piece, the caller must `release` the ordinals without a value. */
  load({ bytes }: Piece): void {
    const records = new RecordReader(bytes)
    while (!records.isAtEnd) this.#load(records.u32(), records.padded())
  }

  /** Returns the bytes of a value. Valid until the next change. */
  read(ordinal: number): Uint8Array {
    return this.#arena.read(this.#places.get(ordinal))
  }

  hashOf(ordinal: number): number {
    return this.#hashes.get(ordinal)
  }

  equals(ordinal: number, value: Uint8Array): boolean {
    return this.#arena.equals(this.#places.get(ordinal), value)
  }

  #takeOrdinal(): number {
    if (this.#free === 0) {
      this.#extend(this.#end + 1)
      return this.#end - 1
    }
    const ordinal = this.#free - 1
    this.#free = this.#places.get(ordinal)
    return ordinal
  }

  #extend(end: number): void {
    this.#end = end
    this.#places.reserve(end)
    this.#hashes.reserve(end)
    this.#used.reserve((end + 31) >>> 5)
  }

  #fill(ordinal: number, value: Uint8Array, hash: number): void {
    this.#places.set(ordinal, this.#arena.add(ordinal, value))
    this.#hashes.set(ordinal, hash)
    this.#used.set(ordinal >>> 5, this.#used.get(ordinal >>> 5) | (1 << (ordinal & 31)))
    this.#enter(ordinal, hash)
    this.#count += 1
    if (this.#partitions.length === 1 && this.#count > undividedMax) this.#divide()
  }

  #partitionOf(hash: number): Partition {
    return this.#partitions.length === 1 ? this.#partitions[0]! : this.#partitions[hash >>> 24]!
  }

  #enter(ordinal: number, hash: number): void {
    const partition = this.#partitionOf(hash)
    if (partition.count + 1 > partition.entries.length * maxLoad) this.#grow(partition)
    insertInto(partition.entries, hash, ordinal)
    partition.count += 1
  }

  #position(entries: Uint32Array, value: Uint8Array, hash: number): number {
    const mask = entries.length - 1
    let position = hash & mask
    for (let entry = entries[position]!; entry !== 0; entry = entries[position]!) {
      if (this.#hashes.get(entry - 1) === hash && this.equals(entry - 1, value)) return position
      position = (position + 1) & mask
    }
    return position
  }

  #positionOf(entries: Uint32Array, ordinal: number): number {
    const mask = entries.length - 1
    let position = this.#hashes.get(ordinal) & mask
    while (entries[position] !== ordinal + 1) position = (position + 1) & mask
    return position
  }

  /** Moves later entries of the run back into the hole (Knuth 6.4, algorithm R), so that no tombstones are needed. */
  #close(entries: Uint32Array, emptied: number): void {
    const mask = entries.length - 1
    let hole = emptied
    let position = (hole + 1) & mask
    while (entries[position] !== 0) {
      const home = this.#hashes.get(entries[position]! - 1) & mask
      if (((position - home) & mask) >= ((position - hole) & mask)) {
        entries[hole] = entries[position]!
        hole = position
      }
      position = (position + 1) & mask
    }
    entries[hole] = 0
  }

  #grow(partition: Partition): void {
    const old = partition.entries
    partition.entries = new Uint32Array(old.length * 2)
    this.#memory.add(old.length * 4)
    for (const entry of old) {
      if (entry !== 0) insertInto(partition.entries, this.#hashes.get(entry - 1), entry - 1)
    }
  }

  #divide(): void {
    const [whole] = this.#partitions
    this.#partitions = Array.from({ length: 256 }, () => this.#emptyPartition(undividedMax / 64))
    this.#memory.add(-whole!.entries.length * 4)
    for (const entry of whole!.entries) if (entry !== 0) this.#enter(entry - 1, this.#hashes.get(entry - 1))
  }

  #emptyPartition(size: number): Partition {
    this.#memory.add(size * 4)
    return { entries: new Uint32Array(size), count: 0 }
  }
}

/** The number of entries is a power of two. An entry is an ordinal plus one; 0 means empty. */
interface Partition {
  entries: Uint32Array
  count: number
}

function insertInto(entries: Uint32Array, hash: number, ordinal: number): void {
  const mask = entries.length - 1
  let position = hash & mask
  while (entries[position] !== 0) position = (position + 1) & mask
  entries[position] = ordinal + 1
}

/** The table is divided above this number of entries. Moving this many takes about half a millisecond. */
const undividedMax = 16_384
const sizeMin = 4
const maxLoad = 0.7
/** Size of the objects as V8 allocates them. */
const dictionaryBytes = 800
