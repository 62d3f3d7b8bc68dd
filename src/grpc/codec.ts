import { pointNotFound } from '../api/get-point.ts'
import type { OperationName } from '../api/operations.ts'
import type { PayloadInput, PointInput, SearchInput } from '../api/validation.ts'
import { DatabaseError } from '../base/errors.ts'
import { type IdLists, IdTexts, idsPerStep, listSteps, type SpellableIds } from '../base/id-lists.ts'
import { idLength } from '../base/ids.ts'
import { contentTypes, type Point } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { Codec } from './codec-types.ts'
import { collectionCodecs } from './collection-codec.ts'
import { allocateMessage } from './frames.ts'
import {
  fieldBytes,
  WireReader,
  wireFixed32,
  wireLength,
  wireVarint,
  writeHead,
  writeVarint,
} from './wire.ts'

/**
 * The messages of proto/vectordb.proto on the wire. Written by hand for the vectors: the floats of a request
 * go from its bytes to a Float32Array in one copy, where a general decoder would create a number for each.
 *
 * As in every protobuf parser, fields come in any order, the last value of a scalar wins, repeated occurrences
 * of a message are merged, and unknown fields are skipped.
 */

export const codecs: { readonly [Name in OperationName]: Codec<Name> } = {
  InsertVector: {
    decode: (bytes) => readPoint(new WireReader(bytes), copiesOf(bytes)),
    encode: encodePointId,
  },
  InsertVectorsBatch: {
    decode: (bytes) => ({ vectors: repeated(bytes, readPoint, copiesOf(bytes)) }),
    encode: (ids) => encodeIds(new IdTexts(ids)),
  },
  DeletePoint: { decode: decodePointId, encode: encodeDeleted },
  GetPoint: { decode: decodePointId, encode: encodePoint },
  SearchPoints: { decode: (bytes) => readQuery(new WireReader(bytes), vectorsOf(bytes)), encode: encodeIds },
  SearchPointsBatch: {
    decode: (bytes) => ({ queries: repeated(bytes, readQuery, vectorsOf(bytes)) }),
    encode: encodeResults,
  },
  ...collectionCodecs,
}

/**
 * The items of a request whose only field is `repeated … = 1`, decoded while they are iterated: an item takes as
 * little as two bytes on the wire and a hundred in memory, so those after a bad one are never created. Yields
 * undefined after many skipped fields without an item.
 */
function* repeated<Item>(
  bytes: Buffer,
  read: (message: WireReader, vectorOf: VectorOf) => Item,
  vectorOf: VectorOf,
): Generator<Item | undefined, void, void> {
  const reader = new WireReader(bytes)
  let skipped = 0
  while (reader.next()) {
    if (reader.is(1, wireLength)) {
      yield read(reader.message(), vectorOf)
      continue
    }
    reader.skip()
    skipped += 1
    if (skipped % skippedPerTurn === 0) yield undefined
  }
}

/** Skipping this many fields takes well under a millisecond. */
const skippedPerTurn = 4096

function readPoint(message: WireReader, vectorOf: VectorOf): PointInput {
  let vector: FloatList | undefined
  let payload: PayloadInput | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) vector = readValues(message.message(), vector ?? new FloatList(vectorOf))
    else if (message.is(2, wireLength)) payload = readPayload(message.message(), payload)
    else message.skip()
  }
  return { vector: vector?.toVector(), payload }
}

/** @param before the fields of an earlier occurrence of the message */
function readPayload(message: WireReader, before: PayloadInput | undefined): PayloadInput {
  let { contentType, content } = before ?? { contentType: 0, content: '' }
  while (message.next()) {
    if (message.is(1, wireVarint)) contentType = message.int32()
    else if (message.is(2, wireLength)) content = message.string()
    else message.skip()
  }
  return { contentType, content }
}

function readQuery(message: WireReader, vectorOf: VectorOf): SearchInput {
  let vector: FloatList | undefined
  let similarity = 0
  let limit: number | bigint = 0
  let ef: number | bigint = 0
  while (message.next()) {
    if (message.is(1, wireLength)) vector = readValues(message.message(), vector ?? new FloatList(vectorOf))
    else if (message.is(2, wireVarint)) similarity = message.int32()
    else if (message.is(3, wireVarint)) limit = message.uint64()
    else if (message.is(4, wireVarint)) ef = message.uint64()
    else message.skip()
  }
  return { vector: vector?.toVector(), similarity, limit, ef }
}

/** `values` of a DenseVector: packed, one by one, or split into any mixture of the two. */
function readValues(message: WireReader, values: FloatList): FloatList {
  while (message.next()) {
    if (message.is(1, wireLength)) values.append(message.packed32())
    else if (message.is(1, wireFixed32)) values.push(message.float())
    else message.skip()
  }
  return values
}

/** Creates a vector from little-endian floats that may begin at any byte of a request. */
type VectorOf = (bytes: Buffer) => Float32Array<ArrayBuffer>

/** For queries: their request is kept until the answer anyway, so vectors use its memory, unless that is shared. */
function vectorsOf(request: Buffer): VectorOf {
  return request.buffer.byteLength <= 2 * request.length ? inPlace : copiesOf(request)
}

/**
 * Moves the floats down to a multiple of four, over the tag and the length that have just been read: the vector uses the
 * request's memory. Copying each vector, 20 MB for a batch of 10,000, would trigger two major GCs in each such batch.
 */
function inPlace(bytes: Buffer): Float32Array<ArrayBuffer> {
  const { byteOffset, length } = bytes
  const buffer = bytes.buffer as ArrayBuffer
  const from = byteOffset - (byteOffset % 4)
  if (from !== byteOffset) new Uint8Array(buffer).copyWithin(from, byteOffset, byteOffset + length)
  return new Float32Array(buffer, from, length / 4)
}

/**
 * Copies the vectors of one request, many into one piece of memory: to allocate and free a piece for each, outside of V8's
 * heap, takes longer than to copy its vector. Used for points too, which outlive their request while they wait for the disk.
 */
function copiesOf(request: Buffer): VectorOf {
  let expected = request.length
  let piece = noValues
  let taken = 0
  return (bytes) => {
    if (bytes.length > piece.byteLength - taken) {
      piece = new Float32Array(Math.max(bytes.length, Math.min(expected, pieceBytes)) >> 2)
      taken = 0
    }
    new Uint8Array(piece.buffer).set(bytes, taken)
    const vector = piece.subarray(taken >> 2, (taken + bytes.length) >> 2)
    taken += bytes.length
    expected -= bytes.length
    return vector
  }
}

const noValues: Float32Array<ArrayBuffer> = new Float32Array(0)

/** The most memory that a vector keeps alive if it outlives the others of its request. */
const pieceBytes = 65_536

/** Collects the values of a vector. Nearly all come in one packed field. */
class FloatList {
  readonly #vectorOf: VectorOf
  #values = noValues
  #length = 0

  constructor(vectorOf: VectorOf) {
    this.#vectorOf = vectorOf
  }

  /** @param bytes little-endian floats */
  append(bytes: Buffer): void {
    if (this.#length === 0) this.#values = this.#vectorOf(bytes)
    else {
      this.#reserve(bytes.length / 4)
      new Uint8Array(this.#values.buffer, this.#values.byteOffset).set(bytes, this.#length * 4)
    }
    this.#length += bytes.length / 4
  }

  push(value: number): void {
    this.#reserve(1)
    this.#values[this.#length] = value
    this.#length += 1
  }

  toVector(): Float32Array {
    return this.#length === this.#values.length ? this.#values : this.#values.slice(0, this.#length)
  }

  #reserve(count: number): void {
    const needed = this.#length + count
    if (needed <= this.#values.length) return
    const grown = new Float32Array(this.#length === 0 ? needed : Math.max(needed, 2 * this.#length))
    grown.set(this.#values)
    this.#values = grown
  }
}

function decodePointId(bytes: Buffer): { id?: string } {
  const message = new WireReader(bytes)
  let id: string | undefined
  while (message.next()) {
    if (message.is(1, wireLength)) id = readUuid(message.message(), id)
    else message.skip()
  }
  return id === undefined ? {} : { id }
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
const pointIdBytes = fieldBytes(uuidBytes)
const pointIdFieldBytes = fieldBytes(pointIdBytes)

function writePointId(target: Buffer, at: number, id: string): number {
  const value = writePointIdHead(target, at)
  return value + target.write(id, value, 'latin1')
}

/** What a PointID has before the characters of its id. */
function writePointIdHead(target: Buffer, at: number): number {
  return writeHead(target, writeHead(target, at, 1, uuidBytes), 1, idLength)
}

function encodePointId(id: string): Buffer {
  const target = allocateMessage(pointIdBytes)
  writePointId(target, 0, id)
  return target
}

/** gRPC tells a missing point from a deleted one; HTTP's DELETE is idempotent. */
function encodeDeleted(found: boolean): Buffer {
  if (!found) throw new DatabaseError('not_found', pointNotFound)
  return allocateMessage(0)
}

/** InsertVectorsBatchResponse and SearchResponse have the same bytes: `repeated PointID = 1`. */
function encodeIds(ids: SpellableIds): Buffer | Promise<Buffer> {
  const target = allocateMessage(ids.total * pointIdFieldBytes)
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

function encodeResults(results: IdLists): Buffer | Promise<Buffer> {
  return inTurns(resultSteps(results))
}

function* resultSteps(results: IdLists): Generator<void, Buffer> {
  const size = results.ends.reduce((sum, _, list) => sum + fieldBytes(listBytes(results, list)), 0)
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

function encodePoint({ id, payload, vector }: Point): Buffer {
  const contentBytes = Buffer.byteLength(payload.content)
  const payloadBytes = 2 + fieldBytes(contentBytes)
  const vectorBytes = fieldBytes(vector.byteLength)
  const target = allocateMessage(pointIdFieldBytes + fieldBytes(payloadBytes) + fieldBytes(vectorBytes))
  let at = writePointId(target, writeHead(target, 0, 1, pointIdBytes), id)
  at = writeHead(target, at, 2, payloadBytes)
  at = writeVarint(target, writeVarint(target, at, 8), contentTypes.indexOf(payload.contentType))
  at = writeHead(target, at, 2, contentBytes)
  at += target.write(payload.content, at)
  at = writeHead(target, writeHead(target, at, 3, vectorBytes), 1, vector.byteLength)
  target.set(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength), at)
  return target
}
