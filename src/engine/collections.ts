import type { CollectionInfo, CollectionSettings } from '../base/collection.ts'
import type { Database } from './database.ts'

/**
 * What the engine offers to the api about collections. Names are well formed; wherever points are meant, an alias
 * stands for its collection.
 */
export interface Collections {
  /**
   * Opens a collection where it is not open yet, and keeps it open until the lease is disposed of.
   *
   * @throws DatabaseError `collection_not_found`
   */
  lease(name: string): Lease | Promise<Lease>
  /** In alphabetical order, the default collection included. */
  list(): readonly CollectionInfo[]
  /** @throws DatabaseError `collection_not_found` */
  get(name: string): CollectionInfo
  /** By alias, the name of the collection that it stands for. */
  readonly aliases: ReadonlyMap<string, string>
  /**
   * Creates a collection, durably; one that is there with these settings is left as it is.
   *
   * @throws DatabaseError `already_exists` when it is there with other settings, or the name is an alias
   */
  put(
    name: string,
    settings: CollectionSettings,
  ): Promise<{ readonly created: boolean; readonly info: CollectionInfo }>
  /**
   * Deletes a collection with its points and its aliases. What is being asked of it ends with `collection_not_found`.
   *
   * @throws DatabaseError `collection_not_found`; `invalid_argument` for the default collection and for aliases
   */
  drop(name: string): Promise<void>
  /**
   * Sets aliases and removes others in one commit: readers see all of it or nothing. An alias that is set moves from the
   * collection it stood for. To remove one that is not there is no fault.
   *
   * @throws DatabaseError `collection_not_found` for a target that is not there; `already_exists` for an alias that is the
   *   name of a collection
   */
  setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void>
}

/** A collection that stays open while somebody works with it. */
export interface Lease extends Disposable {
  readonly database: Database
}
