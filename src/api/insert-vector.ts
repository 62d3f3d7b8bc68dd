import type { ApiContext, Call } from './call.ts'
import { identityOf } from './request-identity.ts'
import { checkPoint, type PointInput } from './validation.ts'

/**
 * Stores one point and resolves with its new id once it is durable and searchable.
 * Fails with `invalid_argument` on a vector of another length than the database's, and on missing fields. A call with
 * an idempotency key stores its point once, however often it is repeated; `key_reused` when it brings another point.
 */
export async function insertVector(context: ApiContext, input: PointInput, call: Call): Promise<string> {
  const identity = identityOf(call, 'InsertVector')
  const point = checkPoint(input, context.database.dimension, '')
  identity?.add(point)
  call.decoded?.()
  const { ids } = await context.database.insert([point], { signal: call.signal, identity: identity?.whole() })
  return ids[0]!
}
