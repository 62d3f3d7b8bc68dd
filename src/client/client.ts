import { DatabaseError } from '../base/errors.ts'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'
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

export interface InsertOptions extends CallOptions {
  /**
   * Makes repeating safe: a call with the key and the points of one that was stored gets that one's ids, and stores
   * nothing. Up to 255 characters of printable ASCII, a new one for each insert; the service keeps it for a day.
   */
  readonly idempotencyKey?: string
}

/**
 * The service as a program sees it, whichever transport is behind it. Every method fails with a
 * `DatabaseError` that carries the server's reason and message.
 */
export interface VectorClient {
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
  close(): Promise<void>
}

/** The key of a call's options. @throws DatabaseError `invalid_argument` for one that no transport can carry */
export function idempotencyKeyOf({ idempotencyKey }: InsertOptions = {}): string | undefined {
  const fault = idempotencyKey === undefined ? undefined : faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw new DatabaseError('invalid_argument', `idempotencyKey ${fault}`)
  return idempotencyKey
}
