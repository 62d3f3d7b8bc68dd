import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { JsonObject } from '../api/types.ts'
import { columnsOf } from './columns.ts'
import { guessMapping, type Mapping, valueAs, withRole } from './mapping.ts'
import { pointOf } from './point.ts'

const id = '8f14e45f-ceea-467f-a8d0-2b4e1c9f7a63'

describe('the columns of a file', () => {
  it('form one vector if they are numbered and hold numbers', () => {
    const columns = columnsOf([{ name: 'a', v0: '1', v1: '2.5', v2: '-3', v3: '0' }])
    assert.deepEqual(
      columns.map(({ name, isVector, members }) => [name, isVector, members?.length]),
      [
        ['name', false, undefined],
        ['v0 … v3', true, 4],
      ],
    )
  })

  it('form no vector if they are numbered and hold text', () => {
    const columns = columnsOf([{ line1: 'a', line2: 'b', line3: 'c', line4: 'd' }])
    assert.deepEqual(
      columns.filter(({ isVector }) => isVector),
      [],
    )
  })
})

describe('the mapping of a file', () => {
  it('is guessed from its first rows', () => {
    const mapping = guessMapping([{ id: '7', embedding: [1, 2], text: 'a', price: 5 }], true)
    const { vector, content } = mapping
    assert.deepEqual({ vector, content, id: mapping.id }, { vector: 'embedding', content: 'text', id: '' })
    assert.deepEqual(mapping.attributes, [
      { column: 'id', kept: true, type: 'auto' },
      { column: 'price', kept: true, type: 'auto' },
    ])
  })

  it('recognizes the format of an export', () => {
    const payload = {
      content_type: 'Image',
      content: 'a',
      attributes: { b: 1 },
      expires_at: '2030-01-01T00:00:00Z',
    }
    const record: JsonObject = { id, vector: [1], payload }
    assert.deepEqual(pointOf(record, guessMapping([record], true), true), { id, vector: [1], payload })
  })

  it('guesses the types of CSV columns from their values', () => {
    const rows: JsonObject[] = [
      { vector: '[1, 2]', title: 'a', price: '5', zip: '00501', new: 'true', day: '2026-01-31' },
      { vector: '1 2', title: 'b', price: '-1.5e3', zip: '10115', new: 'FALSE', day: '2026-02-01' },
    ]
    const mapping = guessMapping(rows, false)
    assert.deepEqual(
      mapping.attributes.map(({ column, type }) => [column, type]),
      [
        ['price', 'number'],
        ['zip', 'text'],
        ['new', 'boolean'],
        ['day', 'moment'],
      ],
    )
    assert.deepEqual(pointOf(rows[1]!, mapping, false), {
      vector: [1, 2],
      payload: {
        content_type: 'Text',
        content: 'b',
        attributes: { price: -1500, zip: '10115', new: false, day: { $date: '2026-02-01T00:00:00Z' } },
      },
    })
  })

  it('returns a column to the attributes when another takes its role', () => {
    const records: JsonObject[] = [{ vector: [1], text: 'a', title: 'b' }]
    const changed = withRole(guessMapping(records, true), 'content', 'title', columnsOf(records))
    assert.deepEqual(pointOf(records[0]!, changed, true).payload, {
      content_type: 'Text',
      content: 'b',
      attributes: { text: 'a' },
    })
  })

  it('skips columns that cannot be attributes', () => {
    const records: JsonObject[] = [{ vector: [1], text: 'a', 'b.c': 1, $d: 2 }]
    assert.deepEqual(pointOf(records[0]!, guessMapping(records, true), true).payload, {
      content_type: 'Text',
      content: 'a',
    })
  })
})

describe('a row that does not fit', () => {
  const mapping: Mapping = guessMapping([{ vector: [1], text: 'a', price: 1 }], true)
  const refusals: readonly (readonly [JsonObject, RegExp])[] = [
    [{ vector: ['x'], text: 'a' }, /vector contains a value that is not a number: x/],
    [{ vector: '', text: 'a' }, /vector is empty/],
    [{ text: 'a' }, /vector is empty/],
    [{ vector: [1], text: ['a'] }, /text is not text/],
  ]
  for (const [record, message] of refusals) {
    it(`is refused: ${JSON.stringify(record)}`, () => {
      assert.throws(() => pointOf(record, mapping, true), message)
    })
  }

  it('is refused if a value does not have the selected type', () => {
    assert.throws(() => valueAs('five', 'number', true), /is not a number: five/)
    assert.throws(() => valueAs('maybe', 'boolean', true), /is not a boolean: maybe/)
    assert.throws(() => valueAs('today', 'moment', true), /is not a date: today/)
    assert.equal(valueAs(5, 'text', true), '5')
  })
})
