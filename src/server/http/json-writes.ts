import type { ChangeByFilterInput, Changed } from '../../api/change-by-filter.ts'
import type { PatchInput, PatchPointInput, PutPointInput, WrittenPoint } from '../../api/change-point.ts'
import type { InsertedBatch, ItemError } from '../../api/insert-points.ts'
import { reasons } from '../../base/errors.ts'
import { IdTexts } from '../../base/id-lists.ts'
import { inTurns } from '../../base/turns.ts'
import { readSet } from '../../messages/json-attributes.ts'
import { readFilter } from '../../messages/json-filter.ts'
import { membersAt, readBoolean, readNumber, readString, readText } from '../../messages/json-reader.ts'
import { encodeIds, type JsonAnswer, JsonText } from './answers.ts'
import type { FieldNotes } from './ignored-fields.ts'
import { readExpiry, readPayload } from './json-codec.ts'
import { readPaths, readPrecondition } from './json-reads.ts'
import type { JsonScanner } from './json-scanner.ts'
import { readVector, skipUnknown, type Writable, wholeInTurns } from './json-values.ts'

/** Bodies and answers of writes, except the bodies of inserts (see json-codec.ts). */

export function decodePut(body: Buffer, notes: FieldNotes): PutPointInput | Promise<PutPointInput> {
  return inTurns(wholeInTurns(body, (json) => readPut(json, notes)))
}

function* readPut(json: JsonScanner, notes: FieldNotes): Generator<undefined, PutPointInput, void> {
  const input: Writable<PutPointInput> = {}
  for (const key of membersAt(json, '')) {
    if (key === 'vector') input.vector = readVector(json, 'vector')
    else if (key === 'text') input.text = readText(json, 'text')
    else if (key === 'payload') input.payload = yield* readPayload(json, 'payload', notes)
    else if (key === 'when') input.when = yield* readPrecondition(json, 'when')
    else yield* skipUnknown(json, '', key, notes, putFields)
    if (json.isTurnOver()) yield undefined
  }
  return input
}

export function decodePatch(body: Buffer, notes: FieldNotes): PatchPointInput | Promise<PatchPointInput> {
  return inTurns(wholeInTurns(body, (json) => readPatch(json, notes)))
}

function* readPatch(json: JsonScanner, notes: FieldNotes): Generator<undefined, PatchPointInput, void> {
  const patch = new PatchReader(json)
  let when: PatchPointInput['when']
  for (const key of membersAt(json, '')) {
    if (patch.read(key)) {
      // Its value has been read.
    } else if (key === 'when') when = yield* readPrecondition(json, 'when')
    else yield* skipUnknown(json, '', key, notes, ['when', ...patchFields])
    if (json.isTurnOver()) yield undefined
  }
  return { patch: patch.input, when }
}

export function decodeUpdate(
  body: Buffer,
  notes: FieldNotes,
): ChangeByFilterInput | Promise<ChangeByFilterInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const patch = new PatchReader(json)
      const input = yield* readChange(json, notes, (key) => patch.read(key), patchFields)
      return { ...input, patch: patch.input }
    }),
  )
}

export function decodeDelete(
  body: Buffer,
  notes: FieldNotes,
): ChangeByFilterInput | Promise<ChangeByFilterInput> {
  return inTurns(wholeInTurns(body, (json) => readChange(json, notes, () => false, [])))
}

/**
 * @param readOther reads a field that only one of the operations has; returns false for an unknown field
 * @param otherFields the names of these fields
 */
function* readChange(
  json: JsonScanner,
  notes: FieldNotes,
  readOther: (key: string) => boolean,
  otherFields: readonly string[],
): Generator<undefined, ChangeByFilterInput, void> {
  const input: Writable<ChangeByFilterInput> = {}
  for (const key of membersAt(json, '')) {
    if (key === 'filter') input.filter = yield* readFilter(json, 'filter')
    else if (key === 'limit') input.limit = readNumber(json, 'limit')
    else if (key === 'dry_run') input.dryRun = readBoolean(json, 'dry_run')
    else if (key === 'everything') input.everything = readBoolean(json, 'everything')
    else if (!readOther(key)) yield* skipUnknown(json, '', key, notes, [...changeFields, ...otherFields])
    if (json.isTurnOver()) yield undefined
  }
  return input
}

const putFields = ['vector', 'text', 'payload', 'when']
const patchFields = ['set', 'unset', 'content', 'content_type', 'expires_at', 'ttl_seconds', 'vector', 'text']
const changeFields = ['filter', 'limit', 'dry_run', 'everything']

/** Reads the fields of a patch, which are fields of the body among others. */
class PatchReader {
  readonly #json: JsonScanner
  readonly #patch: Writable<PatchInput> = {}
  #unset: readonly string[] | undefined
  /** Paths that `set` maps to null: they are removed. */
  #unsetBySet: readonly string[] = []

  constructor(json: JsonScanner) {
    this.#json = json
  }

  /** Reads the value of a key; returns false for a key that does not belong to a patch. */
  read(key: string): boolean {
    const json = this.#json
    const patch = this.#patch
    if (key === 'set') this.#readSet()
    else if (key === 'unset') this.#unset = readPaths(json, 'unset')
    else if (key === 'content') patch.content = readText(json, 'content')
    else if (key === 'content_type') patch.contentType = readString(json, 'content_type')
    else if (key === 'expires_at') patch.expiresAtUs = readExpiry(json, 'expires_at')
    else if (key === 'ttl_seconds') patch.ttlSeconds = readNumber(json, 'ttl_seconds')
    else if (key === 'vector') patch.vector = readVector(json, 'vector')
    else if (key === 'text') patch.text = readText(json, 'text')
    else return false
    return true
  }

  get input(): PatchInput {
    if (this.#unset === undefined && this.#unsetBySet.length === 0) return this.#patch
    return { ...this.#patch, unset: [...(this.#unset ?? []), ...this.#unsetBySet] }
  }

  #readSet(): void {
    const { set, unset } = readSet(this.#json, 'set')
    this.#patch.set = set
    this.#unsetBySet = unset
  }
}

/** Encodes `{"point_ids":[…]}`. With `on_error: continue` it also has `errors`, and null as the ids of bad items. */
export function encodeInserted({ ids, errors }: InsertedBatch): JsonAnswer | Promise<JsonAnswer> {
  // Without `errors`, every item has an id.
  if (errors === undefined) return encodeIds('point_ids', new IdTexts(ids as readonly string[]))
  return inTurns(insertedSteps(ids, errors))
}

function* insertedSteps(
  ids: readonly (string | null)[],
  errors: readonly ItemError[],
): Generator<void, Buffer> {
  const json = new JsonText('{"point_ids":[')
  for (const [index, id] of ids.entries()) {
    if (json.add(`${index === 0 ? '' : ','}${id === null ? 'null' : `"${id}"`}`)) yield
  }
  json.add('],"errors":[')
  for (const [number, { index, error }] of errors.entries()) {
    const item = JSON.stringify({ index, status: reasons[error.reason].http, message: error.message })
    if (json.add(`${number === 0 ? '' : ','}${item}`)) yield
  }
  json.add(']}')
  return json.finish()
}

export function encodePut({ id, version, created }: WrittenPoint & { readonly created: boolean }): string {
  return JSON.stringify({ id, version, created })
}

export function encodePatched({ version }: WrittenPoint): string {
  return JSON.stringify({ version })
}

export function encodeChanged({ changed, more }: Changed): string {
  return JSON.stringify({ changed, more })
}
