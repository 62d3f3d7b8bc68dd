import type { ApiContext, Call } from './call.ts'
import { checkId } from './checks.ts'
import { checkPatch, type PatchInput } from './patch.ts'
import { checkPrecondition, type PreconditionInput } from './precondition.ts'
import type { WrittenPoint } from './put-point.ts'
import { embedText, textBeside } from './texts.ts'

export interface PatchPointInput {
  readonly id?: string | undefined
  readonly patch?: PatchInput | undefined
  readonly when?: PreconditionInput | undefined
  /** The HTTP header. */
  readonly ifMatch?: string | undefined
}

/**
 * Changes parts of a point.
 * Fails with `not_found` when no point has this id, and with `precondition_failed` if `when` is not met.
 */
export async function patchPoint(
  context: ApiContext,
  input: PatchPointInput,
  call: Call,
): Promise<WrittenPoint> {
  const id = checkId(input.id, 'id')
  const { database, embeddings } = context
  const path = call.fields.patch
  const text = textBeside(input.patch?.text, input.patch?.vector, embeddings, path)
  const checked = checkPatch(input.patch ?? {}, database, path)
  const when = checkPrecondition(input.when, input.ifMatch)
  const patch =
    text === undefined
      ? checked
      : { ...checked, vector: await embedText(context, text, `${path}text`, call.signal) }
  call.decoded?.()
  const { version } = await database.patch(id, patch, when, call.signal)
  return { id, version }
}
