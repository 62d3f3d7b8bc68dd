import { columnFilter } from '../kernels/column-filter.ts'

// Bitmaps over slots as plain words: a slot is bit (slot & 31) of word slot >>> 5. If two bitmaps differ in length, the
// missing words of the shorter one count as empty.

/** Returns the number of words of a bitmap for this many slots: a multiple of 32, so that growing is rare. */
export function wordsFor(slots: number): number {
  return Math.ceil(slots / slotStep) * (slotStep / 32)
}

const slotStep = 1024

/** Returns the number of bits set in a word. */
function countBits(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const nibbles = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((nibbles + (nibbles >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}

/** Whether at least `min` bits of the words [from, to) are set. */
export function hasMany(words: Uint32Array, from: number, to: number, min: number): boolean {
  let wanted = 0
  for (let word = from; word < to && wanted < min; word += 1) wanted += countBits(words[word] ?? 0)
  return wanted >= min
}

export function countWords(words: Uint32Array): number {
  return columnFilter.count(words)
}

/** target |= other, starting at word `at` of the target. Ignores words beyond its end. */
export function orWords(target: Uint32Array, other: Uint32Array, at = 0): void {
  const end = Math.min(other.length, target.length - at)
  for (let index = 0; index < end; index += 1) target[at + index]! |= other[index]!
}

/** target |= the first `count` words of a block, starting at word `at` of the target, which must be long enough. */
export function orBlock(target: Uint32Array, block: Uint32Array, at: number, count: number): void {
  for (let index = 0; index < count; index += 1) target[at + index]! |= block[index]!
}

/** target &= other */
export function andWords(target: Uint32Array, other: Uint32Array): void {
  const end = Math.min(target.length, other.length)
  for (let index = 0; index < end; index += 1) target[index]! &= other[index]!
  target.fill(0, end)
}

/** target &= ~other */
export function andNotWords(target: Uint32Array, other: Uint32Array): void {
  const end = Math.min(target.length, other.length)
  for (let index = 0; index < end; index += 1) target[index]! &= ~other[index]!
}

/** Yields the slots of a bitmap in ascending order. */
export function* slotsOf(words: Uint32Array): Generator<number, void> {
  for (let index = 0; index < words.length; index += 1) {
    for (let word = words[index]!; word !== 0; word &= word - 1) {
      yield index * 32 + 31 - Math.clz32(word & -word)
    }
  }
}

export function hasBit(words: Uint32Array, slot: number): boolean {
  const word = words[slot >>> 5]
  return word !== undefined && ((word >>> (slot & 31)) & 1) === 1
}

/** Ignores slots beyond the end of the bitmap. */
export function setBit(words: Uint32Array, slot: number): void {
  const at = slot >>> 5
  if (at < words.length) words[at]! |= 1 << (slot & 31)
}

/** Sets the bits of the first `count` slots of an ascending list, from word `at` on. Ignores slots beyond the end. */
export function setBits(
  words: Uint32Array,
  slots: Uint32Array | Uint16Array,
  count: number,
  at: number = 0,
): void {
  const room = words.length
  for (let rank = 0; rank < count; rank += 1) {
    const slot = slots[rank]!
    const word = at + (slot >>> 5)
    if (word >= room) return
    words[word]! |= 1 << (slot & 31)
  }
}

export function clearBit(words: Uint32Array, slot: number): void {
  const at = slot >>> 5
  if (at < words.length) words[at]! &= ~(1 << (slot & 31))
}

/**
 * A set of slots with an exact count: a bitmap in shared memory that the main thread writes and search threads read.
 * Its capacity is fixed. Slots beyond it are not in the set.
 */
export class SlotSet {
  /** Bit (slot & 31) of word slot >>> 5. */
  readonly words: Uint32Array<SharedArrayBuffer>
  #count = 0

  /** Creates an empty set. */
  constructor(slots: number) {
    this.words = new Uint32Array(new SharedArrayBuffer(wordsFor(slots) * 4))
  }

  /** @param slots the minimum capacity */
  static from(words: Uint32Array, slots: number = words.length * 32): SlotSet {
    const set = new SlotSet(Math.max(slots, words.length * 32))
    set.words.set(words)
    set.recount()
    return set
  }

  get count(): number {
    return this.#count
  }

  /** In slots. */
  get capacity(): number {
    return this.words.length * 32
  }

  has(slot: number): boolean {
    return hasBit(this.words, slot)
  }

  /** The slot must be within the capacity. */
  set(slot: number): void {
    const at = slot >>> 5
    const bit = 1 << (slot & 31)
    if ((this.words[at]! & bit) !== 0) return
    this.words[at]! |= bit
    this.#count += 1
  }

  clear(slot: number): void {
    if (!this.has(slot)) return
    this.words[slot >>> 5]! &= ~(1 << (slot & 31))
    this.#count -= 1
  }

  or(other: SlotSet): void {
    orWords(this.words, other.words)
    this.recount()
  }

  and(other: SlotSet): void {
    andWords(this.words, other.words)
    this.recount()
  }

  andNot(other: SlotSet): void {
    andNotWords(this.words, other.words)
    this.recount()
  }

  /** Returns the slots of `all` that are not in this set. */
  not(all: SlotSet): SlotSet {
    const rest = SlotSet.from(all.words)
    rest.andNot(this)
    return rest
  }

  /** Iterates in ascending order. */
  [Symbol.iterator](): Generator<number, void> {
    return slotsOf(this.words)
  }

  /** Must be called after `words` was changed directly. */
  recount(): void {
    this.#count = countWords(this.words)
  }
}
