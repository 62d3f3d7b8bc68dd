import type { ApiContext, Call } from './call.ts'
import { checkId } from './checks.ts'
import { checkPayload, type PayloadInput } from './payload-validation.ts'
import { checkPrecondition, type PreconditionInput } from './precondition.ts'
import { embedText, pathOfText, textOfPoint } from './texts.ts'
import { checkVector } from './validation.ts'

export interface PutPointInput {
  readonly id?: string | undefined
  readonly vector?: Float32Array | undefined
  /** Embedded in place of a vector. */
  readonly text?: string | undefined
  readonly payload?: PayloadInput | undefined
  readonly when?: PreconditionInput | undefined
  /** The HTTP header. */
  readonly ifMatch?: string | undefined
}

/** A point that was stored or changed. */
export interface WrittenPoint {
  readonly id: string
  readonly version: number
}

/**
 * Stores a point under an id that the caller chose, and replaces the point that has it.
 * Fails with `precondition_failed` if `when` is not met.
 */
export async function putPoint(
  context: ApiContext,
  input: PutPointInput,
  call: Call,
): Promise<WrittenPoint & { readonly created: boolean }> {
  const id = checkId(input.id, 'id')
  const { database, embeddings } = context
  const text = textOfPoint(input, embeddings, '')
  const given = text === undefined ? checkVector(input.vector, database.dimension, 'vector') : undefined
  const payload = checkPayload(input.payload, 'payload', database.nowUs)
  const when = checkPrecondition(input.when, input.ifMatch)
  const vector = given ?? (await embedText(context, text!, pathOfText(input, ''), call.signal))
  call.decoded?.()
  const { version, created } = await database.put(id, { vector, payload }, when, call.signal)
  return { id, version, created }
}
