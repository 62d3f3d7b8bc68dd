import {
  BLOCK,
  BLOCK_HEADER_BYTES,
  HEADER_CODE_BITS,
  HEADER_DOC_BITS,
  HEADER_LAST,
  HEADER_MAXIMUM,
  MAXIMUM_STEPS,
} from '../kernels/words-format.ts'
import type { Norms } from './bm25.ts'
import { ByteReader, type ByteWriter } from './byte-writer.ts'

/** Writes lists of postings; src/kernels/assembly/postings.ts describes and reads them. */
export class PostingsWriter {
  readonly #out: ByteWriter
  readonly #frequencies: Float64Array
  readonly #lengths: Float32Array
  readonly #norms: Norms
  readonly #values: Uint32Array = new Uint32Array(BLOCK)
  readonly #packed: Uint32Array = new Uint32Array(BLOCK)

  /** @param frequencies weighted, by code. @param lengths weighted, by document */
  constructor(out: ByteWriter, frequencies: Float64Array, lengths: Float32Array, norms: Norms) {
    this.#out = out
    this.#frequencies = frequencies
    this.#lengths = lengths
    this.#norms = norms
  }

  /** Writes the first `count` documents, which ascend, and their codes. */
  write(documents: Uint32Array, codes: Uint32Array, count: number): void {
    const start = this.#out.length
    const blocks = Math.floor(count / BLOCK)
    if (blocks > 0) {
      const headers = this.#out.skip(4 + blocks * BLOCK_HEADER_BYTES) + 4
      for (let block = 0; block < blocks; block += 1) {
        this.#writeBlock(headers + block * BLOCK_HEADER_BYTES, documents, codes, block * BLOCK)
      }
      this.#out.setWord(start, this.#out.length - start)
    }
    const first = blocks * BLOCK
    if (first < count) this.#writeTail(documents, codes, first, count)
  }

  #writeBlock(header: number, documents: Uint32Array, codes: Uint32Array, from: number): void {
    const out = this.#out
    const values = this.#values
    for (let index = 0; index < BLOCK; index += 1) values[index] = gapBefore(documents, from + index)
    out.setByte(header + HEADER_DOC_BITS, this.#pack())
    values.set(codes.subarray(from, from + BLOCK))
    out.setByte(header + HEADER_CODE_BITS, this.#pack())
    out.setWord(header + HEADER_LAST, documents[from + BLOCK - 1]!)
    out.setByte(header + HEADER_MAXIMUM, this.#maximum(documents, codes, from, from + BLOCK))
  }

  /** Packs the values with the bits that the greatest needs. Returns how many. */
  #pack(): number {
    const values = this.#values
    const packed = this.#packed
    let all = 0
    for (let index = 0; index < BLOCK; index += 1) all |= values[index]!
    const bits = 32 - Math.clz32(all)
    packed.fill(0, 0, 4 * bits)
    for (let index = 0; index < BLOCK; index += 1) {
      const bit = (index >> 2) * bits
      const word = 4 * (bit >> 5) + (index & 3)
      const shift = bit & 31
      packed[word]! |= values[index]! << shift
      if (shift + bits > 32) packed[word + 4]! |= values[index]! >>> (32 - shift)
    }
    for (let word = 0; word < 4 * bits; word += 1) this.#out.word(packed[word]!)
    return bits
  }

  #writeTail(documents: Uint32Array, codes: Uint32Array, from: number, to: number): void {
    this.#out.byte(this.#maximum(documents, codes, from, to))
    for (let index = from; index < to; index += 1) {
      const code = codes[index]!
      this.#out.integer(gapBefore(documents, index) * 2 + (code > 0 ? 1 : 0))
      if (code > 0) this.#out.integer(code)
    }
  }

  /** Returns the greatest saturation of some postings, in steps, rounded up. */
  #maximum(documents: Uint32Array, codes: Uint32Array, from: number, to: number): number {
    const { base, slope } = this.#norms
    let maximum = 0
    for (let index = from; index < to; index += 1) {
      const frequency = this.#frequencies[codes[index]!]!
      const norm = base + slope * this.#lengths[documents[index]!]!
      maximum = Math.max(maximum, frequency / (frequency + norm))
    }
    return Math.min(MAXIMUM_STEPS, Math.ceil(maximum * MAXIMUM_STEPS + 1e-9))
  }
}

/** A whole number of blocks, which takes about a millisecond. */
const postingsPerStep = 256 * BLOCK

/** The number of documents between a posting and the one before. */
function gapBefore(documents: Uint32Array, index: number): number {
  return index === 0 ? documents[0]! : documents[index]! - documents[index - 1]! - 1
}

/** Reads whole lists of postings, as merging and phrases need them; the kernel reads them for searches. */
export class PostingsReader {
  readonly #bytes: Uint8Array
  documents: Uint32Array = new Uint32Array(BLOCK)
  codes: Uint32Array = new Uint32Array(BLOCK)

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** Reads the list of `count` postings at an offset into `documents` and `codes`. */
  read(offset: number, count: number): void {
    for (const _ of this.readInSteps(offset, count, count));
  }

  /** Like `read`, in steps. Yields how many postings there are after each. */
  *readInSteps(offset: number, count: number, perStep: number = postingsPerStep): Generator<number, void> {
    if (count > this.documents.length) {
      this.documents = new Uint32Array(2 * count)
      this.codes = new Uint32Array(2 * count)
    }
    const blocks = Math.floor(count / BLOCK)
    let data = blocks === 0 ? offset : offset + 4 + blocks * BLOCK_HEADER_BYTES
    for (let start = 0; start < count; ) {
      const end = Math.min(count, start + Math.max(BLOCK, perStep))
      for (let block = start / BLOCK; block < Math.floor(end / BLOCK); block += 1) {
        const header = offset + 4 + block * BLOCK_HEADER_BYTES
        const docBits = this.#bytes[header + HEADER_DOC_BITS]!
        const codeBits = this.#bytes[header + HEADER_CODE_BITS]!
        this.#unpack(data, docBits, this.documents, block * BLOCK)
        this.#unpack(data + 16 * docBits, codeBits, this.codes, block * BLOCK)
        data += 16 * (docBits + codeBits)
      }
      if (end === count && blocks * BLOCK < count) this.#readTail(data, blocks * BLOCK, count)
      for (let index = Math.max(1, start); index < end; index += 1)
        this.documents[index]! += this.documents[index - 1]! + 1
      start = end
      yield end
    }
  }

  #unpack(data: number, bits: number, out: Uint32Array, from: number): void {
    if (bits === 0) {
      out.fill(0, from, from + BLOCK)
      return
    }
    const mask = 2 ** bits - 1
    for (let index = 0; index < BLOCK; index += 1) {
      const bit = (index >> 2) * bits
      const word = data + 16 * (bit >> 5) + 4 * (index & 3)
      const shift = bit & 31
      let value = this.#word(word) >>> shift
      if (shift + bits > 32) value |= this.#word(word + 16) << (32 - shift)
      out[from + index] = value & mask
    }
  }

  #word(at: number): number {
    const bytes = this.#bytes
    return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
  }

  #readTail(offset: number, from: number, to: number): void {
    const reader = new ByteReader(this.#bytes, offset + 1)
    for (let index = from; index < to; index += 1) {
      const value = reader.integer()
      this.documents[index] = Math.floor(value / 2)
      this.codes[index] = value % 2 === 1 ? reader.integer() : 0
    }
  }
}
