import { idBytes, idFromBytes, writeIdBytes } from '../base/ids.ts'

/**
 * Reading and writing of one record in shared memory: 32-bit integers, float32 vectors, ids and text, one after
 * the other, each from a 4-byte boundary on. Both sides know the order.
 */

export class RecordMemory {
  readonly i32: Int32Array
  readonly f32: Float32Array
  readonly bytes: Buffer

  constructor(buffer: SharedArrayBuffer) {
    this.i32 = new Int32Array(buffer)
    this.f32 = new Float32Array(buffer)
    this.bytes = Buffer.from(buffer)
  }
}

export class RecordWriter {
  readonly #memory: RecordMemory
  #at: number

  constructor(memory: RecordMemory, at: number) {
    this.#memory = memory
    this.#at = at
  }

  integer(value: number): void {
    this.#memory.i32[this.#at / 4] = value
    this.#at += 4
  }

  vector(vector: Float32Array): void {
    this.integer(vector.length)
    this.#memory.f32.set(vector, this.#at / 4)
    this.#at += vector.length * 4
  }

  /** Any text. */
  text(text: string): void {
    const bytes = this.#memory.bytes.write(text, this.#at + 4, 'utf8')
    this.integer(bytes)
    this.#at += roundUp4(bytes)
  }

  /** A well-formed id. */
  id(id: string): void {
    writeIdBytes(id, this.#memory.bytes, this.#at)
    this.#at += idBytes
  }

  /** Ids in a number that the reader knows, 16 bytes each. */
  ids(bytes: Uint8Array): void {
    this.#memory.bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }
}

export class RecordReader {
  readonly #memory: RecordMemory
  readonly #copies: boolean
  #at: number

  /** @param copies whether vectors and ids are copied, because the record will be written over */
  constructor(memory: RecordMemory, at: number, copies: boolean) {
    this.#memory = memory
    this.#copies = copies
    this.#at = at
  }

  integer(): number {
    const value = this.#memory.i32[this.#at / 4]!
    this.#at += 4
    return value
  }

  vector(): Float32Array {
    const length = this.integer()
    const first = this.#at / 4
    this.#at += length * 4
    return this.#copies
      ? this.#memory.f32.slice(first, first + length)
      : this.#memory.f32.subarray(first, first + length)
  }

  text(): string {
    const bytes = this.integer()
    const text = this.#memory.bytes.toString('utf8', this.#at, this.#at + bytes)
    this.#at += roundUp4(bytes)
    return text
  }

  /** Lower-case. */
  id(): string {
    const id = idFromBytes(this.#memory.bytes, this.#at)
    this.#at += idBytes
    return id
  }

  /** So many ids, 16 bytes each. */
  ids(count: number): Uint8Array {
    const ids = this.#memory.bytes.subarray(this.#at, this.#at + count * idBytes)
    this.#at += ids.length
    return this.#copies ? Buffer.from(ids) : ids
  }
}

export function vectorBytes(vector: Float32Array): number {
  return 4 + vector.length * 4
}

export function textBytes(text: string): number {
  return 4 + roundUp4(Buffer.byteLength(text))
}

function roundUp4(bytes: number): number {
  return Math.ceil(bytes / 4) * 4
}
