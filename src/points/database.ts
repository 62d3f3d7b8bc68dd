import type { Scalar } from '../base/attributes.ts'
import type { AnswerRoom } from '../base/budgets.ts'
import type { CollectionInfo, CollectionSettings } from '../base/collection.ts'
import type { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { SearchResults } from '../base/id-lists.ts'
import type {
  HitDetails,
  Include,
  Metric,
  NewPoint,
  Patch,
  Point,
  Precondition,
  SearchQuery,
} from '../base/point.ts'
import type { Meter } from '../base/quotas.ts'
import type { DistanceSource, Route } from '../index/routes.ts'
import type { Moment, Snapshot, SnapshotChoice } from '../storage/store.ts'

export type { Moment }

/** The interface of the engine to the api, and to the cluster. All arguments have been checked. */

/**
 * Collections by name. Names are well formed. Wherever points are concerned, an alias
 * refers to its collection.
 */
export interface Collections {
  /**
   * Opens a collection if it is not open yet, and keeps it open until the lease is disposed.
   *
   * @throws DatabaseError `collection_not_found`
   */
  lease(name: string): Lease | Promise<Lease>
  /** Returns a collection's own name; absent where `aliases` has all of them. Any other name is returned as it is. */
  nameOf?(name: string): string | Promise<string>
  /** What counts against the quotas of a collection, by its name or alias; undefined if it has none. */
  meterOf?(name: string): Meter | undefined | Promise<Meter | undefined>
  /** In alphabetical order, the default collection included. */
  list(): readonly CollectionInfo[]
  /** @throws DatabaseError `collection_not_found` */
  get(name: string): CollectionInfo
  /**
   * Counts the points of collections on all nodes of a cluster where each node has a part of them; undefined where
   * every node has all points.
   *
   * @param name the only collection to count; absent: all
   * @param position the log position that the nodes must have applied
   */
  countOnNodes?(
    name: string | undefined,
    position: number,
    signal: AbortSignal | undefined,
  ): Promise<PointsOnNodes> | undefined
  /**
   * Figures of all collections together; in a cluster, as this node has them. Undefined where only some may be seen.
   */
  readonly totals: CollectionTotals | undefined
  /** The name of the collection of each alias. */
  readonly aliases: ReadonlyMap<string, string>
  /**
   * Creates a collection durably; does nothing if it exists with these settings.
   *
   * @throws DatabaseError `already_exists` if it exists with other settings, or the name is an alias
   */
  put(
    name: string,
    settings: CollectionSettings,
  ): Promise<{ readonly created: boolean; readonly info: CollectionInfo }>
  /**
   * Deletes a collection with its points and its aliases. Calls in progress fail with `collection_not_found`.
   *
   * @throws DatabaseError `collection_not_found`; `invalid_argument` for the default collection and for aliases
   */
  drop(name: string): Promise<void>
  /**
   * Sets aliases and removes others in one commit: readers see all of the change or none of it. An existing alias moves
   * to its new collection. Removing an alias that does not exist is not an error.
   *
   * @throws DatabaseError `collection_not_found` for a target that does not exist; `already_exists` for an alias that
   *   is the name of a collection
   */
  setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void>
}

/** Keeps a collection open until it is disposed. */
export interface Lease extends Disposable {
  readonly database: Database
}

/** Figures of all collections together, the default one included. */
export interface CollectionTotals {
  readonly collections: number
  /** Those whose points are in memory. */
  readonly open: number
  /** Those that could not be opened when last tried, because their files are missing or damaged. */
  readonly damaged: number
  readonly points: number
  /** Points of open collections that are not in a graph yet. */
  readonly unindexed: number
  /** Removed points that are still in a graph of an open collection. */
  readonly tombstones: number
  /** What counts towards MAX_MEMORY_BYTES. */
  readonly memoryBytes: number
  /** MAX_MEMORY_BYTES; 0 for no limit. */
  readonly memoryBytesMax: number
}

/**
 * The points of a collection. Insertions and removals resolve when they are on
 * disk and visible to every later read and search.
 *
 * A `keyFilter` is the filter of the caller's key: a point that does not match is as if it did not exist. Only its id is
 * taken: to store another point under it is refused with `permission_denied`.
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
  /**
   * Resolves with how many points an insert would add, for quotas; absent: all.
   *
   * @param ids undefined for those without
   */
  addedBy?(
    ids: readonly (string | undefined)[],
    identity: RequestIdentity | undefined,
  ): number | Promise<number>
  /** Removes the point; returns false when no point has this id. `id` is a lower-case UUID. */
  remove(id: string, signal?: AbortSignal, keyFilter?: Filter): Promise<boolean>
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
    keyFilter?: Filter,
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
    keyFilter?: Filter,
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
   * @param since the moment that the caller will give to `chunks`
   * @throws DatabaseError `overloaded` while another one is open; in a cluster `not_ready` when no node has some of the
   *   points now
   */
  snapshot(signal?: AbortSignal, since?: Moment): PointsSnapshot | Promise<PointsSnapshot>
  /** Opens a snapshot of the points that match the filter of a key; absent on nodes of a cluster. */
  snapshotWithin?(keyFilter: Filter): Promise<PointsSnapshot>
  /** Set where only the points that match a key's filter are seen. */
  readonly keyFilter?: Filter
}

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
  readonly keyFilter?: Filter | undefined
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

/** Which points a request by filter changes, how, and how many. */
export interface ChangeByFilter {
  readonly filter: Filter
  readonly change: Patch | 'delete'
  /** The most changes; the engine lowers it to 100,000. */
  readonly limit?: number | undefined
  /** Only counts the points that would change. */
  readonly dryRun: boolean
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
  /** Only of `get`. */
  readonly keyFilter?: Filter | undefined
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

/** All points as they were at one moment; can be read once. */
export type PointsSnapshot = Pick<Snapshot, 'databaseId' | 'sequence' | 'points' | 'close'> & {
  /** The bytes: see `Snapshot.chunks`. */
  chunks(choice?: Pick<SnapshotChoice, 'since'>): AsyncGenerator<Buffer>
  /** In a cluster whose nodes each have a part of the points: the log position of the snapshot. */
  readonly position?: number
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

/** Point counts of collections that are spread over several nodes. */
export interface PointsOnNodes {
  /**
   * Points by collection, each counted once, in the partitions for which a node has answered. Collections without
   * points are absent.
   */
  readonly points: ReadonlyMap<string, number>
  /** The number of partitions for which no node has answered; undefined if that was not looked at. */
  readonly missing: number | undefined
}

/** Figures of a collection, for metrics and operators. */
export interface CollectionStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
  readonly attributeBytes: number
  readonly wordBytes: number
  /** About how many points wait until their words are indexed. */
  readonly wordsWaiting: number
  /** On disk, a recent figure. For a named collection: only its vectors. */
  readonly diskBytes: number
  readonly sequence: number
  /** Points that are not in the graph yet. */
  readonly unindexed: number
  /** Slots whose points were removed and that are still in a graph or a link queue. */
  readonly tombstones: number
  /** Whether a graph is being built or recall is being measured: plans may change as a result. */
  readonly isSettling: boolean
  /** What each graph's distances are computed from, by the graph's metric. */
  readonly distanceSources: Readonly<Record<string, GraphDistanceSource>>
  /** By metric: the route that searches take, and its measured recall. */
  readonly plans: Readonly<Record<Metric, MetricPlan>>
  /** The recall of searches with filters. */
  readonly filteredRecalls: readonly BinRecall[]
  /** How searches with a filter that matches points were carried out since the collection was opened. */
  readonly filteredPlans: FilteredPlanCounts
}

/** The route of a metric's searches, and its recall. */
export interface MetricPlan {
  /** Undefined for the exact scan. */
  readonly route: Route | undefined
  /** The recall of the route, or the best of the routes that were tried; undefined before the first measurement. */
  readonly recall: number | undefined
}

/** The recall of searches with filters, for one metric and bin. */
export interface BinRecall {
  readonly metric: Metric
  readonly bin: string
  /** 1 where searches are exact; undefined where it was not measured. */
  readonly recall: number | undefined
}

/** What a graph's distances are computed from, or why there is no graph. */
export type GraphDistanceSource = DistanceSource | 'nothing' | undefined

/** How a search with a filter was carried out. */
export type FilteredPlanName = (typeof filteredPlanNames)[number]
export const filteredPlanNames = ['scan', 'code_scan', 'walk', 'walk_and_scan'] as const

/** The number of searches with a filter, by how they were carried out. */
export type FilteredPlanCounts = Readonly<Record<FilteredPlanName, number>>
