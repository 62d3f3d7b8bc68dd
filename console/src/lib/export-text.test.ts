import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { columnsOf } from '../../../src/import/columns.ts'
import { openCsv } from '../../../src/import/csv.ts'
import { guessMapping } from '../../../src/import/mapping.ts'
import { openTable } from '../../../src/import/open.ts'
import { PointMaker } from '../../../src/import/points.ts'
import type { Point } from '../api/types.ts'
import { blobFile } from '../import/blob-file.ts'
import { CsvText, jsonLine } from './export-text.ts'

const point: Point = {
  id: 'an-id',
  vector: [0.1, -2],
  payload: {
    content_type: 'Text',
    content: 'two\nlines, "quoted" \u2028',
    attributes: {
      id: 7,
      tags: ['a', 'b'],
      at: { $date: '2026-01-31T00:00:00Z' },
      none: null,
      text: ' 5 ',
    },
    expires_at: '2027-01-01T00:00:00Z',
  },
}

describe('exported points', () => {
  it('are lines of JSON that hold everything', () => {
    const line = jsonLine(point)
    assert.equal(line.split(/[\n\u2028\u2029]/).length, 2)
    assert.deepEqual(JSON.parse(line), { id: point.id, vector: point.vector, ...point.payload })
    assert.ok(!('vector' in JSON.parse(jsonLine({ id: 'x', payload: point.payload }))))
  })

  it('are a table with a column for each attribute, which the importer reads', async () => {
    const csv = new CsvText(['at', 'id', 'none', 'other', 'tags', 'text'], true)
    const file = new File([csv.header() + csv.row(point)], 'points.csv')
    const { names = [], rows: read } = await openCsv(blobFile(file), 'csv', undefined)
    const rows: unknown[] = []
    for await (const row of read('all')) {
      assert.ok(row.fault === undefined)
      rows.push(Object.fromEntries(names.map((name) => [name, row.cell(name)])))
    }
    assert.deepEqual(rows, [
      {
        id: 'an-id',
        content_type: 'Text',
        content: point.payload.content,
        expires_at: '2027-01-01T00:00:00Z',
        vector: '[0.1,-2]',
        text: ' 5 ',
        at: '2026-01-31T00:00:00Z',
        'attributes.id': '7',
        none: '',
        other: '',
        tags: '["a","b"]',
      },
    ])
    assert.doesNotMatch(new CsvText([], false).header(), /vector/)
  })

  for (const format of ['jsonl', 'csv'] as const) {
    it(`are imported with the same attributes from ${format}`, async () => {
      // The names of columns that the importer gives another role, and a whole number that needs an exponent.
      const id = '07000000-0000-4000-8000-000000000000'
      const attributes = { attributes: '{}', content: 'b', n: 1e18, ttl_seconds: 60 }
      const stored: Point = { id, payload: { content_type: 'Text', content: 'a', attributes } }
      const csv = new CsvText(Object.keys(attributes), true)
      const exported = { ...stored, vector: [1, 2] }
      const text = format === 'csv' ? csv.header() + csv.row(exported) : jsonLine(exported)
      const table = await openTable(blobFile(new File([text], `points.${format}`)))
      const mapping = guessMapping(await columnsOf(table))
      const maker = new PointMaker(mapping, { isText: table.isText, startedMs: 0 }, new Map())
      const payloads: unknown[] = []
      for await (const row of table.rows('all')) {
        const { point, fault } = maker.make(row)
        assert.equal(fault, undefined)
        payloads.push(point!.payload)
      }
      const expected = new Map<string, unknown>(Object.entries(attributes))
      assert.deepEqual(payloads, [{ contentType: 'Text', content: 'a', attributes: expected }])
    })
  }

  it('do not lose an attribute that was added during the export', () => {
    assert.throws(() => new CsvText(['at'], false).row(point), /The attribute id was added during the export/)
  })
})
