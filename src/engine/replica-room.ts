import { applyPatch } from '../base/attribute-patch.ts'
import type { NewPoint, Patch, Payload } from '../base/point.ts'
import type { LivePoints } from './live-points.ts'

/**
 * On a node of a cluster: whether a change would fit in memory now. The log is full of what others have room for too, so this
 * is asked before it gets the change.
 *
 * @param slotCount slots that are needed when all of the points are new
 * @throws DatabaseError `memory_full`; `invalid_argument` when the collection would have too many different paths
 */
export function checkRoom(
  livePoints: LivePoints,
  points: readonly Pick<NewPoint, 'vector' | 'payload'>[],
  slotCount: number,
): void {
  const room = livePoints.strictRoomCheck()
  for (const { payload } of points) room.add(payload)
  const { dimension } = livePoints
  if (dimension !== undefined && points.length > 0) livePoints.reserve(slotCount, dimension)
}

/**
 * The same of a patch.
 *
 * @param before what the point has, as far as it is known here
 */
export function checkPatchRoom(livePoints: LivePoints, before: Payload | undefined, patch: Patch): void {
  if (before === undefined) return
  let after: Payload
  try {
    after = applyPatch(before, patch)
  } catch {
    // Whether it can be applied is decided in its turn, after its condition.
    return
  }
  livePoints.strictRoomCheck().add(after)
}
