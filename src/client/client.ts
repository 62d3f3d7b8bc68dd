import type { Reason } from '../base/errors.ts'
import type { ContentType, Metric, OnConflict } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import type { AttributesInput, AttributesOutput, Moment } from './attributes.ts'
import type { BulkOptions, CallOptions, InsertOptions } from './call-options.ts'
import type { CollectionsClient } from './collections.ts'
import type { Filter } from './filters.ts'

/** What to store with a vector. */
export interface PayloadToStore {
  readonly contentType: ContentType
  readonly content: string
  readonly attributes?: AttributesInput | undefined
  /** From this moment on, no answer contains the point. */
  readonly expiresAt?: Moment | undefined
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
  readonly expiresAt?: Moment
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
  readonly distance?: boolean
  readonly payload?: boolean
  /** Paths of attributes, or true for all. */
  readonly attributes?: readonly string[] | boolean
  readonly vector?: boolean
  readonly version?: boolean
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
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number | undefined
  readonly filter?: Filter | undefined
  /** Whether the results must be the true nearest points. */
  readonly exact?: boolean | undefined
  readonly maxDistance?: number | undefined
}

export interface DetailedQuery extends Query {
  readonly include: Include
  /** Whether the answer describes how the search was run. */
  readonly profile?: boolean | undefined
}

/** A point that was found, with those fields that the call asked for. */
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
  readonly expiresAt?: Moment | null | undefined
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
  /** Stores all points or none; ids are in the order of `points`. */
  insertBatch(points: readonly PointToInsert[], options?: InsertOptions): Promise<readonly string[]>
  /** Stores the valid points and reports the others. */
  insertEach(points: readonly PointToInsert[], options?: InsertOptions): Promise<InsertReport>
  /**
   * Stores any number of points in batches; yields the ids of each batch. Reads points only as fast as requests finish.
   * Points with the same id are stored one after another, so with `replace` the last one wins; in all other respects,
   * concurrent batches may be stored in any order.
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
export interface VectorClient extends PointsClient {
  /**
   * Returns a client for the points of another collection, over the same connection. Sends no request.
   *
   * @param name of a collection, or an alias, which the service looks up with every call
   * @throws DatabaseError `invalid_argument` for an invalid name
   */
  collection(name: string): VectorClient
  readonly collections: CollectionsClient
}
