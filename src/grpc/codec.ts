import type { OperationName, OperationTypes } from '../api/operations.ts'
import type { PayloadInput, PointInput, SearchInput } from '../api/validation.ts'
import { contentTypes, type Point } from '../base/point.ts'
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
 * go from its bytes to a Float32Array in one copy, where a general decoder makes a number of each.
 *
 * As in every protobuf parser, fields come in any order, the last of a scalar wins, repeats of a message
 * merge, and what is unknown is passed over.
 */

export type Decode<Name extends OperationName> = (bytes: Buffer) => OperationTypes[Name]['input']
export type Encode<Name extends OperationName> = (output: OperationTypes[Name]['output']) => Buffer

export const codecs: {
  readonly [Name in OperationName]: { readonly decode: Decode<Name>; readonly encode: Encode<Name> }
} = {
  InsertVector: { decode: (bytes) => readPoint([new WireReader(bytes)]), encode: encodePointId },
  InsertVectorsBatch: {
    decode: (bytes) => ({ vectors: repeated(bytes).map((item) => readPoint([item])) }),
    encode: encodeIds,
  },
  DeletePoint: { decode: decodePointId, encode: () => Buffer.alloc(0) },
  GetPoint: { decode: decodePointId, encode: encodePoint },
  SearchPoints: { decode: (bytes) => readQuery(new WireReader(bytes)), encode: encodeIds },
  SearchPointsBatch: {
    decode: (bytes) => ({ queries: repeated(bytes).map(readQuery) }),
    encode: encodeResults,
  },
}

/** The messages of a request whose only field is `repeated … = 1`. */
function repeated(bytes: Buffer): WireReader[] {
  const reader = new WireReader(bytes)
  const items: WireReader[] = []
  while (reader.next()) {
    if (reader.is(1, wireLength)) items.push(reader.message())
    else reader.skip()
  }
  return items
}

/** @param parts a message's occurrences, to be merged */
function readPoint(parts: readonly WireReader[]): PointInput {
  const vectors: WireReader[] = []
  const payloads: WireReader[] = []
  for (const reader of parts) {
    while (reader.next()) {
      if (reader.is(1, wireLength)) vectors.push(reader.message())
      else if (reader.is(2, wireLength)) payloads.push(reader.message())
      else reader.skip()
    }
  }
  return { vector: readVector(vectors), payload: readPayload(payloads) }
}

function readPayload(parts: readonly WireReader[]): PayloadInput | undefined {
  if (parts.length === 0) return undefined
  let contentType = 0
  let content = ''
  for (const reader of parts) {
    while (reader.next()) {
      if (reader.is(1, wireVarint)) contentType = reader.int32()
      else if (reader.is(2, wireLength)) content = reader.string()
      else reader.skip()
    }
  }
  return { contentType, content }
}

function readQuery(reader: WireReader): SearchInput {
  const vectors: WireReader[] = []
  let similarity = 0
  let limit: number | bigint = 0
  let ef: number | bigint = 0
  while (reader.next()) {
    if (reader.is(1, wireLength)) vectors.push(reader.message())
    else if (reader.is(2, wireVarint)) similarity = reader.int32()
    else if (reader.is(3, wireVarint)) limit = reader.uint64()
    else if (reader.is(4, wireVarint)) ef = reader.uint64()
    else reader.skip()
  }
  return { vector: readVector(vectors), similarity, limit, ef }
}

/**
 * `values` of a DenseVector: packed, one by one, or split into any mixture of the two.
 * The result owns its bytes: a view would keep the whole request alive, and be copied whole to a worker.
 */
function readVector(parts: readonly WireReader[]): Float32Array | undefined {
  if (parts.length === 0) return undefined
  const chunks: Buffer[] = []
  for (const reader of parts) {
    while (reader.next()) {
      if (reader.is(1, wireLength)) chunks.push(reader.packed32())
      else if (reader.is(1, wireFixed32)) chunks.push(reader.fixed32())
      else reader.skip()
    }
  }
  const vector = new Float32Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0) / 4)
  const bytes = new Uint8Array(vector.buffer)
  let at = 0
  for (const chunk of chunks) {
    bytes.set(chunk, at)
    at += chunk.length
  }
  return vector
}

function decodePointId(bytes: Buffer): { id?: string } {
  const reader = new WireReader(bytes)
  const uuids: WireReader[] = []
  while (reader.next()) {
    if (reader.is(1, wireLength)) uuids.push(reader.message())
    else reader.skip()
  }
  let id = ''
  for (const uuid of uuids) {
    while (uuid.next()) {
      if (uuid.is(1, wireLength)) id = uuid.string()
      else uuid.skip()
    }
  }
  return uuids.length === 0 ? {} : { id }
}

/** An id is always 36 ASCII characters: UUID { value = 1 } is 38 bytes, PointID { id = 1 } is 40. */
const uuidBytes = 38
const pointIdBytes = 40
const pointIdFieldBytes = fieldBytes(pointIdBytes)

function writePointId(target: Buffer, at: number, id: string): number {
  const value = writeHead(target, writeHead(target, at, 1, uuidBytes), 1, 36)
  return value + target.write(id, value, 'latin1')
}

function encodePointId(id: string): Buffer {
  const target = Buffer.allocUnsafe(pointIdBytes)
  writePointId(target, 0, id)
  return target
}

function writeIds(target: Buffer, at: number, ids: readonly string[]): number {
  let position = at
  for (const id of ids) position = writePointId(target, writeHead(target, position, 1, pointIdBytes), id)
  return position
}

/** InsertVectorsBatchResponse and SearchResponse have the same bytes: `repeated PointID = 1`. */
function encodeIds(ids: readonly string[]): Buffer {
  const target = Buffer.allocUnsafe(ids.length * pointIdFieldBytes)
  writeIds(target, 0, ids)
  return target
}

function encodeResults(results: readonly (readonly string[])[]): Buffer {
  const size = results.reduce((sum, ids) => sum + fieldBytes(ids.length * pointIdFieldBytes), 0)
  const target = Buffer.allocUnsafe(size)
  let at = 0
  for (const ids of results) {
    at = writeIds(target, writeHead(target, at, 1, ids.length * pointIdFieldBytes), ids)
  }
  return target
}

function encodePoint({ id, payload, vector }: Point): Buffer {
  const contentBytes = Buffer.byteLength(payload.content)
  const payloadBytes = 2 + fieldBytes(contentBytes)
  const vectorBytes = fieldBytes(vector.byteLength)
  const target = Buffer.allocUnsafe(pointIdFieldBytes + fieldBytes(payloadBytes) + fieldBytes(vectorBytes))
  let at = writePointId(target, writeHead(target, 0, 1, pointIdBytes), id)
  at = writeHead(target, at, 2, payloadBytes)
  at = writeVarint(target, writeVarint(target, at, 8), contentTypes.indexOf(payload.contentType))
  at = writeHead(target, at, 2, contentBytes)
  at += target.write(payload.content, at)
  at = writeHead(target, writeHead(target, at, 3, vectorBytes), 1, vector.byteLength)
  target.set(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength), at)
  return target
}
