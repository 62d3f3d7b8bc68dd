import type { ApiContext, Call } from './call.ts'
import { checkId } from './checks.ts'
import { checkPayload, type PayloadInput } from './payload-validation.ts'
import { checkPrecondition, type PreconditionInput } from './precondition.ts'
import { checkVector } from './validation.ts'

export interface PutPointInput {
  readonly id?: string | undefined
  readonly vector?: Float32Array | undefined
  readonly payload?: PayloadInput | undefined
  readonly when?: PreconditionInput | undefined
  /** The header of HTTP. */
  readonly ifMatch?: string | undefined
}

/** A point that was stored or changed. */
export interface WrittenPoint {
  readonly id: string
  readonly version: number
}

/**
 * Stores a point under an id that the caller chose, in place of the one that was there.
 * Fails with `precondition_failed` if `when` is not met.
 */
export async function putPoint(
  { database }: ApiContext,
  input: PutPointInput,
  call: Call,
): Promise<WrittenPoint & { readonly created: boolean }> {
  const id = checkId(input.id, 'id')
  const vector = checkVector(input.vector, database.dimension, 'vector')
  const payload = checkPayload(input.payload, 'payload')
  const when = checkPrecondition(input.when, input.ifMatch)
  call.decoded?.()
  const { version, created } = await database.put(id, { vector, payload }, when, call.signal)
  return { id, version, created }
}
