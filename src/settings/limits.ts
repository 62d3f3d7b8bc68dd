import { mebibyte } from './kinds.ts'

/** What the service keeps to and no operator has to set: one object, in which tests replace values. */
export interface Limits {
  /** Time that a client has to send a whole request, and then to receive the answer; for a stream, each part of it. */
  readonly requestTimeoutMs: number
  /** Queries that may be waiting or running; each query of a batch counts. */
  readonly maxQueuedQueries: number
  /** Ids that all searches in progress may return together; each query counts with its limit. */
  readonly maxQueuedResults: number
  /** Named collections whose points may be in memory at the same time. */
  readonly maxOpenCollections: number
  /** Idempotency keys that each collection keeps, about 160 bytes on disk each. */
  readonly maxIdempotencyKeys: number
  /** Disk space that the idempotency keys of a collection may take together. */
  readonly maxIdempotencyBytes: number
  /** Disk space for the changes since the last backup, which it stores; when it is full, they are no longer kept. */
  readonly maxChangesBytes: number
  /** Searches, lists, counts, facets and changes by filter that take at least this long are kept for an hour. */
  readonly slowQueryMs: number
  /** How many of the slowest requests are kept for each collection; 0 keeps none. */
  readonly slowQueriesKept: number
  /** Links of a point in the graph of a collection that does not say otherwise; twice as many on the lowest level. */
  readonly hnswM: number
  /** Breadth of the search for the links of a new point, in a collection that does not say otherwise. */
  readonly hnswEfConstruction: number
  /** Bits per component in the codes of graphs; undefined: 4 from 256 dimensions on, else 7. */
  readonly hnswCodeBits: 4 | 7 | undefined
  /** The most texts in one request to the embedding endpoint. */
  readonly embeddingsBatchSize: number
  /** Requests to the endpoint at the same time. */
  readonly embeddingsMaxRequests: number
  /** Time that the endpoint has for the texts of one request, including retries. */
  readonly embeddingsTimeoutMs: number
  /** Texts that may be waiting or being embedded. */
  readonly embeddingsMaxTexts: number
  /** The longest text that is embedded. */
  readonly embeddingsMaxTextBytes: number
  /** Memory for the embeddings of the most recently used texts. */
  readonly embeddingsCacheBytes: number
  /** Requests to the reranking endpoint at the same time. */
  readonly rerankMaxRequests: number
  /** Time that the endpoint has for one search, including retries. */
  readonly rerankTimeoutMs: number
  /** Size of each file of the audit, and how many of them are kept. */
  readonly auditFileBytes: number
  readonly auditFiles: number
}

export const limits: Limits = Object.freeze({
  requestTimeoutMs: 60_000,
  maxQueuedQueries: 20_000,
  maxQueuedResults: 500_000,
  maxOpenCollections: 256,
  maxIdempotencyKeys: 1_000_000,
  maxIdempotencyBytes: 512 * mebibyte,
  maxChangesBytes: 1024 * mebibyte,
  slowQueryMs: 100,
  slowQueriesKept: 50,
  hnswM: 16,
  hnswEfConstruction: 128,
  hnswCodeBits: undefined,
  embeddingsBatchSize: 32,
  embeddingsMaxRequests: 4,
  embeddingsTimeoutMs: 60_000,
  embeddingsMaxTexts: 10_000,
  embeddingsMaxTextBytes: 64 * 1024,
  embeddingsCacheBytes: 64 * mebibyte,
  rerankMaxRequests: 32,
  rerankTimeoutMs: 10_000,
  auditFileBytes: 16 * mebibyte,
  auditFiles: 16,
})
