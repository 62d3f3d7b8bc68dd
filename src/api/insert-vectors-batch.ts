import type { ApiContext, Call } from './call.ts'
import { checkBatch, checkPoint, type PointInput } from './validation.ts'

export interface InsertVectorsBatchInput {
  /** Gone through once. */
  readonly vectors?: Iterable<PointInput> | undefined
}

/**
 * Stores all the points as one atomic unit and resolves with their ids in input order; an empty batch
 * stores nothing. On an empty database the first item fixes the dimension that the others must have.
 * Fails with `invalid_argument`, naming the first bad item; then nothing is stored.
 */
export async function insertVectorsBatch(
  context: ApiContext,
  input: InsertVectorsBatchInput,
  call: Call,
): Promise<readonly string[]> {
  let dimension = context.database.dimension
  const points = checkBatch(input.vectors, 'vectors', (item, path) => {
    const point = checkPoint(item, dimension, path)
    dimension ??= point.vector.length
    return point
  })
  return points.length === 0 ? [] : context.database.insert(points, call.signal)
}
