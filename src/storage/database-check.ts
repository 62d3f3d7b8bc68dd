import { closeSync, openSync } from 'node:fs'
import { decodeBlock, decodeMeta, emptyBlock, isKeyOfRequest, metaKeys, slotsPerBlock } from './key-layout.ts'
import { addSlot } from './live-bits.ts'
import { LmdbCheck, type TreeReader } from './lmdb-check.ts'
import { LmdbFault } from './lmdb-pages.ts'

/**
 * Checks points.mdb before LMDB opens it. Without a fault, the file is a valid LMDB file, and there is a payload for
 * each live slot and for no other. Payloads themselves are not read: each has a checksum that is checked when the
 * payload is read.
 *
 * @returns what is wrong; undefined for a sound file
 * @throws Error when the file cannot be read
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
  /** Whether LMDB can open the file anyway: the fault is in the contents of the tables. */
  readonly isRepairable: boolean
}

/** @throws LmdbFault when the file is not sound as LMDB's */
function faultOfTables(check: LmdbCheck): string | undefined {
  const tables = check.tables({ live: 'u32', meta: 'u32', payloads: 'u32' })
  const found = new TablesCheck()
  for (const [name, tree] of tables) check.read(tree, { keys: 'u32', visit: found[name] })
  check.finish()
  return found.fault
}

type Visit = TreeReader['visit']

/** What the tables of one collection hold, as they are gone through in whatever order. */
export class TablesCheck {
  readonly #slots = new Map<number, Buffer>()
  readonly #live = new Map<number, Buffer>()
  #fault: string | undefined
  #keyedRequests = 0
  /** Undefined if another program wrote the meta record: whoever reads it then says so. */
  #keyedRequestsStated: number | undefined = 0

  readonly live: Visit = (block, page, at, bytes) => {
    const bits = decodeBlock(block, page.subarray(at, at + bytes))
    if (bits === undefined) this.#fault ??= damagedBlock(block)
    else this.#live.set(block, bits)
  }

  /** Records are checked when they are read. */
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
    return `of slots ${first} to ${first + slotsPerBlock - 1} not those have payloads that live`
  }
  return undefined
}
