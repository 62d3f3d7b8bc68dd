import type { Patch } from '../base/point.ts'
import { Turn } from '../base/turns.ts'
import type { ChangeByFilter } from './database.ts'
import { patchedPayload, walkMatching, writtenBytes } from './filter-walk.ts'
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
  const found = await points.matching(filter)
  const matching = Math.min(count, found.count)
  if (dryRun) return { ids: [], orders: [], more: found.count > count, matching }
  /** Some were deleted, or moved to another slot, where they may match as before. */
  let haveGone = false
  const { results, more } = await walkMatching(
    found,
    count,
    new Turn(),
    ({ slot, order }) => {
      // Another point can be in the slot now, which has its own place in the order.
      const isThere = points.isVisible(slot) && points.orderOf(slot) === order
      const bytes = isThere ? addedBytes(reader, slot, points.idOf(slot), change) : 'gone'
      if (bytes === 'gone') haveGone = true
      return typeof bytes === 'number' ? { id: points.idOf(slot), order, bytes } : undefined
    },
    ({ bytes }) => bytes,
  )
  const ids = results.map(({ id }) => id)
  return { ids, orders: results.map(({ order }) => order), more: haveGone || more, matching }
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
  const after = patchedPayload(id, before, change)
  return after === undefined ? 'same' : writtenBytes(after, change.vector)
}
