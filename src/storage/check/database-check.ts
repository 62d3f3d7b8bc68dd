import { closeSync, openSync } from 'node:fs'
import {
  decodeBlock,
  decodeMeta,
  emptyBlock,
  isKeyOfRequest,
  metaKeys,
  slotsPerBlock,
} from '../key-layout.ts'
import { addSlot } from '../live-bits.ts'
import { LmdbCheck, type TreeReader } from './lmdb-check.ts'
import { LmdbFault } from './lmdb-pages.ts'

/**
 * Checks points.mdb before LMDB opens it. Without a fault, the file is a valid LMDB file, and there is a payload for
 * every live slot and for no other slot. The check does not read payloads: each has a checksum that is checked on
 * reading it.
 *
 * @returns undefined for an undamaged file
 * @throws Error if the file cannot be read
 */
export function faultOfDatabase(path: string): DatabaseFault | undefined {
  const file = openSync(path, 'r')
  try {
    const fault = faultOfTables(new LmdbCheck(file))
    return fault === undefined ? undefined : { fault, isRepairable: true }
  } catch (error) {
    if (error instanceof LmdbFault) return { fault: error.message, isRepairable: false }
    throw error
  } finally {
    closeSync(file)
  }
}

export interface DatabaseFault {
  readonly fault: string
  /** Whether LMDB can open the file: then the fault is only in the contents of the tables. */
  readonly isRepairable: boolean
}

/** @throws LmdbFault if the file is not a valid LMDB file */
function faultOfTables(check: LmdbCheck): string | undefined {
  const tables = check.tables({ live: 'u32', meta: 'u32', payloads: 'u32' })
  const found = new TablesCheck()
  for (const [name, tree] of tables) check.read(tree, { keys: 'u32', visit: found[name] })
  check.finish()
  return found.fault
}

type Visit = TreeReader['visit']

/** Checks the tables of one collection. They can be visited in any order. */
export class TablesCheck {
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
    if (!('fault' in meta)) this.#keyedRequestsStated = meta.keyedRequests?.count ?? 0
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

export function damagedBlock(block: number): string {
  return `block ${block} of live slots does not match its checksum`
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
