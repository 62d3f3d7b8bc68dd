import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Filter } from '../../../src/base/filter.ts'
import { zvecFilter } from './zvec-filter.ts'

const low: Filter = { kind: 'condition', path: 'lot', test: { op: 'range', bounds: { gte: 0.1, lt: 0.2 } } }
const one: Filter = { kind: 'condition', path: 't', test: { op: 'in', values: ['a'] } }
const some: Filter = { kind: 'condition', path: 'n', test: { op: 'in', values: [1, 2] } }
const none: Filter = { kind: 'condition', path: 'n', test: { op: 'in', values: [] } }

describe("a filter in zvec's language", () => {
  it('uses its operators', () => {
    assert.equal(zvecFilter(low), 'lot >= 0.1 and lot < 0.2')
    assert.equal(zvecFilter(one), "t = 'a'")
    assert.equal(zvecFilter(some), 'n in (1,2)')
    assert.equal(zvecFilter({ kind: 'any', of: [one, low] }), "(t = 'a') or (lot >= 0.1 and lot < 0.2)")
  })

  it('moves a negation to the conditions', () => {
    assert.equal(zvecFilter({ kind: 'not', of: some }), 'n not in (1,2)')
    assert.equal(
      zvecFilter({ kind: 'not', of: { kind: 'any', of: [one, { kind: 'all', of: [some, low] }] } }),
      "(t != 'a') and ((n not in (1,2)) or (lot < 0.1 or lot >= 0.2))",
    )
    assert.equal(zvecFilter({ kind: 'not', of: { kind: 'not', of: one } }), "t = 'a'")
  })

  it('omits alternatives that nothing matches', () => {
    assert.equal(zvecFilter({ kind: 'any', of: [none, one] }), "(t = 'a')")
    assert.equal(zvecFilter({ kind: 'not', of: { kind: 'any', of: [none, one] } }), "(t != 'a')")
  })
})
