import type { FoundPoint } from '../../api/get-point.ts'
import type { InsertedBatch, ItemError } from '../../api/insert-vectors-batch.ts'
import type { ListAnswer } from '../../api/list-points.ts'
import { hasDetails, type SearchAnswer } from '../../api/search-answer.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'
import { reasons } from '../../base/errors.ts'
import { IdTexts } from '../../base/id-lists.ts'
import { idBytes, idFromBytes } from '../../base/ids.ts'
import { contentTypes, type Include } from '../../base/point.ts'
import type { Profile } from '../../base/profile.ts'
import type { HitDetails } from '../../base/search-results.ts'
import { inTurns } from '../../base/turns.ts'
import { BackwardWriter } from './backward-writer.ts'
import { allocateMessage } from './frames.ts'
import { encodeIds, encodeResults, pointIdBytes, pointIdFieldBytes, writePointId } from './id-codec.ts'
import { checkSize, messageOf } from './messages.ts'
import { writeAttributes, writePayload } from './payload-codec.ts'
import { fieldBytes, writeHead, writeVarint } from './wire.ts'

/**
 * Answers with points or parts of points. Answers with only ids, or with one point without extras, are written forwards
 * into a buffer of the right size. All others are written backwards.
 */

export function encodePoint(point: FoundPoint, room?: AnswerRoom): Buffer {
  const { id, payload, version } = point
  if (version === undefined && payload.attributes === undefined && payload.expiresAtUs === undefined) {
    return encodePlainPoint(point, room)
  }
  const writer = new BackwardWriter(room)
  writePoint(writer, id, point, wholePoint)
  return messageOf(writer, room)
}

const wholePoint: Include = { distance: false, payload: true, vector: true, version: true }

function encodePlainPoint({ id, payload, vector }: FoundPoint, room: AnswerRoom | undefined): Buffer {
  const contentBytes = Buffer.byteLength(payload.content)
  const payloadBytes = 2 + fieldBytes(contentBytes)
  const vectorBytes = fieldBytes(vector.byteLength)
  const bytes = pointIdFieldBytes + fieldBytes(payloadBytes) + fieldBytes(vectorBytes)
  room?.add(bytes)
  const target = allocateMessage(bytes)
  let at = writePointId(target, writeHead(target, 0, 1, pointIdBytes), id)
  at = writeHead(target, at, 2, payloadBytes)
  at = writeVarint(target, writeVarint(target, at, 8), contentTypes.indexOf(payload.contentType))
  at = writeHead(target, at, 2, contentBytes)
  at += target.write(payload.content, at)
  at = writeHead(target, writeHead(target, at, 3, vectorBytes), 1, vector.byteLength)
  target.set(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength), at)
  return target
}

/** Writes the fields of a Point: id 1, payload 2, vector 3, version 4. */
function writePoint(writer: BackwardWriter, id: string, details: HitDetails, include: Include): void {
  if (include.version && details.version !== undefined) writer.uint64(4, BigInt(details.version))
  writeVector(writer, 3, details, include)
  writePayloadField(writer, 2, details, include)
  writer.pointId(1, id)
}

function writeVector(writer: BackwardWriter, field: number, { vector }: HitDetails, include: Include): void {
  if (!include.vector || vector === undefined) return
  const end = writer.length
  writer.bytes(1, new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength))
  writer.head(field, end)
}

function writePayloadField(
  writer: BackwardWriter,
  field: number,
  { payload }: HitDetails,
  include: Include,
): void {
  const end = writer.length
  if (include.payload && payload !== undefined) writePayload(writer, payload)
  else if (include.attributes === undefined) return
  else if (payload?.attributes !== undefined) writeAttributes(writer, payload.attributes)
  writer.head(field, end)
}

export function encodeSearch(answer: SearchAnswer, room?: AnswerRoom): Buffer | Promise<Buffer> {
  return hasDetails(answer) ? inTurns(searchSteps(answer, room)) : encodeIds(answer.results.ids, room)
}

export function encodeSearches(answer: SearchAnswer, room?: AnswerRoom): Buffer | Promise<Buffer> {
  const { ids } = answer.results
  return hasDetails(answer) ? inTurns(searchesSteps(answer, room)) : encodeResults(ids, room)
}

function* searchSteps(answer: SearchAnswer, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const writer = new BackwardWriter(room)
  yield* responseSteps(writer, answer, 0)
  return messageOf(writer, room)
}

function* searchesSteps(answer: SearchAnswer, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const writer = new BackwardWriter(room)
  for (let query = answer.queries.length - 1; query >= 0; query -= 1) {
    const end = writer.length
    yield* responseSteps(writer, answer, query)
    writer.head(1, end)
  }
  return messageOf(writer, room)
}

/** Writes the fields of a SearchResponse: ids 1, hits 2, profile 3. */
function* responseSteps(
  writer: BackwardWriter,
  { queries, results }: SearchAnswer,
  query: number,
): Generator<void, void> {
  const { ids, distances, details, profiles } = results
  const { include, profile } = queries[query]!
  if (profile === true && profiles[query] !== undefined) writeProfile(writer, profiles[query])
  const start = ids.startOf(query)
  for (let number = ids.endOf(query) - 1; include !== undefined && number >= start; number -= 1) {
    const found = details[query]?.[number - start] ?? {}
    const distance = include.distance ? distances[number]! : undefined
    writeHit(writer, idFromBytes(ids.bytes, number * idBytes), distance, found, include)
    checkSize(writer)
    yield
  }
  for (let number = ids.endOf(query) - 1; number >= start; number -= 1) {
    writer.pointId(1, idFromBytes(ids.bytes, number * idBytes))
    if (number % idsPerTurn === 0) yield
  }
}

const idsPerTurn = 256

/** Writes a field of Hit: id 1, distance 2, payload 3, vector 4, version 5. */
function writeHit(
  writer: BackwardWriter,
  id: string,
  distance: number | undefined,
  details: HitDetails,
  include: Include,
): void {
  const end = writer.length
  if (include.version && details.version !== undefined) writer.uint64(5, BigInt(details.version))
  writeVector(writer, 4, details, include)
  writePayloadField(writer, 3, details, include)
  if (distance !== undefined) writer.double(2, distance)
  writer.pointId(1, id)
  writer.head(2, end)
}

function writeProfile(writer: BackwardWriter, profile: Profile): void {
  const end = writer.length
  if (profile.recallEstimate !== undefined) writer.double(12, profile.recallEstimate)
  writer.number(11, profile.searchUs)
  writer.number(10, profile.queueUs)
  writer.number(9, profile.filterUs)
  writer.number(8, profile.efMultiplier)
  writer.number(7, profile.ef)
  writer.number(6, profile.measured)
  writer.number(5, profile.compared)
  writer.number(4, profile.matching)
  writer.number(3, profile.points)
  writer.text(2, profile.reason)
  writer.text(1, profile.plan)
  writer.head(3, end)
}

export function encodeList(answer: ListAnswer, room?: AnswerRoom): Promise<Buffer> | Buffer {
  return inTurns(listSteps(answer, room))
}

function* listSteps({ include, page }: ListAnswer, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const writer = new BackwardWriter(room)
  if (page.nextCursor !== undefined) writer.text(2, page.nextCursor)
  for (const point of page.points.toReversed()) {
    const end = writer.length
    writePoint(writer, point.id, point, include)
    writer.head(1, end)
    checkSize(writer)
    yield
  }
  return messageOf(writer, room)
}

export function encodeInserted({ ids, errors }: InsertedBatch): Buffer | Promise<Buffer> {
  if (errors === undefined || errors.length === 0) {
    // Without errors, every item has an id.
    return encodeIds(new IdTexts(ids as readonly string[]))
  }
  return inTurns(insertedSteps(ids, errors))
}

function* insertedSteps(
  ids: readonly (string | null)[],
  errors: readonly ItemError[],
): Generator<void, Buffer> {
  const writer = new BackwardWriter()
  for (const { index, error } of errors.toReversed()) {
    const end = writer.length
    writer.text(3, error.message)
    writer.number(2, reasons[error.reason].grpc)
    writer.number(1, index)
    writer.head(2, end)
    yield
  }
  for (const [index, id] of [...ids].reverse().entries()) {
    if (id === null) writer.head(1, writer.length)
    else writer.pointId(1, id)
    if (index % idsPerTurn === 0) yield
  }
  return messageOf(writer)
}
