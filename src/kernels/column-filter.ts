import { readFileSync } from 'node:fs'

interface ColumnExports {
  readonly memory: WebAssembly.Memory
  valuesAddress(): number
  acceptedAddress(): number
  bitsAddress(): number
  bitsWithin(count: number, low: number, high: number): number
  bytesWithin(count: number, low: number, high: number): number
  shortsWithin(count: number, low: number, high: number): number
  wordsWithin(count: number, low: number, high: number): number
  packAccepted(): void
  bitsOfBytes(count: number): void
  bitsOfShorts(count: number): void
  countBits(bytes: number): number
}

export type NumberArray = Uint8Array | Uint16Array | Uint32Array | Float64Array

/** Maximum bytes of a column to test in one call. */
export const blockBytes = 32_768
const acceptedBytes = 65_536

/**
 * Tests a block of a column in one call, with kernels that have their own memory. That is a few times as fast as a loop
 * in JavaScript. `bits` holds the result of the last call.
 */
class ColumnFilter {
  readonly #kernel: ColumnExports
  readonly #numbers: Float64Array
  readonly #bytes: Uint8Array
  readonly #shorts: Uint16Array
  readonly #words: Uint32Array
  readonly #accepted: Uint8Array
  /** Result of the last test: number i of the block is bit i % 32 of word i / 32. */
  readonly bits: Uint32Array

  constructor() {
    const file = new URL('./generated/column-filters.wasm', import.meta.url)
    const instance = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(file)))
    this.#kernel = instance.exports as unknown as ColumnExports
    const { buffer } = this.#kernel.memory
    const values = this.#kernel.valuesAddress()
    this.#numbers = new Float64Array(buffer, values, blockBytes / 8)
    this.#bytes = new Uint8Array(buffer, values, blockBytes)
    this.#shorts = new Uint16Array(buffer, values, blockBytes / 2)
    this.#words = new Uint32Array(buffer, values, blockBytes / 4)
    this.#accepted = new Uint8Array(buffer, this.#kernel.acceptedAddress(), acceptedBytes)
    this.bits = new Uint32Array(buffer, this.#kernel.bitsAddress(), blockBytes / 32)
  }

  /**
   * Tests which numbers are in [low, high]. `low` must not exceed `high`.
   *
   * @param values a multiple of 32 numbers, of at most `blockBytes`
   * @returns how many numbers are in the range
   */
  within(values: NumberArray, low: number, high: number): number {
    const count = values.length
    if (values instanceof Uint8Array) {
      this.#bytes.set(values)
      return this.#kernel.bytesWithin(count, low, high)
    }
    if (values instanceof Uint16Array) {
      this.#shorts.set(values)
      return this.#kernel.shortsWithin(count, low, high)
    }
    if (values instanceof Uint32Array) {
      this.#words.set(values)
      return this.#kernel.wordsWithin(count, low, high)
    }
    this.#numbers.set(values)
    return this.#kernel.bitsWithin(count, low, high)
  }

  /** Returns how many bits of a bitmap are set. Overwrites the block, but not `bits`. */
  count(words: Uint32Array): number {
    const most = this.#words.length
    let count = 0
    for (let from = 0; from < words.length; from += most) {
      const part = words.subarray(from, from + most)
      this.#words.set(part)
      this.#words.fill(0, part.length, part.length + 4)
      count += this.#kernel.countBits(Math.ceil(part.length / 4) * 16)
    }
    return count
  }

  /**
   * Sets which entries of a column `ofAccepted` accepts: a byte for each entry, 1 if it is accepted.
   *
   * @param from the entry of the first byte. Entries before it, and entries below 256 after the last byte, are not
   *   accepted.
   */
  accept(accepted: Uint8Array, from: number): void {
    this.#accepted.fill(0, 0, from)
    this.#accepted.set(accepted, from)
    this.#accepted.fill(0, from + accepted.length, 256)
    this.#kernel.packAccepted()
  }

  /** Tests which entries of a column are accepted. There must be a multiple of 32 entries, of at most `blockBytes`. */
  ofAccepted(entries: Uint8Array | Uint16Array): void {
    if (entries instanceof Uint8Array) {
      this.#bytes.set(entries)
      this.#kernel.bitsOfBytes(entries.length)
    } else {
      this.#shorts.set(entries)
      this.#kernel.bitsOfShorts(entries.length)
    }
  }
}

/** Shared within a thread. That is safe because calls are synchronous. */
export const columnFilter: ColumnFilter = new ColumnFilter()
