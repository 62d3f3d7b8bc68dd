import type { Changed, WrittenPoint } from '../../api/change-point.ts'
import type { CountedCollection } from '../../api/collections.ts'
import type { InsertedBatch, ItemError } from '../../api/insert-points.ts'
import type { Facets, FoundPoint, ListAnswer } from '../../api/read-points.ts'
import { hasDetails, type SearchAnswer } from '../../api/search-points.ts'
import { attributeToJson, jsonNumbers } from '../../base/attributes.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import { reasons } from '../../base/errors.ts'
import { IdTexts, type SearchResults } from '../../base/id-lists.ts'
import { idBytes, idFromBytes } from '../../base/ids.ts'
import type { HitDetails, HitGroup, Include, Payload, Profile } from '../../base/point.ts'
import type { EvaluatedPoints } from '../../base/relevance.ts'
import { inSnakeCase } from '../../base/spelling.ts'
import { inTurns } from '../../base/turns.ts'
import { encodeAttributes, encodeDateTime } from '../../messages/json-attributes.ts'
import { encodeIdLists, encodeIds, type JsonAnswer, JsonText } from './answers.ts'

/** The answers of operations as JSON. Answers of searches begin with the ids. */

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
  const { nextCursors, groups } = answer.results
  if (groups !== undefined) {
    json.add(`,"groups":${open}`)
    for (const [query, ofQuery = []] of groups.entries()) {
      if (query > 0) json.add(',')
      yield* countSteps(json, ofQuery)
    }
    json.add(close)
  }
  if (nextCursors !== undefined) {
    const cursors = JSON.stringify(isBatch ? Array.from(nextCursors, (each) => each ?? null) : nextCursors[0])
    if (cursors !== undefined) json.add(`,"next_cursor":${cursors}`)
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
  for (const [index, { id, ...details }] of page.points.entries()) {
    const parts = detailsJson(details, include)
    if (json.add(`${index > 0 ? ',' : ''}{"id":"${id}"${parts}}`)) yield
  }
  const { nextCursor } = page
  json.add(nextCursor === undefined ? ']}' : `],"next_cursor":${JSON.stringify(nextCursor)}}`)
  return json.finish()
}

/** The fields that were asked for, which follow the id; each is preceded by a comma. */
function detailsJson(details: HitDetails, include: Include): string {
  const { payload, vector, ...figures } = details
  let json = ''
  if (include.payload) json += payload === undefined ? '' : `,"payload":${payloadJson(payload)}`
  else if (include.attributes !== undefined) json += `,"payload":${attributesAlone(payload)}`
  if (vector !== undefined) json += `,"vector":${jsonNumbers(vector)}`
  for (const [name, figure] of Object.entries(figures)) {
    if (figure !== undefined) json += `,"${name}":${JSON.stringify(figure)}`
  }
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
  return profile === undefined ? 'null' : JSON.stringify(inSnakeCase({ ...profile }))
}

export function encodeCount(count: number): string {
  return JSON.stringify({ count })
}

export function encodeEvaluation(evaluated: EvaluatedPoints): string {
  return JSON.stringify(evaluated)
}

export function encodeFacets(facets: Facets, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(facetSteps(facets, room))
}

function* facetSteps(facets: Facets, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const json = new JsonText('{"facets":{', room)
  for (const [number, [path, counts]] of [...facets].entries()) {
    json.add(`${number > 0 ? ',' : ''}${JSON.stringify(path)}:`)
    yield* countSteps(json, counts)
  }
  json.add('}}')
  return json.finish()
}

/** Values with counts: those of a facet, or the groups of a query. */
function* countSteps(json: JsonText, counts: readonly HitGroup[]): Generator<void, void> {
  json.add('[')
  for (const [index, { value, count }] of counts.entries()) {
    const entry = `{"value":${attributeToJson(value)},"count":${count}}`
    if (json.add(`${index > 0 ? ',' : ''}${entry}`)) yield
  }
  json.add(']')
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

export function encodeCollections(collections: readonly CountedCollection[]): string {
  return JSON.stringify({ collections: collections.map(inJson) })
}

export function encodeCollection(collection: CountedCollection): string {
  return JSON.stringify(inJson(collection))
}

export function encodeAliases(aliases: ReadonlyMap<string, string>): string {
  return JSON.stringify({ aliases: Object.fromEntries([...aliases].sort(byName)) })
}

function byName([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : 1
}

/** Leaves out undefined fields. */
function inJson(info: CountedCollection): object {
  const { name, dimension, points, hnsw, aliases, partitions, embeddingModel, words, quotas } = info
  return {
    name,
    dimension,
    points,
    hnsw: inSnakeCase({ ...hnsw }),
    aliases,
    partitions,
    embedding_model: embeddingModel,
    words: words && {
      ...words,
      paths: Object.fromEntries(words.paths.map(({ path, weight }) => [path, weight])),
    },
    quotas: quotas && inSnakeCase({ ...quotas }),
  }
}
