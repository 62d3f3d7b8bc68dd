import { ByteDictionary, hashBytes } from './byte-dictionary.ts'
import type { MemoryCount } from './memory-count.ts'
import type { NumberCounts } from './number-table.ts'

/** A test of one number. No number outside [min, max] passes. */
export interface NumberTest {
  readonly min: number
  readonly max: number
  /** Whether all numbers in [min, max] pass. */
  readonly isInterval: boolean
  accepts(value: number): boolean
}

/** Accepts all numbers in [min, max]; none if min > max. */
export function numberRange(min: number, max: number): NumberTest {
  return { min, max, isInterval: true, accepts: (value) => value >= min && value <= max }
}

/** Accepts exactly the given numbers. There must be at least one. */
export function numbersTest(values: NumberCounts): NumberTest {
  const { min, max } = values
  if (min === max) return numberRange(min, max)
  const accepts = (value: number): boolean => value >= min && value <= max && values.has(value)
  return { min, max, isInterval: false, accepts: tableOf(values) ?? accepts }
}

/** Returns a test that uses a lookup table and is a few times as fast; undefined unless all are close int32 numbers. */
function tableOf(values: NumberCounts): ((value: number) => boolean) | undefined {
  const { min, max } = values
  if (!(max - min < tableMax && isInt32(min) && isInt32(max))) return undefined
  const table = new Uint8Array(max - min + 1)
  for (const { keys } of values.tables()) {
    for (const value of keys) {
      if (Number.isNaN(value)) continue
      if (!isInt32(value)) return undefined
      table[value - min] = 1
    }
  }
  return (value) => isInt32(value) && table[value - min] === 1
}

function isInt32(value: number): boolean {
  return (value | 0) === value
}

/** Maximum size of a lookup table in bytes. */
const tableMax = 65_536

/** Accepts the numbers between optional bounds. */
export function boundsTest(bounds: {
  readonly gt?: number | undefined
  readonly gte?: number | undefined
  readonly lt?: number | undefined
  readonly lte?: number | undefined
}): NumberTest {
  const { gt, gte = Number.NEGATIVE_INFINITY, lt, lte = Number.POSITIVE_INFINITY } = bounds
  const min = gt === undefined ? gte : Math.max(gte, nextAbove(gt))
  const max = lt === undefined ? lte : Math.min(lte, -nextAbove(-lt))
  return numberRange(min, max)
}

const asNumber = new Float64Array(1)
const asBits = new BigInt64Array(asNumber.buffer)

/** Returns the smallest number above this one. */
function nextAbove(value: number): number {
  if (value === 0) return Number.MIN_VALUE
  asNumber[0] = value
  asBits[0]! += value > 0 ? 1n : -1n
  return asNumber[0]
}

/** A test of one text in a dictionary. */
export interface TextTest {
  accepts(dictionary: ByteDictionary, ordinal: number): boolean
}

/** Accepts any of the given texts. */
export class OneOfTexts implements TextTest {
  readonly texts: ByteDictionary

  constructor(memory: MemoryCount) {
    this.texts = new ByteDictionary(memory)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    return this.texts.find(dictionary.read(ordinal), dictionary.hashOf(ordinal)) !== -1
  }
}

/** Accepts one text. Faster than `OneOfTexts`. */
export class SameText implements TextTest {
  readonly bytes: Uint8Array
  readonly hash: number

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.hash = hashBytes(this.bytes)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    return dictionary.hashOf(ordinal) === this.hash && dictionary.equals(ordinal, this.bytes)
  }
}

/** Accepts texts between optional bounds, compared by bytes. */
export class TextRange implements TextTest {
  readonly #gt: Buffer | undefined
  readonly #gte: Buffer | undefined
  readonly #lt: Buffer | undefined
  readonly #lte: Buffer | undefined

  constructor(bounds: {
    readonly gt?: string | undefined
    readonly gte?: string | undefined
    readonly lt?: string | undefined
    readonly lte?: string | undefined
  }) {
    this.#gt = bytesOf(bounds.gt)
    this.#gte = bytesOf(bounds.gte)
    this.#lt = bytesOf(bounds.lt)
    this.#lte = bytesOf(bounds.lte)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    const bytes = dictionary.read(ordinal)
    if (this.#gt !== undefined && Buffer.compare(bytes, this.#gt) <= 0) return false
    if (this.#gte !== undefined && Buffer.compare(bytes, this.#gte) < 0) return false
    if (this.#lt !== undefined && Buffer.compare(bytes, this.#lt) >= 0) return false
    return this.#lte === undefined || Buffer.compare(bytes, this.#lte) <= 0
  }
}

export class TextPrefix implements TextTest {
  readonly #prefix: Buffer

  constructor(prefix: string) {
    this.#prefix = Buffer.from(prefix)
  }

  accepts(dictionary: ByteDictionary, ordinal: number): boolean {
    const bytes = dictionary.read(ordinal)
    return (
      bytes.length >= this.#prefix.length &&
      Buffer.compare(bytes.subarray(0, this.#prefix.length), this.#prefix) === 0
    )
  }
}

function bytesOf(text: string | undefined): Buffer | undefined {
  return text === undefined ? undefined : Buffer.from(text)
}
