import type { InsertVectorsBatchInput } from '../api/insert-vectors-batch.ts'
import type { SearchPointsBatchInput } from '../api/search-points-batch.ts'
import type { PayloadInput, PointInput, SearchInput } from '../api/validation.ts'
import { jsonNumbers } from '../base/json-numbers.ts'
import { dimensionMax, type Point } from '../base/point.ts'
import { type FieldNotes, noteIgnored } from './ignored-fields.ts'
import { isUtf8InTurns, type JsonKind, JsonScanner } from './json-scanner.ts'
import {
  expectKind,
  invalid,
  membersAt,
  readNumber,
  readString,
  readText,
  skipUnknown,
  whole,
  wrongType,
} from './json-values.ts'

/**
 * Converts JSON bodies to the api's inputs, and its outputs to JSON. It checks JSON's types, with the path of the
 * fault in the message; the api checks values. Unknown fields are skipped and noted. Of a repeated field the last
 * one counts, but the list of a batch must not be repeated.
 */

export function decodePoint(body: Buffer, notes: FieldNotes): PointInput {
  return whole(body, (json) => readPoint(json, '', notes))
}

export function decodePoints(body: Buffer, notes: FieldNotes): InsertVectorsBatchInput {
  return { vectors: items(body, 'vectors', readPoint, notes) }
}

export function decodeQuery(body: Buffer, notes: FieldNotes): SearchInput {
  return whole(body, (json) => readQuery(json, '', notes))
}

export function decodeQueries(body: Buffer, notes: FieldNotes): SearchPointsBatchInput {
  return { queries: items(body, 'queries', readQuery, notes) }
}

/** Every component as the double that equals the stored float32, so that it is exact. */
export function encodePoint({ id, vector, payload }: Point): string {
  const { contentType, content } = payload
  return `{"id":"${id}","vector":${jsonNumbers(vector)},"payload":${JSON.stringify({ content_type: contentType, content })}}`
}

type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] }

/**
 * The items of a batch, read while they are iterated: those after a bad one are never created. Yields undefined
 * after a long stretch without an item.
 */
function* items<Item>(
  body: Buffer,
  field: string,
  read: (json: JsonScanner, path: string, notes: FieldNotes) => Item,
  notes: FieldNotes,
): Generator<Item | undefined, void, void> {
  const json = new JsonScanner(body, yield* isUtf8InTurns(body))
  let found = false
  for (const key of membersAt(json, '')) {
    if (key !== field) {
      noteIgnored(notes, '', key)
      yield* json.skipInTurns()
    } else {
      // The items of the first list were already yielded: the last one cannot replace them.
      if (found) throw invalid(`${field} comes twice`)
      found = true
      expectKind(json, 'array', field)
      for (const index of json.elements()) yield read(json, `${field}[${index}].`, notes)
    }
  }
  json.end()
  if (!found) throw invalid(`${field} is missing`)
}

/** @param path where the point stands, with a dot behind it; '' for the body itself */
function readPoint(json: JsonScanner, path: string, notes: FieldNotes): PointInput {
  const point: Writable<PointInput> = {}
  for (const key of membersAt(json, path)) {
    if (key === 'vector') point.vector = readVector(json, `${path}vector`)
    else if (key === 'payload') point.payload = readPayload(json, `${path}payload`, notes)
    else skipUnknown(json, path, key, notes)
  }
  return point
}

function readPayload(json: JsonScanner, path: string, notes: FieldNotes): PayloadInput {
  const payload: Writable<PayloadInput> = {}
  for (const key of membersAt(json, `${path}.`)) {
    if (key === 'content_type') payload.contentType = readString(json, `${path}.content_type`)
    else if (key === 'content') payload.content = readText(json, `${path}.content`)
    else skipUnknown(json, `${path}.`, key, notes)
  }
  return payload
}

function readQuery(json: JsonScanner, path: string, notes: FieldNotes): SearchInput {
  const query: Writable<SearchInput> = {}
  for (const key of membersAt(json, path)) {
    if (key === 'vector') query.vector = readVector(json, `${path}vector`)
    else if (key === 'similarity') query.similarity = readString(json, `${path}similarity`)
    else if (key === 'limit') query.limit = readNumber(json, `${path}limit`)
    else if (key === 'ef') query.ef = readNumber(json, `${path}ef`)
    else skipUnknown(json, path, key, notes)
  }
  return query
}

function readVector(json: JsonScanner, path: string): Float32Array {
  expectKind(json, 'array', path, 'an array of numbers')
  const plain = json.numbers(dimensionMax)
  if (plain !== undefined) return plain
  const flat = json.flatArray(dimensionMax)
  if (typeof flat === 'number') {
    throw invalid(`${path} has ${flat} dimensions, the most is ${dimensionMax}`)
  }
  const components = flat ?? Array.from(json.elements(), (index) => readComponent(json, path, index))
  const vector = new Float32Array(components.length)
  for (let index = 0; index < components.length; index += 1) {
    const component = components[index]
    if (typeof component !== 'number') throw wrongType(kindOf(component), `${path}[${index}]`, 'a number')
    vector[index] = component
    if (!Number.isFinite(vector[index])) {
      throw invalid(`${path}[${index}] is ${component}, beyond what float32 can hold (about 3.4e38)`)
    }
  }
  return vector
}

/** Reads one component of an array that is malformed or holds other values than numbers; throws at the fault. */
function readComponent(json: JsonScanner, path: string, index: number): number {
  if (index >= dimensionMax) throw invalid(`${path} has more than ${dimensionMax} dimensions`)
  return readNumber(json, `${path}[${index}]`)
}

/** Of the values that an array without strings, arrays and objects can hold. */
function kindOf(value: unknown): JsonKind {
  return value === null ? 'null' : 'boolean'
}
