/** The JSON types of the API's requests and responses. */

export interface CollectionInfo {
  readonly name: string
  readonly dimension?: number
  readonly points: number
  readonly hnsw: { readonly m: number; readonly ef_construction: number }
  readonly aliases: readonly string[]
  /** Only in a cluster whose nodes each hold some of the points. Points of missing partitions are not counted. */
  readonly partitions?: { readonly total: number; readonly missing: number }
  /** Only if the server embeds texts. */
  readonly embedding_model?: string
  /** Only if the collection can be searched by words. */
  readonly words?: { readonly language: string; readonly paths: Readonly<Record<string, number>> }
}

export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue }

export type JsonObject = { readonly [name: string]: JsonValue }

export type ContentType = 'Text' | 'Image'

export interface Payload {
  readonly content_type: ContentType
  readonly content: string
  readonly attributes?: JsonObject
  readonly expires_at?: string
}

export interface NewPoint {
  readonly id?: string
  /** Absent if the server embeds the content. */
  readonly vector?: readonly number[]
  readonly payload: Payload
}

export interface Point {
  readonly id: string
  readonly vector?: readonly number[]
  readonly payload: Payload
  readonly version?: number
}

export interface Hit {
  readonly id: string
  readonly distance?: number
  readonly payload?: Payload
  readonly version?: number
  /** 0..1, of a search by words. */
  readonly score?: number
  /** The BM25 score of the words. */
  readonly words?: number
  /** What the reranking endpoint says. */
  readonly rerank?: number
  readonly highlight?: readonly Highlight[]
}

/** The most points of a group in the search view. */
export const groupSize = 3

/** The points with one value. */
export interface HitGroup {
  readonly value: JsonValue
  readonly count: number
}

/** A part of a text in pieces: the first is plain, the second was found, the third is plain, and so on. */
export interface Highlight {
  readonly path: string
  readonly parts: readonly string[]
}

/** How well the results of searches agree with judgements. */
export interface Relevance {
  readonly ndcg: number
  readonly recall: number
  readonly mrr: number
}

export interface MeasuredSetting extends Relevance {
  readonly balance?: number
  readonly ef?: number
  readonly paths?: Readonly<Record<string, number>>
}

export interface Evaluation extends MeasuredSetting {
  readonly low: Relevance
  readonly high: Relevance
  readonly queries: readonly Relevance[]
}

export interface Evaluated extends Evaluation {
  readonly curve: readonly MeasuredSetting[]
  readonly best?: Evaluation
  readonly missing: number
}

export interface Profile {
  readonly plan?: string
  readonly reason?: string
  /** Of a search with words, or that shapes its answer. */
  readonly steps?: readonly ProfileStep[]
  readonly [name: string]: string | number | readonly ProfileStep[] | undefined
}

export interface ProfileStep {
  readonly step: string
  /** How many points it has left. */
  readonly points: number
  readonly us: number
}

export interface FacetCount {
  readonly value: JsonValue
  readonly count: number
}

/** How the server currently answers searches under one metric. */
export interface SearchState {
  readonly similarity: string
  readonly plan: 'graph' | 'scan'
  readonly ef_multiplier: number | null
  readonly recall: number | null
  readonly filtered: readonly { readonly matching_share: string; readonly recall: number | null }[]
}

export interface MemoryBytes {
  readonly index: number
  readonly ids: number
  readonly attributes: number
}

/** The part of a collection on one node of a cluster. */
export type NodeStats =
  | { readonly node: string; readonly answers: false }
  | {
      readonly node: string
      readonly answers: true
      readonly points: number
      readonly linked: number
      readonly waiting: number
      readonly tombstones: number
      readonly memory_bytes: MemoryBytes
      readonly disk_bytes: number
    }

/** The state of the index of a collection. */
export interface CollectionStats {
  readonly collection: string
  readonly points: number
  readonly dimension: number | null
  readonly segments: number
  readonly linked: number
  readonly waiting: number
  readonly tombstones: number
  readonly settling: boolean
  readonly memory_bytes: MemoryBytes
  /**
   * This field and the next two exist only in a cluster whose nodes each hold some of the points. Sums cover all
   * copies.
   */
  readonly disk_bytes?: number
  readonly partitions?: { readonly total: number; readonly missing: number }
  readonly nodes?: readonly NodeStats[]
  readonly graphs: readonly {
    readonly similarity: string
    readonly distance_source: 'codes' | 'vectors' | 'nothing' | null
  }[]
  readonly searches: readonly SearchState[]
}

export interface SlowQuery {
  readonly time: string
  readonly took_ms: number
  readonly collection: string
  readonly operation: string
  readonly transport: 'grpc' | 'http'
  readonly outcome: string
  readonly queries?: number
  readonly similarity?: string
  readonly limit?: number
  readonly ef?: number
  readonly filter?: string
  readonly plan?: string
  readonly reason?: string
  readonly hits?: number
}

export interface SlowQueries {
  readonly threshold_ms: number
  readonly queries: readonly SlowQuery[]
}

export interface Setting {
  readonly name: string
  readonly flag: string
  readonly group: string
  readonly value: string | number | boolean | null
  readonly default: string
  /** Null if the server does not know the source. */
  readonly source: 'default' | 'environment' | 'flag' | null
  readonly secret: boolean
  readonly doc: string
}
