import type { Reason } from '../base/errors.ts'
import type { ContentType, Metric, OnConflict } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import type { AttributesInput, AttributesOutput, Moment } from './attributes.ts'
import type { BulkOptions, CallOptions, InsertOptions } from './call-options.ts'
import type { CollectionsClient } from './collections.ts'
import type { Filter } from './filters.ts'

/** What a caller stores with a vector. */
export interface PayloadToStore {
  readonly contentType: ContentType
  readonly content: string
  readonly attributes?: AttributesInput | undefined
  /** From then on the point is in no answer. */
  readonly expiresAt?: Moment | undefined
}

/**
 * What a caller stores: components that fit float32, and what they stand for. A service with embeddings needs no vector: it
 * embeds `text`, or the content, if that is Text.
 */
export interface PointToStore {
  readonly vector?: ArrayLike<number> | undefined
  /** Embedded by the service, in place of a vector. */
  readonly text?: string | undefined
  readonly payload: PayloadToStore
}

export interface PointToInsert extends PointToStore {
  /** Any UUID; the service assigns one when there is none. */
  readonly id?: string | undefined
  /** What happens if the id exists; `error` when not given. */
  readonly onConflict?: OnConflict | undefined
}

export interface StoredPayload {
  readonly contentType: ContentType
  readonly content: string
  readonly attributes?: AttributesOutput
  readonly expiresAt?: Moment
}

export interface Point {
  readonly id: string
  readonly vector: Float32Array
  readonly payload: StoredPayload
  /** Grows with every change of the point; there if it was asked for. */
  readonly version?: number
}

/** What an answer holds besides ids. */
export interface Include {
  readonly distance?: boolean
  readonly payload?: boolean
  /** Paths of attributes, or true for all. */
  readonly attributes?: readonly string[] | boolean
  readonly vector?: boolean
  readonly version?: boolean
}

/** A nearest-neighbour query; without `ef` the server's default applies. */
export interface Query {
  /** What to search near: a vector; the id of a stored point, which is left out; or a text, if the service has embeddings. */
  readonly vector?: ArrayLike<number> | undefined
  readonly id?: string | undefined
  readonly text?: string | undefined
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number | undefined
  readonly filter?: Filter | undefined
  /** Whether the results have to be the true nearest. */
  readonly exact?: boolean | undefined
  readonly maxDistance?: number | undefined
}

export interface DetailedQuery extends Query {
  readonly include: Include
  /** Whether the answer says how it was found. */
  readonly profile?: boolean | undefined
}

/** What was found, closest first; of each hit what was asked for. */
export interface Hit {
  readonly id: string
  readonly distance?: number
  readonly payload?: Partial<StoredPayload>
  readonly vector?: Float32Array
  readonly version?: number
}

export interface SearchAnswer {
  readonly hits: readonly Hit[]
  readonly profile?: Profile | undefined
}

/** What has to be true for a write to happen; otherwise it fails with `precondition_failed`. */
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

/** A change of a point; what is not given stays as it is. */
export interface Patch {
  /** By path: `a.b` sets b within a. */
  readonly set?: AttributesInput | undefined
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: ContentType | undefined
  /** null: it does not expire any more. */
  readonly expiresAt?: Moment | null | undefined
  readonly vector?: ArrayLike<number> | undefined
  /** Embedded by the service, in place of a vector. Without it the vector stays, also if the content changes. */
  readonly text?: string | undefined
}

/** What became of a batch that went on after errors: null where a point was not stored. */
export interface InsertReport {
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
  /** For the next page; absent on the last one. */
  readonly nextCursor?: string | undefined
}

export interface FacetCount {
  readonly value: AttributesOutput[string]
  readonly count: number
}

/** Which points to change. An empty filter, which means all of them, needs `everything`. */
export interface Selection {
  readonly filter: Filter
  /** Changes at most. */
  readonly limit?: number | undefined
  /** Counts, and changes nothing. */
  readonly dryRun?: boolean | undefined
  readonly everything?: boolean | undefined
}

export interface Changed {
  readonly changed: number
  /** Whether points are left that match: call again. */
  readonly more: boolean
}

/**
 * The points of one collection as a program sees them, whichever transport is behind it. Every method fails with a
 * `DatabaseError` that carries the server's reason and message; `collection_not_found` where the collection is missing.
 */
export interface PointsClient {
  /** Stores a point; resolves with its id once it is durable and searchable. */
  insert(point: PointToInsert, options?: InsertOptions): Promise<string>
  /** Stores all points or none; ids are in the order of `points`. */
  insertBatch(points: readonly PointToInsert[], options?: InsertOptions): Promise<readonly string[]>
  /** Stores what can be stored, and reports the rest. */
  insertEach(points: readonly PointToInsert[], options?: InsertOptions): Promise<InsertReport>
  /** Stores any number of points, in batches; yields the ids of each batch. Reads no more points than are under way. */
  insertAll(
    points: AsyncIterable<PointToInsert> | Iterable<PointToInsert>,
    options?: BulkOptions,
  ): AsyncGenerator<readonly string[]>
  /** Stores a point under its id, in place of the one that was there. */
  put(
    id: string,
    point: PointToStore,
    options?: WriteOptions,
  ): Promise<{ readonly version: number; readonly created: boolean }>
  /** Changes a point; a missing one is a `not_found` failure. */
  patch(id: string, patch: Patch, options?: WriteOptions): Promise<{ readonly version: number }>
  /** The point, or a `not_found` failure. */
  get(id: string, options?: GetOptions): Promise<Point>
  /** Deletes a point. Over gRPC a missing one is a `not_found` failure, over HTTP it is not. */
  delete(id: string, options?: CallOptions): Promise<void>
  /** Ids of the nearest points, closest first. */
  search(query: Query, options?: CallOptions): Promise<readonly string[]>
  /** The answer to each query, in their order. */
  searchBatch(queries: readonly Query[], options?: CallOptions): Promise<readonly (readonly string[])[]>
  /** As `search`, with what `include` asks for. */
  searchHits(query: DetailedQuery, options?: CallOptions): Promise<SearchAnswer>
  searchHitsBatch(queries: readonly DetailedQuery[], options?: CallOptions): Promise<readonly SearchAnswer[]>
  /** One page of points in the order of their insertion. */
  list(query?: ListQuery, options?: CallOptions): Promise<ListPage>
  /** All matching points, page by page. Points that are stored all the while come exactly once. */
  listAll(query?: Omit<ListQuery, 'cursor'>, options?: CallOptions): AsyncGenerator<Hit>
  /** How many points match; all points without a filter. */
  count(filter?: Filter, options?: CallOptions): Promise<number>
  /** By path, the most frequent values of the points that match. */
  facets(
    query: {
      readonly filter?: Filter | undefined
      readonly paths: readonly string[]
      readonly limit?: number | undefined
    },
    options?: CallOptions,
  ): Promise<Readonly<Record<string, readonly FacetCount[]>>>
  /** Changes the points that match, up to 100,000 in one atomic step. */
  updateMatching(
    request: Selection & Pick<Patch, 'set' | 'unset' | 'expiresAt'>,
    options?: CallOptions,
  ): Promise<Changed>
  /** Deletes the points that match, up to 100,000 in one atomic step. */
  deleteMatching(request: Selection, options?: CallOptions): Promise<Changed>
  /** Closes the connection, also for every other client that shares it. */
  close(): Promise<void>
}

/**
 * The service: the points of the collection that the options name, or of the default one, and the collections
 * themselves.
 *
 * @example
 * await client.collections.put('glosses', { dimension: 512 })
 * const glosses = client.collection('glosses')
 * await glosses.insert({ vector, payload: { contentType: 'Text', content: 'a gloss' } })
 */
export interface VectorClient extends PointsClient {
  /**
   * A client for the points of another collection, over the same connection. Asks the service for nothing.
   *
   * @param name of a collection, or an alias, which is looked up with every call
   * @throws DatabaseError `invalid_argument` for what cannot be a name
   */
  collection(name: string): VectorClient
  readonly collections: CollectionsClient
}
