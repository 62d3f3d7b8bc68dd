import { DatabaseError } from '../base/errors.ts'
import type { NewPoint } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { identityOf } from './request-identity.ts'
import { embedText, pathOfText, textOfPoint } from './texts.ts'
import { checkPoint, checkPointOfText, type PointInput } from './validation.ts'

/**
 * Stores one point and resolves with its id once it is durable and searchable. A text is embedded first. The id is new
 * unless the caller chose it.
 *
 * Fails with `invalid_argument` on a vector with the wrong number of dimensions and on missing fields. Fails with
 * `already_exists` for an id that exists, unless `on_conflict` says otherwise. A call with an idempotency key stores
 * its point once, however often it is repeated; it fails with `key_reused` when it carries another point.
 */
export async function insertVector(context: ApiContext, input: PointInput, call: Call): Promise<string> {
  const identity = identityOf(call, 'InsertVector')
  const text = textOfPoint(input, context.embeddings, '')
  const { dimension, nowUs } = context.database
  const checked =
    text === undefined ? checkPoint(input, dimension, '', nowUs) : checkPointOfText(input, '', nowUs)
  // The text is hashed instead of its embedding, which may differ in the last bits from call to call.
  identity?.add(checked, input.payload?.ttlSeconds, input.text)
  const point =
    text === undefined
      ? checked
      : { ...checked, vector: await embedText(context, text, pathOfText(input, ''), call.signal) }
  call.decoded?.()
  try {
    const options = { signal: call.signal, identity: identity?.whole() }
    const { ids } = await context.database.insert([point], options)
    return ids[0]!
  } catch (error) {
    throw nameConflict(error, point, '')
  }
}

/**
 * Rewrites the engine's error, which names an item by its index in the engine's list, to name it as the caller does.
 */
export function nameConflict(error: unknown, { id }: NewPoint, path: string): unknown {
  if (!(error instanceof DatabaseError) || error.reason !== 'already_exists' || id === undefined) return error
  return new DatabaseError('already_exists', `${path}id ${id} exists: send on_conflict to replace or skip it`)
}
