import type { Filter } from '../base/filter.ts'
import type { Change, KeyedRequest, PointRecord } from '../storage/store.ts'
import { dimensionOf, type WriteRequest } from './write-request.ts'

/** What decisions depend on: the points after the changes that have taken effect. */
export interface CurrentPoints {
  /** Fixed by the first insertion that took effect; undefined before. */
  readonly dimension: number | undefined
  /** The slot of a visible point, or -1. */
  find(id: string): number
  /** The slot of a visible point, or of one that has expired and is not deleted on disk yet; or -1. */
  slotOf(id: string): number
  idOf(slot: number): string
  versionOf(slot: number): number
  orderOf(slot: number): number
  isVisible(slot: number): boolean
  /** Microseconds since 1970; undefined where the point does not expire. */
  expiryOf(slot: number): number | undefined
  hasExpired(slot: number): boolean
  /** On a node of a cluster: time is at least this, microseconds since 1970. */
  advanceTo(nowUs: number): void
  /** Hides points that have expired; undefined if that is done. */
  hideDue(): Promise<void> | undefined
  vector(slot: number): Float32Array
  record(slot: number, id: string): PointRecord
  matches(slot: number, filter: Filter): boolean
  /** The visible points that match now. */
  matching(filter: Filter): Promise<MatchingPoints>
  /** Some of the slots of expired points, which are to be deleted, or moved if they were renewed. */
  takeExpired(limit: number): readonly number[]
  /** By the clock; does not go back. */
  readonly nowUs: number
}

/** Points that match a filter, as of one moment. */
export interface MatchingPoints {
  readonly count: number
  /** The first `limit` of them in the order of their insertion, of those with a higher order than `after`. */
  page(after: number, limit: number): Promise<readonly { readonly slot: number; readonly order: number }[]>
}

/** What a request changes. It stays the same however often its changes are tried. */
export interface Decision {
  readonly request: WriteRequest
  /** In the order of their sequence numbers. */
  readonly changes: readonly Change[]
  readonly keyedRequest?: KeyedRequest | undefined
  /** Of the collection, from this request on: it is the first one that brings vectors. */
  readonly dimension?: number | undefined
  /** Answers the request when its changes have taken effect. */
  readonly acknowledge: () => void
}

/** What a request fixes that brings vectors; undefined where that is done. */
export function newDimension(
  { dimension }: Pick<CurrentPoints, 'dimension'>,
  request: WriteRequest,
): number | undefined {
  return dimension === undefined ? dimensionOf(request) : undefined
}
