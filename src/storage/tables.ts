import { closeSync, existsSync, openSync } from 'node:fs'
import type { RootDatabase } from 'lmdb'
import { defaultCollection } from '../base/collection.ts'
import { beyondRepair, damaged } from '../base/errors.ts'
import { newId } from '../base/partitions.ts'
import { firstCatalog, mainNumber, numbersOnDisk } from './catalog.ts'
import { journalNumber } from './changes/change-journal.ts'
import { LmdbCheck, LmdbFault, type TreeReader } from './check/lmdb-check.ts'
import { databasePath, rowFilePath } from './files/data-directory.ts'
import {
  type Access,
  makeEnvironment,
  openEnvironment,
  tryDescriptors,
  tryToOpen,
} from './files/environment.ts'
import {
  decodeBlock,
  decodeDatabaseId,
  decodeMeta,
  emptyBlock,
  emptyMeta,
  encodeDatabaseId,
  encodeMeta,
  isKeyOfRequest,
  type Meta,
  metaKeys,
  slotsPerBlock,
} from './key-layout.ts'
import { addSlot, countSlots, damagedBlock, openShared, Table } from './table.ts'

/** The LMDB tables of a data directory: see catalog.ts for keys and values. */
export interface DataTables {
  readonly root: RootDatabase
  readonly catalog: Table
  /** The place of the journal of changes. */
  readonly journal: Table
  /** The tables of one collection. */
  of(number: number, name: string): Tables
}

/** The tables of one collection: see key-layout.ts for their keys and values. */
export interface Tables {
  readonly root: RootDatabase
  readonly files: StoreFiles
  readonly payloads: Table
  readonly live: Table
  readonly meta: Table
}

/** The files with the points of one collection. */
interface StoreFiles {
  readonly dataDir: string
  /** Number of the collection. */
  readonly number: number
  /** LMDB's file. */
  readonly database: string
  readonly rows: string
  /** Name of the collection, for messages. */
  readonly collection: string
}

/** Adds the name of the collection to the text of a fault. */
export function faultIn({ collection }: StoreFiles, fault: string): string {
  return `collection ${collection}: ${fault}`
}

/** The result of `openDatabase`. */
export interface OpenedDatabase {
  readonly root: RootDatabase
  readonly tables: DataTables
  /** By number of the collections with entries: the damage of their tables. Empty if the file was not checked. */
  readonly checked: ReadonlyMap<number, string | undefined>
}

/**
 * Opens LMDB's file before any other thread of the process does. Creates it if missing.
 *
 * The package `lmdb` ends the process if it cannot open its file, and LMDB crashes on some damaged files. So this
 * function first tries everything that LMDB needs, and checks the file.
 *
 * @param isClosed whether the file is as its last program left it after its work: then it is not checked
 * @throws DatabaseError if it cannot be opened, or a part that all collections share is damaged
 */
export async function openDatabase(dataDir: string, isClosed: boolean): Promise<OpenedDatabase> {
  if (!existsSync(databasePath(dataDir))) await makeDatabase(dataDir)
  return isClosed ? openUnchecked(dataDir) : openChecked(dataDir, 'write')
}

/**
 * Opens the file only for reading, after a failed write. No other thread has it open.
 *
 * @throws DatabaseError like `openDatabase`
 */
export function openDatabaseToRead(dataDir: string): OpenedDatabase {
  return openChecked(dataDir, 'read')
}

/**
 * Opens an existing file, to find and repair the damage of collections.
 *
 * @throws DatabaseError like `openDatabase`
 */
export function openDamagedDatabase(dataDir: string): OpenedDatabase {
  if (!existsSync(databasePath(dataDir))) throw missing(dataDir)
  return openChecked(dataDir, 'write')
}

function openChecked(dataDir: string, access: Access): OpenedDatabase {
  const path = databasePath(dataDir)
  tryToOpen(path, access)
  const checked = checkDatabase(path)
  if (typeof checked === 'string') throw beyondRepair(path, checked)
  const tables = openAt(path, dataDir, access)
  return { root: tables.root, tables, checked }
}

function openUnchecked(dataDir: string): OpenedDatabase {
  const path = databasePath(dataDir)
  tryToOpen(path, 'write')
  const tables = openAt(path, dataDir)
  return { root: tables.root, tables, checked: new Map() }
}

/**
 * Opens the tables of a file that another thread of this process has opened. All threads of a process share one LMDB
 * environment for each file. If lmdb cannot open the file now, it creates a second environment for it, and both read
 * wrong data. So this function tries to open the file first.
 *
 * @throws DatabaseError if it cannot be opened
 */
export function openTables(dataDir: string): DataTables {
  const path = databasePath(dataDir)
  tryDescriptors(path)
  return openAt(path, dataDir)
}

function openAt(path: string, dataDir: string, access: Access = 'write'): DataTables {
  return openEnvironment(path, access, (root) => {
    const [payloads, live, meta, catalog] = ['payloads', 'live', 'meta', 'catalog'].map((name) =>
      openShared(root, name),
    )
    return {
      root,
      catalog: new Table(catalog!, 0),
      journal: new Table(catalog!, journalNumber),
      of: (number, name) => ({
        root,
        files: {
          dataDir,
          number,
          database: databasePath(dataDir),
          rows: rowFilePath(dataDir, number),
          collection: name,
        },
        payloads: new Table(payloads!, number),
        live: new Table(live!, number),
        meta: new Table(meta!, number),
      }),
    }
  })
}

/** Creates the file with an empty default collection. */
async function makeDatabase(dataDir: string): Promise<void> {
  if (numbersOnDisk(dataDir).length > 0) throw missing(dataDir)
  await makeEnvironment(databasePath(dataDir), (making) => {
    const { root, catalog, of } = openAt(making, dataDir)
    const { meta } = of(mainNumber, defaultCollection)
    root.transactionSync(() => {
      for (const { key, value } of firstCatalog()) catalog.putSync(key, value)
      for (const { key, value } of firstEntries()) meta.putSync(key, value)
    })
    return root
  })
}

function missing(dataDir: string): Error {
  return beyondRepair(databasePath(dataDir), 'it is missing, though there are collections')
}

/** The entries of a new collection in its table `meta`. */
export function firstEntries(
  dimension?: number,
): readonly { readonly key: number; readonly value: Buffer }[] {
  return [
    { key: metaKeys.state, value: encodeMeta({ ...emptyMeta, dimension }) },
    { key: metaKeys.databaseId, value: encodeDatabaseId(newId()) },
  ]
}

/** @throws DatabaseError if the meta record is missing or damaged */
export function readMeta({ files, meta: table }: Tables): Meta {
  const value = table.getBinary(metaKeys.state)
  if (value === undefined) throw beyondRepair(files.database, faultIn(files, 'its meta record is missing'))
  const meta = decodeMeta(value)
  if (meta !== undefined) return meta
  throw beyondRepair(files.database, faultIn(files, 'its meta record does not match its checksum'))
}

/**
 * Reads the database id, which identifies one history of changes: it is chosen at random when a collection is created or
 * restored.
 *
 * @throws DatabaseError if the id is damaged
 */
export function readDatabaseId({ files, meta }: Tables): string {
  const value = meta.getBinary(metaKeys.databaseId)
  const id = value && decodeDatabaseId(value)
  if (id === undefined) throw damaged(files.database, faultIn(files, 'its id does not match its checksum'))
  return id
}

/**
 * Reads the bits of live slots, by block.
 *
 * @throws DatabaseError if a block is damaged
 */
export function readLive({ files, live }: Tables): Map<number, Buffer> {
  const blocks = new Map<number, Buffer>()
  for (const { key, value } of live.getRange()) {
    const bits = decodeBlock(key, value)
    if (bits === undefined) {
      throw damaged(files.database, faultIn(files, damagedBlock(key)))
    }
    blocks.set(key, bits)
  }
  return blocks
}

/** What the tables of a collection say about it, checked. @throws DatabaseError if it is damaged */
export function readChecked(tables: Tables): {
  readonly meta: Meta
  readonly live: Map<number, Buffer>
  readonly databaseId: string
} {
  const meta = readMeta(tables)
  const live = readLive(tables)
  checkCounts(tables, meta, live)
  return { meta, live, databaseId: readDatabaseId(tables) }
}

/** @throws DatabaseError if the numbers of payloads and live bits differ from the number of stored points */
function checkCounts({ files, payloads }: Tables, meta: Meta, live: ReadonlyMap<number, Buffer>): void {
  const count = payloads.count()
  const bits = countSlots(live)
  if (count === meta.pointCount && bits === meta.pointCount) return
  throw damaged(
    files.database,
    faultIn(
      files,
      `it should hold ${meta.pointCount} points, but has ${count} payloads and ${bits} live slots`,
    ),
  )
}

/**
 * Checks LMDB's file before LMDB opens it. Returns the fault of a file that LMDB cannot use. Otherwise returns the
 * numbers of the collections with entries, each with the damage of its tables: without any, it has a payload for every
 * live slot and for no other slot. The check does not read payloads: each has a checksum that is checked on reading it.
 *
 * @throws Error if the file cannot be read
 */
export function checkDatabase(path: string): string | ReadonlyMap<number, string | undefined> {
  const file = openSync(path, 'r')
  try {
    return checkTables(new LmdbCheck(file))
  } catch (error) {
    if (error instanceof LmdbFault) return error.message
    throw error
  } finally {
    closeSync(file)
  }
}

/** @throws LmdbFault if the file is not a valid LMDB file */
function checkTables(check: LmdbCheck): ReadonlyMap<number, string | undefined> {
  const collections = new Map<number, TablesCheck>()
  const points =
    (name: 'live' | 'meta' | 'payloads'): Visit =>
    (key, page, at, bytes, collection) => {
      const found = collections.get(collection) ?? new TablesCheck()
      collections.set(collection, found)
      found[name](key, page, at, bytes, collection)
    }
  const visits: Readonly<Record<string, Visit>> = {
    catalog: () => {},
    live: points('live'),
    meta: points('meta'),
    payloads: points('payloads'),
  }
  for (const [name, tree] of check.tables(Object.keys(visits))) {
    // On a node of a cluster, the meta record is so long that it has its own pages.
    check.read(tree, { keys: 'scoped', visit: visits[name]!, readsLongValues: name === 'meta' })
  }
  check.finish()
  return new Map([...collections].map(([number, { fault }]) => [number, fault]))
}

type Visit = TreeReader['visit']

/** Checks the tables of one collection. They can be visited in any order. */
class TablesCheck {
  readonly #slots = new Map<number, Buffer>()
  readonly #live = new Map<number, Buffer>()
  #fault: string | undefined
  #keyedRequests = 0
  #keyedRequestsStated = 0

  readonly live: Visit = (block, page, at, bytes) => {
    const bits = decodeBlock(block, page.subarray(at, at + bytes))
    if (bits === undefined) this.#fault ??= damagedBlock(block)
    else this.#live.set(block, bits)
  }

  /** Only counts keyed requests: their records are checked on reading them. */
  readonly meta: Visit = (key, page, at, bytes) => {
    if (isKeyOfRequest(key)) this.#keyedRequests += 1
    if (key !== metaKeys.state) return
    this.#keyedRequestsStated = decodeMeta(page.subarray(at, at + bytes))?.keyedRequests.count ?? 0
  }

  readonly payloads: Visit = (slot) => addSlot(this.#slots, slot)

  get fault(): string | undefined {
    const [found, stated] = [this.#keyedRequests, this.#keyedRequestsStated]
    if (this.#fault !== undefined) return this.#fault
    if (found !== stated) return `it should hold ${stated} keyed requests, but has ${found}`
    return faultOfLive(this.#live, this.#slots)
  }
}

function faultOfLive(
  live: ReadonlyMap<number, Buffer>,
  payloads: ReadonlyMap<number, Buffer>,
): string | undefined {
  for (const block of new Set([...live.keys(), ...payloads.keys()])) {
    if ((live.get(block) ?? emptyBlock).equals(payloads.get(block) ?? emptyBlock)) continue
    const first = block * slotsPerBlock
    return `among slots ${first} to ${first + slotsPerBlock - 1}, the live slots are not those with payloads`
  }
  return undefined
}
