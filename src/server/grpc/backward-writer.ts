import type { AnswerRoom } from '../../base/byte-budget.ts'
import { wireFixed64, wireLength, wireVarint } from './wire.ts'

/**
 * Writes a message from its end to its beginning: the length of a nested message precedes it, and is only known once
 * the message is written. Field numbers are below 16.
 */
export class BackwardWriter {
  readonly #room: AnswerRoom | undefined
  #bytes = Buffer.allocUnsafe(256)
  #start = this.#bytes.length

  /** @param room counts the bytes as they grow */
  constructor(room?: AnswerRoom) {
    this.#room = room
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#bytes.length - this.#start
  }

  text(field: number, text: string): void {
    const end = this.length
    const at = this.#take(Buffer.byteLength(text))
    this.#bytes.write(text, at)
    this.head(field, end)
  }

  double(field: number, value: number): void {
    const at = this.#take(8)
    this.#bytes.writeDoubleLE(value, at)
    this.#tag(field, wireFixed64)
  }

  uint64(field: number, value: bigint): void {
    this.#varint(value)
    this.#tag(field, wireVarint)
  }

  /** Writes a length-delimited field, such as a message or packed numbers. */
  bytes(field: number, content: Uint8Array): void {
    const end = this.length
    const at = this.#take(content.length)
    this.#bytes.set(content, at)
    this.head(field, end)
  }

  /** Writes a whole number of at least 0. Writes nothing for 0, the default of an absent field. */
  number(field: number, value: number): void {
    if (value !== 0) this.uint64(field, BigInt(value))
  }

  /** Writes true. Writes nothing for false, the default of an absent field. */
  flag(field: number, value: boolean): void {
    if (value) this.uint64(field, 1n)
  }

  /** Writes a PointID. */
  pointId(field: number, id: string): void {
    const end = this.length
    this.text(1, id)
    this.head(1, end)
    this.head(field, end)
  }

  /**
   * Writes the tag and the length of a field in front of its content.
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

  /** Reserves bytes in front of the written ones, and grows the buffer if necessary; returns their position. */
  #take(bytes: number): number {
    if (bytes > this.#start) {
      const grownBytes = 2 * (this.#bytes.length + bytes)
      this.#room?.add(grownBytes - this.#bytes.length)
      const grown = Buffer.allocUnsafe(grownBytes)
      const start = grown.length - this.length
      this.#bytes.copy(grown, start, this.#start)
      this.#bytes = grown
      this.#start = start
    }
    this.#start -= bytes
    return this.#start
  }
}
