import { closeSync, openSync } from 'node:fs'
import { decodeAlias, decodeHead, decodeRecord, headKey, mainNumber } from '../catalog.ts'
import {
  decodeBlock,
  decodeMeta,
  emptyBlock,
  isKeyOfRequest,
  metaKeys,
  slotsPerBlock,
} from '../key-layout.ts'
import { addSlot, damagedBlock } from '../live-bits.ts'
import { LmdbCheck, type TreeReader } from './lmdb-check.ts'
import { LmdbFault } from './lmdb-pages.ts'

interface DatabaseFaults {
  /** Damage of a part that all collections share. It makes the file unusable. */
  readonly fault?: string | undefined
  /** Whether the file is undamaged, but has another format version. */
  readonly isOtherVersion?: boolean
  /** Damage of the tables of a collection, by its number. */
  readonly faults: ReadonlyMap<number, string>
}

/**
 * Checks LMDB's file before LMDB opens it. Without `fault`, the file is a valid LMDB file, and catalog and aliases match
 * their checksums. Each collection that is not in `faults` has a payload for every live slot and for no other slot. The
 * check does not read payloads: each has a checksum that is checked on reading it.
 *
 * @throws Error if the file cannot be read
 */
export function faultsOfDatabase(path: string): DatabaseFaults {
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

/** @throws LmdbFault if the file is not a valid LMDB file */
function faultsOfTables(check: LmdbCheck): DatabaseFaults {
  const catalog = new CatalogCheck()
  const collections = new Map<number, TablesCheck>()
  const points =
    (name: 'live' | 'meta' | 'payloads'): Visit =>
    (key, page, at, bytes, collection) => {
      const found = collections.get(collection) ?? new TablesCheck()
      collections.set(collection, found)
      found[name](key, page, at, bytes, collection)
    }
  const visits: Readonly<Record<string, Visit>> = {
    aliases: catalog.aliases,
    catalog: catalog.records,
    live: points('live'),
    meta: points('meta'),
    payloads: points('payloads'),
  }
  for (const [name, tree] of check.tables(Object.keys(visits))) {
    check.read(tree, { keys: 'scoped', visit: visits[name]! })
  }
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

type Visit = TreeReader['visit']

/** Checks the tables of one collection. They can be visited in any order. */
class TablesCheck {
  readonly #slots = new Map<number, Buffer>()
  readonly #live = new Map<number, Buffer>()
  #fault: string | undefined
  #keyedRequests = 0
  /** Undefined if the meta record has another format version; the code that reads it later reports that. */
  #keyedRequestsStated: number | undefined = 0

  readonly live: Visit = (block, page, at, bytes) => {
    const bits = decodeBlock(block, page.subarray(at, at + bytes))
    if (bits === undefined) this.#fault ??= damagedBlock(block)
    else this.#live.set(block, bits)
  }

  /** Only counts keyed requests: their records are checked on reading them. */
  readonly meta: Visit = (key, page, at, bytes) => {
    if (isKeyOfRequest(key)) this.#keyedRequests += 1
    if (key !== metaKeys.state) return
    const meta = decodeMeta(page.subarray(at, at + bytes))
    if (!('fault' in meta)) this.#keyedRequestsStated = meta.keyedRequests.count
    else if (meta.isOtherVersion) this.#keyedRequestsStated = undefined
  }

  readonly payloads: Visit = (slot) => addSlot(this.#slots, slot)

  get fault(): string | undefined {
    const [found, stated] = [this.#keyedRequests, this.#keyedRequestsStated]
    if (this.#fault !== undefined) return this.#fault
    if (stated !== undefined && found !== stated)
      return `it should hold ${stated} keyed requests, but has ${found}`
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

/** Checks the catalog and the aliases. Their tables can be visited in any order. */
class CatalogCheck {
  readonly dropped = new Set<number>()
  readonly #numbers = new Set<number>()
  readonly #targets = new Set<number>()
  #head: ReturnType<typeof decodeHead> = decodeHead(undefined)
  #fault: string | undefined

  readonly records: Visit = (key, page, at, bytes) => {
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

  readonly aliases: Visit = (place, page, at, bytes) => {
    const alias = decodeAlias(place, page.subarray(at, at + bytes))
    if (alias === undefined) this.#fault ??= `alias ${place} does not match its checksum`
    else this.#targets.add(alias.target)
  }

  /** @param stored numbers of the collections with entries in tables */
  faultWith(stored: Iterable<number>): Pick<DatabaseFaults, 'fault' | 'isOtherVersion'> | undefined {
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
    if (!this.#numbers.has(mainNumber)) return 'its catalog does not contain the default collection'
    for (const target of this.#targets)
      if (!this.#numbers.has(target))
        return `an alias names collection ${target}, which is not in its catalog`
    return undefined
  }
}
