import type { Filter } from '../base/filter.ts'
import type { NewPoint, Patch, Precondition } from '../base/point.ts'
import type { Inserted, RequestIdentity } from '../points/database.ts'

/**
 * A request as the log of a cluster carries it. What it changes is decided when it is applied. The decision is the same
 * on every replica, because it depends only on the points after the previous request, on the request, and on its stamp.
 */
export type LoggedRequest =
  | LoggedInsert
  | {
      readonly kind: 'put'
      readonly id: string
      readonly point: Pick<NewPoint, 'vector' | 'payload'>
      readonly when?: Precondition | undefined
    }
  | {
      readonly kind: 'patch'
      readonly id: string
      readonly patch: Patch
      readonly when?: Precondition | undefined
    }
  | { readonly kind: 'remove'; readonly id: string }
  | LoggedChangeEach
  /** Deletes those of these points that have expired by the cluster's clock. */
  | { readonly kind: 'expire'; readonly ids: readonly string[] }

export interface LoggedInsert {
  readonly kind: 'insert'
  readonly points: readonly NewPoint[]
  readonly onError: 'abort' | 'continue'
  readonly identity?: RequestIdentity | undefined
  /** The seed for the ids of points without their own; all these ids are in the partition of the seed's first byte. */
  readonly idSeed: Uint8Array
  /** Set if points of several nodes decide about the insert. */
  readonly found?: FoundPoints | undefined
}

/** Which ids of a request had points, as reported by the nodes that hold them. */
export interface FoundPoints {
  /** These nodes had applied the log at least up to this position. */
  readonly asOf: number
  /** By index in the request: when the point expires, in microseconds since 1970; infinity for never. */
  readonly expiries: ReadonlyMap<number, number>
}

/**
 * Changes those of these points that match the filter. They were found before, for a request to change points by
 * filter.
 */
export interface LoggedChangeEach {
  readonly kind: 'each'
  readonly ids: readonly string[]
  readonly filter: Filter
  readonly change: Patch | 'delete'
}

/** The log's data about a request, besides its content. */
export interface Stamp {
  readonly position: number
  /** The cluster's clock in microseconds since 1970; never below that of an earlier record. */
  readonly nowUs: number
  /** Whether points of the request may have changed since they were found. */
  readonly isStale?: boolean
}

/** The number of changed points by partition; partitions without any are left out. */
export type ChangedByPartition = ReadonlyMap<number, number>

/** The result of each kind of request, if it was not refused. */
export interface LoggedResults {
  readonly insert: Inserted
  readonly put: { readonly version: number; readonly created: boolean }
  readonly patch: { readonly version: number }
  readonly remove: boolean
  readonly each: ChangedByPartition
  readonly expire: number
}

export type LoggedResult = LoggedResults[keyof LoggedResults]

/**
 * The most changes of a request. The number of a change is this times the position plus the index of its item in the
 * request.
 */
export const changesPerRecord = 65_536

/** Returns how many points a request can change. */
export function changesOf(request: LoggedRequest): number {
  if (request.kind === 'insert') return request.points.length
  return request.kind === 'each' || request.kind === 'expire' ? request.ids.length : 1
}
