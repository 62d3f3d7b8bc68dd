import type { Scalar } from '../base/attributes.ts'
import type { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type {
  Include,
  Metric,
  NewPoint,
  Patch,
  Payload,
  Point,
  Precondition,
  SearchQuery,
} from '../base/point.ts'
import type { HitDetails, SearchResults } from '../base/search-results.ts'
import type { Snapshot } from '../storage/store.ts'
import type { CollectionStats } from './collection-stats.ts'

export type { CollectionStats }

/** Identifies a request with an idempotency key, by hashes of 16 bytes. */
export interface RequestIdentity {
  readonly keyHash: Uint8Array
  /** The hash of what was asked for: equal for equal requests, however the transports encode them. */
  readonly bodyHash: Uint8Array
}

export interface InsertOptions {
  /** `continue` stores what can be stored and reports the rest; `abort` stores all or nothing. */
  readonly onError?: 'abort' | 'continue' | undefined
  readonly identity?: RequestIdentity | undefined
  readonly signal?: AbortSignal | undefined
}

/** What an insert stored: ids by input; null for those of `errors`, which only `continue` has. */
export interface Inserted {
  readonly ids: readonly (string | null)[]
  readonly errors: readonly ItemError[]
}

export interface ItemError {
  readonly index: number
  readonly error: DatabaseError
}

export interface ListQuery {
  readonly filter?: Filter | undefined
  /** 1..`MAX_LIMIT`. */
  readonly limit: number
  /** From the page before; checked by the engine: `invalid_argument` for one that it never made. */
  readonly cursor?: string | undefined
  readonly include: Include
  /** Whether the page says what its points are ordered by, for merging it with others. */
  readonly ordered?: boolean | undefined
}

/** A page of points in the order of their insertion. */
export interface ListPage {
  readonly points: readonly ({ readonly id: string } & HitDetails)[]
  /** Absent on the last page. */
  readonly nextCursor?: string | undefined
  /** Of each point, its place in the order of insertion; only of an `ordered` query. */
  readonly orders?: readonly number[]
}

export interface FacetCount {
  readonly value: Scalar
  readonly count: number
}

/** Which points a map has, and what of each. */
export interface MapQuery {
  readonly filter?: Filter | undefined
  readonly metric: Metric
  /** Points at most: a random sample if more match. */
  readonly limit: number
  /** The same seed chooses the same points. */
  readonly seed: number
  /** Neighbours of each point. */
  readonly k: number
  readonly ef: number
  /** Of each point; only its payload and attributes. */
  readonly include?: Include | undefined
}

/** A point of a map. Points are known by their numbers: their places in the order in which they come. */
export interface MapRow {
  readonly id: string
  /** Numbers of the nearest points of the map, closest first; none for a point that was removed meanwhile. */
  readonly neighbours: readonly number[]
  /** Of each neighbour, in the units of the metric. */
  readonly distances: readonly number[]
  /** If `include` asks for it and the point is still there. */
  readonly payload?: Payload | undefined
}

/** Sampled points with their neighbours among each other. */
export interface PointMap {
  /** Points that match. */
  readonly points: number
  /** Points of the map. */
  readonly sampled: number
  /** The points, some at a time: they are searched for when they are asked for. To be read once. */
  rows(signal?: AbortSignal): AsyncGenerator<readonly MapRow[], void>
  /** Makes room for the next map. Idempotent. */
  close(): void
}

/** Of a read that may lack the points of which no node of a cluster answers. */
export interface PartialReads {
  /** By `performance.now()`: nodes that have not answered by then are left out; undefined: as long as nodes wait for each other. */
  readonly endMs: number | undefined
  /** Called before the answer, if it lacks partitions, with how many. */
  readonly onMissing: (partitions: number) => void
}

/** A collection on the nodes of a cluster that have a part of its points each. */
export interface StatsOfNodes {
  /** Points, each once, of the partitions of which a node has answered. */
  readonly points: number
  /** Partitions of which none has. */
  readonly missing: number
  /** In the order of their names: what each one has, which is a copy of some points; undefined for one that has not answered. */
  readonly nodes: readonly { readonly node: string; readonly stats: CollectionStats | undefined }[]
}

/** Which points a request by filter changes, and how many. */
export interface ChangeByFilter {
  readonly filter: Filter
  readonly change: Patch | 'delete'
  /** Changes at most; the engine lowers it to 100,000. */
  readonly limit?: number | undefined
  /** Counts, and changes nothing. */
  readonly dryRun: boolean
}

/**
 * The engine's interface to the api. All arguments were checked before.
 * Insertions and removals resolve when they are on disk and visible to every later read and search.
 */
export interface Database {
  /** Length of every vector; undefined until the first insert fixes it. */
  readonly dimension: number | undefined
  /** How its index is now. */
  readonly stats: CollectionStats
  /**
   * Stores all points or none, unless told to continue.
   *
   * With an `identity`, a request that was stored before gets the same answer again, also with ids of points that have
   * been removed since. A repetition that arrives while the first is in progress waits for it.
   *
   * @throws DatabaseError `key_reused` when a request with another body was stored under the key; `already_exists`,
   *   naming the item, for an id that exists
   */
  insert(points: readonly NewPoint[], options?: InsertOptions): Promise<Inserted>
  /** Removes the point; false when there is none with this id. `id` is a lower-case UUID. */
  remove(id: string, signal?: AbortSignal): Promise<boolean>
  /**
   * Stores a point under its id, in place of the one that was there.
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
   * @throws DatabaseError `not_found`; `precondition_failed`; `invalid_argument` when its attributes would exceed a limit
   */
  patch(
    id: string,
    patch: Patch,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number }>
  /** Changes or removes the points that match, in one atomic group, those inserted first before the others. */
  changeByFilter(
    request: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }>
  /**
   * The same, for reads that have to be as new as a position of the cluster's log: what other nodes answer has to be, too.
   * Absent where there are no other nodes.
   *
   * @param partial given: searches, lists, counts and facets may be partial; `get` never is, as it would say that a point is not there
   */
  asOf?(position: number, partial?: PartialReads): Database
  /** How its index is on all nodes that have some of it; undefined, or absent, where this one has all points. */
  statsOfNodes?(signal?: AbortSignal): Promise<StatsOfNodes> | undefined
  /** The point with this id, a lower-case UUID. */
  get(id: string, signal?: AbortSignal): Promise<Point | undefined>
  /**
   * The nearest points, a list a query: closest first, equal distances by insertion order.
   *
   * @throws DatabaseError `not_found` for a query near a point that does not exist
   */
  search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<SearchResults>
  list(query: ListQuery, signal?: AbortSignal): Promise<ListPage>
  /** How many points match; all points without a filter. */
  count(filter?: Filter, signal?: AbortSignal): Promise<number>
  /** By path, the values of matching points with the number of points that have them: the `limit` most frequent, equal counts by value. */
  facets(
    query: {
      readonly filter?: Filter | undefined
      readonly paths: readonly string[]
      readonly limit: number
    },
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<string, readonly FacetCount[]>>
  /**
   * Samples points for a map. The caller closes it.
   *
   * @throws DatabaseError `overloaded` while another one is open
   */
  map(query: MapQuery, signal?: AbortSignal): Promise<PointMap>
  /**
   * Opens a snapshot of all points as they are now. The caller closes it.
   *
   * @throws DatabaseError `overloaded` while another one is open; in a cluster `not_ready` when some points have no node now
   */
  snapshot(signal?: AbortSignal): PointsSnapshot | Promise<PointsSnapshot>
}

/** All points as they were at one moment, to be read once. */
export type PointsSnapshot = Pick<Snapshot, 'databaseId' | 'sequence' | 'points' | 'close'> & {
  chunks(): AsyncGenerator<Buffer>
  /** In a cluster whose nodes have a part of the points each: the position of the log that it is of. */
  readonly position?: number
}
