import type { CollectionInfo, CollectionSettings } from '../base/collection.ts'
import type { Database } from '../points/database.ts'

/**
 * The engine's interface to the api for collections. Names are well formed. Wherever points are concerned, an alias
 * refers to its collection.
 */
export interface Collections {
  /**
   * Opens a collection if it is not open yet, and keeps it open until the lease is disposed.
   *
   * @throws DatabaseError `collection_not_found`
   */
  lease(name: string): Lease | Promise<Lease>
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
  /** Figures of all collections together; in a cluster, as this node has them. */
  readonly totals: CollectionTotals
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

/** Point counts of collections that are spread over several nodes. */
export interface PointsOnNodes {
  /**
   * Points by collection, each counted once, in the partitions for which a node has answered. Collections without
   * points are absent.
   */
  readonly points: ReadonlyMap<string, number>
  /** The number of partitions for which no node has answered. */
  readonly missing: number
}

/** Keeps a collection open until it is disposed. */
export interface Lease extends Disposable {
  readonly database: Database
}
