import type { AuditPage, AuditRecord } from '../api/audit-record.ts'
import type {
  CollectionSettings,
  HnswSettings,
  CollectionInfo as StoredInfo,
  WordLanguageChoice,
} from '../base/collection.ts'
import type { Reason } from '../base/errors.ts'
import type { ContentType, Highlight, HitFigures, Metric, OnConflict, Profile } from '../base/point.ts'
import type { Quotas } from '../base/quotas.ts'
import type { EvaluatedPoints } from '../base/relevance.ts'
import type { SettingInfo } from '../base/setting-info.ts'
import type { BulkOptions, CallOptions, InsertOptions } from './calls.ts'
import type { AttributesInput, AttributesOutput, DateValue, Filter } from './values.ts'

/** What to store with a vector. */
export interface PayloadToStore {
  readonly contentType: ContentType
  readonly content: string
  readonly attributes?: AttributesInput | undefined
  /** From this moment on, no answer contains the point. */
  readonly expiresAt?: DateValue | undefined
}

/**
 * A vector, whose components must fit float32, and its payload. A service with embeddings needs no vector: it embeds
 * `text` or, without one, a content of the type Text.
 */
export interface PointToStore {
  readonly vector?: ArrayLike<number> | undefined
  /** Embedded by the service in place of a vector. */
  readonly text?: string | undefined
  readonly payload: PayloadToStore
}

export interface PointToInsert extends PointToStore {
  /** Any UUID; without it, the service assigns one. */
  readonly id?: string | undefined
  /** What to do if the id exists; `error` by default. */
  readonly onConflict?: OnConflict | undefined
}

export interface StoredPayload {
  readonly contentType: ContentType
  readonly content: string
  readonly attributes?: AttributesOutput
  readonly expiresAt?: DateValue
}

export interface Point {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: StoredPayload
  /** Grows with every change of the point; only present if the call asked for it. */
  readonly version?: number
}

/** What an answer has in addition to ids. */
export interface Include {
  readonly distance?: boolean | undefined
  readonly payload?: boolean | undefined
  /** Paths of attributes, or true for all. */
  readonly attributes?: readonly string[] | boolean | undefined
  readonly vector?: boolean | undefined
  readonly version?: boolean | undefined
  /** The score and the BM25 score of a search by words. */
  readonly scores?: boolean | undefined
  /** Where the words of a search are in the texts. */
  readonly highlight?: boolean | undefined
}

/** A nearest-neighbour query; without `ef` the server's default applies. */
export interface Query {
  /**
   * Search near a vector, near the stored point `id`, which is not returned, or near a text, if the service has
   * embeddings.
   */
  readonly vector?: ArrayLike<number> | undefined
  readonly id?: string | undefined
  readonly text?: string | undefined
  /** Required, unless the query has words alone. */
  readonly metric?: Metric | undefined
  readonly limit: number
  readonly ef?: number | undefined
  readonly filter?: Filter | undefined
  /** Whether the results must be the true nearest points. */
  readonly exact?: boolean | undefined
  readonly maxDistance?: number | undefined
  /** Rank by these words, alone or together with a vector; true for the words of `text`. */
  readonly words?: string | true | undefined
  /** What the vector counts in the score, 0..1; by default 0.5. */
  readonly balance?: number | undefined
  /** Empty for the first of several pages of a search by words, then the `nextCursor` of the page before. */
  readonly cursor?: string | undefined
  /** Counts how often words occur in the points that match, in place of all. */
  readonly statistics?: { readonly filter: Filter } | undefined
  /** What raises scores, or with a negative weight lowers them. */
  readonly boost?: readonly Boost[] | undefined
  /** Ids of points to search near, together with the vector if there is one; and not near those of `unlike`. */
  readonly like?: readonly string[] | undefined
  readonly unlike?: readonly string[] | undefined
  /** How much hits that are unlike those before them come first, 0..1. */
  readonly diversity?: number | undefined
  /** Find `limit` groups of points with the same value at a path. */
  readonly groupBy?: { readonly path: string; readonly size?: number | undefined } | undefined
  /** How many of the best points the service's reranking endpoint ranks anew. */
  readonly rerank?: number | undefined
  /** What to do if that endpoint fails; `fail` by default. */
  readonly onError?: OnRerankError | undefined
}

/** A half-life is a number and one of s, m, h, d and w, like `14d`. */
export type Boost = { readonly weight: number } & (
  | { readonly filter: Filter }
  | { readonly recent: { readonly path: string; readonly halfLife: string } }
)

export type OnRerankError = 'fail' | 'skip'

export interface DetailedQuery extends Query {
  readonly include: Include
  /** Whether the answer describes how the search was run. */
  readonly profile?: boolean | undefined
}

export type { Highlight, Quotas }

/** A point that was found, with those fields that the call asked for. */
export interface Hit extends HitFigures {
  readonly id: string
  readonly distance?: number
  readonly payload?: Partial<StoredPayload>
  readonly vector?: Float32Array
}

export interface SearchAnswer {
  /** Of all groups, one after the other, if the query has `groupBy`. */
  readonly hits: readonly Hit[]
  readonly groups?: readonly HitGroup[] | undefined
  /** Of a query with `cursor`, if there are more results. */
  readonly nextCursor?: string | undefined
  readonly profile?: Profile | undefined
}

/** The hits with one value at the path of `groupBy`. */
export interface HitGroup {
  readonly value: AttributesOutput[string]
  readonly hits: readonly Hit[]
}

/** The condition for a write, which otherwise fails with `precondition_failed`. */
export type Precondition =
  | { readonly version: number }
  | { readonly filter: Filter }
  | { readonly absent: true }

export interface WriteOptions extends CallOptions {
  readonly when?: Precondition | undefined
}

export interface GetOptions extends CallOptions {
  /** Whether the answer has the point's version. */
  readonly version?: boolean | undefined
}

/** A change of a point. Absent fields leave their part of the point unchanged. */
export interface Patch {
  /** Values by path: `a.b` sets b within a. */
  readonly set?: AttributesInput | undefined
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: ContentType | undefined
  /** null removes the expiry. */
  readonly expiresAt?: DateValue | null | undefined
  readonly vector?: ArrayLike<number> | undefined
  /** Embedded by the service in place of a vector. A new content alone does not change the vector. */
  readonly text?: string | undefined
}

/** The outcome of a batch that continued after errors. */
export interface InsertReport {
  /** In the order of the points; null for a point that was not stored. */
  readonly ids: readonly (string | null)[]
  readonly errors: readonly { readonly index: number; readonly reason: Reason; readonly message: string }[]
}

export interface ListQuery {
  readonly filter?: Filter | undefined
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
  readonly include?: Include | undefined
}

export interface ListPage {
  readonly points: readonly Hit[]
  /** The cursor of the next page; absent on the last page. */
  readonly nextCursor?: string | undefined
}

export interface FacetsQuery {
  readonly filter?: Filter | undefined
  readonly paths: readonly string[]
  readonly limit?: number | undefined
}

/** A query, and the points that answer it. */
export interface Judgement extends Pick<Query, 'words' | 'vector' | 'text'> {
  /** The grade of points by id; 0 is not relevant. */
  readonly relevant: Readonly<Record<string, number>>
}

export interface EvaluationQuery
  extends Pick<Query, 'metric' | 'balance' | 'ef' | 'filter' | 'boost' | 'diversity' | 'rerank'> {
  readonly judgements: readonly Judgement[]
  /** How many results of each query count; by default 10. */
  readonly k?: number | undefined
  /** What to vary, to find what is best. */
  readonly sweep?: readonly ('balance' | 'ef' | 'paths')[] | undefined
}

export interface FacetCount {
  readonly value: AttributesOutput[string]
  readonly count: number
}

/** Which points to change. An empty filter, which matches all points, needs `everything`. */
export interface Selection {
  readonly filter: Filter
  /** The maximum number of points to change. */
  readonly limit?: number | undefined
  /** Counts the points and changes nothing. */
  readonly dryRun?: boolean | undefined
  readonly everything?: boolean | undefined
}

export interface Changed {
  readonly changed: number
  /** Whether further points match: call again. */
  readonly more: boolean
}

/**
 * Access to the points of one collection, over either transport. Every method fails with a `DatabaseError` that carries
 * the server's reason and message; the reason is `collection_not_found` if there is no such collection.
 */
export interface PointsClient {
  /** Stores a point; resolves with its id once it is durable and searchable. */
  insert(point: PointToInsert, options?: InsertOptions): Promise<string>
  /**
   * Stores all points or none; ids are in the order of `points`. A cluster refuses several points with ids that must not
   * exist yet: use `insertEach`, or `onConflict`.
   */
  insertBatch(points: readonly PointToInsert[], options?: InsertOptions): Promise<readonly string[]>
  /** Stores the valid points and reports the others. */
  insertEach(points: readonly PointToInsert[], options?: InsertOptions): Promise<InsertReport>
  /**
   * Stores any number of points in batches; yields the ids of each batch. Reads points only as fast as requests finish.
   * Points with the same id are stored one after another, so with `replace` the last one wins; in all other respects,
   * concurrent batches may be stored in any order. A batch is stored completely or not at all; but in a cluster, if an
   * id exists that must not, the other points of its batch are stored.
   */
  insertAll(
    points: AsyncIterable<PointToInsert> | Iterable<PointToInsert>,
    options?: BulkOptions,
  ): AsyncGenerator<readonly string[]>
  /** Stores a point under its id, and replaces the point that has it. */
  put(
    id: string,
    point: PointToStore,
    options?: WriteOptions,
  ): Promise<{ readonly version: number; readonly created: boolean }>
  /** Changes a point. Fails with `not_found` if there is none with this id. */
  patch(id: string, patch: Patch, options?: WriteOptions): Promise<{ readonly version: number }>
  /** Returns a point. Fails with `not_found` if there is none with this id. */
  get(id: string, options?: GetOptions): Promise<Point>
  /** Deletes a point. Also succeeds if there is none with this id. */
  delete(id: string, options?: CallOptions): Promise<void>
  /** Returns the ids of the nearest points, closest first. */
  search(query: Query, options?: CallOptions): Promise<readonly string[]>
  /** Returns an answer for each query, in the order of the queries. */
  searchBatch(queries: readonly Query[], options?: CallOptions): Promise<readonly (readonly string[])[]>
  /** Like `search`, but returns what `include` asks for. */
  searchHits(query: DetailedQuery, options?: CallOptions): Promise<SearchAnswer>
  searchHitsBatch(queries: readonly DetailedQuery[], options?: CallOptions): Promise<readonly SearchAnswer[]>
  /** Returns one page of points in the order of their insertion. */
  list(query?: ListQuery, options?: CallOptions): Promise<ListPage>
  /** Yields all matching points, page by page. Points that stay stored meanwhile are yielded exactly once. */
  listAll(query?: Omit<ListQuery, 'cursor'>, options?: CallOptions): AsyncGenerator<Hit>
  /** Counts the points that match; all points without a filter. */
  count(filter?: Filter, options?: CallOptions): Promise<number>
  /** Returns, for each path, the most frequent values among the matching points. */
  facets(query: FacetsQuery, options?: CallOptions): Promise<Readonly<Record<string, readonly FacetCount[]>>>
  /** Measures how well searches agree with judgements. Can take long: pass a `signal` to cancel it. */
  evaluate(query: EvaluationQuery, options?: CallOptions): Promise<EvaluatedPoints>
  /** Changes the points that match, up to 100,000 in one atomic step. */
  updateMatching(
    request: Selection & Pick<Patch, 'set' | 'unset' | 'expiresAt'>,
    options?: CallOptions,
  ): Promise<Changed>
  /** Deletes the points that match, up to 100,000 in one atomic step. */
  deleteMatching(request: Selection, options?: CallOptions): Promise<Changed>
  /** Closes the connection for this client and for every client that shares it. */
  close(): Promise<void>
}

/**
 * A client of the service: for the points of the collection that the options name, or of the default one, and for the
 * collections themselves.
 *
 * @example
 * await client.collections.put('glosses', { dimension: 512 })
 * const glosses = client.collection('glosses')
 * await glosses.insert({ vector, payload: { contentType: 'Text', content: 'a gloss' } })
 */
export interface VectorClient extends PointsClient, AccessClient {
  /**
   * Returns a client for the points of another collection, over the same connection. Sends no request.
   *
   * @param name of a collection, or an alias, which the service looks up with every call
   * @throws DatabaseError `invalid_argument` for an invalid name
   */
  collection(name: string): VectorClient
  readonly collections: CollectionsClient
}

/** Information for operators, which only HTTP offers. */
export interface InspectionClient {
  /** Returns the state of the collection's index. */
  stats(options?: CallOptions): Promise<CollectionStats>
  /** Returns the slowest requests of the last hour: to the client's collection, or to all if the client has none. */
  slowQueries(options?: CallOptions): Promise<SlowQueries>
  /** Returns the settings of the service; secrets are masked. */
  settings(options?: CallOptions): Promise<readonly SettingInForce[]>
}

/** The figures of one node, in a cluster that divides the points among its nodes. */
export interface NodeStats {
  readonly node: string
  /** Undefined for a node that has not answered. */
  readonly stats:
    | (Pick<
        CollectionStats,
        'points' | 'segments' | 'linked' | 'waiting' | 'tombstones' | 'isSettling' | 'memoryBytes'
      > & { readonly diskBytes: number })
    | undefined
}

export interface CollectionStats {
  readonly collection: string
  readonly points: number
  /** Undefined before the first insert. */
  readonly dimension: number | undefined
  readonly segments: number
  readonly sequence: number
  readonly linked: number
  /** Points that are not linked yet: every search scans them. */
  readonly waiting: number
  readonly tombstones: number
  /** Whether a graph is being built or repaired, or recall is being measured. */
  readonly isSettling: boolean
  readonly memoryBytes: {
    readonly index: number
    readonly ids: number
    readonly attributes: number
    readonly words?: number
  }
  /** About how many points wait until their words are indexed; absent if none does. */
  readonly wordsWaiting?: number
  /** Only with quotas: these, the searches in flight if they are bounded, and what was refused since the start. */
  readonly quotas?: Quotas & { readonly searching: number; readonly refused: number }
  /**
   * Only in a cluster that divides the points among its nodes; undefined elsewhere. In such a cluster, `points` counts
   * each point once, and leaves out those of missing partitions. All other figures are sums over the nodes.
   */
  readonly parts?: {
    readonly nodes: readonly NodeStats[]
    readonly diskBytes: number
    /** The partitions for which no node has answered, of all partitions. */
    readonly missing: { readonly partitions: number; readonly of: number }
  }
  readonly graphs: readonly {
    readonly metric: Metric
    /** Undefined without a graph; `nothing` if neither codes nor vectors distinguish the points. */
    readonly distanceSource: 'codes' | 'vectors' | 'nothing' | undefined
  }[]
  readonly searches: readonly {
    readonly metric: Metric
    readonly plan: 'graph' | 'scan'
    /** Undefined for scans. */
    readonly efMultiplier: number | undefined
    /** Undefined until it has been measured. */
    readonly recall: number | undefined
    /** Recall of searches with a filter, by the share of points that match, like `0-0.1`. */
    readonly filtered: readonly { readonly matchingShare: string; readonly recall: number | undefined }[]
  }[]
}

export interface SlowQueries {
  /** Faster requests are not kept. */
  readonly thresholdMs: number
  /** The slowest request first. */
  readonly queries: readonly SlowQuery[]
}

export interface SlowQuery {
  /** When the request ended. */
  readonly time: Date
  readonly tookMs: number
  readonly collection: string
  readonly operation: string
  readonly transport: 'grpc' | 'http'
  /** `ok` or the reason of the error. */
  readonly outcome: string
  /** How many queries a batch has. In a batch, the fields from `metric` to `reason` describe its first query. */
  readonly queries?: number
  readonly metric?: Metric
  readonly limit?: number
  readonly ef?: number
  /** As JSON, truncated. */
  readonly filter?: string
  readonly plan?: string
  readonly reason?: string
  readonly hits?: number
}

export interface SettingInForce extends Omit<SettingInfo, 'value'> {
  /** Undefined if the setting has no value; a secret is masked. */
  readonly value: string | number | boolean | undefined
}

/** The settings of a collection; all but words and quotas are fixed when it is created. The service or the first insert decides absent fields. */
export interface NewCollection extends Omit<CollectionSettings, 'hnsw' | 'words' | 'quotas'> {
  readonly hnsw?: HnswSettings | undefined
  /** The texts that can be searched by words. Can be changed at any time; null: none. */
  readonly words?: Words | null | undefined
  /** What may be held or used at most. Can be changed at any time; without a field: no quotas. */
  readonly quotas?: Quotas | undefined
}

export interface Words {
  /** `auto`, `none` or a language like `english`. */
  readonly language?: WordLanguageChoice | undefined
  /** The weight of each path: `content`, or the path of an attribute. */
  readonly paths: Readonly<Record<string, number>>
  readonly k1?: number | undefined
  readonly b?: number | undefined
}

/** A collection as callers see it. */
export interface CollectionInfo extends Omit<StoredInfo, 'words'> {
  /** Absent if the collection has none. */
  readonly words?: Words | undefined
}

export interface PutResult {
  /** False if the collection already existed, with these settings. */
  readonly created: boolean
  readonly info: CollectionInfo
}

export interface AliasChanges {
  /** Collection names by alias; an alias that exists is moved. */
  readonly set?: Readonly<Record<string, string>> | undefined
  /** Aliases to remove; an unknown one is ignored. */
  readonly remove?: readonly string[] | undefined
}

/** Collection names by alias. */
export type Aliases = Readonly<Record<string, string>>

/** The collections of a service. Every method fails with a `DatabaseError` that carries the server's message. */
export interface CollectionsClient {
  /** Lists all collections in alphabetical order, including the default one. */
  list(options?: CallOptions): Promise<readonly CollectionInfo[]>
  /** Returns one collection, by name or alias. Fails with `collection_not_found`. */
  get(name: string, options?: CallOptions): Promise<CollectionInfo>
  /** Creates a collection. Idempotent; fails with `already_exists` if it exists with other settings. */
  put(name: string, settings?: NewCollection, options?: CallOptions): Promise<PutResult>
  /** Deletes a collection with its points and aliases. Fails with `collection_not_found`. */
  delete(name: string, options?: CallOptions): Promise<void>
  /** Sets and removes aliases in one atomic step. Resolves with all aliases. */
  setAliases(changes: AliasChanges, options?: CallOptions): Promise<Aliases>
}

/** Which records of the audit to return; absent fields select everything. */
export interface AuditQuery {
  /** From this time on. */
  readonly since?: DateValue | undefined
  /** Before this time. */
  readonly until?: DateValue | undefined
  /** The name of the callers' key. */
  readonly key?: string | undefined
  /** As in the protobuf service, like `PutPoint`. */
  readonly operation?: string | undefined
  readonly collection?: string | undefined
  /** False for calls that the caller had no right to. */
  readonly allowed?: boolean | undefined
  /** 1 to 1000; by default 100. */
  readonly limit?: number | undefined
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined
}

export type { AuditPage, AuditRecord }

/** What a key may do; absent fields restrict nothing. */
export interface KeyInfo {
  /** 1 to 64 letters, digits and _.- */
  readonly name: string
  readonly role: 'read' | 'write' | 'admin'
  /** Names of collections, or beginnings followed by `*`. */
  readonly collections?: readonly string[] | undefined
  /** Only points that match exist for the key. It can only test attributes. */
  readonly filter?: Filter | undefined
  readonly expiresAt?: DateValue | undefined
  readonly quotas?: KeyQuotas | undefined
}

/** Points are those that match the filter. */
export type KeyQuotas = Omit<Quotas, 'bytes'>

export interface CreatedKey extends KeyInfo {
  /** What callers send. Nobody can find it out later. */
  readonly key: string
}

/** The keys of the file that API_KEYS_FILE names, on the node that answers. */
export interface KeysClient {
  /** Stores a new key, which can be used at once. Fails with `already_exists`. By default, it may read. */
  create(
    key: Omit<KeyInfo, 'role'> & { readonly role?: KeyInfo['role'] | undefined },
    options?: CallOptions,
  ): Promise<CreatedKey>
  list(options?: CallOptions): Promise<readonly KeyInfo[]>
  /** Removes a key: calls with it are refused at once. Fails with `not_found`. */
  revoke(name: string, options?: CallOptions): Promise<void>
}

/** What only a key with the role admin may do. */
export interface AccessClient {
  /** Lists what callers have done, from the audit of the node that answers. */
  audit(query?: AuditQuery, options?: CallOptions): Promise<AuditPage>
  readonly keys: KeysClient
}
