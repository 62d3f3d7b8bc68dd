import type { PreconditionInput } from '../../api/change-point.ts'
import type {
  CountPointsInput,
  FacetPointsInput,
  Facets,
  FoundPoint,
  ListAnswer,
  ListPointsInput,
} from '../../api/read-points.ts'
import { hasDetails, type SearchAnswer } from '../../api/search-points.ts'
import { type IncludeInput, pathsMax, tooManyPaths } from '../../api/validation.ts'
import { placeOf } from '../../base/attribute-checks.ts'
import { attributeToJson } from '../../base/attribute-json.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import { invalid } from '../../base/errors.ts'
import { idBytes, idFromBytes } from '../../base/ids.ts'
import { jsonNumbers } from '../../base/json-numbers.ts'
import type { Include, Payload } from '../../base/point.ts'
import type { Profile } from '../../base/profile.ts'
import type { HitDetails, SearchResults } from '../../base/search-results.ts'
import { inTurns } from '../../base/turns.ts'
import { encodeAttributes, encodeDateTime, readExactNumber } from '../../messages/json-attributes.ts'
import { readFilter } from '../../messages/json-filter.ts'
import { expectKind, membersAt, readBoolean, readNumber, readString } from '../../messages/json-reader.ts'
import { encodeIdLists, encodeIds, type JsonAnswer, JsonText } from './answers.ts'
import type { FieldNotes } from './ignored-fields.ts'
import type { JsonScanner } from './json-scanner.ts'
import { skipUnknown, type Writable, wholeInTurns } from './json-values.ts'

/**
 * Answers with points or parts of points, as JSON. Answers of searches begin with the ids, as they did before there
 * were details.
 */

/** Writes every component as the double that equals the stored float32, so it is exact. */
export function encodePoint({ id, vector, payload, version }: FoundPoint): string {
  const shown = version === undefined ? '' : `,"version":${version}`
  return `{"id":"${id}","vector":${jsonNumbers(vector)},"payload":${payloadJson(payload)}${shown}}`
}

export function encodeSearch(answer: SearchAnswer, room?: AnswerRoom): JsonAnswer | Promise<JsonAnswer> {
  const ids = encodeIds('results', answer.results.ids, room)
  return hasDetails(answer) ? addDetails(ids, answer, false, room) : ids
}

/** `hits` and `profile` are lists parallel to the queries, with `[]` and null for a query that did not ask for them. */
export function encodeSearches(answer: SearchAnswer, room?: AnswerRoom): JsonAnswer | Promise<JsonAnswer> {
  const ids = encodeIdLists('results', answer.results.ids, room)
  return hasDetails(answer) ? addDetails(ids, answer, true, room) : ids
}

export function encodeList(answer: ListAnswer, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(listSteps(answer, room))
}

/** @param ids an object with `results`; the details are inserted before its closing brace */
async function addDetails(
  ids: JsonAnswer | Promise<JsonAnswer>,
  answer: SearchAnswer,
  isBatch: boolean,
  room: AnswerRoom | undefined,
): Promise<Buffer> {
  const results = Buffer.from(await ids)
  return await inTurns(detailSteps(results.subarray(0, -1), answer, isBatch, room))
}

function* detailSteps(
  results: Buffer,
  answer: SearchAnswer,
  isBatch: boolean,
  room: AnswerRoom | undefined,
): Generator<void, Buffer> {
  const json = new JsonText('', room)
  json.addBytes(results)
  const { queries } = answer
  const [open, close] = isBatch ? ['[', ']'] : ['', '']
  if (queries.some(({ include }) => include !== undefined)) {
    json.add(`,"hits":${open}`)
    for (const [query, { include }] of queries.entries()) {
      if (query > 0) json.add(',')
      yield* hitSteps(json, answer.results, query, include)
    }
    json.add(close)
  }
  if (queries.some(({ profile }) => profile)) {
    json.add(`,"profile":${open}`)
    for (const query of queries.keys()) {
      const profile = profileJson(answer.results.profiles[query])
      if (json.add(`${query > 0 ? ',' : ''}${profile}`)) yield
    }
    json.add(close)
  }
  json.add('}')
  return json.finish()
}

function* hitSteps(
  json: JsonText,
  { ids, distances, details }: SearchResults,
  query: number,
  include: Include | undefined,
): Generator<void, void> {
  json.add('[')
  const start = ids.startOf(query)
  const end = include === undefined ? start : ids.endOf(query)
  for (let number = start; number < end; number += 1) {
    const distance = include!.distance ? `,"distance":${distances[number]! + 0}` : ''
    const parts = detailsJson(details[query]?.[number - start] ?? {}, include!)
    const comma = number > start ? ',' : ''
    if (json.add(`${comma}{"id":"${idFromBytes(ids.bytes, number * idBytes)}"${distance}${parts}}`)) yield
  }
  json.add(']')
}

function* listSteps({ include, page }: ListAnswer, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const json = new JsonText('{"points":[', room)
  for (const [index, point] of page.points.entries()) {
    const parts = detailsJson(point, include)
    if (json.add(`${index > 0 ? ',' : ''}{"id":"${point.id}"${parts}}`)) yield
  }
  const { nextCursor } = page
  json.add(nextCursor === undefined ? ']}' : `],"next_cursor":${JSON.stringify(nextCursor)}}`)
  return json.finish()
}

/** The fields after the id, each preceded by a comma. */
function detailsJson({ payload, vector, version }: HitDetails, include: Include): string {
  let json = ''
  if (include.payload) json += payload === undefined ? '' : `,"payload":${payloadJson(payload)}`
  else if (include.attributes !== undefined) json += `,"payload":${attributesAlone(payload)}`
  if (include.vector && vector !== undefined) json += `,"vector":${jsonNumbers(vector)}`
  if (include.version && version !== undefined) json += `,"version":${version}`
  return json
}

function payloadJson({ contentType, content, attributes, expiresAtUs }: Payload): string {
  let json = `{"content_type":"${contentType}","content":${JSON.stringify(content)}`
  if (attributes !== undefined) json += `,"attributes":${encodeAttributes(attributes)}`
  if (expiresAtUs !== undefined) json += `,"expires_at":${encodeDateTime(expiresAtUs)}`
  return `${json}}`
}

function attributesAlone(payload: Payload | undefined): string {
  return payload?.attributes === undefined ? '{}' : `{"attributes":${encodeAttributes(payload.attributes)}}`
}

function profileJson(profile: Profile | undefined): string {
  if (profile === undefined) return 'null'
  return JSON.stringify({
    plan: profile.plan,
    reason: profile.reason,
    points: profile.points,
    matching: profile.matching,
    compared: profile.compared,
    measured: profile.measured,
    ef: profile.ef,
    ef_multiplier: profile.efMultiplier,
    filter_us: profile.filterUs,
    queue_us: profile.queueUs,
    search_us: profile.searchUs,
    recall_estimate: profile.recallEstimate,
  })
}

/** Lists, counts and facets as JSON, except the points in lists. */

export function decodeList(body: Buffer, notes: FieldNotes): ListPointsInput | Promise<ListPointsInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const input: Writable<ListPointsInput> = {}
      for (const key of membersAt(json, '')) {
        if (key === 'filter') input.filter = yield* readFilter(json, 'filter')
        else if (key === 'limit') input.limit = readNumber(json, 'limit')
        else if (key === 'cursor') input.cursor = readString(json, 'cursor')
        else if (key === 'include') input.include = yield* readInclude(json, 'include')
        else yield* skipUnknown(json, '', key, notes, ['filter', 'limit', 'cursor', 'include'])
        if (json.isTurnOver()) yield undefined
      }
      return input
    }),
  )
}

export function decodeCount(body: Buffer, notes: FieldNotes): CountPointsInput | Promise<CountPointsInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const input: Writable<CountPointsInput> = {}
      for (const key of membersAt(json, '')) {
        if (key === 'filter') input.filter = yield* readFilter(json, 'filter')
        else yield* skipUnknown(json, '', key, notes, ['filter'])
        if (json.isTurnOver()) yield undefined
      }
      return input
    }),
  )
}

export function decodeFacets(body: Buffer, notes: FieldNotes): FacetPointsInput | Promise<FacetPointsInput> {
  return inTurns(
    wholeInTurns(body, function* (json) {
      const input: Writable<FacetPointsInput> = {}
      for (const key of membersAt(json, '')) {
        if (key === 'filter') input.filter = yield* readFilter(json, 'filter')
        else if (key === 'paths') input.paths = readPaths(json, 'paths')
        else if (key === 'limit') input.limit = readNumber(json, 'limit')
        else yield* skipUnknown(json, '', key, notes, ['filter', 'paths', 'limit'])
        if (json.isTurnOver()) yield undefined
      }
      return input
    }),
  )
}

export function encodeCount(count: number): string {
  return JSON.stringify({ count })
}

export function encodeFacets(facets: Facets, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(facetSteps(facets, room))
}

function* facetSteps(facets: Facets, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const json = new JsonText('{"facets":{', room)
  for (const [number, [path, counts]] of [...facets].entries()) {
    json.add(`${number > 0 ? ',' : ''}${JSON.stringify(path)}:[`)
    for (const [index, { value, count }] of counts.entries()) {
      const entry = `{"value":${attributeToJson(value)},"count":${count}}`
      if (json.add(`${index > 0 ? ',' : ''}${entry}`)) yield
    }
    json.add(']')
  }
  json.add('}}')
  return json.finish()
}

/** Reads `include`. Its fields must be known: a misspelled one would be missing from the answer. */
export function* readInclude(json: JsonScanner, path: string): Generator<undefined, IncludeInput, void> {
  const include: Writable<IncludeInput> = {}
  for (const key of membersAt(json, `${path}.`)) {
    const at = placeOf(path, key)
    if (key === 'distance') include.distance = readBoolean(json, at)
    else if (key === 'payload') include.payload = readBoolean(json, at)
    else if (key === 'attributes') include.attributes = readSelected(json, at)
    else if (key === 'vector') include.vector = readBoolean(json, at)
    else if (key === 'version') include.version = readBoolean(json, at)
    else throw invalid(`${at} is not known: include has distance, payload, attributes, vector and version`)
    if (json.isTurnOver()) yield undefined
  }
  return include
}

/** Reads `when`. Its fields must be known: a misspelled condition would not be checked. */
export function* readPrecondition(
  json: JsonScanner,
  path: string,
): Generator<undefined, PreconditionInput, void> {
  const when: Writable<PreconditionInput> = {}
  for (const key of membersAt(json, `${path}.`)) {
    const at = placeOf(path, key)
    if (key === 'version') when.version = readExactNumber(json, at)
    else if (key === 'filter') when.filter = yield* readFilter(json, at)
    else if (key === 'absent') when.absent = readBoolean(json, at)
    else throw invalid(`${at} is not known: when has version, filter and absent`)
    if (json.isTurnOver()) yield undefined
  }
  return when
}

/** Reads an array of paths; stops reading at the first path beyond the limit. */
export function readPaths(json: JsonScanner, path: string): readonly string[] {
  expectKind(json, 'array', path, 'an array of strings')
  const paths: string[] = []
  for (const index of json.elements()) {
    if (index === pathsMax) throw tooManyPaths(path)
    paths.push(readString(json, `${path}[${index}]`))
  }
  return paths
}

function readSelected(json: JsonScanner, path: string): readonly string[] | boolean {
  if (json.peek() === 'boolean') return json.boolean()
  expectKind(json, 'array', path, 'an array of paths, or true for all attributes')
  return readPaths(json, path)
}
