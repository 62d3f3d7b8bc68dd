import type { Payload } from '../base/point.ts'
import type { IdTable } from '../points/id-table.ts'
import type { IndexSearches } from './index-searches.ts'
import type { SlotAttributes } from './slot-filters.ts'

/** What searches need from a collection. */
export interface SearchedPoints {
  /** Undefined before the first point is stored. */
  readonly searches: IndexSearches | undefined
  readonly ids: Pick<IdTable, 'find' | 'copyId' | 'size'>
  readonly attributes: SlotAttributes
  /** Hides points that have expired. */
  hideExpired(): void
  /**
   * Returns the stored payload of a visible point. A committed change of the point takes effect first; undefined if
   * that removes it.
   */
  payload(slot: number, id: string): Payload | undefined
  versionOf(slot: number): number
}
