import { closeSync, openSync } from 'node:fs'
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
    // Of version 2 of the catalog, so that its reader can report the version.
    aliases: () => {},
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
