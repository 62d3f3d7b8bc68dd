import type { MessageInitShape } from '@bufbuild/protobuf'
import { DatabaseError } from '../base/errors.ts'
import { conflictRules, contentTypes, metrics } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import { momentOf } from './attributes.ts'
import type {
  Changed,
  DetailedQuery,
  FacetCount,
  Hit,
  Include,
  Patch,
  PayloadToStore,
  PointToInsert,
  PointToStore,
  Precondition,
  Query,
  SearchAnswer,
  Selection,
  StoredPayload,
} from './client.ts'
import type { Filter } from './filters.ts'
import type {
  ChangeByFilterRequestSchema,
  ChangeByFilterResponse,
  FacetCount as FacetCountMessage,
  Hit as HitMessage,
  IncludeSchema,
  InsertVectorRequestSchema,
  PatchSchema,
  Payload as PayloadMessage,
  PayloadSchema,
  PointID,
  PointIDSchema,
  Point as PointMessage,
  PreconditionSchema,
  Profile as ProfileMessage,
  SearchRequestSchema,
  SearchResponse,
} from './generated/vectordb_pb.js'
import { type FilterMessage, filterMessage } from './grpc-filters.ts'
import { attributesFromMessage, attributesMessage, int64Of, valueFromMessage } from './grpc-values.ts'

/** Requests and answers as protobuf has them. */

export function pointMessage(point: PointToInsert): MessageInitShape<typeof InsertVectorRequestSchema> {
  const { id, onConflict } = point
  return {
    ...storedMessage(point),
    ...(id === undefined ? {} : { id: idMessage(id) }),
    ...(onConflict === undefined ? {} : { onConflict: conflictRules.indexOf(onConflict) }),
  }
}

export function storedMessage({ vector, text, payload }: PointToStore): {
  vector?: { values: number[] }
  text?: string
  payload: MessageInitShape<typeof PayloadSchema>
} {
  return {
    ...(vector === undefined ? {} : { vector: { values: numbersOf(vector) } }),
    ...(text === undefined ? {} : { text }),
    payload: payloadMessage(payload),
  }
}

function payloadMessage(payload: PayloadToStore): MessageInitShape<typeof PayloadSchema> {
  const { contentType, content, attributes, expiresAt } = payload
  return {
    contentType: contentTypes.indexOf(contentType),
    content,
    ...(attributes === undefined ? {} : { attributes: attributesMessage(attributes) }),
    ...(expiresAt === undefined ? {} : { expiresAtUs: int64Of(expiresAt) }),
  }
}

export function patchMessage(patch: Patch): MessageInitShape<typeof PatchSchema> {
  const { set, unset, content, contentType, expiresAt, vector, text } = patch
  const removed = [...(unset ?? []), ...(expiresAt === null ? ['$expires_at'] : [])]
  return {
    ...(set === undefined ? {} : { set: attributesMessage(set) }),
    ...(removed.length === 0 ? {} : { unset: removed }),
    ...(content === undefined ? {} : { content }),
    ...(contentType === undefined ? {} : { contentType: contentTypes.indexOf(contentType) }),
    ...(expiresAt ? { expiresAtUs: int64Of(expiresAt) } : {}),
    ...(vector === undefined ? {} : { vector: { values: numbersOf(vector) } }),
    ...(text === undefined ? {} : { text }),
  }
}

export function queryMessage(
  query: Query & Partial<DetailedQuery>,
): MessageInitShape<typeof SearchRequestSchema> {
  const { vector, id, text, metric, limit, ef, filter, exact, maxDistance, include, profile } = query
  return {
    ...(vector === undefined ? {} : { queryVector: { values: numbersOf(vector) } }),
    ...(id === undefined ? {} : { nearId: idMessage(id) }),
    ...(text === undefined ? {} : { text }),
    similarity: metrics.indexOf(metric),
    limit: unsigned(limit, 'limit'),
    ...(ef === undefined ? {} : { ef: unsigned(ef, 'ef') }),
    ...filterField(filter),
    ...(exact === undefined ? {} : { exact }),
    ...(maxDistance === undefined ? {} : { maxDistance }),
    ...(include === undefined ? {} : { include: includeMessage(include) }),
    ...(profile === undefined ? {} : { profile }),
  }
}

/** All attributes come with the payload. */
export function includeMessage(include: Include): MessageInitShape<typeof IncludeSchema> {
  const { distance = false, payload = false, attributes = [], vector = false, version = false } = include
  if (attributes === true) return { distance, payload: true, vector, version }
  return { distance, payload, attributes: attributes === false ? [] : [...attributes], vector, version }
}

export function filterField(filter: Filter | undefined): { filter?: FilterMessage } {
  return filter === undefined ? {} : { filter: filterMessage(filter) }
}

export function whenField(when: Precondition | undefined): {
  when?: MessageInitShape<typeof PreconditionSchema>
} {
  if (when === undefined) return {}
  if ('version' in when) {
    return { when: { test: { case: 'version', value: unsigned(when.version, 'when.version') } } }
  }
  if ('filter' in when) return { when: { test: { case: 'filter', value: filterMessage(when.filter) } } }
  return { when: { test: { case: 'absent', value: when.absent } } }
}

export function selectionMessage(
  { filter, limit, dryRun = false, everything = false }: Selection,
  patch?: MessageInitShape<typeof PatchSchema>,
): MessageInitShape<typeof ChangeByFilterRequestSchema> {
  return {
    filter: filterMessage(filter),
    ...(limit === undefined ? {} : { limit: unsigned(limit, 'limit') }),
    ...(patch === undefined ? {} : { patch }),
    dryRun,
    everything,
  }
}

export function changedOf({ changed, more }: ChangeByFilterResponse): Changed {
  return { changed: Number(changed), more }
}

export function facetCount({ value, count }: FacetCountMessage): FacetCount {
  return { value: valueFromMessage(value!), count: Number(count) }
}

export function answerOf({ hits, profile }: SearchResponse): SearchAnswer {
  return { hits: hits.map(hitOf), profile: profile && profileOf(profile) }
}

export function hitOf(hit: HitMessage | PointMessage): Hit {
  const { id, payload, vector, version } = hit
  const distance = 'distance' in hit ? hit.distance : undefined
  return {
    id: id === undefined ? '' : idOf(id),
    ...(distance === undefined ? {} : { distance }),
    ...(payload === undefined ? {} : { payload: payloadOf(payload) }),
    ...(vector === undefined ? {} : { vector: Float32Array.from(vector.values) }),
    ...(version === undefined ? {} : { version: Number(version) }),
  }
}

export function payloadOf(payload: PayloadMessage | undefined): StoredPayload {
  const { contentType = 0, content = '', attributes, expiresAtUs } = payload ?? {}
  return {
    contentType: contentTypes[contentType]!,
    content,
    ...(attributes === undefined ? {} : { attributes: attributesFromMessage(attributes) }),
    ...(expiresAtUs === undefined ? {} : { expiresAt: momentOf(Number(expiresAtUs)) }),
  }
}

function profileOf(message: ProfileMessage): Profile {
  const { plan, points, matching, compared, measured, filterUs, queueUs, searchUs } = message
  const { reason, ef, efMultiplier, recallEstimate } = message
  return {
    plan: plan as Profile['plan'],
    reason,
    points: Number(points),
    matching: Number(matching),
    compared: Number(compared),
    measured: Number(measured),
    ef,
    efMultiplier,
    filterUs: Number(filterUs),
    queueUs: Number(queueUs),
    searchUs: Number(searchUs),
    recallEstimate,
  }
}

/** `Array.from` takes ten times as long on a typed array, and then it leads the profile of an import. */
function numbersOf(vector: ArrayLike<number>): number[] {
  const values = new Array<number>(vector.length)
  for (let index = 0; index < vector.length; index += 1) values[index] = vector[index]!
  return values
}

export function unsigned(value: number, name: string): bigint {
  if (Number.isSafeInteger(value) && value >= 0) return BigInt(value)
  throw new DatabaseError('invalid_argument', `${name} is ${value}, it must be a whole number`)
}

export function idMessage(id: string): MessageInitShape<typeof PointIDSchema> {
  return { id: { value: id } }
}

export function idOf(message: PointID): string {
  return message.id?.value ?? ''
}
