import type { Patch } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { ChangeByFilter } from '../points/database.ts'
import { patchedPayload, walkMatching, writtenBytes } from '../write/filter-walk.ts'
import { changesPerRecord } from '../write/logged-request.ts'
import type { LivePoints } from './live-points.ts'
import type { PointReader } from './point-reader.ts'

/** The points that a request by filter changes. */
export interface FilterPlan {
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
 * @throws DatabaseError when a patch cannot be applied to one of them
 */
export async function planByFilter(
  points: LivePoints,
  reader: PointReader,
  { filter, change, limit = changesPerRecord, dryRun }: ChangeByFilter,
): Promise<FilterPlan & { readonly matching: number }> {
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
      const isThere = points.isVisible(slot) && points.orderOf(slot) === order
      const bytes = isThere ? addedBytes(reader, slot, points.idOf(slot), change) : 'gone'
      if (bytes === 'gone') haveLeft = true
      return typeof bytes === 'number' ? { id: points.idOf(slot), order, bytes } : undefined
    },
    ({ bytes }) => bytes,
  )
  const ids = results.map(({ id }) => id)
  return { ids, orders: results.map(({ order }) => order), more: haveLeft || more, matching }
}

/**
 * Returns the bytes that a change of a point writes; `same` if the change has no effect, `gone` if a committed change
 * moves or deletes the point.
 */
function addedBytes(
  reader: PointReader,
  slot: number,
  id: string,
  change: Patch | 'delete',
): number | 'same' | 'gone' {
  if (change === 'delete') return 0
  const before = reader.payload(slot, id)
  if (before === undefined) return 'gone'
  const after = patchedPayload(id, before, change)
  return after === undefined ? 'same' : writtenBytes(after, change.vector)
}
