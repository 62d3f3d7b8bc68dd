/**
 * Records the touched slots in order, in a ring in shared memory that keeps the most recent ones. Readers note its
 * position and later ask which slots were touched since.
 *
 *   ├ position, settled (i64) ┼ ring of slots (u32) ────────────────────────┤
 *
 * Only the main thread writes. It notes a slot before it changes anything about the slot, and settles the journal when
 * a request has taken effect, a large one after each change. So a reader on any thread sees the changes of a settled
 * position whole, and whatever it has seen of later ones is noted by the time it looks.
 */
export class ChangeJournal {
  readonly buffer: SharedArrayBuffer
  readonly #length: number
  readonly #words: BigInt64Array
  readonly #slots: Uint32Array

  /** @param of the number of changes to keep; on another thread than the main thread, the buffer of a journal */
  constructor(of: number | SharedArrayBuffer) {
    // The system adds pages to the buffer when they are first written: there can be thousands of small collections.
    this.buffer = typeof of === 'number' ? new SharedArrayBuffer(headBytes + (of + 1) * 4) : of
    this.#length = (this.buffer.byteLength - headBytes) / 4
    this.#words = new BigInt64Array(this.buffer, 0, 2)
    this.#slots = new Uint32Array(this.buffer, headBytes)
  }

  /** The bytes that were written, or will soon be. */
  get memoryBytes(): number {
    return Math.min(this.buffer.byteLength, headBytes + 8 * this.position)
  }

  /** Number of changes so far. */
  get position(): number {
    return Number(Atomics.load(this.#words, positionWord))
  }

  /** The position before the first change of a request that has not taken effect as a whole. */
  get settled(): number {
    return Number(Atomics.load(this.#words, settledWord))
  }

  /** Call before the slot is changed. */
  add(slot: number): void {
    const position = Atomics.load(this.#words, positionWord)
    this.#slots[Number(position) % this.#length] = slot
    Atomics.store(this.#words, positionWord, position + 1n)
  }

  /** Call when a request has taken effect. */
  settle(): void {
    Atomics.store(this.#words, settledWord, Atomics.load(this.#words, positionWord))
  }

  /** Whether all changes since a position are still kept. The ring has one more place, which is being written. */
  reaches(position: number): boolean {
    return this.position - position < this.#length
  }

  /** Returns the slot of a change that is still kept. */
  slotAt(position: number): number {
    return this.#slots[position % this.#length]!
  }

  /** Returns the slots touched since a position, with repetitions; undefined if the journal has overflowed. */
  since(position: number): number[] | undefined {
    if (!this.reaches(position)) return undefined
    const slots = Array.from({ length: this.position - position }, (_, index) =>
      this.slotAt(position + index),
    )
    return this.reaches(position) ? slots : undefined
  }
}

/**
 * A bitmap of a filter may be so many changes old on a thread that cannot evaluate filters: its searches measure the
 * touched slots, each of which takes a microsecond or two. A bitmap from the engine takes 45 to 90 us of the main thread.
 */
export const bitmapChangesMax = 16

const headBytes = 16
const positionWord = 0
const settledWord = 1
