import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parquetWriteBuffer } from 'hyparquet-writer'
import type { JsonObject } from '../api/types.ts'
import { openRows } from './formats.ts'
import type { Row } from './rows.ts'

async function rowsOf(name: string, parts: readonly (string | ArrayBuffer)[]): Promise<readonly Row[]> {
  const source = await openRows(new File([...parts], name))
  const rows: Row[] = []
  for await (const row of source.rows()) rows.push(row)
  return rows
}

function recordsOf(rows: readonly Row[]): readonly (JsonObject | string)[] {
  return rows.map((row) => ('record' in row ? row.record : row.fault))
}

describe('a CSV file', () => {
  it('has rows with the names of its first row, for each separator', async () => {
    for (const sign of [',', ';', '\t']) {
      const text = `text${sign}vector\na${sign}"[1${sign} 2]"\n`
      assert.deepEqual(recordsOf(await rowsOf('a.csv', [text])), [{ text: 'a', vector: `[1${sign} 2]` }])
    }
  })

  it('reports the line of each row, even after fields with line breaks', async () => {
    const rows = await rowsOf('a.csv', ['\ufefftext,n\r\n"two\r\nlines",1\r\n\r\nbad\r\nlast,2\r\n'])
    assert.deepEqual(recordsOf(rows), [
      { text: 'two\r\nlines', n: '1' },
      '1 field, but line 1 names 2 columns',
      { text: 'last', n: '2' },
    ])
    assert.deepEqual(
      rows.map(({ place }) => place),
      [2, 5, 6],
    )
  })

  it('reports invalid UTF-8, unclosed quotes and duplicate names', async () => {
    const latin = Uint8Array.of(0x61, 0x0a, 0xe4, 0x0a).buffer
    assert.deepEqual(recordsOf(await rowsOf('a.csv', [latin])), ['not UTF-8'])
    await assert.rejects(rowsOf('a.csv', ['a\n"b\n']), /^Error: Line \d+: .*[Qq]uote/)
    await assert.rejects(rowsOf('a.csv', ['a,a\n1,2\n']), /Two columns are named a/)
  })

  it('may be larger than one parsed chunk', async () => {
    const line = `${'x'.repeat(99)},ä\n`
    const rows = await rowsOf('a.csv', ['a,b\n', line.repeat(10_000)])
    assert.equal(rows.length, 10_000)
    assert.ok(rows.every((row) => 'record' in row && row.record.b === 'ä'))
    assert.equal(rows.at(-1)!.endBytes, 4 + Buffer.byteLength(line) * 10_000)
  })
})

describe('a Parquet file', () => {
  it('has rows with the types of its columns, in several row groups', async () => {
    const at = new Date('2026-03-04T05:06:07.089Z')
    const buffer = parquetWriteBuffer({
      columnData: [
        { name: 'text', data: ['a', 'b', null], type: 'STRING' },
        { name: 'count', data: [1n, 2n, 3n], type: 'INT64' },
        { name: 'at', data: [at, at, null], type: 'TIMESTAMP' },
      ],
      rowGroupSize: 2,
    })
    const rows = await rowsOf('a.parquet', [buffer])
    const $date = '2026-03-04T05:06:07.089Z'
    assert.deepEqual(recordsOf(rows), [
      { text: 'a', count: 1, at: { $date } },
      { text: 'b', count: 2, at: { $date } },
      { count: 3 },
    ])
    assert.deepEqual(
      rows.map(({ place }) => place),
      [1, 2, 3],
    )
  })

  it('is refused if it is damaged', async () => {
    await assert.rejects(rowsOf('a.parquet', ['PAR1 and nothing else']), /cannot be read as Parquet/)
  })
})

describe('a NumPy file', () => {
  it('has a vector and a row number in each row', async () => {
    const values = new Float32Array([1, 2.5, -3, 4])
    const rows = await rowsOf('a.npy', [npyHeader('<f4', '(2, 2)'), values.buffer])
    assert.deepEqual(recordsOf(rows), [
      { vector: [1, 2.5], row: 0 },
      { vector: [-3, 4], row: 1 },
    ])
  })

  it('may hold 16-bit numbers', async () => {
    const halves = Uint16Array.of(0x3c00, 0xc000, 0x0001)
    const rows = await rowsOf('a.npy', [npyHeader('<f2', '(1, 3)'), halves.buffer])
    assert.deepEqual(recordsOf(rows), [{ vector: [1, -2, 2 ** -24], row: 0 }])
  })

  it('is refused with a reason if it cannot be read', async () => {
    await assert.rejects(
      rowsOf('a.npy', [npyHeader('<i8', '(1, 1)'), new ArrayBuffer(8)]),
      /<i8 are not supported/,
    )
    await assert.rejects(rowsOf('a.npy', [npyHeader('<f4', '(4,)'), new ArrayBuffer(16)]), /shape \(4\)/)
    await assert.rejects(rowsOf('a.npy', [npyHeader('<f4', '(2, 2)'), new ArrayBuffer(4)]), /its header says/)
  })
})

describe('other files', () => {
  it('are recognized by their first bytes, and refused', async () => {
    await assert.rejects(openRows(new File([Uint8Array.of(0x1f, 0x8b)], 'a.csv')), /compressed/)
    await assert.rejects(openRows(new File(['[{}]'], 'a.json')), /one JSON array/)
    await assert.rejects(openRows(new File([], 'a.csv')), /empty/)
  })
})

/** A header as NumPy writes it, in version 1. */
function npyHeader(type: string, shape: string): ArrayBuffer {
  const text = `{'descr': '${type}', 'fortran_order': False, 'shape': ${shape}, }`.padEnd(117)
  const bytes = Uint8Array.from(`\x93NUMPY\x01\x00v\x00${text}\n`, (c) => c.charCodeAt(0))
  return bytes.buffer
}
