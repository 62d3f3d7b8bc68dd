import type { NumberArray } from '../kernels/column-filter.ts'
import type { MemoryCount } from './memory-count.ts'
import {
  isExact,
  type NumberScale,
  numberAt,
  numberScales,
  scaleFor,
  stepsOf,
  wholeIn,
} from './number-scale.ts'
import { filled } from './pieces.ts'

/** The codes of numbers, by position. A number is in a range if its code is from `low` to `high`; of no number it never is. */
export interface CodeRange {
  readonly codes: NumberArray
  readonly low: number
  readonly high: number
}

/**
 * Numbers by position, each in as few bytes as all of them need: as a code of 1, 2 or 4 bytes, which counts multiples of a
 * scale from a base on, else as float64. The greatest code stands for no number.
 *
 *     number = (base + code) * unit / divisor        12.99 = (1200 + 99) * 1 / 100
 *
 * A number that has no code makes all be packed again, exactly, for the range of whatever there ever was. So that this is rare, the room
 * that is left is divided between both ends: each time either takes more bytes, or a finer scale, or half of that room.
 */
export class PackedNumbers {
  readonly #memory: MemoryCount
  #codes: NumberArray = new Uint8Array(0)
  /** Whether codes are the numbers themselves. */
  #isWide = false
  /** The code of no number. */
  #absent = 0
  #base = 0
  #scaleIndex = 0
  #scale: NumberScale = numberScales[0]!
  /** Of all numbers that there ever were. */
  #min = Number.POSITIVE_INFINITY
  #max = Number.NEGATIVE_INFINITY

  constructor(memory: MemoryCount) {
    this.#memory = memory
  }

  /**
   * Takes the numbers that a file has, in place of none:
   *
   *   u32 bytes of each | u32 index of the scale | f64 base | f64 least, f64 greatest ever | codes
   */
  load(bytes: Buffer): void {
    const width = bytes.readUInt32LE(0)
    const scaleIndex = bytes.readUInt32LE(4)
    const length = (bytes.length - headBytes) / width
    const empty = width === 8 ? new Float64Array(length) : new (arrayOf(width))(length)
    this.#isWide = width === 8
    this.#absent = this.#isWide ? Number.NaN : absentOf(width)
    this.#scaleIndex = scaleIndex
    this.#scale = numberScales[scaleIndex]!
    this.#base = bytes.readDoubleLE(8)
    this.#min = bytes.readDoubleLE(16)
    this.#max = bytes.readDoubleLE(24)
    this.#replace(filled(empty, bytes.subarray(headBytes)))
  }

  /** For a file. */
  toBytes(): Uint8Array {
    const codes = this.#codes
    const bytes = Buffer.alloc(headBytes + codes.byteLength)
    bytes.writeUInt32LE(codes.BYTES_PER_ELEMENT, 0)
    bytes.writeUInt32LE(this.#scaleIndex, 4)
    bytes.writeDoubleLE(this.#base, 8)
    bytes.writeDoubleLE(this.#min, 16)
    bytes.writeDoubleLE(this.#max, 24)
    bytes.set(new Uint8Array(codes.buffer, codes.byteOffset, codes.byteLength), headBytes)
    return bytes
  }

  /** Positions. */
  get length(): number {
    return this.#codes.length
  }

  get bytesPerNumber(): number {
    return this.#codes.BYTES_PER_ELEMENT
  }

  /** NaN for none. */
  get(position: number): number {
    const code = this.#codes[position]
    if (code === undefined) return Number.NaN
    return this.#numberOf(code)
  }

  has(position: number): boolean {
    const code = this.#codes[position]
    return code !== undefined && !Object.is(code, this.#absent)
  }

  /** There must be room for the position. */
  set(position: number, value: number): void {
    if (value < this.#min) this.#min = value
    if (value > this.#max) this.#max = value
    if (!this.#isWide && this.#codeOf(value) === -1) this.#pack(value)
    this.#codes[position] = this.#isWide ? value : this.#codeOf(value)
  }

  delete(position: number): void {
    this.#codes[position] = this.#absent
  }

  /** Makes room for so many positions, at least as many as there are. */
  reserve(length: number): void {
    const grown = codesLike(this.#codes, length).fill(this.#absent, this.#codes.length)
    grown.set(this.#codes)
    this.#replace(grown)
  }

  /** The codes of the numbers in [min, max]. Valid until the next change. */
  range(min: number, max: number): CodeRange {
    if (this.#isWide) return { codes: this.#codes, low: min, high: max }
    return { codes: this.#codes, low: this.#firstCode(min, false), high: this.#firstCode(max, true) - 1 }
  }

  /** By code, 1 for those of a range whose numbers pass; undefined where codes are wide or so many that this takes too long. */
  accepted({ low, high }: CodeRange, test: { accepts(value: number): boolean }): Uint8Array | undefined {
    if (this.bytesPerNumber > 2 || high - low >= acceptedMax) return undefined
    const accepted = new Uint8Array(this.#absent + 1)
    for (let code = low; code <= high; code += 1) {
      if (test.accepts(this.#numberOf(code))) accepted[code] = 1
    }
    return accepted
  }

  /** The least and the greatest of the numbers at positions [from, to). */
  bounds(from: number, to: number): readonly [min: number, max: number] {
    let min = Number.POSITIVE_INFINITY
    let max = Number.NEGATIVE_INFINITY
    const end = Math.min(to, this.#codes.length)
    for (let position = from; position < end; position += 1) {
      const code = this.#codes[position]!
      if (code === this.#absent) continue
      if (code < min) min = code
      if (code > max) max = code
    }
    return min > max ? [min, max] : [this.#numberOf(min), this.#numberOf(max)]
  }

  /** The numbers are not used any more. */
  release(): void {
    this.#memory.add(-this.#codes.byteLength)
  }

  #numberOf(code: number): number {
    if (this.#isWide) return code
    return code === this.#absent ? Number.NaN : numberAt(this.#base + code, this.#scale)
  }

  /** -1 for a number that has none. */
  #codeOf(value: number): number {
    const code = wholeIn(value, this.#scale) - this.#base
    const isCode = code >= 0 && code < this.#absent && numberAt(this.#base + code, this.#scale) === value
    return isCode ? code : -1
  }

  /** The first code of a number that is at least `bound`, or above it; the one of no number if there is none. */
  #firstCode(bound: number, isAbove: boolean): number {
    let low = 0
    let high = this.#absent
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      const value = numberAt(this.#base + middle, this.#scale)
      if (isAbove ? value > bound : value >= bound) high = middle
      else low = middle + 1
    }
    return low
  }

  /** Chooses scale, base and width for all numbers, of which `value` is the last. */
  #pack(value: number): void {
    const scaleIndex = scaleFor(value, this.#scaleIndex)
    const scale = numberScales[scaleIndex]
    const bytes = scale === undefined ? undefined : this.#bytesIn(scale)
    if (scale === undefined || bytes === undefined) {
      this.#unpack()
      return
    }
    const absent = absentOf(bytes)
    const least = wholeIn(this.#min, scale)
    const range = wholeIn(this.#max, scale) - least
    const base = least - Math.floor((absent - 1 - range) / 2)
    const packed = new codeArrays[bytes](this.#codes.length)
    this.#packInto(packed, absent, base, stepsOf(scale, this.#scale))
    this.#absent = absent
    this.#base = base
    this.#scale = scale
    this.#scaleIndex = scaleIndex
    this.#replace(packed)
  }

  /** That a code of a scale takes; undefined if there are none for the range of all numbers. */
  #bytesIn(scale: NumberScale): (typeof widths)[number] | undefined {
    const least = wholeIn(this.#min, scale)
    const greatest = wholeIn(this.#max, scale)
    if (!isExact(least, scale) || !isExact(greatest, scale)) return undefined
    return widths.find((each) => greatest - least < absentOf(each))
  }

  /** @param steps of the new scale in one of the old */
  #packInto(packed: NumberArray, absent: number, base: number, steps: number): void {
    const codes = this.#codes
    for (let position = 0; position < codes.length; position += 1) {
      const code = codes[position]!
      packed[position] = code === this.#absent ? absent : (this.#base + code) * steps - base
    }
  }

  /** Makes float64 of all numbers. */
  #unpack(): void {
    const numbers = new Float64Array(this.#codes.length)
    for (let position = 0; position < numbers.length; position += 1) numbers[position] = this.get(position)
    this.#isWide = true
    this.#absent = Number.NaN
    this.#replace(numbers)
  }

  #replace(codes: NumberArray): void {
    this.#memory.add(codes.byteLength - this.#codes.byteLength)
    this.#codes = codes
  }
}

const codeArrays = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const
const widths = [1, 2, 4] as const
/** Testing so many numbers takes about 10 µs. */
const acceptedMax = 2048

function absentOf(bytes: number): number {
  return 2 ** (8 * bytes) - 1
}

function codesLike(codes: NumberArray, length: number): NumberArray {
  if (codes instanceof Float64Array) return new Float64Array(length)
  return new (arrayOf(codes.BYTES_PER_ELEMENT))(length)
}

function arrayOf(bytes: number): (typeof codeArrays)[keyof typeof codeArrays] {
  return codeArrays[bytes as keyof typeof codeArrays]
}

/** Of numbers in a file. */
const headBytes = 32
