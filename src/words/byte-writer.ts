/** A growing array of bytes with integers of variable length: seven bits a byte, the lowest first. */
export class ByteWriter {
  #bytes: Uint8Array = new Uint8Array(1024)
  length = 0

  /** Returns the bytes written, until the next write. */
  get written(): Uint8Array {
    return this.#bytes.subarray(0, this.length)
  }

  byte(value: number): void {
    if (this.length === this.#bytes.length) this.#grow(1)
    this.#bytes[this.length++] = value
  }

  /** Writes a whole number below 2^53. */
  integer(value: number): void {
    if (this.length + 8 > this.#bytes.length) this.#grow(8)
    while (value > 127) {
      this.#bytes[this.length++] = (value % 128) + 128
      value = Math.floor(value / 128)
    }
    this.#bytes[this.length++] = value
  }

  /** Writes 32 bits, the lowest byte first. */
  word(value: number): void {
    if (this.length + 4 > this.#bytes.length) this.#grow(4)
    this.setWord(this.length, value)
    this.length += 4
  }

  append(bytes: Uint8Array): void {
    this.copy(bytes, 0, bytes.length)
  }

  /** Writes the bytes in [from, to) of others. */
  copy(bytes: Uint8Array, from: number, to: number): void {
    const size = to - from
    if (this.length + size > this.#bytes.length) this.#grow(size)
    if (size > copiedByHandMax) this.#bytes.set(bytes.subarray(from, to), this.length)
    else for (let index = 0; index < size; index += 1) this.#bytes[this.length + index] = bytes[from + index]!
    this.length += size
  }

  /** Reserves bytes that are zero. Returns where they begin. */
  skip(size: number): number {
    if (this.length + size > this.#bytes.length) this.#grow(size)
    const at = this.length
    this.#bytes.fill(0, at, at + size)
    this.length += size
    return at
  }

  setByte(at: number, value: number): void {
    this.#bytes[at] = value
  }

  setWord(at: number, value: number): void {
    for (let index = 0; index < 4; index += 1) this.#bytes[at + index] = value >>> (8 * index)
  }

  #grow(size: number): void {
    const bytes = new Uint8Array(Math.max(2 * this.#bytes.length, this.length + size + 8))
    bytes.set(this.#bytes.subarray(0, this.length))
    this.#bytes = bytes
  }
}

/** A view of more bytes costs less than a loop over them. */
const copiedByHandMax = 32

/** Reads integers that `ByteWriter` wrote. */
export class ByteReader {
  readonly #bytes: Uint8Array
  at: number

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes
    this.at = at
  }

  byte(): number {
    return this.#bytes[this.at++]!
  }

  integer(): number {
    let byte = this.#bytes[this.at++]!
    if (byte < 128) return byte
    let value = byte & 127
    let scale = 128
    do {
      byte = this.#bytes[this.at++]!
      value += (byte & 127) * scale
      scale *= 128
    } while (byte > 127)
    return value
  }

  /** Passes some integers. */
  skip(count: number): void {
    for (; count > 0; count -= 1) while (this.#bytes[this.at++]! > 127);
  }
}
