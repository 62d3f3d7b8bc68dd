import { andNotWords, andWords, countWords, hasBit, orWords, slotsOf, wordsFor } from './slot-words.ts'

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

  /** Capacity in slots. */
  get room(): number {
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
