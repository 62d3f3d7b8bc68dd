import { DatabaseError } from '../../base/errors.ts'

/**
 * The parts of the protobuf wire format (protobuf.dev/programming-guides/encoding) that our messages need:
 * a reader that never reads beyond its bytes, and sizes and writers for the few field types in our answers.
 */

export const wireVarint = 0
export const wireFixed64 = 1
export const wireLength = 2
const wireGroupStart = 3
const wireGroupEnd = 4
export const wireFixed32 = 5

/** Unknown groups may nest; this is deeper than any real message. */
const groupDepthMax = 64

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Reads the fields of one message. Fails with `invalid_argument` for malformed bytes. */
export class WireReader {
  readonly #bytes: Buffer
  #at: number
  #end: number
  /** Field number and wire type of the last tag that `next` read. */
  field = 0
  type = 0

  constructor(bytes: Buffer, start = 0, end: number = bytes.length) {
    this.#bytes = bytes
    this.#at = start
    this.#end = end
  }

  /** Reads the next tag; false at the end of the message. */
  next(): boolean {
    if (this.#at >= this.#end) return false
    const tag = this.#tag()
    this.field = tag >>> 3
    this.type = tag & 7
    if (this.field === 0) throw this.#malformed('field number 0')
    return true
  }

  /** Number of bytes that are not read yet. */
  get bytesLeft(): number {
    return this.#end - this.#at
  }

  /** Whether the tag has this field number and wire type. A known field with another wire type counts as unknown. */
  is(field: number, type: number): boolean {
    return this.field === field && this.type === type
  }

  /** Returns a reader of a nested message. */
  message(): WireReader {
    const [start, end] = this.#span()
    return new WireReader(this.#bytes, start, end)
  }

  /** Returns the bytes of a length-delimited field, as a view. */
  view(): Buffer {
    const [start, end] = this.#span()
    return this.#bytes.subarray(start, end)
  }

  string(): string {
    const offset = this.#at
    try {
      return utf8.decode(this.view())
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      throw malformed(`the string at byte ${offset} is not UTF-8`)
    }
  }

  /** Reads an int32 or enum: the low 32 bits of the varint, as in every protobuf parser. */
  int32(): number {
    return Number(BigInt.asIntN(32, BigInt(this.#varint())))
  }

  bool(): boolean {
    return BigInt(this.#varint()) !== 0n
  }

  /** Returns a bigint only if a number would lose digits. */
  int64(): number | bigint {
    const value = BigInt.asIntN(64, BigInt(this.#varint()))
    const number = Number(value)
    return Number.isSafeInteger(number) ? number : value
  }

  /** Returns a bigint only if a number would lose digits. */
  uint64(): number | bigint {
    const value = this.#varint()
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value
  }

  /** Returns the bytes of packed 32-bit values; checks that they are a whole number of values. */
  packed32(): Buffer {
    const bytes = this.view()
    if (bytes.length % 4 !== 0) throw this.#malformed(`${bytes.length} bytes of packed floats`)
    return bytes
  }

  float(): number {
    return this.#bytes.readFloatLE(this.#take(4))
  }

  double(): number {
    return this.#bytes.readDoubleLE(this.#take(8))
  }

  /** Skips the field whose tag was just read. */
  skip(depth = 0): void {
    if (this.type === wireVarint) this.#varint()
    else if (this.type === wireFixed64) this.#take(8)
    else if (this.type === wireLength) this.#span()
    else if (this.type === wireFixed32) this.#take(4)
    else if (this.type === wireGroupStart) this.#skipGroup(this.field, depth)
    else throw this.#malformed(`wire type ${this.type}`)
  }

  #skipGroup(field: number, depth: number): void {
    if (depth >= groupDepthMax) throw this.#malformed(`groups nested deeper than ${groupDepthMax}`)
    while (this.next()) {
      if (this.type !== wireGroupEnd) {
        this.skip(depth + 1)
        continue
      }
      if (this.field !== field) throw this.#malformed('the end of another group')
      return
    }
    throw this.#malformed('a group without its end')
  }

  #span(): [number, number] {
    const length = this.#varint()
    if (length > this.#end - this.#at) {
      throw this.#malformed(`a length of ${length} with ${this.#end - this.#at} bytes left`)
    }
    const start = this.#take(Number(length))
    return [start, this.#at]
  }

  #take(length: number): number {
    if (this.#at + length > this.#end) throw this.#malformed('the end of the message inside a field')
    this.#at += length
    return this.#at - length
  }

  #tag(): number {
    const tag = this.#varint()
    if (tag > 0xffffffff) throw this.#malformed('a tag beyond 32 bits')
    return Number(tag)
  }

  /** Reads a varint. Nearly all varints are below 2^28 and need no bigint. */
  #varint(): number | bigint {
    let low = 0
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#bytes[this.#take(1)]!
      low |= (byte & 0x7f) << shift
      if (byte < 0x80) return low
    }
    return this.#longVarint(BigInt(low))
  }

  /** The rest of a varint whose first four bytes were decoded to `low`; bits beyond the 64th are dropped. */
  #longVarint(low: bigint): bigint {
    let value = low
    for (let shift = 28n; shift < 70n; shift += 7n) {
      const byte = this.#bytes[this.#take(1)]!
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asUintN(64, value)
    }
    throw this.#malformed('a varint longer than 10 bytes')
  }

  #malformed(what: string): DatabaseError {
    return malformed(`${what} at byte ${this.#at}`)
  }
}

function malformed(what: string): DatabaseError {
  return new DatabaseError('invalid_argument', `malformed protobuf: ${what}`)
}

/** The size of a varint; `value` is a whole number below 2^32. */
export function varintBytes(value: number): number {
  let bytes = 1
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) bytes += 1
  return bytes
}

/** Writes a varint at `at`; returns the position after it. */
export function writeVarint(target: Buffer, at: number, value: number): number {
  let rest = value
  let position = at
  for (; rest >= 128; rest = Math.floor(rest / 128)) {
    target[position] = (rest % 128) | 0x80
    position += 1
  }
  target[position] = rest
  return position + 1
}

/** Writes the tag and length of a length-delimited field; returns the position after them. */
export function writeHead(target: Buffer, at: number, field: number, length: number): number {
  return writeVarint(target, writeVarint(target, at, field * 8 + wireLength), length)
}

/** The size of a length-delimited field with its tag and length; field numbers are below 16. */
export function fieldBytes(length: number): number {
  return 1 + varintBytes(length) + length
}
