import type { Metric, Payload, Point as StoredPoint } from '../base/point.ts'

export type Point = Omit<StoredPoint, 'version'>

import type { CallOptions, InsertOptions } from './call-options.ts'
import type { CollectionsClient } from './collections.ts'

/** What a caller stores: components that fit float32, and what they stand for. */
export interface PointToInsert {
  readonly vector: ArrayLike<number>
  readonly payload: Payload
}

/** A nearest-neighbour query; without `ef` the server's default applies. */
export interface Query {
  readonly vector: ArrayLike<number>
  readonly metric: Metric
  readonly limit: number
  readonly ef?: number
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
  /** The point, or a `not_found` failure. */
  get(id: string, options?: CallOptions): Promise<Point>
  /** Deletes a point. Over gRPC a missing one is a `not_found` failure, over HTTP it is not. */
  delete(id: string, options?: CallOptions): Promise<void>
  /** Ids of the nearest points, closest first. */
  search(query: Query, options?: CallOptions): Promise<readonly string[]>
  /** The answer to each query, in their order. */
  searchBatch(queries: readonly Query[], options?: CallOptions): Promise<readonly (readonly string[])[]>
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
