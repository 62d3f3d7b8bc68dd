import { BLOCK, BLOCK_HEADER_BYTES, HEADER_CODE_BITS, HEADER_DOC_BITS } from '../kernels/words-format.ts'
import { ByteReader } from './byte-writer.ts'

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
    if (count > this.documents.length) {
      this.documents = new Uint32Array(2 * count)
      this.codes = new Uint32Array(2 * count)
    }
    const blocks = Math.floor(count / BLOCK)
    let tail = offset
    if (blocks > 0) {
      let data = offset + 4 + blocks * BLOCK_HEADER_BYTES
      for (let block = 0; block < blocks; block += 1) {
        const header = offset + 4 + block * BLOCK_HEADER_BYTES
        const docBits = this.#bytes[header + HEADER_DOC_BITS]!
        const codeBits = this.#bytes[header + HEADER_CODE_BITS]!
        this.#unpack(data, docBits, this.documents, block * BLOCK)
        this.#unpack(data + 16 * docBits, codeBits, this.codes, block * BLOCK)
        data += 16 * (docBits + codeBits)
      }
      tail = data
    }
    if (blocks * BLOCK < count) this.#readTail(tail, blocks * BLOCK, count)
    for (let index = 1; index < count; index += 1) this.documents[index]! += this.documents[index - 1]! + 1
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
