import type { Attributes } from '../base/attributes.ts'
import { type ContentType, contentTypes, type Payload, ttlSecondsMax } from '../base/point.ts'
import { invalid } from './call.ts'
import { checkEnum, type EnumInput } from './checks.ts'

export interface PayloadInput {
  readonly contentType?: EnumInput | undefined
  readonly content?: string | undefined
  /** Checked by the transport's reader, which knows the path of each attribute; undefined if there are none. */
  readonly attributes?: Attributes | undefined
  /** Checked by the transport's reader. */
  readonly expiresAtUs?: number | undefined
  /** From the arrival of the request; instead of `expiresAtUs`. */
  readonly ttlSeconds?: number | undefined
}

/** @param nowUs see `checkExpiry` */
export function checkPayload(payload: PayloadInput | undefined, path: string, nowUs: number): Payload {
  if (payload === undefined) throw invalid(`${path} is missing`)
  const contentType = checkEnum<ContentType>(payload.contentType, contentTypes, `${path}.content_type`)
  const { content, attributes } = payload
  if (content === undefined) throw invalid(`${path}.content is missing`)
  const expiresAtUs = checkExpiry(payload, `${path}.`, nowUs)
  if (attributes === undefined && expiresAtUs === undefined) return { contentType, content }
  return {
    contentType,
    content,
    ...(attributes === undefined ? {} : { attributes }),
    ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
  }
}

/**
 * Returns when a point expires, in microseconds since 1970.
 *
 * @param path of the fields' parent, with a trailing dot, or empty
 * @param nowUs the time of the collection, by which its points expire
 */
export function checkExpiry<Expiry extends number | null | undefined>(
  input: { readonly expiresAtUs?: Expiry; readonly ttlSeconds?: number | undefined },
  path: string,
  nowUs: number,
): Expiry | number | undefined {
  const { expiresAtUs, ttlSeconds } = input
  if (ttlSeconds === undefined) return expiresAtUs
  if (expiresAtUs !== undefined) {
    throw invalid(`${path}expires_at and ${path}ttl_seconds are both given: a point has one of them`)
  }
  if (!(ttlSeconds > 0 && ttlSeconds <= ttlSecondsMax)) {
    throw invalid(
      `${path}ttl_seconds is ${ttlSeconds}, it must be greater than 0 and at most ${ttlSecondsMax} (100 years)`,
    )
  }
  return nowUs + Math.round(ttlSeconds * 1e6)
}
