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
  /** Some were deleted, or moved to another slot, where they may match as before. */
  let haveGone = false
  const turn = new Turn()
  for await (const { slot, order } of dryRun ? [] : slotsOf(matching, count)) {
    if (ids.length === count || bytes >= changedBytesMax) break
    looked += 1
    if (turn.isOver) await turn.next()
    const added = points.isVisible(slot) ? addedBytes(reader, slot, points.idOf(slot), change) : 'gone'
    if (added === 'gone') haveGone = true
    if (added === 'gone' || added === 'same') continue
    ids.push(points.idOf(slot))
    orders.push(order)
    bytes += added
  }
  const done = dryRun ? count : looked
  const more = haveGone || matching.count > done
  return { ids, orders, more, matching: Math.min(count, matching.count) }
}

/** What a change of a point writes; `same` if it stays as it is, `gone` if a committed change takes it from its slot here. */
function addedBytes(
  reader: PointReader,
  slot: number,
  id: string,
  change: Patch | 'delete',
): number | 'same' | 'gone' {
  if (change === 'delete') return 0
  const before = reader.payload(slot, id)
  if (before === undefined) return 'gone'
  const after = patched(id, before, change)
  if (change.vector === undefined && isSamePayload(before, after)) return 'same'
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
