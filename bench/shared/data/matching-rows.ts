import type { Scalar } from '../../../src/base/attributes.ts'
import type { Bounds, Filter, Test } from '../../../src/base/filter.ts'
import type { AttributeTable, Column } from './attribute-table.ts'

/** Which rows of a table match a filter. */
export interface MatchingRows {
  /** By row: 1 if it matches, otherwise 0. */
  readonly isMatching: Uint8Array
  readonly count: number
}

/**
 * Evaluates a filter in plain JavaScript, which shares no code with the measured libraries. Used for exact answers, and
 * for contenders that need to know the matching rows.
 *
 * @throws Error for a test that the benchmarks do not use
 */
export function matchingRows(table: AttributeTable, filter: Filter): MatchingRows {
  const isMatching = evaluate(table, filter)
  let count = 0
  for (let row = 0; row < isMatching.length; row += 1) count += isMatching[row]!
  return { isMatching, count }
}

function evaluate(table: AttributeTable, filter: Filter): Uint8Array {
  switch (filter.kind) {
    case 'all':
      return combine(table, filter.of, 1, (target, other) => {
        for (let row = 0; row < target.length; row += 1) target[row]! &= other[row]!
      })
    case 'any':
      return combine(table, filter.of, 0, (target, other) => {
        for (let row = 0; row < target.length; row += 1) target[row]! |= other[row]!
      })
    case 'not': {
      const matching = evaluate(table, filter.of)
      for (let row = 0; row < matching.length; row += 1) matching[row]! ^= 1
      return matching
    }
    case 'condition':
      return meeting(columnOf(table, filter.path), filter.test)
    case 'ids':
    case 'partitions':
      throw new Error('the rows of a table have no ids')
  }
}

function combine(
  table: AttributeTable,
  of: readonly Filter[],
  initial: 0 | 1,
  add: (target: Uint8Array, other: Uint8Array) => void,
): Uint8Array {
  const [first, ...rest] = of
  if (first === undefined) return new Uint8Array(table.count).fill(initial)
  const target = evaluate(table, first)
  for (const filter of rest) add(target, evaluate(table, filter))
  return target
}

function columnOf({ columns }: AttributeTable, path: string): Column {
  const column = columns.find(({ name }) => name === path)
  if (column === undefined) throw new Error(`no attribute ${path}`)
  return column
}

function meeting(column: Column, test: Test): Uint8Array {
  if (test.op === 'in')
    return column.kind === 'text' ? wordsIn(column, test.values) : numbersIn(column, test.values)
  if (test.op === 'range' && column.kind === 'number') return numbersWithin(column.values, test.bounds)
  throw new Error(`${test.op} on ${column.kind} ${column.name} is not supported`)
}

function wordsIn(
  { words, codes }: Column & { readonly kind: 'text' },
  values: readonly Scalar[],
): Uint8Array {
  const wanted = new Set(values)
  const isWanted = Uint8Array.from(words, (word) => Number(wanted.has(word)))
  const matching = new Uint8Array(codes.length)
  for (let row = 0; row < codes.length; row += 1) matching[row] = isWanted[codes[row]!]!
  return matching
}

function numbersIn(
  { values }: Column & { readonly kind: 'number' },
  wantedValues: readonly Scalar[],
): Uint8Array {
  const wanted = new Set(wantedValues)
  const matching = new Uint8Array(values.length)
  for (let row = 0; row < values.length; row += 1) matching[row] = Number(wanted.has(values[row]!))
  return matching
}

function numbersWithin(values: Float64Array, { gt, gte, lt, lte }: Bounds): Uint8Array {
  const matching = new Uint8Array(values.length)
  const above = Number(gt ?? Number.NEGATIVE_INFINITY)
  const from = Number(gte ?? Number.NEGATIVE_INFINITY)
  const below = Number(lt ?? Number.POSITIVE_INFINITY)
  const to = Number(lte ?? Number.POSITIVE_INFINITY)
  for (let row = 0; row < values.length; row += 1) {
    const value = values[row]!
    matching[row] = Number(value > above && value >= from && value < below && value <= to)
  }
  return matching
}
