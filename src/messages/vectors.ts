import { idBytes, idFromBytes, writeIdBytes } from '../base/ids.ts'
import { wireFixed32, wireLength } from './fields.ts'
import { type DenseVector, DenseVectorSchema } from './generated/vectordb_pb.js'
import { bytesOf, type Encoded } from './reader.ts'

/**
 * Vectors of messages. The floats become a Float32Array with one copy or none, while a general decoder would create a
 * number for each float.
 */

/** Creates a vector from little-endian floats that may begin at any byte of a message. */
export type VectorOf = (bytes: Buffer) => Float32Array<ArrayBuffer>

/** Reads a vector: packed as nearly always, float by float, or any mixture of the two. */
export function vectorIn(message: Encoded<DenseVector>, vectorOf: VectorOf): Float32Array {
  const reader = message.reader()
  let only = noBytes
  let all: Buffer | undefined
  let length = 0
  while (reader.next()) {
    let part: Buffer
    if (reader.is(valuesNumber, wireLength)) part = reader.packed32()
    else if (reader.is(valuesNumber, wireFixed32)) part = reader.fixed32()
    else {
      reader.skip()
      continue
    }
    if (length === 0) only = part
    else {
      if (all === undefined) {
        all = Buffer.allocUnsafeSlow(bytesOf(message))
        only.copy(all)
      }
      part.copy(all, length)
    }
    length += part.length
  }
  return vectorOf(all?.subarray(0, length) ?? only)
}

const noBytes: Buffer = Buffer.alloc(0)
const valuesNumber = DenseVectorSchema.field.values.number

/**
 * For queries: their request is kept until the answer anyway, so vectors use its memory, unless other data shares it.
 */
export function vectorsOf(request: Buffer): VectorOf {
  return request.buffer.byteLength <= 2 * request.length ? inPlace : copiesOf(request)
}

/**
 * Creates a vector in the request's memory. Moves the floats down to a multiple of four bytes, over the tag and the
 * length that have just been read. Copying each vector, 20 MB for a batch of 10,000, would trigger two major GCs in
 * each such batch.
 */
function inPlace(bytes: Buffer): Float32Array<ArrayBuffer> {
  const { byteOffset, length } = bytes
  const buffer = bytes.buffer as ArrayBuffer
  const from = byteOffset - (byteOffset % 4)
  if (from !== byteOffset) new Uint8Array(buffer).copyWithin(from, byteOffset, byteOffset + length)
  return new Float32Array(buffer, from, length / 4)
}

/**
 * Copies the vectors of one request, many into one block of memory: allocating and freeing a block outside of V8's heap
 * takes longer than copying a vector. Points always need a copy: they outlive their request while they wait for the
 * disk.
 */
export function copiesOf(request: Buffer): VectorOf {
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

/** The maximum memory that a vector keeps alive if it outlives the others of its request. */
const pieceBytes = 65_536

/** For few vectors: copies each into its own memory. */
export function copyOf(bytes: Buffer): Float32Array<ArrayBuffer> {
  return new Float32Array(new Uint8Array(bytes).buffer)
}

/** Lists of ids and of numbers as bytes: 16 an id, 8 a number, little-endian. */

type Steps<Value> = Generator<undefined, Value, void>

/** In steps: there can be many. */
export function* bytesOfIds(ids: readonly string[]): Steps<Buffer> {
  const bytes = Buffer.allocUnsafe(ids.length * idBytes)
  for (const [at, id] of ids.entries()) {
    writeIdBytes(id, bytes, at * idBytes)
    if (at % idsPerStep === 0) yield
  }
  return bytes
}

/** @throws RangeError for a length that no list of ids has */
export function* idsOf(bytes: Uint8Array): Steps<string[]> {
  if (bytes.length % idBytes !== 0) throw new RangeError(`${bytes.length} bytes are not a list of ids`)
  const ids: string[] = []
  for (let at = 0; at < bytes.length; at += idBytes) {
    ids.push(idFromBytes(bytes, at))
    if (ids.length % idsPerStep === 0) yield
  }
  return ids
}

/** This many take about 0.1 ms. */
const idsPerStep = 256

export function bytesOfNumbers(numbers: Float64Array | readonly number[]): Uint8Array {
  const { buffer, byteOffset, byteLength } =
    numbers instanceof Float64Array ? numbers : Float64Array.from(numbers)
  return new Uint8Array(buffer, byteOffset, byteLength)
}

/** A copy: the bytes may not be aligned. @throws RangeError for a length that no list of numbers has */
export function numbersOf(bytes: Uint8Array): Float64Array {
  return new Float64Array(new Uint8Array(bytes).buffer)
}
