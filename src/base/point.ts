import { type Attributes, type AttributeValue, isList, isMap, type Scalar } from './attributes.ts'
import type { Filter } from './filter.ts'

/** The metrics that a query can choose. A metric's position is its number in `vectordb.Similarity`. */
export const distanceMetrics = ['Euclidean', 'Manhattan', 'Hamming', 'Cosine'] as const
export type Metric = (typeof distanceMetrics)[number]

/** The kinds of content. A kind's position is its number in `vectordb.ContentType`. */
export const contentTypes = ['Image', 'Text'] as const
export type ContentType = (typeof contentTypes)[number]

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Whether a text can be the id of a point: a UUID in its 36-character form, of any version and in either case. */
export function isUuid(text: string): boolean {
  return uuid.test(text)
}

/** The longest vector that can be stored: `DIMENSION` is 1..65,535. */
export const dimensionMax = 65_535

/** The longest time to live, 100 years: up to this, every expiry is exact in float64. */
export const ttlSecondsMax = 3_155_760_000

/** All pages of a search by words show at most this many hits, the best. */
export const pinnedHitsMax = 1000

/** Hits that a search finds and leaves out of its answer: examples, and the point that it searches near. */
const leftOutMax = 256

/** Returns how many hits a search that boosts, groups or pages looks at: also more than callers may ask for. */
export function candidatesMax(maxLimit: number): number {
  return Math.max(maxLimit, pinnedHitsMax)
}

/** Returns how many hits one search of an index can have. */
export function foundMax(maxLimit: number): number {
  return candidatesMax(maxLimit) + leftOutMax
}

/** The most documents of one request to the reranking endpoint. */
export const rerankMax = 1000

/** What a search does if the reranking endpoint fails. A rule's position is its number in `vectordb.OnRerankError`. */
export const onErrorRules = ['fail', 'skip'] as const

/** The data that is stored with a vector. */
export interface Payload {
  readonly contentType: ContentType
  /** Opaque to the service. */
  readonly content: string
  /** Absent where a point has none; never empty. */
  readonly attributes?: Attributes | undefined
  /** In microseconds since 1970, exact in float64. From this time on, the point is in no answer. */
  readonly expiresAtUs?: number | undefined
}

export const conflictRules = ['error', 'replace', 'skip'] as const
/** What an insert does with an id that exists. */
export type OnConflict = (typeof conflictRules)[number]

/** A checked point to be inserted. `vector` holds finite float32 values only. */
export interface NewPoint {
  readonly vector: Float32Array
  readonly payload: Payload
  /** Lower-case UUID. If absent, the service assigns one. */
  readonly id?: string | undefined
  /** Only used with an id. If absent: `error`. */
  readonly onConflict?: OnConflict | undefined
}

/** Whether a point to insert is refused if its id exists. */
export function canBeRefused({ id, onConflict = 'error' }: Pick<NewPoint, 'id' | 'onConflict'>): boolean {
  return id !== undefined && onConflict === 'error'
}

/** A stored point. `id` is a lower-case UUID. */
export interface Point {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: Payload
  /** Sequence number of its last change. */
  readonly version: number
}

/** The changes of a PATCH: at least one. Absent values stay unchanged. */
export interface Patch {
  /**
   * Values by path: `a.b` sets b in the map a, which is created if missing. A value replaces the old one, even a map.
   */
  readonly set?: Attributes | undefined
  /** Paths of attributes to remove. Missing paths are ignored. */
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: ContentType | undefined
  /** null: the point no longer expires. */
  readonly expiresAtUs?: number | null | undefined
  readonly vector?: Float32Array | undefined
}

/** A condition that a point must meet for a write. Otherwise the write fails with `precondition_failed`. */
export type Precondition =
  | { readonly kind: 'version'; readonly version: number }
  | { readonly kind: 'filter'; readonly filter: Filter }
  | { readonly kind: 'absent' }

/** What an answer can have in addition to ids. */
export const includeNames = [
  'distance',
  'payload',
  'attributes',
  'vector',
  'version',
  'scores',
  'highlight',
] as const
type IncludeName = (typeof includeNames)[number]

/** As callers ask for it. `attributes` are paths, at most `pathsMax`, or true for all. */
export type AskedInclude = { readonly [Name in Exclude<IncludeName, 'attributes'>]?: boolean | undefined } & {
  readonly attributes?: readonly string[] | boolean | undefined
}

/** What an answer contains in addition to ids. */
export interface Include {
  readonly distance: boolean
  /** Content, content type, expiry, and all attributes unless `attributes` selects some. */
  readonly payload: boolean
  /** Paths of attributes to return, also without `payload`; `all` of them; absent: see `payload`. */
  readonly attributes?: readonly string[] | 'all' | undefined
  readonly vector: boolean
  readonly version: boolean
  /** Only of a search by words. */
  readonly scores?: boolean | undefined
  readonly highlight?: boolean | undefined
}

/** A checked query. `limit` is 1..`MAX_LIMIT`; `ef` has its default filled in and is at least `limit`. */
export interface SearchQuery {
  /** A vector to search near, or the id of a stored point, which is left out of the results; empty for words alone. */
  readonly vector: Float32Array | string
  readonly metric: Metric
  readonly limit: number
  readonly ef: number
  readonly filter?: Filter | undefined
  /**
   * The filter of the caller's key, a part of `filter`. The stored point to search near must match it, and scores are
   * relative to the best that does.
   */
  readonly keyFilter?: Filter | undefined
  /** Whether the results must be the true nearest neighbours. */
  readonly exact?: boolean | undefined
  /** Only results at most this far away, in the units of the metric. */
  readonly maxDistance?: number | undefined
  readonly include?: Include | undefined
  /** Whether the answer includes a profile of the search. */
  readonly profile?: boolean | undefined
  readonly words?: WordQuery | undefined
  /** A page of a search by words: '' for the first. */
  readonly cursor?: string | undefined
}

/** The words to rank by. */
export interface WordQuery {
  readonly text: string
  /** What the vector counts in scores beside them: 0..1. */
  readonly balance: number
  /** The weights of the paths, in place of those that the collection declares. */
  readonly weights?: readonly number[] | undefined
  /** Queries with the same object differ in nothing but `balance`: points are found once for all of them. */
  readonly shared?: object | undefined
  /** Scores have the statistics of the points that match, in place of those of all points. */
  readonly population?: Filter | undefined
  /** What was counted for that, or on all nodes, if it is no longer what this node would count. */
  readonly statistics?: WordStatistics | undefined
}

/** What the scores of a query's words depend on. */
export interface WordStatistics extends WordCounts {
  /** The terms of the query, each with its weight in it, in the order of `terms`. */
  readonly wanted: readonly (readonly [term: string, weight: number])[]
}

/** Counts over points. */
export interface WordCounts {
  readonly documents: number
  /** The sum of the lengths of each path, in words. */
  readonly lengths: readonly number[]
  /** The number of points by language. */
  readonly languages: readonly number[]
  /** For each of some terms: how many points have it, and how many times it occurs in them, in all paths. */
  readonly terms: readonly { readonly documents: number; readonly occurrences: number }[]
}

/** A query near a vector, not near a stored point. */
export interface VectorQuery extends SearchQuery {
  readonly vector: Float32Array
}

/** Returns about how many bytes a payload takes in memory. In a request it takes about as many at most. */
export function payloadBytes({ content, attributes }: Pick<Payload, 'content' | 'attributes'>): number {
  return content.length * 2 + (attributes === undefined ? 0 : valueBytes(attributes))
}

export function valueBytes(value: AttributeValue): number {
  let bytes = valueOverheadBytes
  if (typeof value === 'string') bytes += value.length * 2
  else if (isMap(value)) for (const [name, each] of value) bytes += name.length * 2 + valueBytes(each)
  else if (isList(value)) for (const each of value) bytes += valueBytes(each)
  return bytes
}

/** Returns about how many bytes details take until they are sent. */
export function detailBytes({ payload, vector }: HitDetails): number {
  const ofPayload = payload === undefined ? 0 : payloadBytes(payload)
  return detailOverheadBytes + ofPayload + (vector?.byteLength ?? 0)
}

/** The overhead of the objects, as V8 allocates them. */
const detailOverheadBytes = 128

/** The head of a string or an object as V8 allocates it, with its entry in a map. */
const valueOverheadBytes = 40

/** How near a hit is to its query's vector: 0 or more, and larger is nearer. @param distance in units of the metric */
export function nearness(metric: Metric, distance: number): number {
  return metric === 'Cosine' ? Math.max(0, 2 - distance) : 1 / (1 + distance)
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
  /** Of a query with a ranking, in their order. */
  readonly steps?: readonly ProfileStep[] | undefined
}

/** One step of a search, with the number of points that it left. */
export interface ProfileStep {
  readonly step: string
  readonly points: number
  readonly us: number
}

/** Points with one value at a path: as many of the hits, after those of the groups before it. */
export interface HitGroup {
  readonly value: Scalar
  readonly count: number
}

/** How a query was searched, in words. */
export type SearchPlan = Pick<Profile, 'plan' | 'reason'>

/** The requested values of one hit. `payload.attributes` are the selected attributes. */
export interface HitDetails extends OrUndefined<HitFigures> {
  readonly payload?: Payload | undefined
  readonly vector?: Float32Array | undefined
}

/** What a hit has beside its point: JSON, messages and clients have all of it under the same names. */
export interface HitFigures {
  /** Grows with every change of the point. */
  readonly version?: number
  /** 0..1, of a search by words; larger is better. */
  readonly score?: number
  /** The BM25 score of the words. */
  readonly words?: number
  /** What the reranking endpoint says, as it is. */
  readonly rerank?: number
  readonly highlight?: readonly Highlight[]
}

type OrUndefined<Fields> = { readonly [Name in keyof Fields]: Fields[Name] | undefined }

/** A part of a text in which the words of a query are. */
export interface Highlight {
  readonly path: string
  /** The text in pieces: the first is plain, the second was found, the third is plain, and so on. */
  readonly parts: readonly string[]
}
