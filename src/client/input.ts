import {
  checkDateText,
  checkDateTime,
  checkDepth,
  checkGeo,
  checkNumber,
  checkText,
  placeOf,
  shownText,
} from '../base/attribute-checks.ts'
import { wholeMax } from '../base/attribute-json.ts'
import { type Attributes, type AttributeValue, DateTime, GeoPoint, type Scalar } from '../base/attributes.ts'
import { collectionName, collectionNameRule } from '../base/collection.ts'
import { invalid } from '../base/errors.ts'
import {
  conflictRules,
  contentTypes,
  dimensionMax,
  distanceMetrics,
  isUuid,
  onErrorRules,
} from '../base/point.ts'
import type { Quotas } from '../base/quotas.ts'
import type {
  AliasChanges,
  Boost,
  DetailedQuery,
  EvaluationQuery,
  FacetsQuery,
  Include,
  Judgement,
  ListQuery,
  NewCollection,
  Patch,
  PayloadToStore,
  PointToInsert,
  PointToStore,
  Precondition,
  Query,
  Selection,
  Words,
} from './client.ts'
import {
  booleanIn,
  type DateValue,
  type Filter,
  fieldsOf,
  finiteIn,
  isPlain,
  itemsOf,
  kindOf,
  microsecondsIn,
  objectOf,
  oneOf,
  optional,
  textIn,
  textsIn,
  wholeIn,
  wrongKind,
} from './values.ts'

/**
 * The only place that reads what a caller passes. Every function returns a copy with nothing but checked values, which
 * both transports encode without checking again:
 *
 *   caller's object ─> one read of each field ─> copy ─┬─> JSON ─────> HTTP
 *                              │                       └─> protobuf ─> gRPC
 *                              └ invalid_argument, the same words over both transports
 *
 * A value is read once, so that a getter or a proxy cannot return something else after the check. Refused is what a
 * transport would drop or change: unknown fields, numbers that are not finite, objects of classes, half of a surrogate
 * pair. All limits of the service are left to the service.
 *
 * `at` is always the place of the value in the request, for messages; `path` is such a place with a trailing dot, or ''.
 */

/** A checked vector: typed arrays hold numbers and nothing else. */
type Components = Float32Array | Float64Array

/** The attributes and the expiry of a checked payload have a single form. */
interface CheckedPayload extends PayloadToStore {
  readonly attributes: Attributes | undefined
  readonly expiresAt: DateTime | undefined
}

export interface CheckedPoint extends PointToInsert {
  readonly vector: Components | undefined
  readonly payload: CheckedPayload
}

/** The part of a checked patch that can apply to many points. */
export interface CheckedChange {
  readonly set: Attributes | undefined
  readonly unset: readonly string[] | undefined
  /** null removes the expiry. */
  readonly expiresAt: DateTime | null | undefined
}

export interface CheckedPatch extends CheckedChange, Pick<Patch, 'content' | 'contentType' | 'text'> {
  readonly vector: Components | undefined
}

export function pointIn(point: PointToInsert, path = ''): CheckedPoint {
  const { id, onConflict, ...stored } = fieldsOf(
    point,
    ['vector', 'text', 'payload', 'id', 'onConflict'],
    place(path, 'the point'),
  )
  return {
    ...storedIn(stored, path),
    id: optional(id, textIn, `${path}id`),
    onConflict: optional(onConflict, (value, at) => oneOf(value, conflictRules, at), `${path}onConflict`),
  }
}

export function pointsIn(points: readonly PointToInsert[]): CheckedPoint[] {
  checkPoints(points)
  return itemsOf(points, 'vectors', (point, at) => pointIn(point as PointToInsert, `${at}.`))
}

export function checkPoints(points: readonly PointToInsert[]): void {
  if (!Array.isArray(points)) throw wrongKind(points, 'vectors', 'an array of points')
}

/** A point without an id of its own, as `put` takes it. */
export function pointToPutIn(point: PointToStore): CheckedPoint {
  return storedIn(fieldsOf(point, ['vector', 'text', 'payload'], 'the point'), '')
}

function storedIn(
  { vector, text, payload }: Readonly<Record<'vector' | 'text' | 'payload', unknown>>,
  path: string,
): CheckedPoint {
  return {
    vector: optional(vector, vectorIn, `${path}vector`),
    text: optional(text, textIn, `${path}text`),
    payload: payloadIn(payload, `${path}payload`),
  }
}

function payloadIn(payload: unknown, at: string): CheckedPayload {
  const fields = fieldsOf(payload, ['contentType', 'content', 'attributes', 'expiresAt'], at)
  return {
    contentType: oneOf(fields.contentType, contentTypes, `${at}.contentType`),
    content: textIn(fields.content, `${at}.content`),
    attributes: optional(fields.attributes, attributesIn, `${at}.attributes`),
    expiresAt: optional(fields.expiresAt, dateIn, `${at}.expiresAt`),
  }
}

export function queryIn(query: Query, path = ''): Query & Partial<DetailedQuery> {
  const { metric, limit, ...fields } = fieldsOf(
    query,
    [
      ...(['vector', 'id', 'text', 'metric', 'limit', 'ef', 'filter', 'exact', 'maxDistance'] as const),
      ...(['include', 'profile', 'words', 'balance', 'cursor', 'statistics'] as const),
      ...shapeFields,
    ],
    place(path, 'the query'),
  )
  const targets = (['text', 'vector', 'id'] as const).filter((name) => fields[name] !== undefined)
  const [first, second] = targets.map((name) => `${path}${name}`)
  if (second !== undefined) throw invalid(`${first} and ${second} are both given: a query has one of them`)
  const isNear = (first ?? fields.like ?? fields.unlike) !== undefined
  if (!isNear && fields.words === undefined) throw invalid(`${path}vector is missing`)
  const isWordsAlone = !isNear && metric === undefined
  return {
    vector: optional(fields.vector, vectorIn, `${path}vector`),
    id: optional(fields.id, idIn, `${path}id`),
    text: optional(fields.text, textIn, `${path}text`),
    metric: isWordsAlone ? undefined : oneOf(metric, distanceMetrics, `${path}metric`),
    limit: limitIn(limit, `${path}limit`),
    ef: optional(fields.ef, wholeIn, `${path}ef`),
    filter: optional(fields.filter, filterIn, `${path}filter`),
    exact: optional(fields.exact, booleanIn, `${path}exact`),
    maxDistance: optional(fields.maxDistance, finiteIn, `${path}maxDistance`),
    ...(fields.include === undefined ? {} : { include: includeIn(fields.include, `${path}include`) }),
    profile: optional(fields.profile, booleanIn, `${path}profile`),
    ...(fields.words === undefined
      ? {}
      : { words: fields.words === true || textIn(fields.words, `${path}words`) }),
    ...(fields.balance === undefined ? {} : { balance: finiteIn(fields.balance, `${path}balance`) }),
    ...(fields.cursor === undefined ? {} : { cursor: textIn(fields.cursor, `${path}cursor`) }),
    ...(fields.statistics === undefined
      ? {}
      : { statistics: statisticsIn(fields.statistics, `${path}statistics`) }),
    ...shapeIn(fields, path),
  }
}

function statisticsIn(statistics: unknown, at: string): NonNullable<Query['statistics']> {
  const { filter } = fieldsOf(statistics, ['filter'], at)
  return { filter: filterIn(filter, `${at}.filter`) }
}

const shapeFields = ['boost', 'like', 'unlike', 'diversity', 'groupBy', 'rerank', 'onError'] as const
type ShapeField = (typeof shapeFields)[number]

/** Reads the fields that shape an answer; only those that are given. */
function shapeIn(
  fields: Readonly<Partial<Record<ShapeField, unknown>>>,
  path: string,
): Partial<Pick<Query, ShapeField>> {
  const read: { readonly [Name in ShapeField]: (value: unknown, at: string) => Query[Name] } = {
    boost: boostsIn,
    like: idsIn,
    unlike: idsIn,
    diversity: finiteIn,
    groupBy(value, at) {
      const { path, size } = fieldsOf(value, ['path', 'size'], at)
      return { path: textIn(path, `${at}.path`), size: optional(size, wholeIn, `${at}.size`) }
    },
    rerank: wholeIn,
    onError: (value, at) => oneOf(value, onErrorRules, at),
  }
  const given = shapeFields.filter((name) => fields[name] !== undefined)
  return Object.fromEntries(given.map((name) => [name, read[name](fields[name], path + name)]))
}

function idsIn(ids: unknown, at: string): readonly string[] {
  return textsIn(ids, at).map((id, index) => idIn(id, `${at}[${index}]`))
}

function boostsIn(boosts: unknown, at: string): readonly Boost[] {
  if (!Array.isArray(boosts)) throw wrongKind(boosts, at, 'an array of boosts')
  return itemsOf(boosts, at, (boost, place): Boost => {
    const { weight, filter, recent } = fieldsOf(boost, ['weight', 'filter', 'recent'], place)
    const counted = { weight: finiteIn(weight, `${place}.weight`) }
    if ((filter === undefined) === (recent === undefined)) {
      throw invalid(`${place} must have one of filter and recent`)
    }
    if (filter !== undefined) return { ...counted, filter: filterIn(filter, `${place}.filter`) }
    const { path, halfLife } = fieldsOf(recent, ['path', 'halfLife'], `${place}.recent`)
    return {
      ...counted,
      recent: {
        path: textIn(path, `${place}.recent.path`),
        halfLife: textIn(halfLife, `${place}.recent.halfLife`),
      },
    }
  })
}

export function queriesIn(queries: readonly Query[]): (Query & Partial<DetailedQuery>)[] {
  if (!Array.isArray(queries)) throw wrongKind(queries, 'queries', 'an array of queries')
  return itemsOf(queries, 'queries', (query, at) => queryIn(query as Query, `${at}.`))
}

export function listIn(query: ListQuery = {}): ListQuery {
  const { filter, limit, cursor, include } = fieldsOf(
    query,
    ['filter', 'limit', 'cursor', 'include'],
    'the query',
  )
  return {
    filter: optional(filter, filterIn, 'filter'),
    limit: optional(limit, limitIn, 'limit'),
    cursor: optional(cursor, textIn, 'cursor'),
    include: optional(include, includeIn, 'include'),
  }
}

export function facetsIn(query: FacetsQuery): FacetsQuery {
  const { filter, paths, limit } = fieldsOf(query, ['filter', 'paths', 'limit'], 'the query')
  return {
    filter: optional(filter, filterIn, 'filter'),
    paths: textsIn(paths, 'paths'),
    limit: optional(limit, limitIn, 'limit'),
  }
}

export function evaluationIn(query: EvaluationQuery): EvaluationQuery {
  const { judgements, k, sweep, metric, balance, ef, filter, ...shape } = fieldsOf(
    query,
    ['judgements', 'k', 'sweep', 'metric', 'balance', 'ef', 'filter', 'boost', 'diversity', 'rerank'],
    'the query',
  )
  if (!Array.isArray(judgements)) throw wrongKind(judgements, 'judgements', 'an array of judgements')
  const read = itemsOf(judgements, 'judgements', judgementIn)
  const isNear = read.some(({ vector, text }) => (vector ?? text) !== undefined)
  return {
    judgements: read,
    k: optional(k, limitIn, 'k'),
    sweep: optional(sweep, textsIn, 'sweep') as EvaluationQuery['sweep'],
    metric: metric !== undefined || isNear ? oneOf(metric, distanceMetrics, 'metric') : undefined,
    balance: optional(balance, finiteIn, 'balance'),
    ef: optional(ef, wholeIn, 'ef'),
    filter: optional(filter, filterIn, 'filter'),
    ...shapeIn(shape, ''),
  }
}

function judgementIn(value: unknown, at: string): Judgement {
  const { words, vector, text, relevant } = fieldsOf(value, ['words', 'vector', 'text', 'relevant'], at)
  return {
    words: words === true || optional(words, textIn, `${at}.words`),
    vector: optional(vector, vectorIn, `${at}.vector`),
    text: optional(text, textIn, `${at}.text`),
    relevant: numbersIn(relevant, `${at}.relevant`, 'an object of grades by id'),
  }
}

function numbersIn(value: unknown, at: string, expected: string): Readonly<Record<string, number>> {
  if (!isPlain(value)) throw wrongKind(value, at, expected)
  const entries = Object.entries(value).map(
    ([name, number]) => [name, finiteIn(number, `${at}.${name}`)] as const,
  )
  return objectOf(entries, (number) => number)
}

function includeIn(include: unknown, at: string): Include {
  const { attributes, ...flags } = fieldsOf(
    include,
    ['distance', 'payload', 'attributes', 'vector', 'version', 'scores', 'highlight'],
    at,
  )
  const read: Record<string, boolean | readonly string[]> = {}
  for (const [name, value] of Object.entries(flags))
    if (value !== undefined) read[name] = booleanIn(value, `${at}.${name}`)
  if (typeof attributes === 'boolean') read.attributes = attributes
  else if (attributes !== undefined) read.attributes = textsIn(attributes, `${at}.attributes`)
  return read
}

const patchFields = ['set', 'unset', 'content', 'contentType', 'expiresAt', 'vector', 'text'] as const

export function patchIn(patch: Patch): CheckedPatch {
  const fields = fieldsOf(patch, patchFields, 'the patch')
  if (Object.values(fields).every((value) => value === undefined)) {
    throw invalid(`there is nothing to change: send ${patchFields.join(', ')}`)
  }
  return {
    ...changeIn(fields),
    content: optional(fields.content, textIn, 'content'),
    contentType: optional(fields.contentType, (value, at) => oneOf(value, contentTypes, at), 'contentType'),
    vector: optional(fields.vector, vectorIn, 'vector'),
    text: optional(fields.text, textIn, 'text'),
  }
}

/** The part of a patch that can apply to many points. A value that is null in `set` is removed. */
function changeIn(fields: Readonly<Record<'set' | 'unset' | 'expiresAt', unknown>>): CheckedChange {
  const unset = optional(fields.unset, textsIn, 'unset')
  const removed: string[] = []
  const set = optional(fields.set, (value, at) => mapIn(value, at, 1, removed), 'set')
  return {
    set,
    unset: removed.length === 0 ? unset : [...(unset ?? []), ...removed],
    expiresAt: fields.expiresAt === null ? null : optional(fields.expiresAt, dateIn, 'expiresAt'),
  }
}

const selectionFields = ['filter', 'limit', 'dryRun', 'everything'] as const

export function selectionIn(selection: Selection): Selection {
  return checkedSelection(fieldsOf(selection, selectionFields, 'the request'))
}

export function updateIn(
  request: Selection & Pick<Patch, 'set' | 'unset' | 'expiresAt'>,
): Selection & CheckedChange {
  const fields = fieldsOf(request, [...selectionFields, 'set', 'unset', 'expiresAt'], 'the request')
  return { ...checkedSelection(fields), ...changeIn(fields) }
}

function checkedSelection(fields: Readonly<Record<(typeof selectionFields)[number], unknown>>): Selection {
  return {
    filter: filterIn(fields.filter, 'filter'),
    limit: optional(fields.limit, limitIn, 'limit'),
    dryRun: optional(fields.dryRun, booleanIn, 'dryRun'),
    everything: optional(fields.everything, booleanIn, 'everything'),
  }
}

export function preconditionIn(when: Precondition | undefined): Precondition | undefined {
  if (when === undefined) return undefined
  const { version, filter, absent } = fieldsOf(when, ['version', 'filter', 'absent'], 'when')
  const given = [version, filter, absent].filter((each) => each !== undefined)
  if (given.length !== 1) {
    throw invalid(`when has ${given.length} conditions, it must have one of version, filter and absent`)
  }
  if (version !== undefined) return { version: wholeIn(version, 'when.version', 0, Number.MAX_SAFE_INTEGER) }
  if (filter !== undefined) return { filter: filterIn(filter, 'when.filter') }
  if (absent === true) return { absent }
  throw invalid(`when.absent is ${kindOf(absent)}, it must be true`)
}

/** @returns a copy in which every value is text, a finite number, a boolean, null, a list, a plain object, or of a class */
export function filterIn(filter: unknown, at: string): Filter {
  return filterValueIn(filter, at, 0) as Filter
}

function filterValueIn(value: unknown, at: string, depth: number): unknown {
  if (value === null) return null
  if (value === undefined) {
    throw invalid(`${at} is undefined: leave it out, or use null for an absent attribute`)
  }
  const scalar = scalarIn(value, at)
  if (scalar !== undefined) return scalar
  // The service counts levels of filters; this bound only ends a filter that contains itself.
  if (depth === filterDepthMax) throw invalid(`${at} is nested deeper than ${filterDepthMax} levels`)
  if (Array.isArray(value)) return itemsOf(value, at, (each, place) => filterValueIn(each, place, depth + 1))
  if (!isPlain(value))
    throw wrongKind(value, at, 'text, a number, a boolean, a Date, a GeoPoint, a list or tests')
  const entries = Object.entries(value).map(([name, each]): [string, unknown] => {
    const place = placeOf(at, name)
    return [checkText(name, place), filterValueIn(each, place, depth + 1)]
  })
  return objectOf(entries, (each) => each)
}

/** More than twice the levels that the service accepts, because each can be an object in a list. */
const filterDepthMax = 100

/** @throws DatabaseError `invalid_argument` for attributes that could not be stored exactly */
function attributesIn(attributes: unknown, at: string): Attributes {
  return mapIn(attributes, at, 1)
}

/** @param nulls receives the names whose value is null; without it, null is the same as undefined */
function mapIn(value: unknown, at: string, depth: number, nulls?: string[]): Attributes {
  const isMap = value instanceof Map
  if (!isMap && !isPlain(value)) throw wrongKind(value, at, 'a plain object or a Map')
  checkDepth(depth, at)
  const map = new Map<string, AttributeValue>()
  for (const [name, each] of isMap ? value : Object.entries(value)) {
    if (typeof name !== 'string') throw invalid(`${at} has ${kindOf(name)} as a name, names are text`)
    const place = placeOf(at, name)
    checkText(name, place)
    if (each === null) nulls?.push(name)
    const read = attributeIn(each, place, depth + 1)
    if (read !== undefined) map.set(name, read)
  }
  return map
}

/** @returns undefined for an absent value */
function attributeIn(value: unknown, at: string, depth: number): AttributeValue | undefined {
  if (value === undefined || value === null) return undefined
  const scalar = scalarIn(value, at)
  if (scalar !== undefined) return scalar
  if (Array.isArray(value)) {
    checkDepth(depth, at)
    return itemsOf(value, at, (each, place) => {
      const item = attributeIn(each, place, depth + 1)
      if (item === undefined) throw invalid(`${place} is ${each}, a list can only have values`)
      return item
    })
  }
  if (value instanceof Map || isPlain(value)) return mapIn(value, at, depth)
  throw wrongKind(
    value,
    at,
    'text, a finite number, a boolean, a Date, a DateTime, a GeoPoint, an array, a plain object or a Map',
  )
}

/** Reads text, a number, a boolean, a date or a place, also in its JSON of HTTP; undefined for anything else. */
function scalarIn(value: unknown, at: string): Scalar | undefined {
  if (typeof value === 'string') return checkText(value, at)
  if (typeof value === 'number') return exactIn(value, at)
  if (typeof value === 'boolean') return value
  if (value instanceof Date || value instanceof DateTime) return dateIn(value, at)
  if (value instanceof GeoPoint) return geoIn(value.lat, value.lon, at)
  if (!isPlain(value)) return undefined
  const [name, ...others] = Object.keys(value)
  if (others.length > 0) return undefined
  if (name === '$date') return checkDateText(textIn((value as Tagged).$date, `${at}.$date`), `${at}.$date`)
  if (name !== '$geo') return undefined
  const { lat, lon } = fieldsOf((value as Tagged).$geo, ['lat', 'lon'], `${at}.$geo`)
  return geoIn(lat, lon, `${at}.$geo`)
}

interface Tagged {
  readonly $date?: unknown
  readonly $geo?: unknown
}

/**
 * A number of an attribute or a filter. JavaScript has rounded a longer whole number before anyone could see it, so it is
 * refused; from 1e21 on, nobody writes all digits.
 */
function exactIn(value: number, at: string): number {
  if (Number.isInteger(value) && Math.abs(value) > wholeMax && Math.abs(value) < 1e21) {
    throw invalid(
      `${at} is ${value}, whole numbers are at most 2^53 (${wholeMax}); text can hold longer ones`,
    )
  }
  return checkNumber(value, at)
}

export function dateIn(value: unknown, at: string): DateTime {
  if (value instanceof Date || value instanceof DateTime) {
    return checkDateTime(microsecondsIn(value as DateValue), at)
  }
  throw wrongKind(value, at, 'a Date or a DateTime')
}

function geoIn(lat: unknown, lon: unknown, at: string): GeoPoint {
  return checkGeo(optional(lat, finiteIn, `${at}.lat`), optional(lon, finiteIn, `${at}.lon`), at)
}

/** Copies a vector, component by component: an array can hold text, and text could end the array in JSON. */
function vectorIn(vector: unknown, at: string): Components {
  const { length } = (typeof vector === 'object' && vector !== null ? vector : {}) as ArrayLike<unknown>
  if (!Number.isSafeInteger(length) || length < 0) throw wrongKind(vector, at, 'an array of numbers')
  if (length > dimensionMax) throw invalid(`${at} has ${length} dimensions, the maximum is ${dimensionMax}`)
  const copy = vector instanceof Float32Array ? new Float32Array(length) : new Float64Array(length)
  for (let index = 0; index < length; index += 1) {
    const component = (vector as ArrayLike<unknown>)[index]
    if (typeof component !== 'number') throw wrongKind(component, `${at}[${index}]`, 'a number')
    if (!Number.isFinite(Math.fround(component))) {
      throw invalid(`${at}[${index}] is ${component}, it must be a finite float32 number`)
    }
    copy[index] = component
  }
  return copy
}

/** An id in the path of an HTTP request, where `..` would lead to another route, or of a query. */
export function idIn(id: unknown, at: string): string {
  if (id === undefined || id === '') throw invalid(`${at} is missing: a point id is a UUID`)
  if (typeof id !== 'string') throw wrongKind(id, at, 'a UUID')
  if (!isUuid(id)) throw invalid(`${at} ${shownText(id)} is not a UUID`)
  return id
}

function place(path: string, whole: string): string {
  return path === '' ? whole : path.slice(0, -1)
}

/** In protobuf, a limit of 0 would be no limit. */
function limitIn(value: unknown, at: string): number {
  return wholeIn(value, at, 1)
}

/**
 * Refuses an invalid name before the request is sent: in a path, `..` would lead to another route.
 *
 * @throws DatabaseError `invalid_argument`
 */
export function checkCollectionName(name: string): string {
  if (typeof name === 'string' && collectionName.test(name)) return name
  throw invalid(`${JSON.stringify(name)} cannot be the name of a collection: ${collectionNameRule}`)
}

/** Reads the settings of a new collection. @throws DatabaseError `invalid_argument` */
export function settingsIn(settings: NewCollection = {}): NewCollection {
  const names = ['dimension', 'hnsw', 'words', 'quotas'] as const
  const { dimension, hnsw, words, quotas } = fieldsOf(settings, names, 'the settings')
  const { m, efConstruction } = fieldsOf(hnsw ?? {}, ['m', 'efConstruction'], 'hnsw')
  return {
    ...(dimension === undefined ? {} : { dimension: wholeIn(dimension, 'dimension') }),
    hnsw: {
      m: optional(m, wholeIn, 'hnsw.m'),
      efConstruction: optional(efConstruction, wholeIn, 'hnsw.efConstruction'),
    },
    ...(words === undefined ? {} : { words: words === null ? null : wordsIn(words) }),
    ...(quotas === undefined ? {} : { quotas: quotasIn(quotas) }),
  }
}

const quotaFields = ['points', 'bytes', 'requestsPerSecond', 'searchesInFlight'] as const

function quotasIn(value: unknown): Quotas {
  const given = fieldsOf(value, quotaFields, 'quotas')
  const set = quotaFields.filter((name) => given[name] !== undefined)
  return Object.fromEntries(set.map((name) => [name, wholeIn(given[name], `quotas.${name}`)]))
}

function wordsIn(value: unknown): Words {
  const { language, paths, k1, b } = fieldsOf(value, ['language', 'paths', 'k1', 'b'], 'words')
  return {
    language: optional(language, textIn, 'words.language') as Words['language'],
    paths: numbersIn(paths, 'words.paths', 'an object of weights by path'),
    k1: optional(k1, finiteIn, 'words.k1'),
    b: optional(b, finiteIn, 'words.b'),
  }
}

/** Reads changes of aliases. @throws DatabaseError `invalid_argument` */
export function aliasChangesIn(changes: AliasChanges): Required<AliasChanges> {
  const { set = {}, remove } = fieldsOf(changes, ['set', 'remove'], 'the changes')
  if (!isPlain(set)) throw wrongKind(set, 'set', 'a plain object')
  const aliases = Object.entries(set).map(([alias, name]): [string, string] => [
    textIn(alias, 'set'),
    textIn(name, `set.${alias}`),
  ])
  return { set: objectOf(aliases, (name) => name), remove: optional(remove, textsIn, 'remove') ?? [] }
}
