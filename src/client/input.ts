import { type Attributes, type DateTime, shownText } from '../base/attributes.ts'
import { collectionName, collectionNameRule } from '../base/collection.ts'
import { invalid } from '../base/errors.ts'
import {
  conflictRules,
  contentTypes,
  distanceMetrics,
  includeNames,
  isUuid,
  onErrorRules,
  rerankMax,
} from '../base/point.ts'
import type { Quotas } from '../base/quotas.ts'
import { kMax } from '../base/relevance.ts'
import type {
  AliasChanges,
  Aliases,
  AuditQuery,
  Boost,
  DetailedQuery,
  EvaluationQuery,
  FacetsQuery,
  Include,
  Judgement,
  KeyInfo,
  KeyQuotas,
  KeysClient,
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
import { attributesIn, type Components, dateIn, filterIn, mapIn, vectorIn } from './value-input.ts'
import {
  booleanIn,
  type FieldReaders,
  fieldsOf,
  finiteIn,
  isPlain,
  itemsOf,
  kindOf,
  objectIn,
  objectOf,
  oneOf,
  optional,
  readFields,
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

/** The attributes and the expiry of a checked payload have a single form. */
interface CheckedPayload extends PayloadToStore {
  readonly attributes: Attributes | undefined
  readonly expiresAt: DateTime | undefined
}

export interface CheckedStored extends PointToStore {
  readonly vector: Components | undefined
  readonly payload: CheckedPayload
}

export type CheckedPoint = CheckedStored & Pick<PointToInsert, 'id' | 'onConflict'>

/** The part of a checked patch that can apply to many points. */
export interface CheckedChange {
  readonly set: Attributes | undefined
  readonly unset: readonly string[] | undefined
  /** null removes the expiry. */
  readonly expiresAt: DateTime | null | undefined
}

export type CheckedQuery = Query & Partial<DetailedQuery>

export interface CheckedPatch extends CheckedChange, Pick<Patch, 'content' | 'contentType' | 'text'> {
  readonly vector: Components | undefined
}

export function pointIn(point: PointToInsert, path = ''): CheckedPoint {
  return objectIn(point, pointFields, place(path, 'the point'), path)
}

export function pointsIn(points: readonly PointToInsert[]): CheckedPoint[] {
  return itemsOf(points, 'vectors', (point, at) => pointIn(point as PointToInsert, `${at}.`), 'points')
}

export function checkPoints(points: readonly PointToInsert[]): void {
  if (!Array.isArray(points)) throw wrongKind(points, 'vectors', 'an array of points')
}

/** A point without an id of its own, as `put` takes it. */
export function pointToPutIn(point: PointToStore): CheckedStored {
  return objectIn(point, storedFields, 'the point', '')
}

const storedFields = {
  vector: optional(vectorIn),
  text: optional(textIn),
  payload: (value: unknown, at: string): CheckedPayload => objectIn(value, payloadFields, at),
}

const pointFields = { ...storedFields, id: optional(textIn), onConflict: optional(oneOf(conflictRules)) }

const payloadFields = {
  contentType: oneOf(contentTypes),
  content: textIn,
  attributes: optional(attributesIn),
  expiresAt: optional(dateIn),
}

/** The fields that shape an answer. */
const shapeFields = {
  boost: optional(boostsIn),
  diversity: optional(finiteIn),
  rerank: optional((value, at) => wholeIn(value, at, 1, rerankMax)),
}

const groupFields = { path: textIn, size: optional(wholeIn) }

const queryFields = {
  vector: optional(vectorIn),
  id: optional(idIn),
  text: optional(textIn),
  metric: optional(oneOf(distanceMetrics)),
  limit: limitIn,
  ef: optional(wholeIn),
  filter: optional(filterIn),
  exact: optional(booleanIn),
  maxDistance: optional(finiteIn),
  include: optional(includeIn),
  profile: optional(booleanIn),
  words: optional(wordsToRankIn),
  balance: optional(finiteIn),
  cursor: optional(textIn),
  statistics: optional((value, at) => objectIn(value, { filter: filterIn }, at)),
  ...shapeFields,
  like: optional(idsIn),
  unlike: optional(idsIn),
  groupBy: optional((value, at) => objectIn(value, groupFields, at)),
  onError: optional(oneOf(onErrorRules)),
}

/** Of a query near something. */
const nearFields = { ...queryFields, metric: oneOf(distanceMetrics) }

export function queryIn(query: Query, path = ''): CheckedQuery {
  const fields = fieldsOf(query, keysOf(queryFields), place(path, 'the query'))
  const targets = (['text', 'vector', 'id'] as const).filter((name) => fields[name] !== undefined)
  const [first, second] = targets.map((name) => `${path}${name}`)
  if (second !== undefined) throw invalid(`${first} and ${second} are both given: a query has one of them`)
  const isNear = (first ?? fields.like ?? fields.unlike) !== undefined
  if (!isNear && fields.words === undefined) throw invalid(`${path}vector is missing`)
  return readFields<CheckedQuery>(fields, isNear ? nearFields : queryFields, path)
}

/** True stands for the words of the text to search near. */
function wordsToRankIn(value: unknown, at: string): string | true {
  return value === true || textIn(value, at)
}

function idsIn(ids: unknown, at: string): readonly string[] {
  return textsIn(ids, at).map((id, index) => idIn(id, `${at}[${index}]`))
}

function boostsIn(boosts: unknown, at: string): readonly Boost[] {
  return itemsOf(boosts, at, boostIn, 'boosts')
}

function boostIn(boost: unknown, at: string): Boost {
  const { weight, filter, recent } = fieldsOf(boost, ['weight', 'filter', 'recent'], at)
  const counted = { weight: finiteIn(weight, `${at}.weight`) }
  if ((filter === undefined) === (recent === undefined)) {
    throw invalid(`${at} must have one of filter and recent`)
  }
  if (filter !== undefined) return { ...counted, filter: filterIn(filter, `${at}.filter`) }
  return { ...counted, recent: objectIn(recent, { path: textIn, halfLife: textIn }, `${at}.recent`) }
}

export function queriesIn(queries: readonly Query[]): CheckedQuery[] {
  return itemsOf(queries, 'queries', (query, at) => queryIn(query as Query, `${at}.`), 'queries')
}

export function listIn(query: ListQuery = {}): ListQuery {
  const readers = {
    filter: optional(filterIn),
    limit: optional(limitIn),
    cursor: optional(textIn),
    include: optional(includeIn),
  }
  return objectIn<ListQuery>(query, readers, 'the query', '')
}

export function facetsIn(query: FacetsQuery): FacetsQuery {
  const readers = { filter: optional(filterIn), paths: textsIn, limit: optional(limitIn) }
  return objectIn<FacetsQuery>(query, readers, 'the query', '')
}

const evaluationFields = {
  judgements(value: unknown, at: string): Judgement[] {
    return itemsOf(
      value,
      at,
      (each, place) => objectIn<Judgement>(each, judgementFields, place),
      'judgements',
    )
  },
  k: optional((value, at) => wholeIn(value, at, 1, kMax)),
  sweep: optional((value, at) => textsIn(value, at) as NonNullable<EvaluationQuery['sweep']>),
  metric: optional(oneOf(distanceMetrics)),
  balance: optional(finiteIn),
  ef: optional(wholeIn),
  filter: optional(filterIn),
  ...shapeFields,
}

const judgementFields = {
  words: optional(wordsToRankIn),
  vector: optional(vectorIn),
  text: optional(textIn),
  relevant: (value: unknown, at: string) => numbersIn(value, at, 'an object of grades by id'),
}

export function evaluationIn(query: EvaluationQuery): EvaluationQuery {
  const read = objectIn<EvaluationQuery>(query, evaluationFields, 'the query', '')
  const isNear = read.judgements.some(({ vector, text }) => (vector ?? text) !== undefined)
  if (isNear) oneOf(distanceMetrics)(read.metric, 'metric')
  return read
}

function numbersIn(value: unknown, at: string, expected: string): Readonly<Record<string, number>> {
  if (!isPlain(value)) throw wrongKind(value, at, expected)
  const entries = Object.entries(value).map(
    ([name, number]) => [name, finiteIn(number, `${at}.${name}`)] as const,
  )
  return objectOf(entries, (number) => number)
}

const includeFields = Object.fromEntries(
  includeNames.map((name) => [name, optional(name === 'attributes' ? selectedIn : booleanIn)]),
) as FieldReaders<Include>

function selectedIn(value: unknown, at: string): readonly string[] | boolean {
  return typeof value === 'boolean' ? value : textsIn(value, at)
}

/** Only what is given: an absent part may have a default that differs from false. */
function includeIn(include: unknown, at: string): Include {
  const read = Object.entries(objectIn(include, includeFields, at))
  return Object.fromEntries(read.filter(([, value]) => value !== undefined))
}

const patchFields = {
  content: optional(textIn),
  contentType: optional(oneOf(contentTypes)),
  vector: optional(vectorIn),
  text: optional(textIn),
}
const changeNames = ['set', 'unset', 'expiresAt'] as const

export function patchIn(patch: Patch): CheckedPatch {
  const names = [...changeNames, ...keysOf(patchFields)]
  const fields = fieldsOf(patch, names, 'the patch')
  if (Object.values(fields).every((value) => value === undefined)) {
    throw invalid(`there is nothing to change: send ${names.join(', ')}`)
  }
  return {
    ...changeIn(fields),
    ...readFields<Omit<CheckedPatch, keyof CheckedChange>>(fields, patchFields, ''),
  }
}

/** The part of a patch that can apply to many points. A value that is null in `set` is removed. */
function changeIn(fields: Readonly<Record<(typeof changeNames)[number], unknown>>): CheckedChange {
  const unset = optional(textsIn)(fields.unset, 'unset')
  const removed: string[] = []
  const set = optional((value, at) => mapIn(value, at, 1, removed))(fields.set, 'set')
  return {
    set,
    unset: removed.length === 0 ? unset : [...(unset ?? []), ...removed],
    expiresAt: fields.expiresAt === null ? null : optional(dateIn)(fields.expiresAt, 'expiresAt'),
  }
}

const selectionFields = {
  filter: filterIn,
  limit: optional(limitIn),
  dryRun: optional(booleanIn),
  everything: optional(booleanIn),
}

export function selectionIn(selection: Selection): Selection {
  return objectIn(selection, selectionFields, 'the request', '')
}

export function updateIn(
  request: Selection & Pick<Patch, 'set' | 'unset' | 'expiresAt'>,
): Selection & CheckedChange {
  const fields = fieldsOf(request, [...keysOf(selectionFields), ...changeNames], 'the request')
  return { ...readFields<Selection>(fields, selectionFields, ''), ...changeIn(fields) }
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

/** An id in the path of an HTTP request, where `..` would lead to another route, or of a query. */
export function idIn(id: unknown, at: string): string {
  if (id === undefined || id === '') throw invalid(`${at} is missing: a point id is a UUID`)
  if (typeof id !== 'string') throw wrongKind(id, at, 'a UUID')
  if (!isUuid(id)) throw invalid(`${at} ${shownText(id)} is not a UUID`)
  return id
}

function keysOf<Table extends object>(table: Table): (keyof Table & string)[] {
  return Object.keys(table) as (keyof Table & string)[]
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

const countIn = (value: unknown, at: string): number => wholeIn(value, at, 0, Number.MAX_SAFE_INTEGER)

/** Of a key, without `bytes`. */
export const keyQuotaFields: FieldReaders<KeyQuotas> = {
  points: optional(countIn),
  requestsPerSecond: optional(wholeIn),
  searchesInFlight: optional(wholeIn),
}

const wordFields = {
  language: optional((value, at) => textIn(value, at) as NonNullable<Words['language']>),
  paths: (value: unknown, at: string) => numbersIn(value, at, 'an object of weights by path'),
  k1: optional(finiteIn),
  b: optional(finiteIn),
}

const hnswFields = { m: optional(wholeIn), efConstruction: optional(wholeIn) }

const settingFields = {
  dimension: optional(wholeIn),
  hnsw: (value: unknown, at: string) => objectIn(value ?? {}, hnswFields, at),
  words: optional((value, at) => (value === null ? null : objectIn<Words>(value, wordFields, at))),
  quotas: optional((value, at) =>
    objectIn<Quotas>(value, { bytes: optional(countIn), ...keyQuotaFields }, at),
  ),
}

/** Reads the settings of a new collection. @throws DatabaseError `invalid_argument` */
export function settingsIn(settings: NewCollection = {}): NewCollection {
  return objectIn<NewCollection>(settings, settingFields, 'the settings', '')
}

/** Reads changes of aliases. @throws DatabaseError `invalid_argument` */
export function aliasChangesIn(changes: AliasChanges): { set: Aliases; remove: readonly string[] } {
  const { set = {}, remove } = fieldsOf(changes, ['set', 'remove'], 'the changes')
  if (!isPlain(set)) throw wrongKind(set, 'set', 'a plain object')
  const aliases = Object.entries(set).map(([alias, name]): [string, string] => [
    textIn(alias, 'set'),
    textIn(name, `set.${alias}`),
  ])
  return { set: objectOf(aliases, (name) => name), remove: optional(textsIn)(remove, 'remove') ?? [] }
}

export interface CheckedKey extends KeyInfo {
  readonly expiresAt?: DateTime | undefined
}

export interface CheckedAuditQuery extends AuditQuery {
  readonly since?: DateTime | undefined
  readonly until?: DateTime | undefined
}

const auditFields = {
  since: optional(dateIn),
  until: optional(dateIn),
  key: optional(textIn),
  operation: optional(textIn),
  collection: optional(textIn),
  allowed: optional(booleanIn),
  limit: optional((value, at) => wholeIn(value, at, 1, 1000)),
  cursor: optional(textIn),
}

export function auditQueryIn(query: AuditQuery = {}): CheckedAuditQuery {
  return objectIn<CheckedAuditQuery>(query, auditFields, 'the query', '')
}

const roles: readonly KeyInfo['role'][] = ['read', 'write', 'admin']

const keyFields = {
  name: keyNameIn,
  role: (value: unknown, at: string) => optional(oneOf(roles))(value, at) ?? 'read',
  collections: optional(collectionsIn),
  filter: optional(filterIn),
  expiresAt: optional(dateIn),
  quotas: optional((value, at) => objectIn<KeyQuotas>(value, keyQuotaFields, at)),
}

export function keyIn(key: Parameters<KeysClient['create']>[0]): CheckedKey {
  return objectIn<CheckedKey>(key, keyFields, 'the key', '')
}

/** Over gRPC, an empty list would be an absent one, and the key for all collections. */
function collectionsIn(value: unknown, at: string): readonly string[] {
  const names = textsIn(value, at)
  if (names.length > 0) return names
  throw invalid(`${at} is empty: it must have a name, or be absent for all collections`)
}

/** In a path, `..` would lead to another route. */
export function keyNameIn(value: unknown, at: string): string {
  const name = textIn(value, at)
  if (/^(?!\.+$)[\w.-]{1,64}$/.test(name)) return name
  throw invalid(`${at} is ${shownText(name)}: it must be 1 to 64 letters, digits and _.-`)
}
