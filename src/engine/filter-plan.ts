import { attributesToJson } from '../base/attribute-json.ts'
import { applyPatch } from '../base/attribute-patch.ts'
import { DatabaseError } from '../base/errors.ts'
import { payloadBytes } from '../base/payload-bytes.ts'
import type { Patch, Payload } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { ChangeByFilter } from './database.ts'
import type { MatchingPoints } from './decision.ts'
import type { OrderedSlot } from './insertion-order.ts'
import type { LivePoints } from './live-points.ts'
import { changesPerRecord } from './logged-request.ts'
import type { PointReader } from './point-reader.ts'

/** What a request by filter changes. */
export interface FilterPlan {
  /** In the order of insertion. */
  readonly ids: readonly string[]
  /** Their places in that order. */
  readonly orders: readonly number[]
  /** Whether points may be left that match. */
  readonly more: boolean
}

/**
 * Finds the points that a request by filter changes, as they are now, and changes nothing: on a node of a cluster, the log
 * then has them changed. As many as one record of the log can change.
 *
 * @throws DatabaseError when a patch cannot be applied to one of them
 */
export async function planByFilter(
  points: LivePoints,
  reader: PointReader,
  { filter, change, limit = changesPerRecord, dryRun }: ChangeByFilter,
): Promise<FilterPlan & { readonly matching: number }> {
  const count = Math.min(limit, changesPerRecord)
  const matching = await points.matching(filter)
  const ids: string[] = []
  const orders: number[] = []
  let bytes = 0
  let looked = 0
  const turn = new Turn()
  for await (const { slot, order } of dryRun ? [] : slotsOf(matching, count)) {
    if (ids.length === count || bytes >= changedBytesMax) break
    looked += 1
    if (!points.isVisible(slot)) continue
    const id = points.idOf(slot)
    const added = change === 'delete' ? 0 : patchedBytes(reader, slot, id, change)
    if (added !== undefined) {
      ids.push(id)
      orders.push(order)
      bytes += added
    }
    if (turn.isOver) await turn.next()
  }
  const done = dryRun ? count : looked
  return { ids, orders, more: matching.count > done, matching: Math.min(count, matching.count) }
}

/** What a patch of a point writes; undefined if it stays as it is, or if a committed change has taken it from its slot. */
function patchedBytes(reader: PointReader, slot: number, id: string, change: Patch): number | undefined {
  const before = reader.payload(slot, id)
  if (before === undefined) return undefined
  const after = patched(id, before, change)
  if (change.vector === undefined && isSamePayload(before, after)) return undefined
  return payloadBytes(after) + (change.vector?.byteLength ?? 0)
}

/** The slots in the order of insertion, as many at a time as are likely to be wanted. */
export async function* slotsOf(matching: MatchingPoints, wanted: number): AsyncGenerator<OrderedSlot> {
  let after = 0
  for (;;) {
    const page = await matching.page(after, Math.min(wanted, slotsPerPage))
    yield* page
    const last = page.at(-1)
    if (last === undefined) return
    after = last.order
  }
}

/** Of one of many points: an error says which. */
export function patched(id: string, payload: Payload, patch: Patch): Payload {
  try {
    return applyPatch(payload, patch)
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    throw new DatabaseError(error.reason, `point ${id}: ${error.message}`)
  }
}

export function isSamePayload(one: Payload, other: Payload): boolean {
  return (
    one.content === other.content &&
    one.contentType === other.contentType &&
    one.expiresAtUs === other.expiresAtUs &&
    attributesText(one) === attributesText(other)
  )
}

function attributesText({ attributes }: Payload): string {
  return attributes === undefined ? '' : attributesToJson(attributes)
}

/** Sorting so many takes some milliseconds. */
const slotsPerPage = 10_000

/** What one request by filter writes, in payloads and vectors: it changes fewer points when they have more. */
export const changedBytesMax: number = 64 * 1024 * 1024
