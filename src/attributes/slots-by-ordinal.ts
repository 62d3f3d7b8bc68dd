/** Groups slots by ordinal (counting sort): the caller first counts all slots, then arranges, then adds all slots. */
export class SlotsByOrdinal {
  /** By ordinal: first the number of its slots, then the end of the slots added so far. */
  readonly #ends: Uint32Array
  #slots: Uint32Array = new Uint32Array(0)

  /** @param end one more than the highest ordinal */
  constructor(end: number) {
    this.#ends = new Uint32Array(end)
  }

  /** @throws Error if the ordinal is not below `end` */
  count(ordinal: number): void {
    if (ordinal >= this.#ends.length) throw new Error('a slot refers to a missing text')
    this.#ends[ordinal]! += 1
  }

  /** Must be called once after all slots have been counted. Works in steps. */
  *arrange(): Generator<void, void> {
    let start = 0
    for (let ordinal = 0; ordinal < this.#ends.length; ordinal += 1) {
      const count = this.#ends[ordinal]!
      this.#ends[ordinal] = start
      start += count
      if (ordinal % ordinalsPerStep === ordinalsPerStep - 1) yield
    }
    this.#slots = new Uint32Array(start)
  }

  add(ordinal: number, slot: number): void {
    this.#slots[this.#ends[ordinal]!] = slot
    this.#ends[ordinal]! += 1
  }

  /** Returns the slots of an ordinal in the order in which they were added. All slots must have been added. */
  of(ordinal: number): Uint32Array {
    return this.#slots.subarray(ordinal === 0 ? 0 : this.#ends[ordinal - 1]!, this.#ends[ordinal]!)
  }
}

/** Arranging this many ordinals takes well under a millisecond. */
const ordinalsPerStep = 65_536
