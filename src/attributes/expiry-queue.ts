/**
 * When the points of slots expire, the next one first: a binary heap of (moment, slot) in typed arrays, 12 bytes each, and the
 * position of each slot's entry, 4 bytes a slot in pages that only exist where slots expire.
 */
export class ExpiryQueue {
  #moments = new Float64Array(sizeMin)
  #slots = new Uint32Array(sizeMin)
  /** By slot, in pages: the position in the heap of its entry plus one; 0 for none. */
  readonly #positions: (Uint32Array | undefined)[] = []
  #count = 0

  /** Slots that expire. */
  get count(): number {
    return this.#count
  }

  get memoryBytes(): number {
    const pages = this.#positions.reduce((sum, page) => sum + (page?.byteLength ?? 0), 0)
    return this.#moments.byteLength + this.#slots.byteLength + pages
  }

  /** When the next slot expires, in microseconds; undefined when none does. */
  get next(): number | undefined {
    return this.#count === 0 ? undefined : this.#moments[0]
  }

  /** The slot expires at this moment, and at no other. */
  push(slot: number, expiresAtUs: number): void {
    this.remove(slot)
    this.#makeRoom(slot)
    this.#count += 1
    this.#rise(this.#count - 1, expiresAtUs, slot)
  }

  /** The slot does not expire any more. Idempotent. */
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

  /** A slot that has expired by a moment, which is then removed; undefined when there is none. */
  popDue(nowUs: number): number | undefined {
    if (this.#count === 0 || this.#moments[0]! > nowUs) return undefined
    const slot = this.#slots[0]!
    this.remove(slot)
    return slot
  }

  /** Puts an entry where it belongs, at this position or above. */
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

  /** Puts an entry where it belongs, at this position or below. */
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
