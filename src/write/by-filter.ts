import { applyPatch } from '../base/attribute-patch.ts'
import { attributesToJson } from '../base/attributes.ts'
import { DatabaseError } from '../base/errors.ts'
import { type Patch, type Payload, payloadBytes } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { ChangeByFilter } from '../points/database.ts'
import type { OrderedSlot } from '../points/insertion-order.ts'
import { type CurrentPoints, changesPerRecord, type MatchingPoints } from './requests.ts'

/** The results for matching points, in the order of their insertion. */
interface Walked<Result> {
  readonly results: readonly Result[]
  /** Whether matching points may remain. */
  readonly more: boolean
}

/**
 * Visits the matching points in the order of their insertion, until `count` of them have a result, or the results write
 * 64 MiB. A point without a result does not count. A caller that repeats the call while there are more therefore
 * finishes, even if the filter still matches changed points.
 *
 * @param visit returns the result for a point. The point may have been hidden since it matched, so `visit` must check
 *   that it is still visible.
 * @param bytesOf returns what a result writes, in payloads and vectors
 */
export async function walkMatching<Result>(
  matching: MatchingPoints,
  count: number,
  turn: Turn,
  visit: (at: OrderedSlot) => Result | undefined,
  bytesOf: (result: Result) => number,
): Promise<Walked<Result>> {
  const results: Result[] = []
  let bytes = 0
  let looked = 0
  for await (const at of slotsOf(matching, count)) {
    if (results.length === count || bytes >= changedBytesMax) break
    looked += 1
    if (turn.isOver) await turn.next()
    const result = visit(at)
    if (result === undefined) continue
    results.push(result)
    bytes += bytesOf(result)
  }
  return { results, more: matching.count > looked }
}

/** Yields the slots in the order of insertion, in pages of about the wanted number. */
async function* slotsOf(matching: MatchingPoints, wanted: number): AsyncGenerator<OrderedSlot> {
  let after = 0
  for (;;) {
    const page = await matching.page(after, Math.min(wanted, slotsPerPage))
    yield* page
    const last = page.at(-1)
    if (last === undefined) return
    after = last.order
  }
}

/**
 * Returns the payload of one of many points after a patch; undefined if the patch leaves the point unchanged.
 *
 * @throws DatabaseError that names the point, when the patch cannot be applied to it
 */
export function patchedPayload(id: string, before: Payload, patch: Patch): Payload | undefined {
  const after = patched(id, before, patch)
  return patch.vector === undefined && isSamePayload(before, after) ? undefined : after
}

function patched(id: string, payload: Payload, patch: Patch): Payload {
  try {
    return applyPatch(payload, patch)
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    throw new DatabaseError(error.reason, `point ${id}: ${error.message}`)
  }
}

function isSamePayload(one: Payload, other: Payload): boolean {
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

/** Returns how many bytes a changed point writes, in its payload and its vector. */
export function writtenBytes(payload: Payload, vector: Float32Array | undefined): number {
  return payloadBytes(payload) + (vector?.byteLength ?? 0)
}

/** The points that a request by filter changes. */
export interface PlannedChanges {
  /** In the order of insertion. */
  readonly ids: readonly string[]
  /** The place of each id in that order. */
  readonly orders: readonly number[]
  /** Whether matching points may remain. */
  readonly more: boolean
}

/**
 * Finds the points that a request by filter would change now, without changing them. On a node of a cluster, a record
 * of the log then changes them; the plan has at most as many points as one record can change.
 *
 * @param payloadOf returns the payload of a visible point in a slot; undefined if a committed change moves or deletes it
 * @throws DatabaseError when a patch cannot be applied to one of them
 */
export async function planByFilter(
  points: CurrentPoints,
  payloadOf: (slot: number, id: string) => Payload | undefined,
  { filter, change, limit = changesPerRecord, dryRun }: ChangeByFilter,
): Promise<PlannedChanges & { readonly matching: number }> {
  const count = Math.min(limit, changesPerRecord)
  const found = await points.matching(filter)
  const matching = Math.min(count, found.count)
  if (dryRun) return { ids: [], orders: [], more: found.count > count, matching }
  /** Whether points were deleted, or moved to another slot where they may still match. */
  let haveLeft = false
  const { results, more } = await walkMatching(
    found,
    count,
    new Turn(),
    ({ slot, order }) => {
      // The slot can have another point now, which has another order.
      const isThere = points.table.isVisible(slot) && points.table.orderOf(slot) === order
      const id = points.table.idOf(slot)
      if (isThere && change === 'delete') return { id, order, bytes: 0 }
      const before = isThere ? payloadOf(slot, id) : undefined
      if (before === undefined || change === 'delete') {
        haveLeft = true
        return undefined
      }
      const after = patchedPayload(id, before, change)
      return after && { id, order, bytes: writtenBytes(after, change.vector) }
    },
    ({ bytes }) => bytes,
  )
  const ids = results.map(({ id }) => id)
  return { ids, orders: results.map(({ order }) => order), more: haveLeft || more, matching }
}

/** Sorting this many slots takes a few milliseconds. */
const slotsPerPage = 10_000

/** The most that one request by filter writes: it changes fewer points if they are larger. */
const changedBytesMax = 64 * 1024 * 1024
