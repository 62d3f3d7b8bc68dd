import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { conflictRules, contentTypes, distanceMetrics } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import {
  type ChangeByFilterRequestSchema,
  type ChangeByFilterResponse,
  DenseVectorSchema,
  type FacetCount as FacetCountMessage,
  type Hit as HitMessage,
  type IncludeSchema,
  type InsertVectorRequestSchema,
  type PatchSchema,
  type Payload as PayloadMessage,
  type PayloadSchema,
  type PointID,
  type PointIDSchema,
  type Point as PointMessage,
  type PreconditionSchema,
  type Profile as ProfileMessage,
  type SearchRequestSchema,
  type SearchResponse,
} from '../messages/generated/vectordb_pb.js'
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
import { type FilterMessage, filterMessage } from './grpc-filters.ts'
import { attributesFromMessage, attributesMessage, int64Of, valueFromMessage } from './grpc-values.ts'

/** Conversions between the client's types, as `input.ts` has checked them, and protobuf messages. */

export function pointMessage(point: PointToInsert): MessageInitShape<typeof InsertVectorRequestSchema> {
  const { id, onConflict } = point
  return {
    ...storedMessage(point),
    ...(id === undefined ? {} : { id: idMessage(id) }),
    ...(onConflict === undefined ? {} : { onConflict: conflictRules.indexOf(onConflict) }),
  }
}

export function storedMessage({ vector, text, payload }: PointToStore): {
  vector?: MessageInitShape<typeof DenseVectorSchema>
  text?: string
  payload: MessageInitShape<typeof PayloadSchema>
} {
  return {
    ...(vector === undefined ? {} : { vector: vectorMessage(vector) }),
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
    ...(vector === undefined ? {} : { vector: vectorMessage(vector) }),
    ...(text === undefined ? {} : { text }),
  }
}

export function queryMessage(
  query: Query & Partial<DetailedQuery>,
): MessageInitShape<typeof SearchRequestSchema> {
  const { vector, id, text, metric, limit, ef, filter, exact, maxDistance, include, profile } = query
  return {
    ...(vector === undefined ? {} : { queryVector: vectorMessage(vector) }),
    ...(id === undefined ? {} : { nearId: idMessage(id) }),
    ...(text === undefined ? {} : { text }),
    similarity: distanceMetrics.indexOf(metric),
    limit: BigInt(limit),
    ...(ef === undefined ? {} : { ef: BigInt(ef) }),
    ...filterField(filter),
    ...(exact === undefined ? {} : { exact }),
    ...(maxDistance === undefined ? {} : { maxDistance }),
    ...(include === undefined ? {} : { include: includeMessage(include) }),
    ...(profile === undefined ? {} : { profile }),
  }
}

/** In protobuf, all attributes are part of the payload: asking for all of them asks for the payload. */
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
    return { when: { test: { case: 'version', value: BigInt(when.version) } } }
  }
  if ('filter' in when)
    return { when: { test: { case: 'filter', value: filterMessage(when.filter, 'when.filter') } } }
  return { when: { test: { case: 'absent', value: when.absent } } }
}

export function selectionMessage(
  { filter, limit, dryRun = false, everything = false }: Selection,
  patch?: MessageInitShape<typeof PatchSchema>,
): MessageInitShape<typeof ChangeByFilterRequestSchema> {
  return {
    filter: filterMessage(filter),
    ...(limit === undefined ? {} : { limit: BigInt(limit) }),
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

/**
 * A message with all components in one piece. protobuf-es would allocate four bytes for each component, which took most
 * of the time of an import. The components are passed as an unknown field, which protobuf-es writes unchanged.
 */
function vectorMessage(vector: ArrayLike<number>): MessageInitShape<typeof DenseVectorSchema> {
  const floats = vector instanceof Float32Array ? vector : new Float32Array(vector)
  const bytes = new Uint8Array(floats.buffer, floats.byteOffset, floats.byteLength)
  const message = create(DenseVectorSchema)
  const data = new BinaryWriter().bytes(bytes).finish()
  message.$unknown = [{ no: valuesNumber, wireType: WireType.LengthDelimited, data }]
  return message
}

const valuesNumber = DenseVectorSchema.field.values.number

export function idMessage(id: string): MessageInitShape<typeof PointIDSchema> {
  return { id: { value: id } }
}

export function idOf(message: PointID): string {
  return message.id?.value ?? ''
}
