import { type WireReader, wireFixed32, wireLength } from './wire.ts'

/**
 * Vectors of requests. The floats of a request become a Float32Array with one copy or none, while a general decoder
 * would create a number for each float.
 */

/** Reads `values` of a DenseVector: packed, one by one, or any mixture of the two. */
export function readValues(message: WireReader, values: FloatList): FloatList {
  while (message.next()) {
    if (message.is(1, wireLength)) values.append(message.packed32())
    else if (message.is(1, wireFixed32)) values.push(message.float())
    else message.skip()
  }
  return values
}

/** Creates a vector from little-endian floats that may begin at any byte of a request. */
export type VectorOf = (bytes: Buffer) => Float32Array<ArrayBuffer>

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

/** Collects the values of a vector. Nearly always they arrive in one packed field. */
export class FloatList {
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
