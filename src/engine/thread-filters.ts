import type { SlotBits } from '../index/slot-filter.ts'

/** What a search thread is told of filters. */
export type FilterMessage =
  | { readonly kind: 'filter'; readonly filter: number; readonly words: SharedArrayBuffer }
  | { readonly kind: 'drop-filter'; readonly filter: number }

interface KnownFilter {
  readonly index: number
  /** Queries in the thread's ring that have it. */
  uses: number
}

/**
 * The main thread's record of the filters that one search thread knows. A bitmap is posted once, before the first query
 * that has it; the record of a query only has its number. Those used last are kept.
 */
export class ThreadFilters {
  readonly #tell: (message: FilterMessage) => void
  /** Ascending by their last use. */
  readonly #known = new Map<number, KnownFilter>()

  constructor(tell: (message: FilterMessage) => void) {
    this.#tell = tell
  }

  /** Call before a query of an index goes to the thread. */
  beforeWork(index: number, { id, words }: SlotBits): void {
    const known = this.#known.get(id)
    if (known === undefined) this.#tell({ kind: 'filter', filter: id, words: words.buffer })
    this.#known.delete(id)
    this.#known.set(id, { index, uses: (known?.uses ?? 0) + 1 })
    if (this.#known.size > filtersMax) this.#dropOldest()
  }

  /** Call when the thread is done with a query. */
  afterWork({ id }: SlotBits): void {
    const known = this.#known.get(id)
    if (known !== undefined) known.uses -= 1
  }

  /** The thread is about to drop an index: its filters are of no use any more. */
  detach(index: number): void {
    for (const [id, known] of this.#known) if (known.index === index) this.#drop(id)
  }

  #dropOldest(): void {
    for (const [id, { uses }] of this.#known) {
      if (uses > 0) continue
      this.#drop(id)
      return
    }
  }

  #drop(filter: number): void {
    this.#known.delete(filter)
    this.#tell({ kind: 'drop-filter', filter })
  }
}

/** A thread keeps so many bitmaps, and those of queries in its ring: of ten million slots each takes 1.25 MB, which threads share. */
const filtersMax = 64
