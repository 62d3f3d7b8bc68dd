import type { Payload } from '../base/point.ts'
import type { IdTable } from './id-table.ts'
import type { IndexSearches } from './index-searches.ts'
import type { SlotAttributes } from './slot-filters.ts'

/** What searches ask of a collection. */
export interface SearchedPoints {
  /** Undefined before the first point. */
  readonly searches: IndexSearches | undefined
  readonly ids: Pick<IdTable, 'find' | 'copyId' | 'size'>
  readonly attributes: SlotAttributes
  /** Removes from memory what has expired by now. */
  hideExpired(): void
  /** What is stored of a visible point. A change of it that is on disk takes effect first; undefined if it was removed by that. */
  payload(slot: number, id: string): Payload | undefined
  versionOf(slot: number): number
}
