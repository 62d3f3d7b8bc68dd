import type { Scalar } from '../base/attributes.ts'
import type { AnswerRoom } from '../base/byte-budget.ts'
import type { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Include, NewPoint, Patch, Point, Precondition, SearchQuery } from '../base/point.ts'
import type { HitDetails, SearchResults } from '../base/search-results.ts'
import type { CollectionStats } from '../collections/collection-stats.ts'
import type { Snapshot } from '../storage/store.ts'

export type { CollectionStats }

/** Identifies a request with an idempotency key, by hashes of 16 bytes. */
export interface RequestIdentity {
  readonly keyHash: Uint8Array
  /** The hash of the request's content: equal for equal requests, however the transports encode them. */
  readonly bodyHash: Uint8Array
}

export interface InsertOptions {
  /** `continue` stores what can be stored and reports the rest; `abort` stores all or nothing. */
  readonly onError?: 'abort' | 'continue' | undefined
  readonly identity?: RequestIdentity | undefined
  readonly signal?: AbortSignal | undefined
}

/** What an insert stored: the id of each input, null for those in `errors`, which only `continue` reports. */
export interface Inserted {
  readonly ids: readonly (string | null)[]
  readonly errors: readonly ItemError[]
}

export interface ItemError {
  readonly index: number
  readonly error: DatabaseError
}

/** What a read knows about the call that it answers. */
export interface ReadCall {
  /** Aborts when nobody waits for the answer any more. */
  readonly signal?: AbortSignal | undefined
  /**
   * Counts what is read for the answer, as it is read. Whoever sends the answer gives the room back. Absent: the
   * answer is small, or its size is limited elsewhere.
   */
  readonly room?: AnswerRoom | undefined
}

export interface ListQuery {
  readonly filter?: Filter | undefined
  /** 1..`MAX_LIMIT`. */
  readonly limit: number
  /** From the previous page. The engine refuses a cursor that it did not create with `invalid_argument`. */
  readonly cursor?: string | undefined
  readonly include: Include
  /** Whether the page reports the order of its points, for merging it with other pages. */
  readonly ordered?: boolean | undefined
}

/** A page of points in the order of their insertion. */
export interface ListPage {
  readonly points: readonly ({ readonly id: string } & HitDetails)[]
  /** Absent on the last page. */
  readonly nextCursor?: string | undefined
  /** The place of each point in the order of insertion; only if the query was `ordered`. */
  readonly orders?: readonly number[]
}

export interface FacetCount {
  readonly value: Scalar
  readonly count: number
}

/** Figures of a collection that is spread over the nodes of a cluster. */
export interface StatsOfNodes {
  /** The number of points, each counted once, in the partitions for which a node has answered. */
  readonly points: number
  /** The number of partitions for which no node has answered. */
  readonly missing: number
  /**
   * The nodes by name, each with its own copy of some points; `stats` is undefined for a node that has not answered.
   */
  readonly nodes: readonly { readonly node: string; readonly stats: CollectionStats | undefined }[]
}

/** Which points a request by filter changes, how, and how many. */
export interface ChangeByFilter {
  readonly filter: Filter
  readonly change: Patch | 'delete'
  /** The most changes; the engine lowers it to 100,000. */
  readonly limit?: number | undefined
  /** Only counts the points that would change. */
  readonly dryRun: boolean
}

/**
 * The engine's interface to the api. All arguments have been checked. Insertions and removals resolve when they are on
 * disk and visible to every later read and search.
 */
export interface Database {
  /** Length of every vector; undefined until the first insert fixes it. */
  readonly dimension: number | undefined
  /**
   * The time from which a life in seconds is counted, in microseconds since 1970: the system's clock, or in a cluster
   * the log's if that is ahead, because points expire by it.
   */
  readonly nowUs: number
  /** Figures of the collection and its index. */
  readonly stats: CollectionStats
  /**
   * Stores all points or none, unless told to continue.
   *
   * With an `identity`, a request that was stored before gets the same answer again, including the ids of points
   * removed since. A repetition that arrives while the first request is in progress waits for it.
   *
   * @throws DatabaseError `key_reused` when a request with another body was stored under the key; `already_exists`,
   *   naming the item, for an id that exists
   */
  insert(points: readonly NewPoint[], options?: InsertOptions): Promise<Inserted>
  /** Removes the point; returns false when no point has this id. `id` is a lower-case UUID. */
  remove(id: string, signal?: AbortSignal): Promise<boolean>
  /**
   * Stores a point under its id, replacing any point that has it.
   *
   * @throws DatabaseError `precondition_failed`
   */
  put(
    id: string,
    point: Pick<NewPoint, 'vector' | 'payload'>,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number; readonly created: boolean }>
  /**
   * Changes a point.
   *
   * @throws DatabaseError `not_found`; `precondition_failed`; `invalid_argument` when attributes would exceed a limit
   */
  patch(
    id: string,
    patch: Patch,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number }>
  /** Changes or removes the matching points in one atomic group, beginning with those inserted first. */
  changeByFilter(
    request: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }>
  /**
   * Returns a view for reads that must be as new as a position of the cluster's log, including the answers of other
   * nodes. Absent where there are no other nodes.
   */
  asOf?(position: number): Database
  /**
   * Figures of the collection on all nodes that have a part of it; undefined, or absent, where this node has all
   * points.
   */
  statsOfNodes?(signal?: AbortSignal): Promise<StatsOfNodes> | undefined
  /** Returns the point with this id, a lower-case UUID. */
  get(id: string, call?: ReadCall): Promise<Point | undefined>
  /**
   * Returns the nearest points, one list per query: closest first, equal distances by insertion order.
   *
   * @throws DatabaseError `not_found` for a query near a point that does not exist
   */
  search(queries: readonly SearchQuery[], call?: ReadCall): Promise<SearchResults>
  list(query: ListQuery, call?: ReadCall): Promise<ListPage>
  /** Counts the matching points; all points without a filter. */
  count(filter?: Filter, signal?: AbortSignal): Promise<number>
  /**
   * Returns the values of matching points by path, each with the number of points that have it: the `limit` most
   * frequent, equal counts by value.
   */
  facets(
    query: {
      readonly filter?: Filter | undefined
      readonly paths: readonly string[]
      readonly limit: number
    },
    call?: ReadCall,
  ): Promise<ReadonlyMap<string, readonly FacetCount[]>>
  /**
   * Opens a snapshot of all points as they are now. The caller closes it.
   *
   * @throws DatabaseError `overloaded` while another one is open; in a cluster `not_ready` when no node has some of the
   *   points now
   */
  snapshot(signal?: AbortSignal): PointsSnapshot | Promise<PointsSnapshot>
}

/** All points as they were at one moment; can be read once. */
export type PointsSnapshot = Pick<Snapshot, 'databaseId' | 'sequence' | 'points' | 'close'> & {
  chunks(): AsyncGenerator<Buffer>
  /** In a cluster whose nodes each have a part of the points: the log position of the snapshot. */
  readonly position?: number
}
