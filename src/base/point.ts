import type { Attributes } from './attributes.ts'
import type { Filter } from './filter.ts'

/** The metrics a query can choose; a metric's position is its number in `vectordb.Similarity`. */
export const distanceMetrics = ['Euclidean', 'Manhattan', 'Hamming', 'Cosine'] as const
export type Metric = (typeof distanceMetrics)[number]

/** The kinds of content; a kind's position is its number in `vectordb.ContentType`. */
export const contentTypes = ['Image', 'Text'] as const
export type ContentType = (typeof contentTypes)[number]

/** The longest vector that can be stored: `DIMENSION` is 1..65,535. */
export const dimensionMax = 65_535

/** What is stored with a vector. */
export interface Payload {
  readonly contentType: ContentType
  /** Opaque to the service. */
  readonly content: string
  /** Absent where a point has none; never empty. */
  readonly attributes?: Attributes | undefined
  /** In microseconds since 1970, exact in float64: from then on the point is in no answer. */
  readonly expiresAtUs?: number | undefined
}

export const conflictRules = ['error', 'replace', 'skip'] as const
/** What an insert does with an id that exists. */
export type OnConflict = (typeof conflictRules)[number]

/** A checked point to be inserted. `vector` holds finite float32 values only. */
export interface NewPoint {
  readonly vector: Float32Array
  readonly payload: Payload
  /** Lower-case UUID; absent: the service assigns one. */
  readonly id?: string | undefined
  /** With an id; absent: `error`. */
  readonly onConflict?: OnConflict | undefined
}

/** A stored point. `id` is a lower-case UUID. */
export interface Point {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: Payload
  /** Sequence number of its last change. */
  readonly version: number
}

/** What a PATCH changes; what is absent stays as it is. At least one of them is there. */
export interface Patch {
  /** By path: `a.b` sets b in the map a, which is made if there is none. A value replaces what was there, maps included. */
  readonly set?: Attributes | undefined
  /** Paths of attributes to remove; those that are not there are ignored. */
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: ContentType | undefined
  /** null: the point does not expire any more. */
  readonly expiresAtUs?: number | null | undefined
  readonly vector?: Float32Array | undefined
}

/** What has to be true of a point for a write to happen; otherwise it fails with `precondition_failed`. */
export type Precondition =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'filter'; readonly filter: Filter }
  | { readonly kind: 'absent' }

/** What an answer holds besides ids. */
export interface Include {
  readonly distance: boolean
  /** Content, content type and expiry; and all attributes, unless `attributes` selects some. */
  readonly payload: boolean
  /** Paths of attributes to return, also without `payload`; `all` of them; absent: see `payload`. */
  readonly attributes?: readonly string[] | 'all' | undefined
  readonly vector: boolean
  readonly version: boolean
}

/** A checked query. `limit` is 1..`MAX_LIMIT`; `ef` has its default filled in and is at least `limit`. */
export interface SearchQuery {
  /** What to search near: a vector, or a stored point by its id, which is left out of the results. */
  readonly vector: Float32Array | string
  readonly metric: Metric
  readonly limit: number
  readonly ef: number
  readonly filter?: Filter | undefined
  /** Whether the results have to be the true nearest. */
  readonly exact?: boolean | undefined
  /** Only results at most this far away, in the units of the metric. */
  readonly maxDistance?: number | undefined
  readonly include?: Include | undefined
  /** Whether the answer says how it was found. */
  readonly profile?: boolean | undefined
  /** Whether the answer has what its results are ordered by, for merging it with others; of all queries of a request or none. */
  readonly ranked?: boolean | undefined
}

/** A query with the vector to search near. */
export interface VectorQuery extends SearchQuery {
  readonly vector: Float32Array
}
