import type { InsertVectorsBatchInput } from '../api/insert-vectors-batch.ts'
import type { SearchPointsBatchInput } from '../api/search-points-batch.ts'
import type { PayloadInput, PointInput, SearchInput } from '../api/validation.ts'
import { DatabaseError } from '../base/errors.ts'
import { jsonNumbers } from '../base/json-numbers.ts'
import type { Point } from '../base/point.ts'

/**
 * JSON bodies to the api's inputs and answers back. Here JSON's types are checked, with the path of the
 * fault in the message; values are the api's to check. Unknown fields are ignored, whatever their names.
 */

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** @throws DatabaseError `invalid_argument` when the body is not JSON in UTF-8 */
export function parseJson(body: Buffer): unknown {
  if (body.length === 0) throw invalid('the request body is empty, it must be JSON')
  try {
    return JSON.parse(utf8.decode(body))
  } catch (error) {
    const detail = error instanceof SyntaxError ? excerptOf(error.message) : 'it is not UTF-8'
    throw invalid(`the request body is not valid JSON: ${detail}`)
  }
}

export function decodePoint(body: unknown, path = ''): PointInput {
  const fields = objectAt(body, path)
  return {
    vector: vectorAt(fields.vector, `${path}vector`),
    payload: payloadAt(fields.payload, `${path}payload`),
  }
}

export function decodePoints(body: unknown): InsertVectorsBatchInput {
  return {
    vectors: arrayAt(objectAt(body, '').vectors, 'vectors')?.map((item, index) =>
      decodePoint(item, `vectors[${index}].`),
    ),
  }
}

export function decodeQuery(body: unknown, path = ''): SearchInput {
  const fields = objectAt(body, path)
  return {
    vector: vectorAt(fields.vector, `${path}vector`),
    similarity: stringAt(fields.similarity, `${path}similarity`),
    limit: numberAt(fields.limit, `${path}limit`),
    ef: numberAt(fields.ef, `${path}ef`),
  }
}

export function decodeQueries(body: unknown): SearchPointsBatchInput {
  return {
    queries: arrayAt(objectAt(body, '').queries, 'queries')?.map((item, index) =>
      decodeQuery(item, `queries[${index}].`),
    ),
  }
}

/** Every component as the double that equals the stored float32, so that nothing is lost or invented. */
export function encodePoint({ id, vector, payload }: Point): string {
  const { contentType, content } = payload
  return `{"id":"${id}","vector":${jsonNumbers(vector)},"payload":${JSON.stringify({ content_type: contentType, content })}}`
}

function vectorAt(value: unknown, path: string): Float32Array | undefined {
  if (value === undefined) return undefined
  if (!Array.isArray(value)) throw wrongType(value, path, 'an array of numbers')
  const vector = new Float32Array(value.length)
  for (let index = 0; index < value.length; index += 1) {
    const component: unknown = value[index]
    if (typeof component !== 'number') throw wrongType(component, `${path}[${index}]`, 'a number')
    vector[index] = component
    if (!Number.isFinite(vector[index])) {
      throw invalid(`${path}[${index}] is ${component}, beyond what float32 can hold (about 3.4e38)`)
    }
  }
  return vector
}

function payloadAt(value: unknown, path: string): PayloadInput | undefined {
  if (value === undefined) return undefined
  const fields = objectAt(value, `${path}.`)
  return {
    contentType: stringAt(fields.content_type, `${path}.content_type`),
    content: stringAt(fields.content, `${path}.content`),
  }
}

/** @param path where the object stands, with a dot behind it; '' for the body itself */
function objectAt(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return value as Readonly<Record<string, unknown>>
  }
  throw wrongType(value, path === '' ? 'the request body' : path.slice(0, -1), 'an object')
}

function arrayAt(value: unknown, path: string): readonly unknown[] | undefined {
  if (value === undefined || Array.isArray(value)) return value
  throw wrongType(value, path, 'an array')
}

function stringAt(value: unknown, path: string): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  throw wrongType(value, path, 'a string')
}

function numberAt(value: unknown, path: string): number | undefined {
  if (value === undefined || typeof value === 'number') return value
  throw wrongType(value, path, 'a number')
}

function wrongType(value: unknown, path: string, expected: string): DatabaseError {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
  return invalid(`${path} is ${kind.replace('a object', 'an object')}, it must be ${expected}`)
}

function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}

/** V8 quotes the text around a fault: enough to find it, cut so that a hostile body cannot fill the answer. */
function excerptOf(message: string): string {
  return message.length > 200 ? `${message.slice(0, 200)}…` : message
}
