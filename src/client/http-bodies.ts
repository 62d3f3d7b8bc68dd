import { jsonNumbers } from '../base/attribute-json.ts'
import type { Highlight, Hit, StoredPayload } from './client.ts'
import { attributeJson, attributesFromJson, momentIn, momentText } from './values.ts'

/** Conversions between the client's types, as `input.ts` has checked them, and the JSON of HTTP. */

/**
 * The JSON of an object that begins with a vector, whose numbers parse to the same float32 values. The vector is written
 * without quotes, so it is written from an array that can hold nothing but numbers.
 */
export function bodyOf(input: object): string {
  const { vector, ...fields } = input as { readonly vector?: ArrayLike<number> | undefined }
  const rest = JSON.stringify(fieldsJson(fields))
  if (vector === undefined) return rest
  return `{"vector":${jsonNumbers(new Float64Array(vector))}${rest === '{}' ? '}' : `,${rest.slice(1)}`}`
}

/** The fields of an object in the names and forms of JSON. `JSON.stringify` leaves out undefined ones. */
export function fieldsJson(fields: object): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]: [string, unknown]) => [
      jsonNames[name] ?? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value && (jsonOf[name]?.(value as never) ?? value),
    ]),
  )
}

const jsonNames: Readonly<Record<string, string>> = { metric: 'similarity' }

/** The fields that are not the same in JSON. In all others, callers choose no names. */
const jsonOf: Readonly<Record<string, (value: never) => unknown>> = {
  filter: attributeJson,
  attributes: attributeJson,
  set: attributeJson,
  expiresAt: momentText,
  payload: fieldsJson,
  when: fieldsJson,
  hnsw: fieldsJson,
}

export interface PayloadAnswer {
  readonly content_type: StoredPayload['contentType']
  readonly content: string
  readonly attributes?: unknown
  readonly expires_at?: string
}

export interface HitAnswer {
  readonly id: string
  readonly distance?: number
  readonly payload?: PayloadAnswer
  readonly vector?: readonly number[]
  readonly version?: number
  readonly score?: number
  readonly words?: number
  readonly highlight?: readonly Highlight[]
}

export function payloadOf({ content_type, content, attributes, expires_at }: PayloadAnswer): StoredPayload {
  return {
    ...(content_type === undefined ? {} : { contentType: content_type }),
    ...(content === undefined ? {} : { content }),
    ...(attributes === undefined ? {} : { attributes: attributesFromJson(attributes) }),
    ...(expires_at === undefined ? {} : { expiresAt: momentIn(expires_at) }),
  } as StoredPayload
}

export function hitOf({ payload, vector, highlight = [], ...rest }: HitAnswer): Hit {
  return {
    ...rest,
    ...(highlight.length === 0 ? {} : { highlight }),
    ...(payload === undefined ? {} : { payload: payloadOf(payload) }),
    ...(vector === undefined ? {} : { vector: Float32Array.from(vector) }),
  }
}

/**
 * An answer without data of users in the names of the client: camel case, and undefined for null.
 */
export function renamed(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(renamed)
  if (typeof answer !== 'object') return answer
  if (answer === null) return undefined
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => [
      otherNames[name] ?? name.replaceAll(/_(.)/g, (_, letter) => letter.toUpperCase()),
      renamed(value),
    ]),
  )
}

const otherNames: Readonly<Record<string, string>> = {
  similarity: 'metric',
  settling: 'isSettling',
  secret: 'isSecret',
}
