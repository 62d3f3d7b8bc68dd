import { checkPatchPaths } from '../base/attribute-patch.ts'
import type { Attributes } from '../base/attributes.ts'
import { type ContentType, contentTypes, type Patch } from '../base/point.ts'
import type { Database } from '../points/database.ts'
import { invalid } from './call.ts'
import { checkEnum, type EnumInput } from './checks.ts'
import { checkExpiry } from './payload-validation.ts'
import { unembedded } from './texts.ts'
import { checkVector } from './validation.ts'

/** Which parts of points to change. */
export interface PatchInput {
  /** Values by path. The transport's reader checks the values, this file the paths. */
  readonly set?: Attributes | undefined
  /** Paths; `$expires_at` removes the expiry, as null for `expires_at` does in JSON. */
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: EnumInput | undefined
  readonly expiresAtUs?: number | null | undefined
  readonly ttlSeconds?: number | undefined
  readonly vector?: Float32Array | undefined
  /** Embedded in place of a vector. A new content alone does not change the vector. */
  readonly text?: string | undefined
}

/**
 * Checks a patch. If it has a text, its vector is `unembedded`.
 *
 * @param path of the patch in the request, with a trailing dot; empty in HTTP, where its fields are those of the body
 * @returns only the fields that change something
 */
export function checkPatch(
  input: PatchInput,
  { dimension, nowUs }: Pick<Database, 'dimension' | 'nowUs'>,
  path: string,
): Patch {
  const { set, content, contentType, vector, text } = input
  const unset = input.unset?.filter((each) => each !== expiryPath)
  const removesExpiry = unset !== undefined && unset.length !== input.unset!.length
  checkPatchPaths({ set, unset }, path)
  const expiresAtUs = checkExpiry(input, path, nowUs)
  if (removesExpiry && typeof expiresAtUs === 'number') {
    throw invalid(`${path}unset has "${expiryPath}", but the patch also sets when the point expires`)
  }
  const patch: Patch = {
    ...(set === undefined || set.size === 0 ? {} : { set }),
    ...(unset === undefined || unset.length === 0 ? {} : { unset }),
    ...(content === undefined ? {} : { content }),
    ...(contentType === undefined
      ? {}
      : { contentType: checkEnum<ContentType>(contentType, contentTypes, `${path}content_type`) }),
    ...(removesExpiry ? { expiresAtUs: null } : expiresAtUs === undefined ? {} : { expiresAtUs }),
    ...(vector === undefined ? {} : { vector: checkVector(vector, dimension, `${path}vector`) }),
    ...(text === undefined ? {} : { vector: unembedded }),
  }
  if (Object.keys(patch).length === 0) throw invalid(`there is nothing to change: ${fieldsInWords(path)}`)
  return patch
}

/** Stands for the expiry in `unset`, in both transports: protobuf has no null. */
const expiryPath = '$expires_at'

function fieldsInWords(path: string): string {
  const fields = ['set', 'unset', 'content', 'content_type', 'vector', 'expires_at']
  return `send ${fields.map((each) => `${path}${each}`).join(', ')}`
}
