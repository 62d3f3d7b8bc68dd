import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { defaultCollection, type WordSettings } from '../base/collection.ts'
import { assert, beyondRepair, ofOtherVersion } from '../base/errors.ts'
import { syncDirectoryAsync } from '../base/files.ts'
import type { Quotas } from '../base/quotas.ts'
import {
  collectionDirectory,
  collectionsDirectory,
  databasePath,
  rowFilePath,
} from './files/data-directory.ts'
import { checksumUnder, rowsHeaderBytes } from './key-layout.ts'
import type { CollectionRecord, Declared } from './store.ts'
import type { Table } from './table.ts'
import type { EntryChange } from './writer/writer-messages.ts'

/** A change of the catalog: the entries to commit, and the update in memory after the commit. */
export interface CatalogChange {
  readonly entries: readonly EntryChange[]
  readonly apply: () => void
}

/** The collections and aliases in memory, as of the last commit. */
export class Catalog {
  /** Named collections, by name. */
  readonly collections: Map<string, CollectionRecord> = new Map()
  /** The name of the collection, by alias. */
  readonly aliases: Map<string, string> = new Map()
  /** Numbers of collections that are dropped but not yet removed from the disk. */
  readonly dropped: Set<number> = new Set()
  /** By number, the default collection included. */
  readonly #records = new Map<number, CollectionRecord>()
  #nextNumber = 1

  /**
   * Reads the table.
   *
   * @param stored the numbers of collections with entries in other tables, as far as they are known
   * @throws DatabaseError if a record is damaged, or the records contradict each other or the other tables
   */
  read(table: Table, path: string, stored: Iterable<number>): void {
    this.#nextNumber = readHead(table, path)
    for (const { key, value } of table.getRange()) {
      if (key === headKey) continue
      const record = decodeRecord(key, value)
      if (record === undefined) {
        throw beyondRepair(path, `the record of collection ${key} does not match its checksum`)
      }
      if (key >= this.#nextNumber) {
        throw beyondRepair(path, `collection ${key} is not below the next number, ${this.#nextNumber}`)
      }
      if (record.isDropped) this.dropped.add(key)
      else this.#add(key, record)
      for (const alias of record.aliases) this.aliases.set(alias, record.name)
    }
    if (!this.#records.has(mainNumber)) {
      throw beyondRepair(path, 'its catalog does not contain the default collection')
    }
    for (const number of stored) {
      if (this.#records.has(number) || this.dropped.has(number)) continue
      throw beyondRepair(path, `it has entries of collection ${number}, which is not in its catalog`)
    }
  }

  /** The name of a collection, also of the default one; undefined if it does not exist or is dropped. */
  nameOf(number: number): string | undefined {
    return this.#records.get(number)?.name
  }

  /** The words that a collection declares, also the default one. */
  wordsOf(number: number): WordSettings | undefined {
    return this.#records.get(number)?.words
  }

  quotasOf(number: number): Quotas | undefined {
    return this.#records.get(number)?.quotas
  }

  /** @param declared undefined values remove what was declared */
  declare(number: number, declared: Declared): CatalogChange {
    const record = { ...this.#records.get(number)!, ...declared }
    return {
      entries: [entryOf(record, this.#aliasesOf(record.name))],
      apply: () => this.#add(number, record),
    }
  }

  create(settings: Omit<CollectionRecord, 'number'>): CatalogChange & {
    readonly collection: CollectionRecord
  } {
    const number = this.#nextNumber
    assert(
      !this.#records.has(number) && !this.dropped.has(number),
      'the number of a collection is never used again',
    )
    const collection = { ...settings, number }
    return {
      collection,
      entries: [headEntry(number + 1), entryOf(collection)],
      apply: () => {
        this.#nextNumber = number + 1
        this.#add(number, settings)
      },
    }
  }

  /** Drops a collection and its aliases. */
  drop(collection: CollectionRecord): CatalogChange {
    const { number, name } = collection
    return {
      entries: [entryOf(collection, [], true)],
      apply: () => {
        for (const alias of this.#aliasesOf(name)) this.aliases.delete(alias)
        this.collections.delete(name)
        this.#records.delete(number)
        this.dropped.add(number)
      },
    }
  }

  changeAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): CatalogChange {
    const after = new Map(this.aliases)
    for (const alias of remove) after.delete(alias)
    for (const [alias, name] of set) after.set(alias, name)
    const changed = new Set<string | undefined>()
    for (const alias of [...remove, ...set.keys()]) {
      const [from, to] = [this.aliases.get(alias), after.get(alias)]
      if (from !== to) changed.add(from).add(to)
    }
    const records = [...this.#records.values()].filter(({ name }) => changed.has(name))
    return {
      entries: records.map((record) => entryOf(record, this.#aliasesOf(record.name, after))),
      apply: () => {
        this.aliases.clear()
        for (const [alias, name] of after) this.aliases.set(alias, name)
      },
    }
  }

  #aliasesOf(name: string, aliases: ReadonlyMap<string, string> = this.aliases): string[] {
    return [...aliases].filter(([, target]) => target === name).map(([alias]) => alias)
  }

  #add(
    number: number,
    { name, dimension, hnsw, words, quotas, createdMs }: Omit<CollectionRecord, 'number'>,
  ): void {
    const declared = { ...(words && { words }), ...(quotas && { quotas }) }
    const record = { number, name, dimension, hnsw, createdMs, ...declared }
    this.#records.set(number, record)
    if (number !== mainNumber) this.collections.set(name, record)
  }
}

/** The entries of a new data directory: the default collection. */
export function firstCatalog(): readonly CatalogEntry[] {
  const main = { number: mainNumber, name: defaultCollection, dimension: undefined, hnsw: {} }
  return [headEntry(mainNumber + 1), entryOf({ ...main, createdMs: Date.now() })]
}

/**
 * The format of DATA_DIR/collections.mdb, the LMDB file of all collections, except for the points: key-layout.ts has
 * theirs. All keys are two numbers u32, big-endian. So the entries of a collection are adjacent, and thousands of
 * collections share one environment, one file and one transaction. Other numbers are little-endian; checksums are CRC-32
 * (zlib's).
 *
 *   catalog    0, 2^32 - 1   ->  format version u32 | number of the next collection u32 | crc of all before
 *              0, number     ->  the JSON of a `CatalogRecord` | crc of key and all before
 *              1, 0          ->  the place after the last commit in the journal of changes: see change-journal.ts
 *   payloads, live, meta
 *              number, key   ->  see key-layout.ts
 *
 * DATA_DIR/collections/NUMBER/vectors.rows is the row file of a collection, DATA_DIR/collections/NUMBER/index/ its
 * index.
 *
 * The default collection has number 0 and a record like any other. Numbers are never reused, so that leftovers of a
 * dropped collection never become part of another.
 */

/** The version of everything in collections.mdb. Earlier versions are not read. */
export const dataVersion = 4

/** Key of the catalog's head. */
const headKey: number = 2 ** 32 - 1

/** The number of the default collection. */
export const mainNumber = 0

/** An entry of the table `catalog` to store. */
interface CatalogEntry extends EntryChange {
  readonly value: Buffer
}

function headEntry(nextNumber: number): CatalogEntry {
  const value = Buffer.alloc(headBytes)
  value.writeUInt32LE(dataVersion, 0)
  value.writeUInt32LE(nextNumber, 4)
  value.writeUInt32LE(crc32(value.subarray(0, 8)), 8)
  return { table: 'catalog', key: headKey, value }
}

/** Returns the next number. @throws DatabaseError if the head is damaged or has another version */
function readHead(table: Table, path: string): number {
  const value = table.getBinary(headKey)
  const version = value !== undefined && value.length >= 4 ? value.readUInt32LE(0) : dataVersion
  if (version !== dataVersion) {
    throw ofOtherVersion(path, `it has format version ${version}, this program reads ${dataVersion}`)
  }
  if (value?.length !== headBytes || value.readUInt32LE(8) !== crc32(value.subarray(0, 8))) {
    throw beyondRepair(path, 'the head of its catalog does not match its checksum')
  }
  return value.readUInt32LE(4)
}

const headBytes = 12

/** A collection's record in the catalog. */
export interface CatalogRecord extends Omit<CollectionRecord, 'number'> {
  readonly aliases: readonly string[]
  /** Whether the collection is dropped and its data are being removed. */
  readonly isDropped: boolean
}

function entryOf(
  { number, ...record }: CollectionRecord,
  aliases: readonly string[] = [],
  isDropped = false,
): CatalogEntry {
  const text = Buffer.from(JSON.stringify({ ...record, aliases, isDropped } satisfies CatalogRecord))
  const checksum = Buffer.alloc(4)
  checksum.writeUInt32LE(checksumUnder(number, text))
  return { table: 'catalog', key: number, value: Buffer.concat([text, checksum]) }
}

/** The JSON of a `CatalogRecord` in an entry; undefined if it has none. */
export function recordTextIn({ table, key, value }: EntryChange): Uint8Array | undefined {
  return table === 'catalog' && key !== headKey ? value?.subarray(0, -4) : undefined
}

/** Returns undefined if the record does not match its checksum. */
function decodeRecord(number: number, value: Buffer): CatalogRecord | undefined {
  const end = value.length - 4
  if (end < 0 || value.readUInt32LE(end) !== checksumUnder(number, value.subarray(0, end))) return undefined
  return JSON.parse(value.toString('utf8', 0, end)) as CatalogRecord
}

/**
 * Removes the leftovers of interrupted creations: directories of unassigned numbers, without rows. Dropped collections
 * stay in the catalog until their directories are removed.
 *
 * @throws DatabaseError if there are points of collections that the catalog does not contain. The catalog was lost;
 *   nothing is removed
 */
export function clearLeftovers(dataDir: string, catalog: Catalog): void {
  const path = databasePath(dataDir)
  for (const file of [`${path}.new`, `${path}.new-lock`]) rmSync(file, { force: true })
  for (const number of leftovers(dataDir, catalog)) {
    rmSync(collectionDirectory(dataDir, number), { recursive: true })
  }
}

/** The numbers of the directories that `clearLeftovers` removes. */
export function leftovers(dataDir: string, catalog: Catalog): readonly number[] {
  const strangers = numbersOnDisk(dataDir).filter(
    (number) => catalog.nameOf(number) === undefined && !catalog.dropped.has(number),
  )
  for (const number of strangers) {
    const rows = statSync(rowFilePath(dataDir, number), { throwIfNoEntry: false })
    if ((rows?.size ?? 0) <= rowsHeaderBytes) continue
    throw beyondRepair(databasePath(dataDir), `it does not know ${collectionDirectory(dataDir, number)}`)
  }
  return strangers
}

/** The numbers of the directories of collections. */
export function numbersOnDisk(dataDir: string): readonly number[] {
  if (!existsSync(collectionsDirectory(dataDir))) return []
  return readdirSync(collectionsDirectory(dataDir))
    .filter((name) => /^(0|[1-9]\d*)$/.test(name))
    .map(Number)
}

/** Removes the files of a collection durably. */
export async function removeDirectory(dataDir: string, number: number): Promise<void> {
  await rm(collectionDirectory(dataDir, number), { recursive: true, force: true })
  await syncDirectoryAsync(collectionsDirectory(dataDir))
}
