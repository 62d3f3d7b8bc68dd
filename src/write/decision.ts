import type { Filter } from '../base/filter.ts'
import type { Change, KeyedRequest, PointRecord } from '../storage/store.ts'
import type { Stamp } from './logged-request.ts'
import { dimensionOf, type WriteRequest } from './write-request.ts'

/** What decisions depend on: the points as of the changes that have taken effect. */
export interface CurrentPoints {
  /** Fixed by the first insertion that took effect; undefined before that. */
  readonly dimension: number | undefined
  /** Returns the slot of a visible point, or -1. */
  find(id: string): number
  /** Returns the slot of a visible point, or of an expired one that is not deleted on disk yet; otherwise -1. */
  slotOf(id: string): number
  idOf(slot: number): string
  versionOf(slot: number): number
  orderOf(slot: number): number
  isVisible(slot: number): boolean
  /** In microseconds since 1970; undefined if the point does not expire. */
  expiryOf(slot: number): number | undefined
  /** Whether the point has expired. If so, it is hidden from now on. */
  hasExpired(slot: number): boolean
  /**
   * Call when a change has been decided that gives a visible point another expiry. If that is later, the point stays
   * visible until then, unless the change fails.
   */
  postponeExpiry(slot: number, expiresAtUs: number | undefined): void
  /** On a node of a cluster: moves the clock forward to at least the time of a record. Reads can see what expires by it. */
  advanceTo(stamp: Stamp): void
  /** Hides expired points; undefined if none remain. */
  hideDue(): Promise<void> | undefined
  vector(slot: number): Float32Array
  record(slot: number, id: string): PointRecord
  matches(slot: number, filter: Filter): boolean
  /** Finds the visible points that match now. */
  matching(filter: Filter): Promise<MatchingPoints>
  /** Takes some of the slots of expired points. They are to be deleted. */
  takeExpired(limit: number): readonly number[]
  /** The current time in microseconds since 1970. On a single node it can go back, as the system's clock can. */
  readonly nowUs: number
}

/** Points that match a filter, as of one moment. */
export interface MatchingPoints {
  readonly count: number
  /** Returns the first `limit` matching points with a higher order than `after`, in the order of insertion. */
  page(after: number, limit: number): Promise<readonly { readonly slot: number; readonly order: number }[]>
}

/** What a request changes. A decision is reused whenever its changes are tried again. */
export interface Decision {
  readonly request: WriteRequest
  /** In the order of their sequence numbers. */
  readonly changes: readonly Change[]
  readonly keyedRequest?: KeyedRequest | undefined
  /** The dimension of the collection from this request on; set only if the request is the first with vectors. */
  readonly dimension?: number | undefined
  /** Answers the request when its changes have taken effect. */
  readonly acknowledge: () => void
}

/**
 * Returns the dimension that the request fixes for the collection; undefined if it brings no vectors or the dimension
 * is fixed.
 */
export function newDimension(
  { dimension }: Pick<CurrentPoints, 'dimension'>,
  request: WriteRequest,
): number | undefined {
  return dimension === undefined ? dimensionOf(request) : undefined
}
