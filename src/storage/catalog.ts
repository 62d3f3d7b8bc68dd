import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { defaultCollection, type HnswSettings } from '../base/collection.ts'
import { syncDirectoryAsync } from '../base/sync-directory.ts'
import {
  beyondRepair,
  collectionDirectory,
  collectionsDirectory,
  databasePath,
  ofOtherVersion,
  rowFilePath,
} from './files/data-directory.ts'
import { checksumUnder, rowsHeaderBytes } from './key-layout.ts'
import type { CollectionRecord } from './store.ts'
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
  readonly #names = new Map<number, string>([[mainNumber, defaultCollection]])
  /** The key in the table of aliases, by alias. */
  readonly #places = new Map<string, number>()
  #nextNumber = 1

  /** Reads the tables. @throws DatabaseError if a record is damaged */
  read({ catalog, aliases }: { readonly catalog: Table; readonly aliases: Table }, path: string): void {
    const head = decodeHead(catalog.getBinary(headKey))
    if ('fault' in head) throw (head.isOtherVersion ? ofOtherVersion : beyondRepair)(path, head.fault)
    this.#nextNumber = head.nextNumber
    for (const { key, value } of catalog.getRange()) {
      if (key === headKey) continue
      const record = decodeRecord(key, value)
      if (record === undefined) {
        throw beyondRepair(path, `the record of collection ${key} does not match its checksum`)
      }
      if (record.isDropped) this.dropped.add(key)
      else if (key !== mainNumber) this.#add(key, record)
    }
    for (const { key, value } of aliases.getRange()) {
      const alias = decodeAlias(key, value)
      const target = alias && this.#names.get(alias.target)
      if (target === undefined) throw beyondRepair(path, `alias ${key} is damaged`)
      this.#setAlias(alias!.name, target, key)
    }
  }

  /** The name of a collection, also of the default one; undefined if it does not exist or is dropped. */
  nameOf(number: number): string | undefined {
    return this.#names.get(number)
  }

  create(
    record: Omit<CatalogRecord, 'isDropped'>,
  ): CatalogChange & { readonly collection: CollectionRecord } {
    const number = this.#nextNumber
    const { name, dimension, hnsw, createdMs } = record
    return {
      collection: { number, name, dimension, hnsw, createdMs },
      entries: [
        { table: 'catalog', key: headKey, value: encodeHead({ nextNumber: number + 1 }) },
        { table: 'catalog', key: number, value: encodeRecord(number, { ...record, isDropped: false }) },
      ],
      apply: () => {
        this.#nextNumber = number + 1
        this.#add(number, record)
      },
    }
  }

  /** Drops a collection and its aliases. */
  drop({ number, ...record }: CollectionRecord): CatalogChange {
    const aliases = [...this.aliases].filter(([, target]) => target === record.name).map(([alias]) => alias)
    const removal = this.#removal(aliases)
    return {
      entries: [
        { table: 'catalog', key: number, value: encodeRecord(number, { ...record, isDropped: true }) },
        ...removal.entries,
      ],
      apply: () => {
        removal.apply()
        this.collections.delete(record.name)
        this.#names.delete(number)
        this.dropped.add(number)
      },
    }
  }

  changeAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): CatalogChange {
    const removal = this.#removal(remove.filter((alias) => !set.has(alias)))
    const added = this.#additions(set)
    return {
      entries: [
        ...removal.entries,
        ...added.map(({ place, name, target }) => {
          const value = encodeAlias(place, { name, target: this.#numberOf(target) } satisfies AliasRecord)
          return { table: 'aliases' as const, key: place, value }
        }),
      ],
      apply: () => {
        removal.apply()
        for (const { place, name, target } of added) this.#setAlias(name, target, place)
      },
    }
  }

  #removal(aliases: readonly string[]): CatalogChange {
    const known = aliases.filter((alias) => this.#places.has(alias))
    return {
      entries: known.map((alias) => ({
        table: 'aliases',
        key: this.#places.get(alias)!,
        value: undefined,
      })),
      apply: () => {
        for (const alias of known) {
          this.#places.delete(alias)
          this.aliases.delete(alias)
        }
      },
    }
  }

  /** An existing alias keeps its place; a new alias gets the lowest free place. */
  #additions(
    set: ReadonlyMap<string, string>,
  ): readonly { readonly name: string; readonly target: string; readonly place: number }[] {
    const taken = new Set(this.#places.values())
    let free = 0
    return [...set].map(([name, target]) => {
      const place = this.#places.get(name)
      if (place !== undefined) return { name, target, place }
      while (taken.has(free)) free += 1
      taken.add(free)
      return { name, target, place: free }
    })
  }

  #numberOf(name: string): number {
    return name === defaultCollection ? mainNumber : this.collections.get(name)!.number
  }

  #add(number: number, { name, dimension, hnsw, createdMs }: Omit<CatalogRecord, 'isDropped'>): void {
    this.collections.set(name, { number, name, dimension, hnsw, createdMs })
    this.#names.set(number, name)
  }

  #setAlias(name: string, target: string, place: number): void {
    this.aliases.set(name, target)
    this.#places.set(name, place)
  }
}

/**
 * The format of DATA_DIR/collections.mdb, the LMDB file of all collections, except for the points: key-layout.ts has
 * theirs. All keys are two numbers u32, big-endian. So the entries of a collection are adjacent, and thousands of
 * collections share one environment, one file and one transaction. Other numbers are little-endian; checksums are CRC-32
 * (zlib's).
 *
 *   catalog    0, 2^32 - 1   ->  format version u32 | number of the next collection u32 | crc of all before
 *              0, number     ->  state u8 (0: exists, 1: dropped, being removed) | dimension u32 | m u32 |
 *                                efConstruction u32 (0 each: not given) | created, ms since 1970, f64 | name, UTF-8 |
 *                                crc of key and all before
 *   aliases    0, place      ->  number of the collection u32 | name, UTF-8 | crc of key and all before
 *   payloads, live, meta
 *              number, key   ->  see key-layout.ts
 *
 * DATA_DIR/collections/NUMBER/vectors.rows is the row file of a collection, DATA_DIR/collections/NUMBER/index/ its
 * index.
 *
 * The default collection has number 0 and a record like any other. Numbers are never reused, so that leftovers of a
 * dropped collection never become part of another.
 */

/** Version 1 was a file of named collections only. */
const catalogVersion = 2

/** Key of the catalog's head. */
export const headKey: number = 2 ** 32 - 1

/** The number of the default collection. */
export const mainNumber = 0

interface CatalogHead {
  readonly nextNumber: number
}

export function encodeHead({ nextNumber }: CatalogHead): Buffer {
  const value = Buffer.alloc(headBytes)
  value.writeUInt32LE(catalogVersion, 0)
  value.writeUInt32LE(nextNumber, 4)
  value.writeUInt32LE(crc32(value.subarray(0, 8)), 8)
  return value
}

/** Returns the head, or its fault; `isOtherVersion` if a program with another format version wrote it. */
export function decodeHead(
  value: Buffer | undefined,
): CatalogHead | { readonly fault: string; readonly isOtherVersion: boolean } {
  const version = value !== undefined && value.length >= 4 ? value.readUInt32LE(0) : undefined
  if (version !== undefined && version !== catalogVersion) {
    const fault = `it has format version ${version}, this program reads ${catalogVersion}`
    return { fault, isOtherVersion: true }
  }
  if (value?.length !== headBytes || value.readUInt32LE(8) !== crc32(value.subarray(0, 8))) {
    return { fault: 'the head of its catalog does not match its checksum', isOtherVersion: false }
  }
  return { nextNumber: value.readUInt32LE(4) }
}

const headBytes = 12

/** A collection's record in the catalog. */
interface CatalogRecord {
  readonly name: string
  /** As given at its creation. */
  readonly dimension: number | undefined
  readonly hnsw: HnswSettings
  readonly createdMs: number
  /** Whether the collection is dropped and its data are being removed. */
  readonly isDropped: boolean
}

export function encodeRecord(number: number, record: CatalogRecord): Buffer {
  const { name, dimension, hnsw, createdMs, isDropped } = record
  const value = Buffer.alloc(recordHeadBytes + Buffer.byteLength(name) + 4)
  value.writeUInt8(isDropped ? 1 : 0, 0)
  value.writeUInt32LE(dimension ?? 0, 1)
  value.writeUInt32LE(hnsw.m ?? 0, 5)
  value.writeUInt32LE(hnsw.efConstruction ?? 0, 9)
  value.writeDoubleLE(createdMs, 13)
  value.write(name, recordHeadBytes)
  return sealed(number, value)
}

/** Returns undefined if the record does not match its checksum. */
export function decodeRecord(number: number, value: Buffer): CatalogRecord | undefined {
  if (value.length < recordHeadBytes + 4 || !isSealed(number, value)) return undefined
  const m = value.readUInt32LE(5)
  const efConstruction = value.readUInt32LE(9)
  return {
    isDropped: value.readUInt8(0) === 1,
    dimension: value.readUInt32LE(1) || undefined,
    hnsw: { ...(m === 0 ? {} : { m }), ...(efConstruction === 0 ? {} : { efConstruction }) },
    createdMs: value.readDoubleLE(13),
    name: value.toString('utf8', recordHeadBytes, value.length - 4),
  }
}

const recordHeadBytes = 1 + 3 * 4 + 8

interface AliasRecord {
  readonly name: string
  /** Number of the collection. */
  readonly target: number
}

function encodeAlias(place: number, { name, target }: AliasRecord): Buffer {
  const value = Buffer.alloc(4 + Buffer.byteLength(name) + 4)
  value.writeUInt32LE(target, 0)
  value.write(name, 4)
  return sealed(place, value)
}

/** Returns undefined if the record does not match its checksum. */
export function decodeAlias(place: number, value: Buffer): AliasRecord | undefined {
  if (value.length < 8 || !isSealed(place, value)) return undefined
  return { target: value.readUInt32LE(0), name: value.toString('utf8', 4, value.length - 4) }
}

/** Fills in the checksum: the last four bytes. */
function sealed(key: number, value: Buffer): Buffer {
  const end = value.length - 4
  value.writeUInt32LE(checksumUnder(key, value.subarray(0, end)), end)
  return value
}

function isSealed(key: number, value: Buffer): boolean {
  const end = value.length - 4
  return value.readUInt32LE(end) === checksumUnder(key, value.subarray(0, end))
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
