import { DatabaseError } from '../base/errors.ts'
import type { SearchQuery } from '../base/point.ts'
import { noWork } from '../index/searcher.ts'
import type { SearchReport, SlotQuery } from './search-pieces.ts'
import type { SearchedPoints } from './searched-points.ts'
import { SlotFilters } from './slot-filters.ts'
import { TouchedSlots } from './touched-slots.ts'

/** A query, and what is searched for to answer it. */
export interface Run {
  readonly query: SearchQuery
  readonly slots: SlotQuery
  /** The slot of the stored point that is searched near; -1 if the query has a vector. */
  readonly near: number
  /** The slots touched since the search began. */
  readonly touched: TouchedSlots
  /** The index's count of replacements when the search began. */
  readonly replacements: number
  readonly filterUs: number
}

/** Turns queries that the api has checked into queries for slots of the index. Main thread only. */
export class SearchRuns {
  readonly #points: SearchedPoints
  readonly #filters: SlotFilters

  constructor(points: SearchedPoints) {
    this.#points = points
    this.#filters = new SlotFilters(points.attributes)
  }

  /** Prepares a query: its vector, and the slots to search. */
  *prepare(query: SearchQuery): Generator<void, Run> {
    const startMs = performance.now()
    const { metric, ef, exact, filter, profile } = query
    const matching = filter && (yield* this.#filters.matching(filter))
    const { searches, attributes } = this.#points
    const touched = new TouchedSlots(attributes.journal, matching?.position)
    const near = typeof query.vector === 'string' ? this.#slotOf(query.vector) : -1
    const vector = typeof query.vector === 'string' ? searches!.index.read(near) : query.vector
    // The point itself is also found, and left out.
    const limit = query.limit + Number(near !== -1)
    const hasReport = matching !== undefined || profile === true
    const report: SearchReport | undefined = hasReport ? { work: noWork(), elapsedUs: 0 } : undefined
    return {
      query,
      slots: { vector, metric, limit, ef: Math.max(ef, limit), exact, matching: matching?.slots, report },
      ...{ near, touched },
      replacements: searches?.index.replacements ?? 0,
      filterUs: (performance.now() - startMs) * 1000,
    }
  }

  #slotOf(id: string): number {
    const { searches, ids } = this.#points
    const slot = searches === undefined ? -1 : ids.find(id)
    if (slot === -1) throw new DatabaseError('not_found', `point ${id} to search near not found`)
    return slot
  }
}

/** Returns the positions of the runs that can find anything. */
export function searchedOf(runs: readonly Run[]): number[] {
  return [...runs.keys()].filter((at) => runs[at]!.slots.matching?.count !== 0)
}
