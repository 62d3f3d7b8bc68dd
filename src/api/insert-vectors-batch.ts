import type { NewPoint } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { type BatchItems, checkBatch, checkPoint, type PointInput, recheckDimension } from './validation.ts'

export interface InsertVectorsBatchInput {
  readonly vectors?: BatchItems<PointInput> | undefined
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
  const check = (item: PointInput, path: string): NewPoint => {
    const point = checkPoint(item, dimension, path)
    dimension ??= point.vector.length
    return point
  }
  const points = await checkBatch(input.vectors, 'vectors', check, call.signal)
  recheckDimension(points, dimension, context.database.dimension, (index) => `vectors[${index}].vector`)
  call.decoded?.()
  return points.length === 0 ? [] : context.database.insert(points, call.signal)
}
