import type { CollectionInfo, CollectionSettings } from '../base/collection.ts'
import type { Database } from './database.ts'

/**
 * The engine's interface to the api for collections. Names are well formed; wherever points are concerned, an alias
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
   * Points of collections on all nodes of a cluster that have a part of them each; undefined where a node has all of them.
   *
   * @param name of the only one that is asked for; absent: all
   * @param position that the nodes have to be as new as
   */
  countOnNodes?(
    name: string | undefined,
    position: number,
    signal: AbortSignal | undefined,
  ): Promise<PointsOnNodes> | undefined
  /** By alias, the name of its collection. */
  readonly aliases: ReadonlyMap<string, string>
  /**
   * Creates a collection, durably; does nothing if it exists with these settings.
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
   * Sets aliases and removes others in one commit: readers see all of it or nothing. An existing alias moves to its new
   * collection. Removing an alias that does not exist is no error.
   *
   * @throws DatabaseError `collection_not_found` for a target that does not exist; `already_exists` for an alias that is
   *   the name of a collection
   */
  setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void>
}

/** Points of collections that several nodes have. */
export interface PointsOnNodes {
  /** By collection, each point once, of the partitions of which a node has answered; absent: none. */
  readonly points: ReadonlyMap<string, number>
  /** Partitions of which none has. */
  readonly missing: number
}

/** Keeps a collection open until it is disposed. */
export interface Lease extends Disposable {
  readonly database: Database
}
