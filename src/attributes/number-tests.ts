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
