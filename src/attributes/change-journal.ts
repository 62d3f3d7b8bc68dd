/**
 * Records the touched slots in order, in a ring buffer that keeps the most recent ones. Readers note its position and
 * later ask which slots were touched since.
 */
export class ChangeJournal {
  readonly #length: number
  /** Grows with the number of changes, because there can be thousands of small collections. */
  #slots: Uint32Array
  #position = 0

  /** @param length maximum number of changes to keep */
  constructor(length: number) {
    this.#length = length
    this.#slots = new Uint32Array(Math.min(length, lengthMin))
  }

  get memoryBytes(): number {
    return this.#slots.byteLength
  }

  /** Number of changes so far. */
  get position(): number {
    return this.#position
  }

  add(slot: number): void {
    if (this.#position === this.#slots.length && this.#position < this.#length) this.#grow()
    this.#slots[this.#position % this.#slots.length] = slot
    this.#position += 1
  }

  /** Must only be called before any change has been overwritten. */
  #grow(): void {
    const grown = new Uint32Array(Math.min(this.#length, this.#slots.length * 2))
    grown.set(this.#slots)
    this.#slots = grown
  }

  /** Whether all changes since a position are still kept. */
  reaches(position: number): boolean {
    return this.#position - position <= this.#slots.length
  }

  /** Returns the slot of a change that is still kept. */
  slotAt(position: number): number {
    return this.#slots[position % this.#slots.length]!
  }

  /** Returns the slots touched since a position, with repetitions; undefined if the journal has overflowed. */
  since(position: number): number[] | undefined {
    if (!this.reaches(position)) return undefined
    return Array.from({ length: this.#position - position }, (_, index) => this.slotAt(position + index))
  }
}

const lengthMin = 64
