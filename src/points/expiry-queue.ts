/**
 * A priority queue of expiring slots, soonest first. A binary heap holds (moment, slot) in typed arrays, 12 bytes an
 * entry. Pages hold the heap position of each slot, 4 bytes a slot; a page exists only if it was ever needed.
 */
export class ExpiryQueue {
  #moments = new Float64Array(sizeMin)
  #slots = new Uint32Array(sizeMin)
  /** By slot, in pages: the heap position of its entry plus one; 0 if it has none. */
  readonly #positions: (Uint32Array | undefined)[] = []
  #count = 0

  /** Number of slots that expire. */
  get count(): number {
    return this.#count
  }

  get memoryBytes(): number {
    const pages = this.#positions.reduce((sum, page) => sum + (page?.byteLength ?? 0), 0)
    return this.#moments.byteLength + this.#slots.byteLength + pages
  }

  /** When the next slot expires, in microseconds; undefined if none does. */
  get next(): number | undefined {
    return this.#count === 0 ? undefined : this.#moments[0]
  }

  /** Sets when a slot expires, replacing any earlier time. */
  push(slot: number, expiresAtUs: number): void {
    this.remove(slot)
    this.#makeRoom(slot)
    this.#count += 1
    this.#rise(this.#count - 1, expiresAtUs, slot)
  }

  /** Removes a slot from the queue. Idempotent. */
  remove(slot: number): void {
    const page = this.#positions[slot >>> pageBits]
    const position = (page?.[slot & pageMask] ?? 0) - 1
    if (page === undefined || position === -1) return
    page[slot & pageMask] = 0
    this.#count -= 1
    if (position === this.#count) return
    const moment = this.#moments[this.#count]!
    const moved = this.#slots[this.#count]!
    if (position > 0 && this.#moments[(position - 1) >> 1]! > moment) this.#rise(position, moment, moved)
    else this.#sink(position, moment, moved)
  }

  /** Removes and returns the first slot that has expired at a given time; undefined if none has. */
  popDue(nowUs: number): number | undefined {
    if (this.#count === 0 || this.#moments[0]! > nowUs) return undefined
    const slot = this.#slots[0]!
    this.remove(slot)
    return slot
  }

  /** Moves an entry up from this position to where it belongs. */
  #rise(from: number, moment: number, slot: number): void {
    let position = from
    while (position > 0) {
      const parent = (position - 1) >> 1
      if (this.#moments[parent]! <= moment) break
      this.#place(position, this.#moments[parent]!, this.#slots[parent]!)
      position = parent
    }
    this.#place(position, moment, slot)
  }

  /** Moves an entry down from this position to where it belongs. */
  #sink(from: number, moment: number, slot: number): void {
    let position = from
    for (let child = position * 2 + 1; child < this.#count; child = position * 2 + 1) {
      const sooner =
        child + 1 < this.#count && this.#moments[child + 1]! < this.#moments[child]! ? child + 1 : child
      if (this.#moments[sooner]! >= moment) break
      this.#place(position, this.#moments[sooner]!, this.#slots[sooner]!)
      position = sooner
    }
    this.#place(position, moment, slot)
  }

  #place(position: number, moment: number, slot: number): void {
    this.#moments[position] = moment
    this.#slots[position] = slot
    this.#positions[slot >>> pageBits]![slot & pageMask] = position + 1
  }

  #makeRoom(slot: number): void {
    if (this.#count === this.#slots.length) {
      this.#moments = grown(this.#moments, new Float64Array(this.#count * 2))
      this.#slots = grown(this.#slots, new Uint32Array(this.#count * 2))
    }
    const page = slot >>> pageBits
    while (this.#positions.length <= page) this.#positions.push(undefined)
    this.#positions[page] ??= new Uint32Array(pageLength)
  }
}

function grown<Numbers extends Float64Array | Uint32Array>(old: Numbers, target: Numbers): Numbers {
  target.set(old)
  return target
}

const sizeMin = 16
const pageBits = 12
const pageLength = 1 << pageBits
const pageMask = pageLength - 1
