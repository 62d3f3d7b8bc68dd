import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { openCsv } from '../../../src/import/csv.ts'
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

  it('do not lose an attribute that was added during the export', () => {
    assert.throws(() => new CsvText(['at'], false).row(point), /The attribute id was added during the export/)
  })
})
