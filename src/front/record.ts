/**
 * Reading and writing of one record in shared memory: 32-bit integers, float32 vectors and text, one after the
 * other, each from a 4-byte boundary on. Both sides know the order.
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

  /** ASCII of a length that the reader knows: ids. */
  ascii(text: string): void {
    this.#memory.bytes.write(text, this.#at, 'latin1')
    this.#at += roundUp4(text.length)
  }
}

export class RecordReader {
  readonly #memory: RecordMemory
  readonly #copies: boolean
  #at: number

  /** @param copies whether vectors are copied, because the record will be written over */
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

  ascii(length: number): string {
    const text = this.#memory.bytes.toString('latin1', this.#at, this.#at + length)
    this.#at += roundUp4(length)
    return text
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
