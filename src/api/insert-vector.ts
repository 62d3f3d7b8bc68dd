import type { ApiContext, Call } from './call.ts'
import { checkPoint, type PointInput } from './validation.ts'

/**
 * Stores one point and resolves with its new id once it is durable and searchable.
 * Fails with `invalid_argument` on a vector of another length than the database's, and on missing fields.
 */
export async function insertVector(context: ApiContext, input: PointInput, call: Call): Promise<string> {
  const point = checkPoint(input, context.database.dimension, '')
  call.decoded?.()
  const [id] = await context.database.insert([point], call.signal)
  return id!
}
