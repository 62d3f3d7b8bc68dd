import type { IdLists } from './id-lists.ts'
import type { Payload, Profile } from './point.ts'

/**
 * The results of searches, one list a query, on the way from the engine to the bytes that a transport or a node of the
 * cluster sends. `ids`, `distances` and `sequences` are parallel.
 */
export interface SearchResults {
  readonly ids: IdLists
  /** For each id, in the units of its query's metric: for Euclidean the distance, not its square. */
  readonly distances: Float64Array
  /** For each id, the number of the insertion of its vector: the order of equal distances. */
  readonly sequences: Float64Array
  /** By query, then by rank: the values that its `include` asks for; undefined for a query without `include`. */
  readonly details: readonly (readonly HitDetails[] | undefined)[]
  /** By query; undefined for a query that did not ask for a profile. */
  readonly profiles: readonly (Profile | undefined)[]
  /** By query, where known. */
  readonly plans: readonly (SearchPlan | undefined)[]
}

/** How a query was searched, in words. */
export type SearchPlan = Pick<Profile, 'plan' | 'reason'>

/** The requested values of one hit. `payload.attributes` are the selected attributes. */
export interface HitDetails {
  readonly payload?: Payload | undefined
  readonly vector?: Float32Array | undefined
  readonly version?: number | undefined
}
