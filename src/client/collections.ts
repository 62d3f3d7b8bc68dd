import {
  type CollectionInfo,
  type CollectionSettings,
  collectionName,
  collectionNameRule,
} from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
import { objectOf } from './attributes.ts'
import type { CallOptions } from './call-options.ts'
import { fieldsOf, isPlain, optional, textIn, textsIn, wholeIn, wrongKind } from './field-readers.ts'

/** The settings that are fixed when a collection is created. The service or the first insert decides absent fields. */
export type NewCollection = Partial<CollectionSettings>

export interface PutResult {
  /** False if the collection already existed, with these settings. */
  readonly created: boolean
  readonly info: CollectionInfo
}

export interface AliasChanges {
  /** Collection names by alias; an alias that exists is moved. */
  readonly set?: Readonly<Record<string, string>>
  /** Aliases to remove; an unknown one is ignored. */
  readonly remove?: readonly string[]
}

/** Collection names by alias. */
export type Aliases = Readonly<Record<string, string>>

/** The collections of a service. Every method fails with a `DatabaseError` that carries the server's message. */
export interface CollectionsClient {
  /** Lists all collections in alphabetical order, including the default one. */
  list(options?: CallOptions): Promise<readonly CollectionInfo[]>
  /** Returns one collection, by name or alias. Fails with `collection_not_found`. */
  get(name: string, options?: CallOptions): Promise<CollectionInfo>
  /** Creates a collection. Idempotent; fails with `already_exists` if it exists with other settings. */
  put(name: string, settings?: NewCollection, options?: CallOptions): Promise<PutResult>
  /** Deletes a collection with its points and aliases. Fails with `collection_not_found`. */
  delete(name: string, options?: CallOptions): Promise<void>
  /** Sets and removes aliases in one atomic step. Resolves with all aliases. */
  setAliases(changes: AliasChanges, options?: CallOptions): Promise<Aliases>
}

/**
 * Refuses an invalid name before the request is sent: in a path, `..` would lead to another route.
 *
 * @throws DatabaseError `invalid_argument`
 */
export function checkCollectionName(name: string): string {
  if (typeof name === 'string' && collectionName.test(name)) return name
  throw new DatabaseError(
    'invalid_argument',
    `${JSON.stringify(name)} cannot be the name of a collection: ${collectionNameRule}`,
  )
}

/** Reads the settings of a new collection. @throws DatabaseError `invalid_argument` */
export function settingsIn(settings: NewCollection = {}): NewCollection {
  const { dimension, hnsw } = fieldsOf(settings, ['dimension', 'hnsw'], 'the settings')
  const { m, efConstruction } = fieldsOf(hnsw ?? {}, ['m', 'efConstruction'], 'hnsw')
  return {
    ...(dimension === undefined ? {} : { dimension: wholeIn(dimension, 'dimension') }),
    hnsw: {
      m: optional(m, wholeIn, 'hnsw.m'),
      efConstruction: optional(efConstruction, wholeIn, 'hnsw.efConstruction'),
    },
  }
}

/** Reads changes of aliases. @throws DatabaseError `invalid_argument` */
export function aliasChangesIn(changes: AliasChanges): Required<AliasChanges> {
  const { set = {}, remove } = fieldsOf(changes, ['set', 'remove'], 'the changes')
  if (!isPlain(set)) throw wrongKind(set, 'set', 'a plain object')
  const aliases = Object.entries(set).map(([alias, name]): [string, string] => [
    textIn(alias, 'set'),
    textIn(name, `set.${alias}`),
  ])
  return { set: objectOf(aliases, (name) => name), remove: optional(remove, textsIn, 'remove') ?? [] }
}
