import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Precondition } from '../base/point.ts'

/** What preconditions are checked against. */
export interface ConditionedPoints {
  versionOf(slot: number): number
  matches(slot: number, filter: Filter): boolean
}

/**
 * Checks the precondition of a write.
 *
 * @param slot the slot of the point, or -1 if the point does not exist
 * @throws DatabaseError `precondition_failed`
 */
export function checkPrecondition(when: Precondition, points: ConditionedPoints, slot: number): void {
  const failure = failureOf(when, points, slot)
  if (failure !== undefined) throw new DatabaseError('precondition_failed', failure)
}

function failureOf(when: Precondition, points: ConditionedPoints, slot: number): string | undefined {
  if (when.kind === 'absent') return slot === -1 ? undefined : 'when.absent: a point with this id exists'
  if (slot === -1) return `when.${when.kind}: there is no point with this id`
  if (when.kind === 'filter') {
    return points.matches(slot, when.filter) ? undefined : 'when.filter: the point does not match'
  }
  const version = points.versionOf(slot)
  return version === when.version
    ? undefined
    : `when.version is ${when.version}, the point has version ${version}`
}
