import { checkPatchPaths } from '../base/attribute-patch.ts'
import type { Attributes } from '../base/attributes.ts'
import { type ContentType, contentTypes, type Patch } from '../base/point.ts'
import { invalid } from './call.ts'
import { checkEnum, type EnumInput } from './checks.ts'
import { checkExpiry } from './payload-validation.ts'
import { unembedded } from './texts.ts'
import { checkVector } from './validation.ts'

/** What a caller wants to change of points. */
export interface PatchInput {
  /** By path. Values are checked by the transport's reader, paths here. */
  readonly set?: Attributes | undefined
  /** Paths; `$expires_at` removes the expiry, as null for `expires_at` does in JSON. */
  readonly unset?: readonly string[] | undefined
  readonly content?: string | undefined
  readonly contentType?: EnumInput | undefined
  readonly expiresAtUs?: number | null | undefined
  readonly ttlSeconds?: number | undefined
  readonly vector?: Float32Array | undefined
  /** To be embedded, in place of a vector. Without it the vector stays, also if the content changes. */
  readonly text?: string | undefined
}

/**
 * With a text, the vector is `unembedded`.
 *
 * @param path where the patch is, with a dot behind it or empty: in HTTP its fields are those of the body
 * @returns only with the fields that change something
 */
export function checkPatch(input: PatchInput, dimension: number | undefined, path: string): Patch {
  const { set, content, contentType, vector, text } = input
  const unset = input.unset?.filter((each) => each !== expiryPath)
  const removesExpiry = unset !== undefined && unset.length !== input.unset!.length
  checkPatchPaths({ set, unset }, path)
  const expiresAtUs = checkExpiry(input, path)
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

/** In the messages of both transports: protobuf cannot write null. */
const expiryPath = '$expires_at'

function fieldsInWords(path: string): string {
  const fields = ['set', 'unset', 'content', 'content_type', 'vector', 'expires_at']
  return `send ${fields.map((each) => `${path}${each}`).join(', ')}`
}
