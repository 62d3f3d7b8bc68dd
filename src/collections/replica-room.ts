import { applyPatch } from '../base/attribute-patch.ts'
import type { NewPoint, Patch, Payload } from '../base/point.ts'
import type { LivePoints } from './live-points.ts'

/**
 * On a node of a cluster: checks whether a change would fit in memory now. The log also carries changes that only other
 * nodes have room for, so this is checked before a change is added to the log.
 *
 * @param slotCount the slots needed if all of the points are new
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
 * Like `checkRoom`, for a patch.
 *
 * @param before the payload of the point, as far as it is known here
 */
export function checkPatchRoom(livePoints: LivePoints, before: Payload | undefined, patch: Patch): void {
  if (before === undefined) return
  let after: Payload
  try {
    after = applyPatch(before, patch)
  } catch {
    // Whether the patch can be applied is decided in its turn, after its precondition.
    return
  }
  livePoints.strictRoomCheck().add(after)
}
