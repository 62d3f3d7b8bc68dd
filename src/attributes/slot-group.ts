import type { MemoryCount } from './memory-count.ts'
import { countWords, orWords, setBit, setBits, slotsOf } from './slot-words.ts'

/**
 * A set of slots that changes often and takes little memory, as in Roaring bitmaps: a sorted list while it is small, then a
 * chunk for each 65,536 slots, which is a sorted list of 16-bit numbers up to 4,096 and a bitmap beyond.
 *
 * Lists of a small set span all slots: a chunk costs about 200 bytes beside its slots, too much for a few of them.
 */
export class SlotGroup {
  readonly #memory: MemoryCount
  #count = 0
  /** Ascending; undefined when there are chunks. */
  #few: Uint32Array | undefined
  #chunks: (Chunk | undefined)[] = []

  constructor(memory: MemoryCount) {
    this.#memory = memory
    this.#few = new Uint32Array(fewMin)
    memory.add(groupBytes + fewMin * 4)
  }

  get count(): number {
    return this.#count
  }

  has(slot: number): boolean {
    if (this.#few === undefined) return this.#chunks[slot >>> chunkBits]?.has(slot & chunkMask) ?? false
    const rank = this.#rank(slot)
    return rank < this.#count && this.#few[rank] === slot
  }

  add(slot: number): void {
    if (this.has(slot)) return
    if (this.#few !== undefined && this.#count === fewMax) this.#divide()
    if (this.#few !== undefined) this.#addToFew(slot)
    else this.#addToChunk(slot)
    this.#count += 1
  }

  delete(slot: number): void {
    if (!this.has(slot)) return
    if (this.#few !== undefined) this.#few.copyWithin(this.#rank(slot), this.#rank(slot) + 1, this.#count)
    else this.#deleteFromChunk(slot)
    this.#count -= 1
  }

  /** Sets the bits of all slots. */
  orInto(words: Uint32Array): void {
    if (this.#few !== undefined) setBits(words, this.#few, this.#count)
    for (let index = 0; index < this.#chunks.length; index += 1) {
      this.#chunks[index]?.orInto(words, index * (chunkLength / 32))
    }
  }

  /** Ascending. The group may change between two slots: those that are not touched come exactly once. */
  *[Symbol.iterator](): Generator<number, void> {
    if (this.#few !== undefined) return yield* this.#few.slice(0, this.#count)
    for (let index = 0; index < this.#chunks.length; index += 1) {
      const words = new Uint32Array(chunkLength / 32)
      this.#chunks[index]?.orInto(words, 0)
      for (const local of slotsOf(words)) yield index * chunkLength + local
    }
  }

  /** The group is not used any more. */
  release(): void {
    const few = (this.#few?.length ?? 0) * 4
    const chunks = this.#chunks.reduce((sum, chunk) => sum + (chunk?.bytes ?? 0), 0)
    this.#memory.add(-(groupBytes + few + chunks))
  }

  /** Slots in `few` below this one. */
  #rank(slot: number): number {
    return rankIn(this.#few!, this.#count, slot)
  }

  #addToFew(slot: number): void {
    const few = this.#few!
    const rank = this.#rank(slot)
    const target = this.#count < few.length ? few : new Uint32Array(few.length * 2)
    if (target !== few) {
      target.set(few)
      this.#memory.add((target.length - few.length) * 4)
      this.#few = target
    }
    target.copyWithin(rank + 1, rank, this.#count)
    target[rank] = slot
  }

  #divide(): void {
    const few = this.#few!
    this.#few = undefined
    this.#memory.add(-few.length * 4)
    for (let rank = 0; rank < this.#count; rank += 1) this.#addToChunk(few[rank]!)
  }

  #addToChunk(slot: number): void {
    const index = slot >>> chunkBits
    while (this.#chunks.length <= index) this.#chunks.push(undefined)
    this.#chunks[index] ??= new Chunk()
    const chunk = this.#chunks[index]
    const before = chunk.count === 0 ? 0 : chunk.bytes
    chunk.add(slot & chunkMask)
    this.#memory.add(chunk.bytes - before)
  }

  #deleteFromChunk(slot: number): void {
    const index = slot >>> chunkBits
    const chunk = this.#chunks[index]!
    const before = chunk.bytes
    chunk.delete(slot & chunkMask)
    if (chunk.count === 0) this.#chunks[index] = undefined
    this.#memory.add((chunk.count === 0 ? 0 : chunk.bytes) - before)
  }
}

/** 65,536 slots, by their lower 16 bits. */
class Chunk {
  count = 0
  #list: Uint16Array | undefined = new Uint16Array(listMin)
  #bitmap: Uint32Array | undefined

  get bytes(): number {
    return chunkBytes + (this.#list?.byteLength ?? 0) + (this.#bitmap?.byteLength ?? 0)
  }

  has(local: number): boolean {
    if (this.#bitmap !== undefined) return ((this.#bitmap[local >>> 5]! >>> (local & 31)) & 1) === 1
    const rank = rankIn(this.#list!, this.count, local)
    return rank < this.count && this.#list![rank] === local
  }

  /** It must not be there. */
  add(local: number): void {
    if (this.#list !== undefined && this.count === listMax) this.#toBitmap()
    if (this.#bitmap !== undefined) setBit(this.#bitmap, local)
    else this.#addToList(local)
    this.count += 1
  }

  /** It must be there. */
  delete(local: number): void {
    if (this.#bitmap !== undefined) this.#bitmap[local >>> 5]! &= ~(1 << (local & 31))
    else {
      const rank = rankIn(this.#list!, this.count, local)
      this.#list!.copyWithin(rank, rank + 1, this.count)
    }
    this.count -= 1
    if (this.#bitmap !== undefined && this.count <= listMax / 2) this.#toList(this.#bitmap)
  }

  orInto(words: Uint32Array, at: number): void {
    if (this.#bitmap !== undefined) orWords(words, this.#bitmap, at)
    const list = this.#list
    if (list === undefined) return
    setBits(words, list, this.count, at)
  }

  #addToList(local: number): void {
    const list = this.#list!
    const rank = rankIn(list, this.count, local)
    const target = this.count < list.length ? list : new Uint16Array(list.length * 2)
    if (target !== list) target.set(list)
    target.copyWithin(rank + 1, rank, this.count)
    target[rank] = local
    this.#list = target
  }

  #toBitmap(): void {
    this.#bitmap = new Uint32Array(chunkLength / 32)
    for (let rank = 0; rank < this.count; rank += 1) setBit(this.#bitmap, this.#list![rank]!)
    this.#list = undefined
  }

  /** Only at half of the bound, so that a slot that comes and goes does not convert it each time. */
  #toList(bitmap: Uint32Array): void {
    this.#list = new Uint16Array(2 ** Math.ceil(Math.log2(countWords(bitmap) + 1)))
    this.#list.set([...slotsOf(bitmap)])
    this.#bitmap = undefined
  }
}

/** How many of the first `count` numbers, ascending, are below `value`. */
function rankIn(list: Uint16Array | Uint32Array, count: number, value: number): number {
  if (count === 0 || list[count - 1]! < value) return count
  let low = 0
  let high = count - 1
  while (low < high) {
    const middle = (low + high) >>> 1
    if (list[middle]! < value) low = middle + 1
    else high = middle
  }
  return low
}

const chunkBits = 16
const chunkLength = 1 << chunkBits
const chunkMask = chunkLength - 1
/** More would take more than a bitmap. */
const listMax = 4096
const listMin = 4
/** At ten million slots about seven a chunk. */
const fewMax = 1024
const fewMin = 2
/** Of the objects, as V8 allocates them. */
const groupBytes = 160
const chunkBytes = 200
