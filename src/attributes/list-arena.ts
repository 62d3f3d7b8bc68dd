import { assert } from '../base/errors.ts'
import type { MemoryCount } from './memory-count.ts'
import { Uint32Pages } from './memory-count.ts'

/**
 * Stores many short lists of 32-bit numbers in one piece of memory. A list is a block of 2^n words: one word with its
 * length and n, then its numbers. Freed blocks are reused for lists of the same size.
 */
export class ListArena {
  readonly #words: Uint32Pages
  /** By n: the first free block; 0 if there is none. The second word of a free block refers to the next free block. */
  readonly #free = new Uint32Array(sizeBitsMax + 1)
  /** Word 0 is unused, so that no block has the place 0. */
  #end = 1

  constructor(memory: MemoryCount) {
    this.#words = new Uint32Pages(memory)
  }

  lengthOf(list: number): number {
    return this.#words.get(list) & lengthMask
  }

  at(list: number, rank: number): number {
    return this.#words.get(list + 1 + rank)
  }

  /** @param numbers must ascend if `insert` will be called for the list */
  create(numbers: ArrayLike<number>): number {
    const list = this.#allocate(Math.max(1, Math.ceil(Math.log2(numbers.length + 1))), numbers.length)
    for (let rank = 0; rank < numbers.length; rank += 1) this.#words.set(list + 1 + rank, numbers[rank]!)
    return list
  }

  /** Adds a number to an ascending list that does not contain it. Returns the list, which may have moved. */
  insert(list: number, value: number): number {
    const length = this.lengthOf(list)
    const sizeBits = this.#words.get(list) >>> lengthBits
    const target = length + 1 < 1 << sizeBits ? list : this.#allocate(sizeBits + 1, length)
    let rank = length
    for (; rank > 0 && this.at(list, rank - 1) > value; rank -= 1) {
      this.#words.set(target + 1 + rank, this.at(list, rank - 1))
    }
    this.#words.set(target + 1 + rank, value)
    if (target !== list) {
      for (let index = 0; index < rank; index += 1) this.#words.set(target + 1 + index, this.at(list, index))
      this.free(list)
    }
    this.#words.set(target, this.#words.get(target) + 1)
    return target
  }

  /** Removes a number that is in the list. */
  remove(list: number, value: number): void {
    const length = this.lengthOf(list)
    let rank = 0
    while (this.at(list, rank) !== value) rank += 1
    for (; rank < length - 1; rank += 1) this.#words.set(list + 1 + rank, this.at(list, rank + 1))
    this.#words.set(list, this.#words.get(list) - 1)
  }

  free(list: number): void {
    this.#release(list, this.#words.get(list) >>> lengthBits)
  }

  #allocate(sizeBits: number, length: number): number {
    assert(sizeBits <= sizeBitsMax, `a list of ${length} numbers is too long`)
    const free = this.#free[sizeBits]!
    if (free !== 0) this.#free[sizeBits] = this.#words.get(free + 1)
    const list = free === 0 ? this.#append(1 << sizeBits) : free
    this.#words.set(list, (sizeBits << lengthBits) | length)
    return list
  }

  #append(size: number): number {
    const list = this.#end
    assert(list + size < placesMax, 'the lists of a collection are full')
    this.#end += size
    this.#words.reserve(this.#end)
    return list
  }

  #release(block: number, sizeBits: number): void {
    this.#words.set(block + 1, this.#free[sizeBits]!)
    this.#free[sizeBits] = block
  }
}

/** The attributes of one point have at most 65,536 values, because each takes two bytes of JSON. */
const sizeBitsMax = 16
const lengthBits = 20
const lengthMask = (1 << lengthBits) - 1
/** Callers store a place in 30 bits. */
const placesMax = 2 ** 30
