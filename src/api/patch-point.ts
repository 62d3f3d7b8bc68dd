import type { ApiContext, Call } from './call.ts'
import { checkId } from './checks.ts'
import { checkPatch, type PatchInput } from './patch.ts'
import { checkPrecondition, type PreconditionInput } from './precondition.ts'
import type { WrittenPoint } from './put-point.ts'

export interface PatchPointInput {
  readonly id?: string | undefined
  readonly patch?: PatchInput | undefined
  readonly when?: PreconditionInput | undefined
  /** The header of HTTP. */
  readonly ifMatch?: string | undefined
}

/**
 * Changes parts of a point.
 * Fails with `not_found` when there is none with this id, and with `precondition_failed` if `when` is not met.
 */
export async function patchPoint(
  { database }: ApiContext,
  input: PatchPointInput,
  call: Call,
): Promise<WrittenPoint> {
  const id = checkId(input.id, 'id')
  const patch = checkPatch(input.patch ?? {}, database.dimension, call.fields.patch)
  const when = checkPrecondition(input.when, input.ifMatch)
  call.decoded?.()
  const { version } = await database.patch(id, patch, when, call.signal)
  return { id, version }
}
