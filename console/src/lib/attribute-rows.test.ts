import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { JsonObject } from '../api/types.ts'
import { type AttributeRow, attributeRows, attributesOf } from './attribute-rows.ts'

describe('attributes as rows', () => {
  it('convert back to the same attributes', () => {
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
      ['text', 'number', 'true or false', 'date and time', 'location', 'list or map', 'list or map'],
    )
    assert.deepEqual(attributesOf(rows), attributes)
  })

  it('are skipped if they are empty, and incomplete timestamps are completed', () => {
    const rows: readonly AttributeRow[] = [
      { name: ' day ', type: 'date and time', text: '2026-01-31' },
      { name: 'at', type: 'date and time', text: '2026-01-31 12:30' },
      { name: '', type: 'text', text: '' },
    ]
    assert.deepEqual(attributesOf(rows), {
      day: { $date: '2026-01-31T00:00:00Z' },
      at: { $date: '2026-01-31T12:30:00Z' },
    })
  })

  const refused: readonly (readonly [AttributeRow, RegExp])[] = [
    [{ name: 'a', type: 'number', text: '1,5' }, /a is not a number: 1,5/],
    [{ name: 'a', type: 'number', text: '' }, /a is not a number/],
    [{ name: 'a', type: 'true or false', text: 'yes' }, /a is not true or false/],
    [{ name: 'a', type: 'date and time', text: 'today' }, /a is not a date and time/],
    [{ name: 'a', type: 'location', text: '52.5' }, /a is not a location/],
    [{ name: 'a', type: 'list or map', text: '[' }, /a is not valid JSON/],
    [{ name: 'a.b', type: 'text', text: '' }, /must not contain a dot/],
    [{ name: '', type: 'text', text: 'b' }, /has no name/],
  ]
  for (const [row, message] of refused) {
    it(`are refused: ${JSON.stringify(row)}`, () => {
      assert.throws(() => attributesOf([row]), message)
    })
  }

  it('are refused if a name is used twice', () => {
    const row: AttributeRow = { name: 'a', type: 'text', text: 'b' }
    assert.throws(() => attributesOf([row, row]), /The name a is used twice/)
  })
})
