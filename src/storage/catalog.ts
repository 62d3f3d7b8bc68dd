import { defaultCollection } from '../base/collection.ts'
import {
  type AliasRecord,
  type CatalogRecord,
  decodeAlias,
  decodeHead,
  decodeRecord,
  encodeAlias,
  encodeHead,
  encodeRecord,
  headKey,
  mainNumber,
} from './catalog-layout.ts'
import type { CollectionTables } from './collection-tables.ts'
import { beyondRepair } from './data-directory.ts'
import type { CollectionRecord } from './store.ts'
import type { EntryChange } from './writer-messages.ts'

/** A change of the catalog: the entries to commit, and the update in memory after the commit. */
export interface CatalogChange {
  readonly entries: readonly EntryChange[]
  readonly apply: () => void
}

/** The collections and aliases in memory, as of the last commit. */
export class Catalog {
  /** Collections by name. */
  readonly collections: Map<string, CollectionRecord> = new Map()
  /** The name of the collection, by alias. */
  readonly aliases: Map<string, string> = new Map()
  /** Numbers of collections that are dropped but not yet removed from the disk. */
  readonly dropped: Set<number> = new Set()
  readonly #names = new Map<number, string>([[mainNumber, defaultCollection]])
  /** The key in the table of aliases, by alias. */
  readonly #places = new Map<string, number>()
  #nextNumber = 1

  get nextNumber(): number {
    return this.#nextNumber
  }

  /** Reads the tables. @throws DatabaseError if a record is damaged */
  read({ catalog, aliases }: Pick<CollectionTables, 'catalog' | 'aliases'>, path: string): void {
    const head = decodeHead(catalog.getBinary(headKey))
    if ('fault' in head) throw beyondRepair(path, head.fault)
    this.#nextNumber = head.nextNumber
    for (const { key, value } of catalog.getRange({ start: headKey + 1 })) {
      const record = decodeRecord(key, value)
      if (record === undefined) {
        throw beyondRepair(path, `the record of collection ${key} does not match its checksum`)
      }
      if (record.isDropped) this.dropped.add(key)
      else this.#add(key, record)
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
