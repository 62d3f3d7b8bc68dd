import { DatabaseError } from '../base/errors.ts'
import type { Point } from '../base/point.ts'
import type { ApiContext } from './call.ts'
import type { PointIdInput } from './delete-point.ts'
import { checkId } from './validation.ts'

/** The message for a missing point, exactly as the HTTP contract words it. */
export const pointNotFound = 'Point not found'

/** The stored point, its float32 values unchanged. Fails with `not_found` when there is none with this id. */
export async function getPoint(context: ApiContext, input: PointIdInput): Promise<Point> {
  const point = await context.database.get(checkId(input.id, 'id'))
  if (point === undefined) throw new DatabaseError('not_found', pointNotFound)
  return point
}
