import type { IdLists } from '../base/id-lists.ts'
import type { NewPoint, Point, SearchQuery } from '../base/point.ts'
import type { Snapshot } from '../storage/store.ts'

export type { Snapshot }

/** Identifies a request with an idempotency key, by hashes of 16 bytes. */
export interface RequestIdentity {
  readonly keyHash: Uint8Array
  /** The hash of the points to store: equal for equal points, however the transports encode them. */
  readonly bodyHash: Uint8Array
}

/**
 * The engine's interface to the api. All arguments were checked before.
 * Insertions and removals resolve when they are on disk and visible to every later read and search.
 */
export interface Database {
  /** Length of every vector; undefined until the first insert fixes it. */
  readonly dimension: number | undefined
  /**
   * Stores all points or none; ids are in the order of `points`, which is not empty.
   *
   * With an `identity`, a request that was stored before gets the same ids again, also those of points that have been
   * removed since. A repetition that arrives while the first is in progress waits for it.
   *
   * @throws DatabaseError `key_reused` when a request with another body was stored under the key
   */
  insert(
    points: readonly NewPoint[],
    signal?: AbortSignal,
    identity?: RequestIdentity,
  ): Promise<readonly string[]>
  /** Removes the point; false when there is none with this id. `id` is a lower-case UUID. */
  remove(id: string, signal?: AbortSignal): Promise<boolean>
  /** The point with this id, a lower-case UUID, as it was stored. */
  get(id: string): Point | undefined
  /** Ids of the nearest points, a list a query: closest first, equal distances by insertion order. */
  search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<IdLists>
  /**
   * Opens a snapshot of all points as they are now. The caller closes it.
   *
   * @throws DatabaseError `overloaded` while another one is open
   */
  snapshot(): Snapshot
}
