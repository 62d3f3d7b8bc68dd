import type { NewPoint } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { identityOf } from './request-identity.ts'
import { type BatchItems, checkBatch, checkPoint, type PointInput, recheckDimension } from './validation.ts'

export interface InsertVectorsBatchInput {
  readonly vectors?: BatchItems<PointInput> | undefined
}

/**
 * Stores all the points as one atomic unit and resolves with their ids in input order; an empty batch
 * stores nothing. On an empty database the first item fixes the dimension that the others must have.
 * Fails with `invalid_argument`, naming the first bad item; then nothing is stored. A call with an idempotency key
 * stores its points once, however often it is repeated; `key_reused` when it brings others.
 */
export async function insertVectorsBatch(
  context: ApiContext,
  input: InsertVectorsBatchInput,
  call: Call,
): Promise<readonly string[]> {
  const identity = identityOf(call, 'InsertVectorsBatch')
  let dimension = context.database.dimension
  const check = (item: PointInput, path: string): NewPoint => {
    const point = checkPoint(item, dimension, path)
    dimension ??= point.vector.length
    identity?.add(point)
    return point
  }
  const points = await checkBatch(input.vectors, 'vectors', check, call.signal)
  recheckDimension(points, dimension, context.database.dimension, (index) => `vectors[${index}].vector`)
  call.decoded?.()
  if (points.length === 0) return []
  const { ids } = await context.database.insert(points, { signal: call.signal, identity: identity?.whole() })
  return ids as readonly string[]
}
