import { DatabaseError } from '../base/errors.ts'
import type { Point } from '../base/point.ts'
import { type ApiContext, type Call, invalid } from './call.ts'
import { checkId, shown } from './checks.ts'
import type { PointIdInput } from './delete-point.ts'

/** The message for a missing point, exactly as the HTTP contract states it. */
export const pointNotFound = 'Point not found'

/** A point with its version, if that was asked for. */
export interface FoundPoint extends Omit<Point, 'version'> {
  readonly version?: number | undefined
}

/** Returns the stored point, its float32 values unchanged. Fails with `not_found` when no point has this id. */
export async function getPoint(context: ApiContext, input: PointIdInput, call: Call): Promise<FoundPoint> {
  const id = checkId(input.id, 'id')
  const withVersion = wantsVersion(call)
  const point = await context.database.get(id, call)
  if (point === undefined) throw new DatabaseError('not_found', pointNotFound)
  if (withVersion) return point
  const { vector, payload } = point
  return { id: point.id, vector, payload }
}

function wantsVersion({ version }: Call): boolean {
  if (version === undefined || version === 'false') return false
  if (version === 'true') return true
  throw invalid(`version is ${shown(version)}, it must be true or false`)
}
