import type { InsertVectorsBatchInput, OnErrorInput } from '../../api/insert-points.ts'
import type { SearchPointsBatchInput } from '../../api/search-points.ts'
import type { ItemSteps, PayloadInput, PointInput, SearchInput } from '../../api/validation.ts'
import { DatabaseError, invalid } from '../../base/errors.ts'
import { inTurns } from '../../base/turns.ts'
import { readAttributes, readDateTime } from '../../messages/json-attributes.ts'
import { readFilter } from '../../messages/json-filter.ts'
import {
  expectKind,
  membersAt,
  readBoolean,
  readNumber,
  readString,
  readText,
} from '../../messages/json-reader.ts'
import type { FieldNotes } from './ignored-fields.ts'
import { readInclude } from './json-reads.ts'
import { isUtf8InTurns, JsonScanner } from './json-scanner.ts'
import { readVector, skipUnknown, type Writable, wholeInTurns } from './json-values.ts'

/**
 * Converts JSON bodies of inserts and searches to the api's inputs. Checks the types of JSON values, with the path of
 * the fault in the message; the api checks the values. Unknown fields are skipped and recorded. The last occurrence of
 * a repeated field counts, but the list of a batch must not be repeated.
 */

export function decodePoint(body: Buffer, notes: FieldNotes): PointInput | Promise<PointInput> {
  return inTurns(wholeInTurns(body, (json) => readPoint(json, '', notes)))
}

export function decodePoints(body: Buffer, notes: FieldNotes): InsertVectorsBatchInput {
  const batch = new BatchBody(body, notes)
  const read = (json: JsonScanner, path: string) => () => readPoint(json, path, notes)
  return { vectors: batch.items<PointInput>('vectors', read, { onError: true }), onError: batch }
}

export function decodeQuery(body: Buffer, notes: FieldNotes): SearchInput | Promise<SearchInput> {
  return inTurns(wholeInTurns(body, (json) => readQuery(json, '', notes)))
}

export function decodeQueries(body: Buffer, notes: FieldNotes): SearchPointsBatchInput {
  const batch = new BatchBody(body, notes)
  return {
    queries: batch.items<SearchInput>('queries', (json, path) => () => readQuery(json, path, notes)),
  }
}

/**
 * Reads a point; yields from time to time, if it has long unknown or repeated fields.
 *
 * @param path of the point, with a trailing dot; '' for the body itself
 */
function* readPoint(
  json: JsonScanner,
  path: string,
  notes: FieldNotes,
): Generator<undefined, PointInput, void> {
  const point: Writable<PointInput> = {}
  for (const key of membersAt(json, path)) {
    if (key === 'vector') point.vector = readVector(json, `${path}vector`)
    else if (key === 'text') point.text = readText(json, `${path}text`)
    else if (key === 'payload') point.payload = yield* readPayload(json, `${path}payload`, notes)
    else if (key === 'id') point.id = readString(json, `${path}id`)
    else if (key === 'on_conflict') point.onConflict = readString(json, `${path}on_conflict`)
    else yield* skipUnknown(json, path, key, notes, pointFields)
    if (json.isTurnOver()) yield undefined
  }
  return point
}

export function* readPayload(
  json: JsonScanner,
  path: string,
  notes: FieldNotes,
): Generator<undefined, PayloadInput, void> {
  const payload: Writable<PayloadInput> = {}
  for (const key of membersAt(json, `${path}.`)) {
    if (key === 'content_type') payload.contentType = readString(json, `${path}.content_type`)
    else if (key === 'content') payload.content = readText(json, `${path}.content`)
    else if (key === 'attributes') payload.attributes = readAttributes(json, `${path}.attributes`)
    else if (key === 'expires_at') payload.expiresAtUs = readExpiry(json, `${path}.expires_at`) ?? undefined
    else if (key === 'ttl_seconds') payload.ttlSeconds = readNumber(json, `${path}.ttl_seconds`)
    else yield* skipUnknown(json, `${path}.`, key, notes, payloadFields)
    if (json.isTurnOver()) yield undefined
  }
  return payload
}

/** Reads an expiry in microseconds since 1970; null if the point does not expire. */
export function readExpiry(json: JsonScanner, path: string): number | null {
  if (json.peek() !== 'null') return readDateTime(json, path).us
  json.skip()
  return null
}

/** Reads a query; yields from time to time, if it has a long filter or long unknown or repeated fields. */
function* readQuery(
  json: JsonScanner,
  path: string,
  notes: FieldNotes,
): Generator<undefined, SearchInput, void> {
  const query: Writable<SearchInput> = {}
  for (const key of membersAt(json, path)) {
    if (key === 'vector') query.vector = readVector(json, `${path}vector`)
    else if (key === 'text') query.text = readText(json, `${path}text`)
    else if (key === 'similarity') query.similarity = readString(json, `${path}similarity`)
    else if (key === 'limit') query.limit = readNumber(json, `${path}limit`)
    else if (key === 'ef') query.ef = readNumber(json, `${path}ef`)
    else if (key === 'id') query.id = readString(json, `${path}id`)
    else if (key === 'filter') query.filter = yield* readFilter(json, `${path}filter`)
    else if (key === 'exact') query.exact = readBoolean(json, `${path}exact`)
    else if (key === 'max_distance') query.maxDistance = readNumber(json, `${path}max_distance`)
    else if (key === 'include') query.include = yield* readInclude(json, `${path}include`)
    else if (key === 'profile') query.profile = readBoolean(json, `${path}profile`)
    else yield* skipUnknown(json, path, key, notes, queryFields)
    if (json.isTurnOver()) yield undefined
  }
  return query
}

const pointFields = ['vector', 'text', 'payload', 'id', 'on_conflict']
const payloadFields = ['content_type', 'content', 'attributes', 'expires_at', 'ttl_seconds']
const queryFields = [
  'vector',
  'text',
  'id',
  'similarity',
  'limit',
  'ef',
  'filter',
  'exact',
  'max_distance',
  'include',
  'profile',
]

/** The body of a batch: its items, and `on_error`, which may precede or follow them. */
class BatchBody implements OnErrorInput {
  readonly #body: Buffer
  readonly #notes: FieldNotes
  #onError: string | undefined

  constructor(body: Buffer, notes: FieldNotes) {
    this.#body = body
    this.#notes = notes
  }

  get value(): string | undefined {
    return this.#onError
  }

  /**
   * Yields the items, and reads each one only when it is requested, so that items after a bad one are only created if
   * the iteration continues. Yields undefined after a long stretch without an item.
   */
  *items<Item extends object>(
    field: string,
    read: (json: JsonScanner, path: string) => ItemSteps<Item>,
    { onError = false }: { readonly onError?: boolean } = {},
  ): Generator<Item | DatabaseError | undefined, void, void> {
    const json = new JsonScanner(this.#body, yield* isUtf8InTurns(this.#body))
    let found = false
    for (const key of membersAt(json, '')) {
      if (key === field) {
        // The items of the first list were already yielded, so a second list cannot replace them.
        if (found) throw invalid(`${field} appears twice`)
        found = true
        yield* itemsOf(json, field, read)
      } else if (onError && key === onErrorField) {
        this.#onError = readString(json, onErrorField)
      } else {
        yield* skipUnknown(json, '', key, this.#notes, onError ? [field, onErrorField] : [field])
      }
      if (json.isTurnOver()) yield undefined
    }
    json.end()
    if (!found) throw invalid(`${field} is missing`)
  }

  /** Finds `on_error` by scanning the whole body; only necessary after a bad item. */
  *find(): Generator<undefined, string | undefined, void> {
    const json = new JsonScanner(this.#body, true)
    let found: string | undefined
    for (const key of membersAt(json, '')) {
      if (key === onErrorField) found = readString(json, onErrorField)
      else yield* json.skipInTurns()
      if (json.isTurnOver()) yield undefined
    }
    return found
  }
}

const onErrorField = 'on_error'

/** Yields the items of a list, and a bad item as its error. The items after it are read if the iteration continues. */
function* itemsOf<Item extends object>(
  json: JsonScanner,
  field: string,
  read: (json: JsonScanner, path: string) => ItemSteps<Item>,
): Generator<Item | DatabaseError | undefined, void, void> {
  expectKind(json, 'array', field)
  for (const index of json.elements()) {
    const start = json.at
    let item: Item | DatabaseError
    try {
      const steps = read(json, `${field}[${index}].`)
      item = typeof steps === 'function' ? yield* steps() : steps
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      item = error
    }
    yield item
    if (item instanceof DatabaseError) {
      json.goBack(start)
      yield* json.skipInTurns()
    }
  }
}
