import { DatabaseError } from '../base/errors.ts'
import type { NewPoint } from '../base/point.ts'
import type { ApiContext, Call } from './call.ts'
import { identityOf } from './request-identity.ts'
import { embedText, pathOfText, textOfPoint } from './texts.ts'
import { checkPoint, checkPointOfText, type PointInput } from './validation.ts'

/**
 * Stores one point, of a vector or of a text that is embedded first, and resolves with its id, a new one unless the caller chose it, once it is durable and searchable.
 * Fails with `invalid_argument` on a vector of another length than the database's, and on missing fields; with
 * `already_exists` for an id that exists, unless `on_conflict` says otherwise. A call with an idempotency key stores its
 * point once, however often it is repeated; `key_reused` when it brings another point.
 */
export async function insertVector(context: ApiContext, input: PointInput, call: Call): Promise<string> {
  const identity = identityOf(call, 'InsertVector')
  const text = textOfPoint(input, context.embeddings, '')
  const checked =
    text === undefined ? checkPoint(input, context.database.dimension, '') : checkPointOfText(input, '')
  // Of a text, what was sent is hashed: its embedding need not be the same to the last bit every time.
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

/** The engine names items by their place in its list: this names them as the caller does. */
export function nameConflict(error: unknown, { id }: NewPoint, path: string): unknown {
  if (!(error instanceof DatabaseError) || error.reason !== 'already_exists' || id === undefined) return error
  return new DatabaseError('already_exists', `${path}id ${id} exists: send on_conflict to replace or skip it`)
}
