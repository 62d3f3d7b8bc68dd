import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Database, RootDatabase } from 'lmdb'
import { type CatalogRecord, encodeHead, headKey } from './catalog.ts'
import { faultsOfCollections } from './check/collections-check.ts'
import { beyondRepair, collectionDirectory, collectionsPath, ofOtherVersion } from './files/data-directory.ts'
import {
  type Access,
  makeEnvironment,
  openEnvironment,
  tryDescriptors,
  tryToOpen,
} from './files/environment.ts'
import { openTable, ScopedTable, type StoreFiles, type Table, type Tables } from './tables.ts'

/** The LMDB tables of all named collections: see catalog.ts for keys and values. */
export interface CollectionTables {
  readonly root: RootDatabase
  readonly catalog: Table
  readonly aliases: Table
  /** The tables of one collection. */
  of(number: number, name: string): Tables
}

/**
 * Creates the empty environment of named collections.
 *
 * @throws DatabaseError if it cannot be created
 */
export async function makeCollectionTables(dataDir: string): Promise<void> {
  await makeEnvironment(collectionsPath(dataDir), (making) => {
    const { root, catalog } = openAt(making, dataDir)
    root.transactionSync(() => catalog.putSync(headKey, encodeHead({ nextNumber: 1 })))
    return root
  })
}

/** The result of `openCheckedCollections`. */
export interface CheckedCollections {
  readonly root: RootDatabase
  readonly tables: CollectionTables
  /** Damage of the tables of a collection, by its number. */
  readonly faults: ReadonlyMap<number, string>
}

/**
 * Opens the environment, before any other thread of the process does; returns undefined if there is none. As for
 * points.mdb, it first checks for everything that would end the process inside LMDB.
 *
 * @throws DatabaseError if it cannot be opened, or a part that all collections share is damaged
 */
export function openCheckedCollections(dataDir: string): CheckedCollections | undefined {
  return existsSync(collectionsPath(dataDir)) ? openChecked(dataDir, 'write') : undefined
}

/**
 * Opens the environment only for reading, after a failed write. No other thread has it open.
 *
 * @throws DatabaseError as `openCheckedCollections`
 */
export function openCollectionsToRead(dataDir: string): CheckedCollections {
  return openChecked(dataDir, 'read')
}

function openChecked(dataDir: string, access: Access): CheckedCollections {
  const path = collectionsPath(dataDir)
  tryToOpen(path, access)
  const { fault, isOtherVersion, faults } = faultsOfCollections(path)
  if (fault !== undefined) throw (isOtherVersion ? ofOtherVersion : beyondRepair)(path, fault)
  const tables = openAt(path, dataDir, access)
  return { root: tables.root, tables, faults }
}

/**
 * Opens the environment that another thread of this process has opened: see `openTables`.
 *
 * @throws DatabaseError if it cannot be opened
 */
export function openCollectionTables(dataDir: string): CollectionTables {
  const path = collectionsPath(dataDir)
  tryDescriptors(path)
  return openAt(path, dataDir)
}

/** The files with the points of a named collection. */
export function collectionFiles(
  dataDir: string,
  number: number,
  { name }: Pick<CatalogRecord, 'name'>,
): StoreFiles {
  return {
    database: collectionsPath(dataDir),
    rows: join(collectionDirectory(dataDir, number), 'vectors.rows'),
    collection: name,
  }
}

function openAt(path: string, dataDir: string, access: Access = 'write'): CollectionTables {
  return openEnvironment(path, access, (root) => {
    const shared = (name: string): Database<Buffer, Buffer> =>
      root.openDB<Buffer, Buffer>({ name, keyEncoding: 'binary', encoding: 'binary' })
    const [payloads, live, meta] = [shared('payloads'), shared('live'), shared('meta')]
    return {
      root,
      catalog: openTable(root, 'catalog'),
      aliases: openTable(root, 'aliases'),
      of: (number, name) => ({
        root,
        files: collectionFiles(dataDir, number, { name }),
        payloads: new ScopedTable(payloads, number),
        live: new ScopedTable(live, number),
        meta: new ScopedTable(meta, number),
      }),
    }
  })
}
