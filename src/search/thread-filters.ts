import type { SlotBits } from '../index/slot-filter.ts'

/** The messages about filters to a search thread. */
export type FilterMessage =
  | { readonly kind: 'filter'; readonly filter: number; readonly words: SharedArrayBuffer }
  | { readonly kind: 'drop-filter'; readonly filter: number }

interface KnownFilter {
  readonly index: number
  /** The number of queries with the filter in the thread's ring. */
  uses: number
}

/**
 * The main thread's record of the filters that one search thread has received. A bitmap is posted once, before the
 * first query that uses it; a query's record contains only its number. The most recently used filters are kept.
 */
export class ThreadFilters {
  readonly #post: (message: FilterMessage) => void
  /** In the order of last use, the oldest first. */
  readonly #known = new Map<number, KnownFilter>()

  constructor(post: (message: FilterMessage) => void) {
    this.#post = post
  }

  /** Call before a query of an index is sent to the thread. */
  beforeWork(index: number, { id, words }: SlotBits): void {
    const known = this.#known.get(id)
    if (known === undefined) this.#post({ kind: 'filter', filter: id, words: words.buffer })
    this.#known.delete(id)
    this.#known.set(id, { index, uses: (known?.uses ?? 0) + 1 })
    if (this.#known.size > filtersMax) this.#dropOldest()
  }

  /** Call when the thread has finished a query. */
  afterWork({ id }: SlotBits): void {
    const known = this.#known.get(id)
    if (known !== undefined) known.uses -= 1
  }

  /** Drops the filters of an index that the thread is about to drop. */
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
    this.#post({ kind: 'drop-filter', filter })
  }
}

/**
 * The most bitmaps that a thread keeps, besides those of queries in its ring. For ten million slots each takes 1.25 MB,
 * which threads share.
 */
const filtersMax = 64
