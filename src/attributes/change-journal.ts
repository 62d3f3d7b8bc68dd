/**
 * The slots that were touched, in order: a ring that keeps the last ones. Readers note its position, and later ask which slots
 * were touched since.
 */
export class ChangeJournal {
  readonly #length: number
  /** As long as there were changes: there can be thousands of small collections. */
  #slots: Uint32Array
  #position = 0

  /** @param length changes that are kept */
  constructor(length: number) {
    this.#length = length
    this.#slots = new Uint32Array(Math.min(length, lengthMin))
  }

  get memoryBytes(): number {
    return this.#slots.byteLength
  }

  /** Changes so far. */
  get position(): number {
    return this.#position
  }

  add(slot: number): void {
    if (this.#position === this.#slots.length && this.#position < this.#length) this.#grow()
    this.#slots[this.#position % this.#slots.length] = slot
    this.#position += 1
  }

  /** While nothing was overwritten. */
  #grow(): void {
    const grown = new Uint32Array(Math.min(this.#length, this.#slots.length * 2))
    grown.set(this.#slots)
    this.#slots = grown
  }

  /** Whether all changes since a position are still kept. */
  reaches(position: number): boolean {
    return this.#position - position <= this.#slots.length
  }

  /** The slot of a change that is still kept. */
  slotAt(position: number): number {
    return this.#slots[position % this.#slots.length]!
  }

  /** The slots touched since a position, each as often as it was; undefined when the ring has run over. */
  since(position: number): number[] | undefined {
    if (!this.reaches(position)) return undefined
    return Array.from({ length: this.#position - position }, (_, index) => this.slotAt(position + index))
  }
}

const lengthMin = 64
