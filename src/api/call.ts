import { DatabaseError } from '../base/errors.ts'
import type { NewPoint, Point, SearchQuery } from '../base/point.ts'

/**
 * What the api needs of the engine. All arguments are checked before they come here.
 * Insertions and removals resolve when they are on disk and visible to every later read and search.
 */
export interface Database {
  /** Length of every vector; undefined until the first insert fixes it. */
  readonly dimension: number | undefined
  /** Stores all points or none; ids are in the order of `points`. */
  insert(points: readonly NewPoint[], signal?: AbortSignal): Promise<readonly string[]>
  /** Removes the point; false when there is none with this id. `id` is well formed, in either case. */
  remove(id: string, signal?: AbortSignal): Promise<boolean>
  get(id: string): Point | undefined
  /** Ids of the nearest points per query, closest first, equal distances by insertion order. */
  search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<readonly (readonly string[])[]>
}

/** The bounds and defaults an operation fills in; from the settings of the same names. */
export interface Limits {
  readonly maxLimit: number
  readonly hnswEf: number
}

/** What an operation runs against. */
export interface ApiContext {
  readonly database: Database
  readonly limits: Limits
}

/**
 * What a transport knows about one call. `fields` gives the transport's own names for fields that the two
 * spell differently, so that a message names what the caller sent.
 */
export interface Call {
  readonly fields: { readonly queryVector: 'query_vector' | 'vector' }
  /** Aborts when the caller has gone or its deadline has passed. */
  readonly signal?: AbortSignal
}

/** An error in what the caller sent: the message names the field, the value and the limit. */
export function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}
