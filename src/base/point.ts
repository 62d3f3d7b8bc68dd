/** The metrics a query can choose; a metric's position is its number in `vectordb.Similarity`. */
export const metrics = ['Euclidean', 'Manhattan', 'Hamming', 'Cosine'] as const
export type Metric = (typeof metrics)[number]

/** The kinds of content; a kind's position is its number in `vectordb.ContentType`. */
export const contentTypes = ['Image', 'Text'] as const
export type ContentType = (typeof contentTypes)[number]

/** The longest vector that can be stored: `DIMENSION` is 1..65,535. */
export const dimensionMax = 65_535

/** What is stored with a vector: opaque to the service. */
export interface Payload {
  readonly contentType: ContentType
  readonly content: string
}

/** A checked point that has no id yet. `vector` holds finite float32 values only. */
export interface NewPoint {
  readonly vector: Float32Array
  readonly payload: Payload
}

/** A stored point. `id` is a lower-case UUID v4. */
export interface Point extends NewPoint {
  readonly id: string
}

/** A checked query. `limit` is 1..`MAX_LIMIT`; `ef` has its default filled in and is at least `limit`. */
export interface SearchQuery {
  readonly vector: Float32Array
  readonly metric: Metric
  readonly limit: number
  readonly ef: number
}
