import type { IdLists } from './id-lists.ts'
import type { Payload } from './point.ts'
import type { Profile } from './profile.ts'

/**
 * The results of searches, one list a query, from the engine to the bytes that a transport sends. `ids` and `distances`
 * are parallel; `details` only exist for queries that asked for more.
 */
export interface SearchResults {
  readonly ids: IdLists
  /** Of each id, in the units of its query's metric: for Euclidean the distance, not its square. */
  readonly distances: Float64Array | readonly number[]
  /** By query: what its `include` asks for, by rank; undefined for a query without `include`. */
  readonly details: readonly (readonly HitDetails[] | undefined)[]
  /** By query: undefined for one that did not ask for it. */
  readonly profiles: readonly (Profile | undefined)[]
  /** By query, how it was searched for, where that is known; absent if it is of none. */
  readonly plans?: readonly (SearchPlan | undefined)[]
  /** Only for queries that are `ranked`. */
  readonly ranks?: Ranks | undefined
}

/** What results are ordered by, in parallel to the ids: by the key, then by the sequence number of the vector. */
export interface Ranks {
  /** The index's distance: for Euclidean the square of the distance. */
  readonly keys: Float64Array
  readonly sequences: Float64Array
}

/** How a query was searched for, in words. */
export type SearchPlan = Pick<Profile, 'plan' | 'reason'>

/** What was asked for of one hit. `payload.attributes` are those that were selected. */
export interface HitDetails {
  readonly payload?: Payload | undefined
  readonly vector?: Float32Array | undefined
  readonly version?: number | undefined
}
