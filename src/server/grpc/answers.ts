import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import type { AuditPage } from '../../api/audit.ts'
import type { InsertedBatch, ItemError } from '../../api/insert-points.ts'
import type { CreatedKey } from '../../api/inspect-service.ts'
import { type Facets, type FoundPoint, type ListAnswer, pointNotFound } from '../../api/read-points.ts'
import { hasDetails, type SearchAnswer } from '../../api/search-points.ts'
import { answerBytesMax, answerTooLarge } from '../../api/validation.ts'
import type { KeyInfo } from '../../base/api-key.ts'
import type { AnswerRoom } from '../../base/budgets.ts'
import type { CollectionInfo } from '../../base/collection.ts'
import { DatabaseError, reasons } from '../../base/errors.ts'
import { IdTexts, idsPerStep, type SpellableIds } from '../../base/id-lists.ts'
import { idBytes, idFromBytes, idLength } from '../../base/ids.ts'
import type { HitDetails, Include } from '../../base/point.ts'
import type { EvaluatedPoints, Evaluation, MeasuredSetting } from '../../base/relevance.ts'
import { inTurns } from '../../base/turns.ts'
import { filterMessage } from '../../messages/filters.ts'
import * as messages from '../../messages/generated/vectordb_pb.js'
import { detailsMessage } from '../../messages/points.ts'
import { attributesMessage, idMessage, payloadMessage, valueMessage } from '../../messages/values.ts'
import { type Init, MessageWriter } from '../../messages/writer.ts'
import { allocateMessage, headBytes } from './bodies.ts'

/** The answers of all operations as messages; long ones are written in turns. */

export function id(value: string): Buffer {
  return answer(messages.PointIDSchema, idMessage(value), undefined, pointIdBytes - 2)
}

/** In gRPC, deleting a missing point is an error; HTTP's DELETE is idempotent. */
export function deleted(found: boolean): Buffer {
  if (!found) throw new DatabaseError('not_found', pointNotFound)
  return nothing()
}

export function nothing(): Buffer {
  return allocateMessage(0)
}

export function inserted({ ids, errors = [] }: InsertedBatch): Buffer | Promise<Buffer> {
  return inTurns(insertedSteps(ids, errors))
}

function* insertedSteps(
  ids: readonly (string | null)[],
  errors: readonly ItemError[],
): Generator<void, Buffer> {
  const { field } = messages.InsertVectorsBatchResponseSchema
  const writer = new MessageWriter(undefined, ids.length * pointIdBytes)
  for (const { index, error } of errors.toReversed()) {
    writer.item(field.errors, { index, code: reasons[error.reason].grpc, message: error.message })
    yield
  }
  // Without errors, every item has an id.
  if (errors.length === 0) yield* idSteps(writer, new IdTexts(ids as readonly string[]), 0, ids.length)
  else
    for (const [index, each] of [...ids].reverse().entries()) {
      writer.item(field.ids, each === null ? {} : idMessage(each))
      if (index % idsPerTurn === 0) yield
    }
  return framed(writer)
}

const idsPerTurn = 256

/**
 * Encodes the answer to a put or a patch. A patch never creates a point, so its `created` is absent, which means false.
 */
export function written(point: {
  readonly id: string
  readonly version: number
  readonly created?: boolean
}): Buffer {
  return answer(messages.PutPointResponseSchema, { ...point, id: idMessage(point.id) })
}

export function changed(result: { readonly changed: number; readonly more: boolean }): Buffer {
  return answer(messages.ChangeByFilterResponseSchema, result)
}

export function point(found: FoundPoint, room?: AnswerRoom): Buffer {
  return answer(messages.PointSchema, pointMessage(found.id, found, wholePoint), room)
}

const wholePoint: Include = { distance: false, payload: true, vector: true, version: true }

export function list(page: ListAnswer, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(pageSteps(page, room))
}

function* pageSteps(
  { include, page: { points, nextCursor } }: ListAnswer,
  room: AnswerRoom | undefined,
): Generator<void, Buffer> {
  const writer = new MessageWriter(room)
  writer.write(messages.ListResponseSchema, { nextCursor })
  for (const each of points.toReversed()) {
    writer.item(messages.ListResponseSchema.field.points, pointMessage(each.id, each, include))
    checkSize(writer)
    yield
  }
  return framed(writer, room)
}

/** A point, or a hit without its distance. */
function pointMessage(
  value: string,
  { payload, ...others }: HitDetails,
  include: Include,
): Init<messages.Hit> {
  return { ...detailsMessage(others), id: idMessage(value), payload: payloadOf(payload, include) }
}

/** The payload that an answer includes: all of it, or only selected attributes. */
function payloadOf(payload: HitDetails['payload'], include: Include): Init<messages.Payload> | undefined {
  if (include.payload && payload !== undefined) return payloadMessage(payload)
  if (include.attributes === undefined) return undefined
  return { attributes: payload?.attributes && attributesMessage(payload.attributes) }
}

export function count(value: number): Buffer {
  return answer(messages.CountResponseSchema, { count: value })
}

export function evaluated({ curve, best, missing, ...given }: EvaluatedPoints): Buffer {
  return answer(messages.EvaluateResponseSchema, {
    given: evaluationMessage(given),
    curve: curve.map(evaluationMessage),
    best: best && evaluationMessage(best),
    missing,
  })
}

function evaluationMessage(evaluation: MeasuredSetting & Partial<Evaluation>): Init<messages.Evaluation> {
  const { ndcg, recall, mrr, paths, ...same } = evaluation
  return { ...same, paths: paths && new Map(Object.entries(paths)), mean: { ndcg, recall, mrr } }
}

export function facets(values: Facets, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(facetSteps(values, room))
}

function* facetSteps(values: Facets, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const writer = new MessageWriter(room)
  for (const [path, counts] of [...values].reverse()) {
    const items = counts.map(({ value, count }) => ({ value: valueMessage(value), count }))
    writer.item(messages.FacetsResponseSchema.field.facets, { path, counts: items })
    yield
  }
  return framed(writer, room)
}

export function collections(all: readonly CollectionInfo[]): Buffer {
  return answer(messages.ListCollectionsResponseSchema, { collections: all })
}

export function collection(info: CollectionInfo): Buffer {
  return answer(messages.CollectionSchema, info)
}

export function putCollection({
  info,
  created,
}: {
  readonly info: CollectionInfo
  readonly created: boolean
}): Buffer {
  return answer(messages.PutCollectionResponseSchema, { collection: info, created })
}

export function aliases(all: ReadonlyMap<string, string>): Buffer {
  return answer(messages.SetAliasesResponseSchema, { aliases: all })
}

export function audit({ records, nextCursor }: AuditPage): Buffer {
  return answer(messages.ListAuditResponseSchema, {
    records: records.map(({ time, ...record }) => ({ ...record, timeUs: Date.parse(time) * 1000 })),
    nextCursor,
  })
}

export function createdKey({ key, ...info }: CreatedKey): Buffer {
  return answer(messages.CreateKeyResponseSchema, { info: keyMessage(info), key })
}

export function keys(all: readonly KeyInfo[]): Buffer {
  return answer(messages.ListKeysResponseSchema, { keys: all.map(keyMessage) })
}

function keyMessage({ filter, expiresAtMs, ...key }: KeyInfo): Init<messages.KeyInfo> {
  return {
    ...key,
    filter: filter && filterMessage(filter),
    expiresAtUs: expiresAtMs === undefined ? undefined : expiresAtMs * 1000,
  }
}

export function search(found: SearchAnswer, room?: AnswerRoom): Buffer | Promise<Buffer> {
  const { ids } = found.results
  const writer = new MessageWriter(room, ids.total * pointIdBytes)
  if (hasDetails(found) || ids.total > idsPerStep) return inTurns(searchSteps(writer, found, room))
  writeIds(writer, ids, 0, ids.total)
  return framed(writer, room)
}

function* searchSteps(
  writer: MessageWriter,
  found: SearchAnswer,
  room: AnswerRoom | undefined,
): Generator<void, Buffer> {
  yield* responseSteps(writer, found, 0)
  return framed(writer, room)
}

export function searches(found: SearchAnswer, room?: AnswerRoom): Buffer | Promise<Buffer> {
  return inTurns(searchesSteps(found, room))
}

function* searchesSteps(found: SearchAnswer, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const { ids } = found.results
  const writer = new MessageWriter(room, ids.total * pointIdBytes + ids.length * headBytesMax)
  let written = 0
  for (let query = found.queries.length - 1; query >= 0; query -= 1) {
    const end = writer.length
    yield* responseSteps(writer, found, query)
    writer.head(messages.SearchPointsBatchResponseSchema.field.results.number, end)
    written += 1 + ids.lengthOf(query)
    if (written < idsPerStep) continue
    written = 0
    yield
  }
  return framed(writer, room)
}

/** The most bytes of a tag and a length. */
const headBytesMax = 6

/** Writes the fields of a SearchResponse. */
function* responseSteps(
  writer: MessageWriter,
  { queries, results }: SearchAnswer,
  query: number,
): Generator<void, void> {
  const { ids, distances, details, profiles, nextCursors, groups } = results
  const { include, profile } = queries[query]!
  const nextCursor = nextCursors?.[query]
  for (const { value, count } of groups?.[query]?.toReversed() ?? []) {
    writer.item(messages.SearchResponseSchema.field.groups, { value: valueMessage(value), count })
  }
  if (nextCursor !== undefined) writer.write(messages.SearchResponseSchema, { nextCursor })
  if (profile === true) writer.write(messages.SearchResponseSchema, { profile: profiles[query] })
  const [start, end] = [ids.startOf(query), ids.endOf(query)]
  for (let number = end - 1; include !== undefined && number >= start; number -= 1) {
    const found = details[query]?.[number - start] ?? {}
    const hit = pointMessage(idFromBytes(ids.bytes, number * idBytes), found, include)
    const distance = include.distance ? distances[number]! : undefined
    writer.item(messages.SearchResponseSchema.field.hits, { ...hit, distance })
    checkSize(writer)
    yield
  }
  yield* idSteps(writer, ids, start, end)
}

/**
 * Writes the ids [start, end). InsertVectorsBatchResponse and SearchResponse have the same bytes: `repeated PointID = 1`.
 * An answer of 490,000 ids would be as many objects for the general way.
 */
function* idSteps(
  writer: MessageWriter,
  ids: SpellableIds,
  start: number,
  end: number,
): Generator<void, void> {
  for (let last = end; last > start; ) {
    const first = Math.max(start, last - idsPerStep)
    writeIds(writer, ids, first, last)
    last = first
    if (last > start) yield
  }
}

function writeIds(writer: MessageWriter, ids: SpellableIds, first: number, last: number): void {
  const [target, from] = writer.reserve((last - first) * pointIdBytes)
  for (let number = first, at = from; number < last; number += 1, at += pointIdBytes) {
    // The heads of PointID, UUID and text. An id is always 36 ASCII characters.
    target[at] = target[at + 2] = target[at + 4] = 0x0a
    target[at + 1] = idLength + 4
    target[at + 3] = idLength + 2
    target[at + 5] = idLength
    ids.spell(number, target, at + 6)
  }
}

const pointIdBytes = 6 + idLength

function answer<Schema extends DescMessage>(
  schema: Schema,
  message: Init<MessageShape<Schema>>,
  room?: AnswerRoom,
  expectedBytes?: number,
): Buffer {
  const writer = new MessageWriter(room, expectedBytes)
  writer.write(schema, message)
  return framed(writer, room)
}

/** Returns the writer's bytes as an answer, in place if they nearly fill its memory. @param room counts a copy */
function framed(writer: MessageWriter, room?: AnswerRoom): Buffer {
  checkSize(writer)
  const bytes = writer.finish()
  if (writer.spareBytes <= headBytes + bytes.length / 16) return bytes
  room?.add(bytes.length)
  const target = allocateMessage(bytes.length)
  bytes.copy(target)
  return target
}

/** @throws DatabaseError `invalid_argument` for an answer that has become too large */
function checkSize(writer: MessageWriter): void {
  if (writer.length > answerBytesMax) throw answerTooLarge()
}
