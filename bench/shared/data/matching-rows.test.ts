import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Bounds, Filter } from '../../../src/base/filter.ts'
import { matches } from '../../../test/support/plain-filter.ts'
import { type AttributeTable, attributesAt, textColumn } from './attribute-table.ts'
import { matchingRows } from './matching-rows.ts'

const table: AttributeTable = {
  count: 6,
  columns: [
    { name: 'n', kind: 'number', values: Float64Array.of(0, 1, 2, 3, 4, 5) },
    textColumn('t', ['b', 'a', 'c', 'a', 'b', 'b']),
  ],
}

function within(bounds: Bounds): Filter {
  return { kind: 'condition', path: 'n', test: { op: 'range', bounds } }
}

function isIn(path: string, ...values: readonly (string | number)[]): Filter {
  return { kind: 'condition', path, test: { op: 'in', values } }
}

const filters: readonly Filter[] = [
  within({ gt: 1, lte: 4 }),
  within({ gte: 1, lt: 4 }),
  isIn('n', 2, 5, 9),
  isIn('t', 'a', 'c', 'x'),
  isIn('t'),
  { kind: 'all', of: [] },
  { kind: 'any', of: [] },
  { kind: 'all', of: [isIn('t', 'b'), within({ gt: 0 })] },
  { kind: 'any', of: [isIn('t', 'c'), within({ lt: 1 })] },
  { kind: 'not', of: { kind: 'any', of: [isIn('t', 'c'), within({ lt: 1 })] } },
]

describe('the matching rows', () => {
  it('agree with the definition of filters, and are counted', () => {
    for (const filter of filters) {
      const { isMatching, count } = matchingRows(table, filter)
      const expected = Array.from({ length: table.count }, (_, row) => Number(plainlyMatches(filter, row)))
      assert.deepEqual([...isMatching], expected, JSON.stringify(filter))
      assert.equal(count, expected.filter((each) => each === 1).length)
    }
  })

  it('are refused for missing attributes', () => {
    assert.throws(() => matchingRows(table, isIn('x', 1)), /no attribute x/)
  })
})

function plainlyMatches(filter: Filter, row: number): boolean {
  const payload = { contentType: 'Text', content: '', attributes: attributesAt(table, row) } as const
  return matches(filter, { id: '', payload, version: 1 })
}
