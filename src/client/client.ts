import type { Metric, Payload, Point } from '../base/point.ts'

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

export interface CallOptions {
  /** Gives the call up; it then fails with `cancelled`. */
  readonly signal?: AbortSignal
}

/**
 * The service as a program sees it, whichever transport is behind it. Every method fails with a
 * `DatabaseError` that carries the server's reason and message.
 */
export interface VectorClient {
  /** Stores a point; resolves with its id once it is durable and searchable. */
  insert(point: PointToInsert, options?: CallOptions): Promise<string>
  /** Stores all points or none; ids are in the order of `points`. */
  insertBatch(points: readonly PointToInsert[], options?: CallOptions): Promise<readonly string[]>
  /** The point, or a `not_found` failure. */
  get(id: string, options?: CallOptions): Promise<Point>
  /** Deletes a point. Over gRPC a missing one is a `not_found` failure, over HTTP it is not. */
  delete(id: string, options?: CallOptions): Promise<void>
  /** Ids of the nearest points, closest first. */
  search(query: Query, options?: CallOptions): Promise<readonly string[]>
  /** The answer to each query, in their order. */
  searchBatch(queries: readonly Query[], options?: CallOptions): Promise<readonly (readonly string[])[]>
  close(): Promise<void>
}
