import { wireFixed64, wireLength, wireVarint } from './wire.ts'

/**
 * Writes a message from its end to its beginning. The length of a nested message stands before it, and this way it is known
 * when it is written. Fields are below 16.
 */
export class BackwardWriter {
  #bytes = Buffer.allocUnsafe(256)
  #start = this.#bytes.length

  /** Bytes written so far. */
  get length(): number {
    return this.#bytes.length - this.#start
  }

  text(field: number, text: string): void {
    const end = this.length
    const bytes = Buffer.byteLength(text)
    this.#bytes.write(text, this.#take(bytes))
    this.head(field, end)
  }

  double(field: number, value: number): void {
    this.#bytes.writeDoubleLE(value, this.#take(8))
    this.#tag(field, wireFixed64)
  }

  uint64(field: number, value: bigint): void {
    this.#varint(value)
    this.#tag(field, wireVarint)
  }

  /**
   * The tag and the length of a field, before its content.
   *
   * @param end the writer's length before the content was written
   */
  head(field: number, end: number): void {
    this.#varint(BigInt(this.length - end))
    this.#tag(field, wireLength)
  }

  finish(): Buffer {
    return this.#bytes.subarray(this.#start)
  }

  #tag(field: number, type: number): void {
    const at = this.#take(1)
    this.#bytes[at] = field * 8 + type
  }

  #varint(value: bigint): void {
    let bytes = 1
    for (let rest = value >> 7n; rest > 0n; rest >>= 7n) bytes += 1
    const at = this.#take(bytes)
    let rest = value
    for (let index = 0; index < bytes; index += 1) {
      this.#bytes[at + index] = Number(rest & 0x7fn) | (index < bytes - 1 ? 0x80 : 0)
      rest >>= 7n
    }
  }

  /** Makes room before what was written; returns its position. */
  #take(bytes: number): number {
    if (bytes > this.#start) {
      const grown = Buffer.allocUnsafe(2 * (this.#bytes.length + bytes))
      const start = grown.length - this.length
      this.#bytes.copy(grown, start, this.#start)
      this.#bytes = grown
      this.#start = start
    }
    this.#start -= bytes
    return this.#start
  }
}
