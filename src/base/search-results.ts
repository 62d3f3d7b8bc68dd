import type { IdLists } from './id-lists.ts'
import type { Payload } from './point.ts'

/**
 * The results of searches, one list a query, from the engine to the bytes that a transport sends. `ids` and `distances`
 * are parallel; `details` only exist for queries that asked for more.
 */
export interface SearchResults {
  readonly ids: IdLists
  /** Of each id, in the units of its query's metric: for Euclidean the distance, not its square. */
  readonly distances: Float64Array
  /** By query: what its `include` asks for, by rank; undefined for a query without `include`. */
  readonly details: readonly (readonly HitDetails[] | undefined)[]
  /** By query: undefined for one that did not ask for it. */
  readonly profiles: readonly (Profile | undefined)[]
}

/** What was asked for of one hit. `payload.attributes` are those that were selected. */
export interface HitDetails {
  readonly payload?: Payload | undefined
  readonly vector?: Float32Array | undefined
  readonly version?: number | undefined
}

/** How a query was answered. */
export interface Profile {
  readonly plan: 'empty' | 'scan of all points' | 'scan of matching points' | 'graph'
  /** Why, in words for an operator. */
  readonly reason: string
  /** Stored points. */
  readonly points: number
  /** Points that match the filter; all of them without one. */
  readonly matching: number
  /** Vectors or codes whose distance was computed. */
  readonly compared: number
  /** Of these, those computed exactly, on float32. */
  readonly measured: number
  readonly ef: number
  /** The walk's beam is this many times ef. */
  readonly efMultiplier: number
  readonly filterUs: number
  readonly queueUs: number
  readonly searchUs: number
  /** Of this plan as last measured; undefined where none was. */
  readonly recallEstimate?: number | undefined
}
