import { pointNotFound } from '../../api/get-point.ts'
import type { AnswerRoom } from '../../base/byte-budget.ts'
import { DatabaseError } from '../../base/errors.ts'
import { type IdLists, idsPerStep, listSteps, type SpellableIds } from '../../base/id-lists.ts'
import { idLength } from '../../base/ids.ts'
import { inTurns } from '../../base/turns.ts'
import { allocateMessage } from './frames.ts'
import { fieldBytes, WireReader, wireLength, writeHead } from './wire.ts'

/** PointID on the wire, and the answers with only ids, which are written directly into a buffer of the right size. */

export function decodePointId(bytes: Buffer): { id?: string } {
  const id = readPointId(new WireReader(bytes), undefined)
  return id === undefined ? {} : { id }
}

/** Reads a PointID that is a field of a message. If it has no value, its id is empty, not absent. */
export function readNestedId(message: WireReader, before: string | undefined): string {
  return readPointId(message, before) ?? ''
}

/** @param before the id of an earlier occurrence of the message */
function readPointId(message: WireReader, before: string | undefined): string | undefined {
  let id = before
  while (message.next()) {
    if (message.is(1, wireLength)) id = readUuid(message.message(), id)
    else message.skip()
  }
  return id
}

function readUuid(message: WireReader, before: string | undefined): string {
  let value = before ?? ''
  while (message.next()) {
    if (message.is(1, wireLength)) value = message.string()
    else message.skip()
  }
  return value
}

/** An id is always 36 ASCII characters: UUID { value = 1 } is 38 bytes, PointID { id = 1 } is 40. */
const uuidBytes = fieldBytes(idLength)
export const pointIdBytes: number = fieldBytes(uuidBytes)
export const pointIdFieldBytes: number = fieldBytes(pointIdBytes)

export function writePointId(target: Buffer, at: number, id: string): number {
  const value = writePointIdHead(target, at)
  return value + target.write(id, value, 'latin1')
}

/** Writes the part of a PointID that precedes the characters of its id. */
function writePointIdHead(target: Buffer, at: number): number {
  return writeHead(target, writeHead(target, at, 1, uuidBytes), 1, idLength)
}

export function encodePointId(id: string): Buffer {
  const target = allocateMessage(pointIdBytes)
  writePointId(target, 0, id)
  return target
}

/** In gRPC, deleting a missing point is an error; HTTP's DELETE is idempotent. */
export function encodeDeleted(found: boolean): Buffer {
  if (!found) throw new DatabaseError('not_found', pointNotFound)
  return allocateMessage(0)
}

/** InsertVectorsBatchResponse and SearchResponse have the same bytes: `repeated PointID = 1`. @param room counts the answer */
export function encodeIds(ids: SpellableIds, room?: AnswerRoom): Buffer | Promise<Buffer> {
  const bytes = ids.total * pointIdFieldBytes
  room?.add(bytes)
  const target = allocateMessage(bytes)
  if (ids.total > idsPerStep) return inTurns(idSteps(target, ids))
  writeIds(target, 0, ids, 0, ids.total)
  return target
}

function* idSteps(target: Buffer, ids: SpellableIds): Generator<void, Buffer> {
  let at = 0
  yield* listSteps([ids.total], {
    ids(first, end) {
      at = writeIds(target, at, ids, first, end)
    },
  })
  return target
}

export function encodeResults(results: IdLists, room?: AnswerRoom): Buffer | Promise<Buffer> {
  return inTurns(resultSteps(results, room))
}

function* resultSteps(results: IdLists, room: AnswerRoom | undefined): Generator<void, Buffer> {
  const size = results.ends.reduce((sum, _, list) => sum + fieldBytes(listBytes(results, list)), 0)
  room?.add(size)
  const target = allocateMessage(size)
  let at = 0
  yield* listSteps(results.ends, {
    begin(list) {
      at = writeHead(target, at, 1, listBytes(results, list))
    },
    ids(first, end) {
      at = writeIds(target, at, results, first, end)
    },
  })
  return target
}

function listBytes(results: IdLists, list: number): number {
  return results.lengthOf(list) * pointIdFieldBytes
}

/** Writes the ids [first, end) as fields of PointID; returns the position after them. */
function writeIds(target: Buffer, at: number, ids: SpellableIds, first: number, end: number): number {
  let position = at
  for (let number = first; number < end; number += 1) {
    const value = writePointIdHead(target, writeHead(target, position, 1, pointIdBytes))
    ids.spell(number, target, value)
    position = value + idLength
  }
  return position
}
