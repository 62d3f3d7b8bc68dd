import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Database, RootDatabase } from 'lmdb'
import { type CatalogRecord, encodeHead, headKey } from './catalog-layout.ts'
import { faultsOfCollections } from './collections-check.ts'
import { beyondRepair, collectionDirectory, collectionsPath, ofOtherVersion } from './data-directory.ts'
import { makeEnvironment, openEnvironment, tryDescriptors, tryToOpen } from './environment.ts'
import { openTable, ScopedTable, type Table } from './table.ts'
import type { StoreFiles, Tables } from './tables.ts'

/** The LMDB tables of all named collections: see catalog-layout.ts for keys and values. */
export interface CollectionTables {
  readonly root: RootDatabase
  readonly catalog: Table
  readonly aliases: Table
  /** The tables of one collection. */
  of(number: number, name: string): Tables
}

/**
 * Creates the environment of named collections, empty.
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

/** What opening the environment as the first in the process found. */
export interface CheckedCollections {
  readonly tables: CollectionTables
  /** By number of a collection: damage of its tables. */
  readonly faults: ReadonlyMap<number, string>
}

/**
 * Opens the environment as the first in the process; undefined if there is none. As for points.mdb, it first checks for
 * everything that would end the process inside LMDB.
 *
 * @throws DatabaseError that says why it cannot be opened, or which part shared by all collections is damaged
 */
export function openCheckedCollections(dataDir: string): CheckedCollections | undefined {
  const path = collectionsPath(dataDir)
  if (!existsSync(path)) return undefined
  tryToOpen(path)
  const { fault, isOtherVersion, faults } = faultsOfCollections(path)
  if (fault !== undefined) throw (isOtherVersion ? ofOtherVersion : beyondRepair)(path, fault)
  return { tables: openAt(path, dataDir), faults }
}

/**
 * Opens the environment that another thread of this process has opened: see `openTables`.
 *
 * @throws DatabaseError that says why it cannot be opened
 */
export function openCollectionTables(dataDir: string): CollectionTables {
  const path = collectionsPath(dataDir)
  tryDescriptors(path)
  return openAt(path, dataDir)
}

/** Where the points of a named collection are. */
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

function openAt(path: string, dataDir: string): CollectionTables {
  return openEnvironment(path, (root) => {
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
