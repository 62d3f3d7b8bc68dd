import type { Filter } from '../base/filter.ts'
import type { NewPoint, Patch, Precondition } from '../base/point.ts'
import type { Inserted, RequestIdentity } from './database.ts'

/**
 * A request as the log of a cluster carries it. What it changes is decided when it is applied, and is the same on every
 * replica: it depends on the points after the request before it, on the request, and on its stamp.
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
  /** Of the ids of points that have none of their own; all in the partition of its first byte. */
  readonly idSeed: Uint8Array
  /** Where it is decided by points of several nodes. */
  readonly found?: FoundPoints | undefined
}

/** Which ids of a request had points, as the nodes say that have them. */
export interface FoundPoints {
  /** These nodes had applied the log up to here at least. */
  readonly asOf: number
  /** By index in the request, when the point expires, in microseconds since 1970; infinity for never. */
  readonly expiries: ReadonlyMap<number, number>
}

/** Changes those of these points that match the filter: whoever asked for a change by filter found them before. */
export interface LoggedChangeEach {
  readonly kind: 'each'
  readonly ids: readonly string[]
  readonly filter: Filter
  readonly change: Patch | 'delete'
}

/** What the log says of a request besides its content. */
export interface Stamp {
  readonly position: number
  /** The cluster's clock in microseconds since 1970: never below that of a record before. */
  readonly nowUs: number
  /** Whether points of the request may have changed since they were found. */
  readonly isStale?: boolean
}

/** How many points were changed, by partition; those with none are left out. */
export type ChangedByPartition = ReadonlyMap<number, number>

/** By kind of request, how it ended if it was not refused. */
export interface LoggedResults {
  readonly insert: Inserted
  readonly put: { readonly version: number; readonly created: boolean }
  readonly patch: { readonly version: number }
  readonly remove: boolean
  readonly each: ChangedByPartition
  readonly expire: number
}

export type LoggedResult = LoggedResults[keyof LoggedResults]

/** Changes of a request; the number of a change is this times the position, and the index of its item in the request. */
export const changesPerRecord = 65_536

/** How many points a request can change. */
export function changesOf(request: LoggedRequest): number {
  if (request.kind === 'insert') return request.points.length
  return request.kind === 'each' || request.kind === 'expire' ? request.ids.length : 1
}
