import type { NumberArray } from '../kernels/column-filter.ts'
import type { MemoryCount } from './memory-count.ts'
import { filled } from './pieces.ts'

/** Codes by position. A number is in the range if its code is in [low, high]. The code of no number is never in it. */
export interface CodeRange {
  readonly codes: NumberArray
  readonly low: number
  readonly high: number
}

/**
 * Stores numbers by position, all in the smallest width that fits them. A number is a code of 1, 2 or 4 bytes that
 * counts steps of a scale from a base, or else a float64. The greatest code means no number.
 *
 *     number = (base + code) * unit / divisor        12.99 = (1200 + 99) * 1 / 100
 *
 * Setting a number that has no code repacks all numbers without loss, for the range of all numbers ever set. To make
 * this rare, repacking leaves half of the unused codes at each end. Each repacking thus needs more bytes, a finer
 * scale, or half of the unused codes.
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
  /** Range of all numbers ever set. */
  #min = Number.POSITIVE_INFINITY
  #max = Number.NEGATIVE_INFINITY

  constructor(memory: MemoryCount) {
    this.#memory = memory
  }

  /**
   * Loads the numbers of a file into an empty object:
   *
   *   u32 bytes of each | u32 index of the scale | f64 base | f64 minimum, f64 maximum ever set | codes
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

  /** Serializes the numbers for a file. See `load` for the format. */
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

  /** Number of positions. */
  get length(): number {
    return this.#codes.length
  }

  get bytesPerNumber(): number {
    return this.#codes.BYTES_PER_ELEMENT
  }

  /** Returns NaN if there is no number. */
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

  /** Grows to this number of positions. It must not be less than the current number. */
  reserve(length: number): void {
    const grown = codesLike(this.#codes, length).fill(this.#absent, this.#codes.length)
    grown.set(this.#codes)
    this.#replace(grown)
  }

  /** Returns the range of codes for the numbers in [min, max]. Valid until the next change. */
  range(min: number, max: number): CodeRange {
    if (this.#isWide) return { codes: this.#codes, low: min, high: max }
    return { codes: this.#codes, low: this.#firstCode(min, false), high: this.#firstCode(max, true) - 1 }
  }

  /** Returns 1 for each code of the range whose number passes; undefined if codes are wide or the range is large. */
  accepted({ low, high }: CodeRange, test: { accepts(value: number): boolean }): Uint8Array | undefined {
    if (this.bytesPerNumber > 2 || high - low >= acceptedMax) return undefined
    const accepted = new Uint8Array(this.#absent + 1)
    for (let code = low; code <= high; code += 1) {
      if (test.accepts(this.#numberOf(code))) accepted[code] = 1
    }
    return accepted
  }

  /** Returns the minimum and maximum of the numbers at positions [from, to). */
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

  /** Subtracts the numbers from the memory count. The object must not be used afterwards. */
  release(): void {
    this.#memory.add(-this.#codes.byteLength)
  }

  #numberOf(code: number): number {
    if (this.#isWide) return code
    return code === this.#absent ? Number.NaN : numberAt(this.#base + code, this.#scale)
  }

  /** Returns the code of a number; -1 if it has none. */
  #codeOf(value: number): number {
    const code = wholeIn(value, this.#scale) - this.#base
    const isCode = code >= 0 && code < this.#absent && numberAt(this.#base + code, this.#scale) === value
    return isCode ? code : -1
  }

  /** Returns the first code whose number is at least `bound`, or above it; the code of no number if there is none. */
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

  /** Repacks all numbers with a scale, base and width that also fit `value`. */
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

  /** Returns the bytes that a code of a scale needs; undefined if no width covers the range of all numbers. */
  #bytesIn(scale: NumberScale): (typeof widths)[number] | undefined {
    const least = wholeIn(this.#min, scale)
    const greatest = wholeIn(this.#max, scale)
    if (!isExact(least, scale) || !isExact(greatest, scale)) return undefined
    return widths.find((each) => greatest - least < absentOf(each))
  }

  /** @param steps number of new steps in one step of the old scale */
  #packInto(packed: NumberArray, absent: number, base: number, steps: number): void {
    const codes = this.#codes
    for (let position = 0; position < codes.length; position += 1) {
      const code = codes[position]!
      packed[position] = code === this.#absent ? absent : (this.#base + code) * steps - base
    }
  }

  /** Converts all numbers to float64. */
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
/** Testing this many numbers takes about 10 µs. */
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

/** Bytes before the codes in a file. */
const headBytes = 32

/**
 * The step of which numbers are multiples: a number is `whole * unit / divisor`. For example, 12.99 is 1299 hundredths,
 * and a moment in seconds is a whole number of millions of microseconds.
 */
interface NumberScale {
  readonly unit: number
  readonly divisor: number
}

/** From the coarsest to the finest. A number that is whole in one scale is whole in all finer scales. */
const numberScales: readonly NumberScale[] = [
  { unit: 1e6, divisor: 1 },
  { unit: 1e3, divisor: 1 },
  { unit: 1, divisor: 1 },
  { unit: 1, divisor: 10 },
  { unit: 1, divisor: 100 },
  { unit: 1, divisor: 1e3 },
  { unit: 1, divisor: 1e4 },
  { unit: 1, divisor: 1e5 },
  { unit: 1, divisor: 1e6 },
]

/**
 * Finds the coarsest scale, from an index on, in which a number is whole.
 *
 * @returns the index of the scale; -1 if there is none
 */
function scaleFor(value: number, from: number): number {
  for (let index = from; index < numberScales.length; index += 1) {
    const scale = numberScales[index]!
    const whole = wholeIn(value, scale)
    if (isExact(whole, scale) && numberAt(whole, scale) === value) return index
  }
  return -1
}

/** Converts a whole number back. Each operation is exact or correctly rounded, so the conversion is monotonic. */
function numberAt(whole: number, { unit, divisor }: NumberScale): number {
  return (whole * unit) / divisor
}

/** Returns the nearest whole number of a scale. */
function wholeIn(value: number, { unit, divisor }: NumberScale): number {
  return Math.round((value / unit) * divisor)
}

/**
 * Whether `numberAt` and `wholeIn` convert a whole number without loss. The same number then also converts without loss
 * in each finer scale in which this is true.
 */
function isExact(whole: number, { unit, divisor }: NumberScale): boolean {
  // A fraction and its product with the divisor are both rounded. Up to this limit, the total error is below one half.
  return Math.abs(whole) <= (divisor === 1 ? 2 ** 52 / unit : 2 ** 50)
}

/** Returns how many steps of a finer scale make one step of a coarser scale. */
function stepsOf(finer: NumberScale, coarser: NumberScale): number {
  return (coarser.unit * finer.divisor) / (finer.unit * coarser.divisor)
}
