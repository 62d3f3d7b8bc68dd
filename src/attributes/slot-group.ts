import type { MemoryCount } from './memory-count.ts'
import { asBuffer, bytesAfter, filled, type LeftOut, type Piece } from './pieces.ts'
import { countWords, orWords, setBit, setBits, slotsOf } from './slot-words.ts'

/**
 * A compact set of slots that changes often, built like a Roaring bitmap. A small set is one sorted list. A larger set
 * has a chunk for each 65,536 slots: a sorted list of 16-bit numbers up to 4,096 slots, and a bitmap beyond.
 *
 * A small set has no chunks because a chunk costs about 200 bytes in addition to its slots.
 */
export class SlotGroup {
  readonly #memory: MemoryCount
  #count = 0
  /** Ascending; undefined once there are chunks. */
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

  /** Sets the bits of all slots in the set. */
  orInto(words: Uint32Array): void {
    if (this.#few !== undefined) setBits(words, this.#few, this.#count)
    for (let index = 0; index < this.#chunks.length; index += 1) {
      this.#chunks[index]?.orInto(words, index * (chunkLength / 32))
    }
  }

  /** Iterates in ascending order. The group may change meanwhile; untouched slots occur exactly once. */
  *[Symbol.iterator](): Generator<number, void> {
    if (this.#few !== undefined) return yield* this.#few.slice(0, this.#count)
    for (let index = 0; index < this.#chunks.length; index += 1) {
      const words = new Uint32Array(chunkLength / 32)
      this.#chunks[index]?.orInto(words, 0)
      for (const local of slotsOf(words)) yield index * chunkLength + local
    }
  }

  /** Yields the slots as pieces of a file. The group may change between pieces; untouched slots occur exactly once. */
  *pieces(): Generator<Piece, void> {
    if (this.#few !== undefined) {
      if (this.#count > 0) yield { form: 'slots', bytes: bytesAfter([], this.#few.subarray(0, this.#count)) }
      return
    }
    for (let index = 0; index < this.#chunks.length; index += 1) {
      const piece = this.#chunks[index]?.piece(index)
      if (piece !== undefined) yield piece
    }
  }

  /** Adds the slots of a piece. The group must not contain any of them. */
  load({ form, bytes }: Piece, leftOut: LeftOut): void {
    if (form === 'slots') {
      for (const slot of filled(new Uint32Array(bytes.length / 4), bytes)) {
        if (!leftOut.has(slot)) this.add(slot)
      }
      return
    }
    const index = asBuffer(bytes).readUInt32LE(0)
    this.#addWhole(index, Chunk.from({ form, bytes: bytes.subarray(4) }))
    for (const slot of leftOut.inPart(index)) this.delete(slot)
  }

  /** Fills an empty group with ascending slots, one step a chunk. */
  *fill(slots: Uint32Array): Generator<void, void> {
    if (slots.length <= fewMax) {
      const few = new Uint32Array(roomFor(slots.length, fewMin))
      few.set(slots)
      this.#memory.add((few.length - this.#few!.length) * 4)
      this.#few = few
      this.#count = slots.length
      return
    }
    for (let from = 0; from < slots.length; yield) {
      const index = slots[from]! >>> chunkBits
      let to = from + 1
      while (to < slots.length && slots[to]! >>> chunkBits === index) to += 1
      this.#addWhole(index, Chunk.of(slots.subarray(from, to)))
      from = to
    }
  }

  #addWhole(index: number, chunk: Chunk): void {
    if (this.#few !== undefined) this.#divide()
    while (this.#chunks.length <= index) this.#chunks.push(undefined)
    if (this.#chunks[index] !== undefined) throw new Error('a group contains the same slots twice')
    if (chunk.count === 0) return
    this.#chunks[index] = chunk
    this.#count += chunk.count
    this.#memory.add(chunk.bytes)
  }

  /** Subtracts the group from the memory count. The group must not be used afterwards. */
  release(): void {
    const few = (this.#few?.length ?? 0) * 4
    const chunks = this.#chunks.reduce((sum, chunk) => sum + (chunk?.bytes ?? 0), 0)
    this.#memory.add(-(groupBytes + few + chunks))
  }

  /** Returns the number of slots in `#few` below this one. */
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

/** A set of slots among 65,536, identified by their lower 16 bits. */
class Chunk {
  count = 0
  #list: Uint16Array | undefined = new Uint16Array(listMin)
  #bitmap: Uint32Array | undefined

  /** Creates a chunk from the lower 16 bits of ascending slots. */
  static of(slots: Uint32Array): Chunk {
    const chunk = new Chunk()
    chunk.count = slots.length
    if (slots.length <= listMax) {
      chunk.#list = new Uint16Array(roomFor(slots.length, listMin))
      chunk.#list.set(slots)
      return chunk
    }
    chunk.#list = undefined
    chunk.#bitmap = new Uint32Array(chunkLength / 32)
    for (const slot of slots) setBit(chunk.#bitmap, slot & chunkMask)
    return chunk
  }

  static from({ form, bytes }: Piece): Chunk {
    if (form === 'list') return Chunk.of(Uint32Array.from(filled(new Uint16Array(bytes.length / 2), bytes)))
    const chunk = new Chunk()
    chunk.#list = undefined
    chunk.#bitmap = filled(new Uint32Array(chunkLength / 32), bytes)
    chunk.count = countWords(chunk.#bitmap)
    return chunk
  }

  piece(index: number): Piece {
    if (this.#bitmap !== undefined) return { form: 'bitmap', bytes: bytesAfter([index], this.#bitmap) }
    return { form: 'list', bytes: bytesAfter([index], this.#list!.subarray(0, this.count)) }
  }

  get bytes(): number {
    return chunkBytes + (this.#list?.byteLength ?? 0) + (this.#bitmap?.byteLength ?? 0)
  }

  has(local: number): boolean {
    if (this.#bitmap !== undefined) return ((this.#bitmap[local >>> 5]! >>> (local & 31)) & 1) === 1
    const rank = rankIn(this.#list!, this.count, local)
    return rank < this.count && this.#list![rank] === local
  }

  /** The chunk must not contain the slot. */
  add(local: number): void {
    if (this.#list !== undefined && this.count === listMax) this.#toBitmap()
    if (this.#bitmap !== undefined) setBit(this.#bitmap, local)
    else this.#addToList(local)
    this.count += 1
  }

  /** The chunk must contain the slot. */
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

  /** Called only at half of `listMax`, so that repeatedly adding and removing one slot does not convert each time. */
  #toList(bitmap: Uint32Array): void {
    this.#list = new Uint16Array(2 ** Math.ceil(Math.log2(countWords(bitmap) + 1)))
    this.#list.set([...slotsOf(bitmap)])
    this.#bitmap = undefined
  }
}

/** Returns the smallest power of two that is at least `count` and at least `least`. */
function roomFor(count: number, least: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(count, least)))
}

/** Returns how many of the first `count` numbers of an ascending list are below `value`. */
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
/** A longer list would take more memory than a bitmap. */
const listMax = 4096
const listMin = 4
/** With ten million slots, about seven slots a chunk. */
const fewMax = 1024
const fewMin = 2
/** Size of the objects as V8 allocates them. */
const groupBytes = 160
const chunkBytes = 200
