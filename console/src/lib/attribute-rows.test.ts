import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { JsonObject } from '../api/types.ts'
import { type AttributeRow, attributeRows, attributesOf } from './attribute-rows.ts'

describe('attributes as rows', () => {
  it('are the same attributes again', () => {
    const attributes: JsonObject = {
      name: '5',
      price: -1.5,
      new: false,
      since: { $date: '2026-01-31T12:00:00Z' },
      at: { $geo: { lat: 52.5, lon: 13.4 } },
      tags: ['a', 1, true],
      size: { width: 1 },
    }
    const rows = attributeRows(attributes)
    assert.deepEqual(
      rows.map(({ type }) => type),
      ['text', 'number', 'true or false', 'moment', 'place', 'list or map', 'list or map'],
    )
    assert.deepEqual(attributesOf(rows), attributes)
  })

  it('leave out rows that were not filled in, and complete moments', () => {
    const rows: readonly AttributeRow[] = [
      { name: ' day ', type: 'moment', text: '2026-01-31' },
      { name: 'at', type: 'moment', text: '2026-01-31 12:30' },
      { name: '', type: 'text', text: '' },
    ]
    assert.deepEqual(attributesOf(rows), {
      day: { $date: '2026-01-31T00:00:00Z' },
      at: { $date: '2026-01-31T12:30:00Z' },
    })
  })

  const refused: readonly (readonly [AttributeRow, RegExp])[] = [
    [{ name: 'a', type: 'number', text: '1,5' }, /a is no number: 1,5/],
    [{ name: 'a', type: 'number', text: '' }, /a is no number/],
    [{ name: 'a', type: 'true or false', text: 'yes' }, /a is not true or false/],
    [{ name: 'a', type: 'moment', text: 'today' }, /a is no moment/],
    [{ name: 'a', type: 'place', text: '52.5' }, /a is no place/],
    [{ name: 'a', type: 'list or map', text: '[' }, /a is not JSON/],
    [{ name: 'a.b', type: 'text', text: '' }, /has no dot/],
    [{ name: '', type: 'text', text: 'b' }, /has no name/],
  ]
  for (const [row, message] of refused) {
    it(`are refused: ${JSON.stringify(row)}`, () => {
      assert.throws(() => attributesOf([row]), message)
    })
  }

  it('are refused with a name twice', () => {
    const row: AttributeRow = { name: 'a', type: 'text', text: 'b' }
    assert.throws(() => attributesOf([row, row]), /a is there twice/)
  })
})
