/**
 * Numbers for some slots: a column, in pages that exist only where needed. A `Map` would take five times as much per
 * entry, and holds at most 2^24 entries.
 */
export class SlotNumbers {
  readonly #pages: (Page | undefined)[] = []
  #pageCount = 0

  get memoryBytes(): number {
    return this.#pageCount * slotsPerPage * 8
  }

  get(slot: number): number | undefined {
    const number = this.#pages[Math.floor(slot / slotsPerPage)]?.numbers[slot % slotsPerPage]
    return number === undefined || Number.isNaN(number) ? undefined : number
  }

  /**
   * Yields the slots with a number. The column may change meanwhile; numbers that do not change are yielded exactly
   * once.
   */
  *entries(): Generator<readonly [slot: number, number: number], void> {
    for (let at = 0; at < this.#pages.length; at += 1) {
      const numbers = this.#pages[at]?.numbers
      if (numbers === undefined) continue
      for (let index = 0; index < slotsPerPage; index += 1) {
        if (!Number.isNaN(numbers[index])) yield [at * slotsPerPage + index, numbers[index]!]
      }
    }
  }

  /** @param number not NaN */
  set(slot: number, number: number): void {
    const page = this.#pageOf(Math.floor(slot / slotsPerPage))
    if (Number.isNaN(page.numbers[slot % slotsPerPage])) page.count += 1
    page.numbers[slot % slotsPerPage] = number
  }

  delete(slot: number): void {
    const at = Math.floor(slot / slotsPerPage)
    const page = this.#pages[at]
    if (page === undefined || Number.isNaN(page.numbers[slot % slotsPerPage])) return
    page.numbers[slot % slotsPerPage] = Number.NaN
    page.count -= 1
    if (page.count > 0) return
    this.#pages[at] = undefined
    this.#pageCount -= 1
  }

  #pageOf(at: number): Page {
    // Filled without holes, which would make the array slow.
    while (this.#pages.length <= at) this.#pages.push(undefined)
    const existing = this.#pages[at]
    if (existing !== undefined) return existing
    const page = { numbers: new Float64Array(slotsPerPage).fill(Number.NaN), count: 0 }
    this.#pages[at] = page
    this.#pageCount += 1
    return page
  }
}

interface Page {
  /** NaN if the slot has no number. */
  readonly numbers: Float64Array
  count: number
}

/** A page takes 8 KiB. */
const slotsPerPage = 1024
