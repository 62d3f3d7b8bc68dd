/** Sorts slots by their ordinals: first all are counted, then added, in the same order. */
export class SlotsByOrdinal {
  /** By ordinal: at first its slots, then where they end that have been added. */
  readonly #ends: Uint32Array
  #slots: Uint32Array = new Uint32Array(0)

  /** @param end above all ordinals */
  constructor(end: number) {
    this.#ends = new Uint32Array(end)
  }

  /** @throws Error for an ordinal beyond the end */
  count(ordinal: number): void {
    if (ordinal >= this.#ends.length) throw new Error('a slot has a text that is not there')
    this.#ends[ordinal]! += 1
  }

  /** When all have been counted, in steps. */
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

  /** The slots of an ordinal, in the order in which they were added, when all have been. */
  of(ordinal: number): Uint32Array {
    return this.#slots.subarray(ordinal === 0 ? 0 : this.#ends[ordinal - 1]!, this.#ends[ordinal]!)
  }
}

/** Well under a millisecond. */
const ordinalsPerStep = 65_536
