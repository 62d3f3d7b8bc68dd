import {
  type CollectionInfo,
  type CollectionSettings,
  collectionName,
  collectionNameRule,
} from '../base/collection.ts'
import { DatabaseError, type Reason } from '../base/errors.ts'
import type { CallOptions } from './call-options.ts'

/** What is fixed when a collection is created; what is absent, the service or the first insert decides. */
export type NewCollection = Partial<CollectionSettings>

export interface PutResult {
  /** False when the collection was there already, with these settings. */
  readonly created: boolean
  readonly info: CollectionInfo
}

export interface AliasChanges {
  /** By alias, the name of the collection that it stands for from now on. */
  readonly set?: Readonly<Record<string, string>>
  /** Aliases; one that is not there is no fault. */
  readonly remove?: readonly string[]
}

/** By alias, the name of the collection that it stands for. */
export type Aliases = Readonly<Record<string, string>>

/** The collections of a service. Every method fails with a `DatabaseError` that carries the server's message. */
export interface CollectionsClient {
  /** All of them in alphabetical order, the default one included. */
  list(options?: CallOptions): Promise<readonly CollectionInfo[]>
  /** One collection by its name or an alias, or a `collection_not_found` failure. */
  get(name: string, options?: CallOptions): Promise<CollectionInfo>
  /** Creates a collection. Can be repeated; fails with `already_exists` where it is there with other settings. */
  put(name: string, settings?: NewCollection, options?: CallOptions): Promise<PutResult>
  /** Deletes a collection with its points and aliases. A missing one is a `collection_not_found` failure. */
  delete(name: string, options?: CallOptions): Promise<void>
  /** Sets and removes aliases in one step: readers see all of it or nothing. Resolves with all that there are then. */
  setAliases(changes: AliasChanges, options?: CallOptions): Promise<Aliases>
}

/**
 * What cannot be a name never leaves the client: in a path it could lead elsewhere, as `..` does.
 *
 * @throws DatabaseError `invalid_argument`
 */
export function checkCollectionName(name: string): string {
  if (collectionName.test(name)) return name
  throw new DatabaseError(
    'invalid_argument',
    `${JSON.stringify(name)} cannot be the name of a collection: ${collectionNameRule}`,
  )
}

/** A status says only that something is missing; the text for a point is part of the contract. */
export function reasonOfMissing(text: string): Reason {
  return text === 'Point not found' ? 'not_found' : 'collection_not_found'
}
