import type { Reason } from '../base/errors.ts'
import { filterText } from '../base/filter-text.ts'
import { conflictRules, contentTypes, distanceMetrics, onErrorRules } from '../base/point.ts'
import type { EvaluatedPoints, Evaluation, MeasuredSetting, Relevance } from '../base/relevance.ts'
import { atOnce } from '../base/turns.ts'
import { filterIn, filterMessage as messageOf } from '../messages/filters.ts'
import type * as messages from '../messages/generated/vectordb_pb.js'
import { readFilter } from '../messages/json-filter.ts'
import { JsonValue } from '../messages/json-reader.ts'
import {
  hitOf as hitIn,
  patchMessage as patchOfPoint,
  profileOf,
  wordSettingsOf,
} from '../messages/points.ts'
import { type Encoded, valuesIn } from '../messages/reader.ts'
import { idIn, idMessage, kindOf, payloadMessage } from '../messages/values.ts'
import type { Init } from '../messages/writer.ts'
import type {
  AuditPage,
  AuditRecord,
  Boost,
  Changed,
  CollectionInfo,
  EvaluationQuery,
  FacetCount,
  Hit,
  Include,
  KeyInfo,
  NewCollection,
  Point,
  Precondition,
  Selection,
  StoredPayload,
  Words,
} from './client.ts'
import type { CheckedChange, CheckedPatch, CheckedPoint, CheckedQuery } from './input.ts'
import type { Found } from './transport.ts'
import {
  type AttributeOutput,
  type AttributesOutput,
  attributeFromJson,
  dateOf,
  type Filter,
  filterJson,
  objectOf,
} from './values.ts'

/** Conversions between the client's types, as `input.ts` has checked them, and protobuf messages. */

export function pointMessage({
  id,
  onConflict,
  vector,
  text,
  payload,
}: CheckedPoint): Init<messages.InsertVectorRequest> {
  return {
    ...(id === undefined ? {} : { id: idMessage(id) }),
    ...(onConflict === undefined ? {} : { onConflict: conflictRules.indexOf(onConflict) }),
    vector: vector && { values: vector },
    text,
    payload: payloadMessage({ ...payload, expiresAtUs: payload.expiresAt?.us }),
  }
}

export function patchMessage(patch: CheckedChange & Partial<CheckedPatch>): Init<messages.Patch> {
  const { expiresAt, text, ...same } = patch
  return { ...patchOfPoint({ ...same, expiresAtUs: expiresAt === null ? null : expiresAt?.us }), text }
}

/** @param path of the query in the request: '' or like `queries[3].` */
export function queryMessage(query: CheckedQuery, path = ''): Init<messages.SearchRequest> {
  const { vector, id, metric, filter, include, words, statistics, onError, ...same } = query
  const { boost = [], like = [], unlike = [] } = query
  return {
    ...same,
    ...wordsMessage(words),
    queryVector: vector && { values: vector },
    nearId: id === undefined ? undefined : idMessage(id),
    similarity: metric === undefined ? undefined : distanceMetrics.indexOf(metric),
    filter: optionalFilter(filter, `${path}filter`),
    include: include && includeMessage(include),
    statistics: statistics && filterMessage(statistics.filter, `${path}statistics.filter`),
    boost: boostMessages(boost, path),
    like: like.map(idMessage),
    unlike: unlike.map(idMessage),
    onError: onError && onErrorRules.indexOf(onError),
  }
}

function wordsMessage(
  words: CheckedQuery['words'],
): Pick<Init<messages.SearchRequest>, 'words' | 'wordsOfText'> {
  return words === true ? { wordsOfText: true } : { words }
}

function boostMessages(boosts: readonly Boost[], path: string): Init<messages.Boost>[] {
  return boosts.map(({ weight, ...each }, index) => ({
    weight,
    ...('recent' in each
      ? { recent: each.recent }
      : { filter: filterMessage(each.filter, `${path}boost[${index}].filter`) }),
  }))
}

/** In protobuf, all attributes are part of the payload: asking for all of them asks for the payload. */
export function includeMessage({ attributes = [], ...flags }: Include): Init<messages.Include> {
  if (attributes === true) return { ...flags, payload: true }
  return { ...flags, attributes: attributes === false ? [] : attributes }
}

/**
 * The message of a filter, whose JSON is read as the service reads it over HTTP: a part that the message cannot have is
 * refused, because a delete by such a filter would remove other points than intended.
 *
 * @throws DatabaseError `invalid_argument` that names the place of the fault
 */
export function filterMessage(filter: Filter, at = 'filter'): Init<messages.Filter> {
  return messageOf(atOnce(readFilter(new JsonValue(filterJson(filter)), at)))
}

export function optionalFilter(filter: Filter | undefined, at?: string): Init<messages.Filter> | undefined {
  return filter === undefined ? undefined : filterMessage(filter, at)
}

export function whenMessage(when: Precondition | undefined): Init<messages.Precondition> | undefined {
  if (when === undefined) return undefined
  if ('version' in when) return { test: { case: 'version', value: when.version } }
  if ('filter' in when) return { test: { case: 'filter', value: filterMessage(when.filter, 'when.filter') } }
  return { test: { case: 'absent', value: when.absent } }
}

export function selectionMessage(
  { filter, ...same }: Selection,
  patch?: Init<messages.Patch>,
): Init<messages.ChangeByFilterRequest> {
  return { ...same, filter: filterMessage(filter), patch }
}

export function changedOf(message: Encoded<messages.ChangeByFilterResponse>): Changed {
  return valuesIn(message.read())
}

export function facetsOf(
  message: Encoded<messages.FacetsResponse>,
): Readonly<Record<string, readonly FacetCount[]>> {
  const facets = Array.from(message.items('facets'), (facet) => [facet.read().path, facet] as const)
  return objectOf(facets, (facet) => Array.from(facet.items('counts'), countOf))
}

function countOf(message: Encoded<messages.FacetCount> | Encoded<messages.Group>): FacetCount {
  const { value, count } = message.read()
  return { value: attributeOf(value!), count: Number(count) }
}

export function evaluateMessage(query: EvaluationQuery): Init<messages.EvaluateRequest> {
  const { judgements, metric, filter, boost = [], ...same } = query
  return {
    ...same,
    judgements: judgements.map(({ words, vector, text, relevant }) => ({
      ...wordsMessage(words),
      vector: vector && { values: vector },
      text,
      relevant: new Map(Object.entries(relevant)),
    })),
    similarity: metric === undefined ? undefined : distanceMetrics.indexOf(metric),
    filter: optionalFilter(filter),
    boost: boostMessages(boost, ''),
  }
}

export function evaluatedOf(message: Encoded<messages.EvaluateResponse>): EvaluatedPoints {
  const { given, best, missing } = message.read()
  return {
    ...evaluationOf(given!),
    curve: Array.from(message.items('curve'), settingOf),
    ...(best && { best: evaluationOf(best) }),
    missing: Number(missing),
  }
}

function evaluationOf(message: Encoded<messages.Evaluation>): Evaluation {
  const { low, high } = message.read()
  return {
    ...settingOf(message),
    low: relevanceOf(low!),
    high: relevanceOf(high!),
    queries: Array.from(message.items('queries'), relevanceOf),
  }
}

function settingOf(message: Encoded<messages.Evaluation>): MeasuredSetting {
  const { balance, ef, mean } = message.read()
  const paths = objectOf([...message.entries('paths')], (weight) => weight)
  return {
    ...valuesIn({ balance, ef }),
    ...(Object.keys(paths).length > 0 && { paths }),
    ...relevanceOf(mean!),
  }
}

function relevanceOf(message: Encoded<messages.Relevance>): Relevance {
  return valuesIn(message.read())
}

export function foundOf(message: Encoded<messages.SearchResponse>): Found {
  const { profile, nextCursor } = message.read()
  const counts = Array.from(message.items('groups'), countOf)
  return {
    ids: Array.from(message.items('resultPointIds'), idIn),
    hits: Array.from(message.items('hits'), hitOf),
    profile: profile && profileOf(profile),
    ...(nextCursor === '' ? {} : { nextCursor }),
    ...(counts.length > 0 && { counts }),
  }
}

/** A point of a list or a hit, with those fields that the call asked for. */
export function hitOf(message: Encoded<messages.Hit> | Encoded<messages.Point>): Hit {
  return { id: '', ...hitIn(message, payloadOf) }
}

/** A whole point. */
export function pointOf(message: Encoded<messages.Point>): Point {
  const { vector = new Float32Array(), payload, ...rest } = hitOf(message)
  return {
    ...rest,
    vector,
    payload: (payload ?? { contentType: contentTypes[0], content: '' }) as StoredPayload,
  }
}

function payloadOf(message: Encoded<messages.Payload>): StoredPayload {
  const { contentType, content, attributes, expiresAtUs } = message.read()
  return {
    contentType: contentTypes[contentType]!,
    content,
    ...(attributes === undefined ? {} : { attributes: attributesOf(attributes) }),
    ...(expiresAtUs === undefined ? {} : { expiresAt: dateOf(Number(expiresAtUs)) }),
  }
}

function attributesOf(message: Encoded<messages.Attributes>): AttributesOutput {
  return objectOf([...message.entries('fields')], attributeOf)
}

function attributeOf(message: Encoded<messages.Value>): AttributeOutput {
  return kindOf<AttributeOutput>(message, dateOf, attributesOf)
}

export function collectionOf(message: Encoded<messages.Collection>): CollectionInfo {
  const { hnsw, points, dimension, embeddingModel, words, quotas, ...same } = message.read()
  const { m = 0, efConstruction = 0 } = hnsw?.read() ?? {}
  return {
    ...same,
    dimension,
    points: Number(points),
    hnsw: { m, efConstruction },
    ...(embeddingModel === undefined ? {} : { embeddingModel }),
    ...(words && { words: wordsOf(words) }),
    ...(quotas && { quotas: valuesIn(quotas.read()) }),
  }
}

function wordsOf(message: Encoded<messages.WordSettings>): Words {
  const { paths, ...settings } = wordSettingsOf(message)
  return { ...settings, paths: Object.fromEntries(paths.map(({ path, weight }) => [path, weight])) }
}

export function auditOf(message: Encoded<messages.ListAuditResponse>): AuditPage {
  const records = Array.from(message.items('records'), (item): AuditRecord => {
    const { timeUs, error, transport, ...record } = item.read()
    return {
      ...valuesIn(record),
      time: new Date(Number(timeUs) / 1000),
      ...(error !== undefined && { error: error as Reason }),
      ...(transport !== undefined && { transport: transport as AuditRecord['transport'] }),
    }
  })
  const { nextCursor } = message.read()
  return { records, ...(nextCursor !== '' && { nextCursor }) }
}

export function keyOf(message: Encoded<messages.KeyInfo>): KeyInfo {
  const { name, role, collections, filter, expiresAtUs, quotas } = message.read()
  return {
    name,
    role: role as KeyInfo['role'],
    ...(collections.length > 0 && { collections }),
    ...(filter && { filter: clientFilter(filter) }),
    ...(expiresAtUs !== undefined && { expiresAt: dateOf(Number(expiresAtUs)) }),
    ...(quotas && { quotas: valuesIn(quotas.read()) }),
  }
}

function clientFilter(message: Encoded<messages.Filter>): Filter {
  const text = filterText(atOnce(filterIn(message, 'filter')), Number.POSITIVE_INFINITY)
  return attributeFromJson(JSON.parse(text)) as Filter
}

export function settingsMessage({ words, ...settings }: NewCollection): Init<messages.PutCollectionRequest> {
  if (words === undefined) return settings
  if (words === null) return { ...settings, withoutWords: true }
  const paths = Object.entries(words.paths).map(([path, weight]) => ({ path, weight }))
  return { ...settings, words: { ...words, paths } }
}
