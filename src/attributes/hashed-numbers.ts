import type { MemoryCount } from './memory-count.ts'

/**
 * Numbers that are found by a hash of what their owner keeps for them: a hash table with open addressing, linear
 * probing and no tombstones. The owner compares what it keeps. A large table is divided into 256 partitions by the
 * highest byte of the hash, so that growing never stalls the event loop. A partition has at most 2^24 entries.
 */
export class HashedNumbers {
  readonly #memory: MemoryCount
  readonly #hashOf: (number: number) => number
  readonly #onEntries: ((entries: Uint32Array, partition: number) => void) | undefined
  #partitions: Partition[]
  #count = 0

  /**
   * @param hashOf returns the hash of a number in the table: 32 bits, not negative
   * @param expected how many numbers will be added soon; the table then need not grow for them
   * @param onEntries called when a partition has other entries; all entries are then in shared memory
   */
  constructor(
    memory: MemoryCount,
    hashOf: (number: number) => number,
    expected = 0,
    onEntries?: (entries: Uint32Array, partition: number) => void,
  ) {
    this.#memory = memory
    this.#hashOf = hashOf
    this.#onEntries = onEntries
    this.#partitions =
      expected > undividedMax
        ? this.#divided(2 ** Math.ceil(Math.log2(expected / partitionCount / maxLoad + 1)))
        : [this.#emptyPartition(sizeMin)]
  }

  get count(): number {
    return this.#count
  }

  /**
   * Returns the entries among which a number with this hash is, from position `hash & (length - 1)` on, up to the next
   * empty entry. An entry is a number plus one; 0 is empty. Valid until the next change.
   */
  entriesOf(hash: number): Uint32Array {
    return this.#partitionOf(hash).entries
  }

  /** The entries of all partitions: one, or 256. */
  get entries(): readonly Uint32Array[] {
    return this.#partitions.map(({ entries }) => entries)
  }

  /** Adds a number that is not in the table. */
  add(number: number, hash: number): void {
    this.#enter(number, hash)
    this.#count += 1
    if (this.#partitions.length === 1 && this.#count > undividedMax) this.#divide()
  }

  /** Removes a number that is in the table. */
  delete(number: number, hash: number): void {
    const partition = this.#partitionOf(hash)
    const { entries } = partition
    const mask = entries.length - 1
    let position = hash & mask
    while (entries[position] !== number + 1) position = (position + 1) & mask
    this.#close(entries, position)
    partition.count -= 1
    this.#count -= 1
  }

  #partitionOf(hash: number): Partition {
    return this.#partitions.length === 1 ? this.#partitions[0]! : this.#partitions[hash >>> 24]!
  }

  #enter(number: number, hash: number): void {
    const partition = this.#partitionOf(hash)
    if (partition.count + 1 > partition.entries.length * maxLoad) {
      this.#grow(partition)
      this.#onEntries?.(partition.entries, this.#partitions.length === 1 ? 0 : hash >>> 24)
    }
    insertInto(partition.entries, hash, number)
    partition.count += 1
  }

  /** Moves later entries of the run back into the hole (Knuth 6.4, algorithm R). */
  #close(entries: Uint32Array, emptied: number): void {
    const mask = entries.length - 1
    let hole = emptied
    let position = (hole + 1) & mask
    while (entries[position] !== 0) {
      const home = this.#hashOf(entries[position]! - 1) & mask
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
    partition.entries = this.#newEntries(old.length * 2)
    this.#memory.add(old.length * 4)
    for (const entry of old) {
      if (entry !== 0) insertInto(partition.entries, this.#hashOf(entry - 1), entry - 1)
    }
  }

  #divide(): void {
    const [whole] = this.#partitions
    this.#partitions = this.#divided(undividedMax / (partitionCount / 2))
    this.#memory.add(-whole!.entries.length * 4)
    for (const entry of whole!.entries) if (entry !== 0) this.#enter(entry - 1, this.#hashOf(entry - 1))
    for (const [at, { entries }] of this.#partitions.entries()) this.#onEntries?.(entries, at)
  }

  #divided(size: number): Partition[] {
    return Array.from({ length: partitionCount }, () => this.#emptyPartition(size))
  }

  #emptyPartition(size: number): Partition {
    this.#memory.add(size * 4)
    return { entries: this.#newEntries(size), count: 0 }
  }

  #newEntries(size: number): Uint32Array {
    if (this.#onEntries === undefined) return new Uint32Array(size)
    return new Uint32Array(new SharedArrayBuffer(size * 4))
  }
}

/** The number of entries is a power of two. */
interface Partition {
  entries: Uint32Array
  count: number
}

function insertInto(entries: Uint32Array, hash: number, number: number): void {
  const mask = entries.length - 1
  let position = hash & mask
  while (entries[position] !== 0) position = (position + 1) & mask
  entries[position] = number + 1
}

const partitionCount = 256
/** The table is divided above this number of entries. Moving this many takes about half a millisecond. */
const undividedMax = 16_384
const sizeMin = 4
/** Share of entries in use above which a partition grows. */
const maxLoad = 0.7
