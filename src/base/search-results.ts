import type { IdLists } from './id-lists.ts'
import type { Payload } from './point.ts'

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

/** How a query was answered. */
export interface Profile {
  readonly plan: 'empty' | 'scan of all points' | 'scan of matching points' | 'graph'
  /** Why this plan was chosen, in words for an operator. */
  readonly reason: string
  /** Stored points. */
  readonly points: number
  /** Points that match the filter; all stored points without a filter. */
  readonly matching: number
  /** Vectors or codes for which a distance was computed. */
  readonly compared: number
  /** The distances among them that were computed exactly, on float32. */
  readonly measured: number
  readonly ef: number
  /** The beam of the walk is ef times this. */
  readonly efMultiplier: number
  readonly filterUs: number
  readonly queueUs: number
  readonly searchUs: number
  /** Recall of this plan when it was last measured; undefined if it was not. */
  readonly recallEstimate?: number | undefined
}
