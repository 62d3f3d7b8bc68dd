import {
  type CollectionInfo,
  type CollectionSettings,
  collectionName,
  collectionNameRule,
} from '../base/collection.ts'
import { DatabaseError, type Reason } from '../base/errors.ts'
import type { CallOptions } from './call-options.ts'

/** What is fixed when a collection is created. An absent field is decided by the service or by the first insert. */
export type NewCollection = Partial<CollectionSettings>

export interface PutResult {
  /** False if the collection already existed, with these settings. */
  readonly created: boolean
  readonly info: CollectionInfo
}

export interface AliasChanges {
  /** The name of a collection by alias; an alias that exists is moved. */
  readonly set?: Readonly<Record<string, string>>
  /** Aliases to remove; an unknown one is ignored. */
  readonly remove?: readonly string[]
}

/** The name of a collection by alias. */
export type Aliases = Readonly<Record<string, string>>

/** The collections of a service. Every method fails with a `DatabaseError` that carries the server's message. */
export interface CollectionsClient {
  /** All of them in alphabetical order, the default one included. */
  list(options?: CallOptions): Promise<readonly CollectionInfo[]>
  /** One collection by its name or an alias, or a `collection_not_found` failure. */
  get(name: string, options?: CallOptions): Promise<CollectionInfo>
  /** Creates a collection. Idempotent; fails with `already_exists` if it exists with other settings. */
  put(name: string, settings?: NewCollection, options?: CallOptions): Promise<PutResult>
  /** Deletes a collection with its points and aliases. A missing one is a `collection_not_found` failure. */
  delete(name: string, options?: CallOptions): Promise<void>
  /** Sets and removes aliases in one step: readers see all of it or nothing. Resolves with all aliases. */
  setAliases(changes: AliasChanges, options?: CallOptions): Promise<Aliases>
}

/**
 * Refuses what cannot be a name before it is sent: in a path, `..` would lead to another route.
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

/** The status is the same for a missing point and a missing collection; the texts about a point begin with it. */
export function reasonOfMissing(text: string): Reason {
  return /^point/i.test(text) ? 'not_found' : 'collection_not_found'
}
