import { closeSync, openSync } from 'node:fs'
import { decodeAlias, decodeHead, decodeRecord, headKey, mainNumber } from '../catalog.ts'
import { TablesCheck } from './database-check.ts'
import { LmdbCheck, type TreeReader } from './lmdb-check.ts'
import { LmdbFault } from './lmdb-pages.ts'

export interface CollectionsFaults {
  /** Damage of a part that all collections share. It makes the file unusable. */
  readonly fault?: string | undefined
  /** Whether the file is undamaged, but has another format version. */
  readonly isOtherVersion?: boolean
  /** Damage of the tables of a collection, by its number. */
  readonly faults: ReadonlyMap<number, string>
}

/**
 * Checks collections.mdb before LMDB opens it. Without `fault`, the file is a valid LMDB file, and catalog and aliases
 * match their checksums. Each collection that is not in `faults` has a payload for every live slot and for no other
 * slot.
 *
 * @throws Error if the file cannot be read
 */
export function faultsOfCollections(path: string): CollectionsFaults {
  const file = openSync(path, 'r')
  try {
    return faultsOfTables(new LmdbCheck(file))
  } catch (error) {
    if (error instanceof LmdbFault) return { fault: error.message, faults: new Map() }
    throw error
  } finally {
    closeSync(file)
  }
}

function faultsOfTables(check: LmdbCheck): CollectionsFaults {
  const tables = check.tables({
    aliases: 'u32',
    catalog: 'u32',
    live: 'scoped',
    meta: 'scoped',
    payloads: 'scoped',
  })
  const catalog = new CatalogCheck()
  const collections = new Map<number, TablesCheck>()
  const scoped =
    (name: 'live' | 'meta' | 'payloads'): TreeReader['visit'] =>
    (key, page, at, bytes, collection) => {
      const found = collections.get(collection) ?? new TablesCheck()
      collections.set(collection, found)
      found[name](key, page, at, bytes, collection)
    }
  const readers: Readonly<Record<string, TreeReader>> = {
    aliases: { keys: 'u32', visit: catalog.aliases },
    catalog: { keys: 'u32', visit: catalog.records },
    live: { keys: 'scoped', visit: scoped('live') },
    meta: { keys: 'scoped', visit: scoped('meta') },
    payloads: { keys: 'scoped', visit: scoped('payloads') },
  }
  for (const [name, tree] of tables) check.read(tree, readers[name]!)
  check.finish()
  const shared = catalog.faultWith(collections.keys())
  if (shared !== undefined) return { ...shared, faults: new Map() }
  const faults = new Map<number, string>()
  for (const [number, { fault }] of collections) {
    // A collection that is being removed is incomplete.
    if (fault !== undefined && !catalog.dropped.has(number)) faults.set(number, fault)
  }
  return { faults }
}

/** Checks the catalog and the aliases. Their tables can be visited in any order. */
class CatalogCheck {
  readonly dropped = new Set<number>()
  readonly #numbers = new Set<number>()
  readonly #targets = new Set<number>()
  #head: ReturnType<typeof decodeHead> = decodeHead(undefined)
  #fault: string | undefined

  readonly records: TreeReader['visit'] = (key, page, at, bytes) => {
    const value = page.subarray(at, at + bytes)
    if (key === headKey) {
      this.#head = decodeHead(value)
      return
    }
    const record = decodeRecord(key, value)
    if (record === undefined) this.#fault ??= `the record of collection ${key} does not match its checksum`
    else if (record.isDropped) this.dropped.add(key)
    this.#numbers.add(key)
  }

  readonly aliases: TreeReader['visit'] = (place, page, at, bytes) => {
    const alias = decodeAlias(place, page.subarray(at, at + bytes))
    if (alias === undefined) this.#fault ??= `alias ${place} does not match its checksum`
    else this.#targets.add(alias.target)
  }

  /** @param stored numbers of the collections with entries in tables */
  faultWith(stored: Iterable<number>): Pick<CollectionsFaults, 'fault' | 'isOtherVersion'> | undefined {
    const head = this.#head
    if ('fault' in head) return head
    const fault = this.#fault ?? this.#strangers(stored, head.nextNumber)
    return fault === undefined ? undefined : { fault }
  }

  #strangers(stored: Iterable<number>, nextNumber: number): string | undefined {
    for (const number of stored)
      if (!this.#numbers.has(number))
        return `it has entries of collection ${number}, which is not in its catalog`
    for (const number of this.#numbers)
      if (number >= nextNumber) return `collection ${number} is not below the next number, ${nextNumber}`
    for (const target of this.#targets)
      if (target !== mainNumber && !this.#numbers.has(target))
        return `an alias names collection ${target}, which is not in its catalog`
    return undefined
  }
}
