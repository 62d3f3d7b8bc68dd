import { andNotWords, andWords, countWords, hasBit, orWords, slotsOf, wordsFor } from './slot-words.ts'

/**
 * A set of slots with an exact count: a bitmap in shared memory, written by the main thread and read by search threads.
 * Its room is fixed; slots beyond it are not in the set.
 */
export class SlotSet {
  /** Bit (slot & 31) of word slot >>> 5. */
  readonly words: Uint32Array<SharedArrayBuffer>
  #count = 0

  /** An empty set. */
  constructor(slots: number) {
    this.words = new Uint32Array(new SharedArrayBuffer(wordsFor(slots) * 4))
  }

  /** @param slots the least room */
  static from(words: Uint32Array, slots: number = words.length * 32): SlotSet {
    const set = new SlotSet(Math.max(slots, words.length * 32))
    set.words.set(words)
    set.recount()
    return set
  }

  get count(): number {
    return this.#count
  }

  /** Slots there is room for. */
  get room(): number {
    return this.words.length * 32
  }

  has(slot: number): boolean {
    return hasBit(this.words, slot)
  }

  /** There must be room for the slot. */
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

  /** The slots of `all` that are not in this set. */
  not(all: SlotSet): SlotSet {
    const rest = SlotSet.from(all.words)
    rest.andNot(this)
    return rest
  }

  /** Ascending. */
  [Symbol.iterator](): Generator<number, void> {
    return slotsOf(this.words)
  }

  /** Call when the words were changed. */
  recount(): void {
    this.#count = countWords(this.words)
  }
}
