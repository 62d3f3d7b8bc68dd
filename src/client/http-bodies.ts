import { jsonNumbers } from '../base/attribute-json.ts'
import type {
  DetailedQuery,
  Hit,
  Patch,
  PayloadToStore,
  PointToInsert,
  PointToStore,
  Precondition,
  Query,
  StoredPayload,
} from './client.ts'
import { attributesFromJson, attributesJson, filterJson, momentIn, momentText } from './values.ts'

/** Conversions between the client's types, as `input.ts` has checked them, and the JSON of HTTP. */

export function pointBody(point: PointToInsert): string {
  return withVector(point.vector, {
    id: point.id,
    on_conflict: point.onConflict,
    text: point.text,
    payload: payloadJson(point.payload),
  })
}

export function putBody({ vector, text, payload }: PointToStore, when: Precondition | undefined): string {
  return withVector(vector, { text, payload: payloadJson(payload), when: preconditionJson(when) })
}

export function patchBody(patch: Patch, when: Precondition | undefined): string {
  return withVector(patch.vector, {
    ...changeJson(patch),
    content: patch.content,
    content_type: patch.contentType,
    text: patch.text,
    when: preconditionJson(when),
  })
}

/** The part of a patch that can apply to many points. */
export function changeJson({ set, unset, expiresAt }: Patch): Readonly<Record<string, unknown>> {
  return {
    set: attributesJson(set),
    unset,
    // null removes the expiry.
    expires_at: expiresAt && momentText(expiresAt),
  }
}

export function queryBody(query: Query & Partial<DetailedQuery>): string {
  const { vector, id, text, metric, limit, ef, filter, exact, maxDistance, include, profile } = query
  return withVector(vector, {
    id,
    text,
    similarity: metric,
    limit,
    ef,
    filter: filterJson(filter),
    exact,
    max_distance: maxDistance,
    include,
    profile,
  })
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
}

export function payloadOf({ content_type, content, attributes, expires_at }: PayloadAnswer): StoredPayload {
  return {
    ...(content_type === undefined ? {} : { contentType: content_type }),
    ...(content === undefined ? {} : { content }),
    ...(attributes === undefined ? {} : { attributes: attributesFromJson(attributes) }),
    ...(expires_at === undefined ? {} : { expiresAt: momentIn(expires_at) }),
  } as StoredPayload
}

export function hitOf({ payload, vector, ...rest }: HitAnswer): Hit {
  return {
    ...rest,
    ...(payload === undefined ? {} : { payload: payloadOf(payload) }),
    ...(vector === undefined ? {} : { vector: Float32Array.from(vector) }),
  }
}

/**
 * The JSON of an object that begins with a vector, whose numbers parse to the same float32 values. The vector is written
 * without quotes, so it is written from an array that can hold nothing but numbers.
 */
function withVector(
  vector: ArrayLike<number> | undefined,
  fields: Readonly<Record<string, unknown>>,
): string {
  const rest = JSON.stringify(fields)
  if (vector === undefined) return rest
  return `{"vector":${jsonNumbers(new Float64Array(vector))}${rest === '{}' ? '}' : `,${rest.slice(1)}`}`
}

export function payloadJson({
  contentType,
  content,
  attributes,
  expiresAt,
}: Partial<PayloadToStore>): object {
  return {
    content_type: contentType,
    content,
    attributes: attributesJson(attributes),
    expires_at: expiresAt && momentText(expiresAt),
  }
}

function preconditionJson(when: Precondition | undefined): unknown {
  return when !== undefined && 'filter' in when ? { filter: filterJson(when.filter) } : when
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
