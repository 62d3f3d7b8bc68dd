import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { parquetMetadata, type SchemaElement } from 'hyparquet'
import { type ColumnSource, parquetWriteBuffer } from 'hyparquet-writer'
import { readItems } from '../src/cli/readers.ts'
import { Desk } from './support/desk.ts'
import { assertEnded, Command, run } from './support/process.ts'

/** Files of other tools, imported by the real command line into a real service. */

interface Line {
  readonly id: string
  readonly vector: readonly number[]
  readonly content: string
  readonly content_type: string
  readonly attributes?: Record<string, unknown>
  readonly expires_at?: string
}

/** All stored points as `export` writes them, sorted by content. */
async function stored(desk: Desk): Promise<Line[]> {
  const { stdout } = await run(['export', '-', ...desk.overHttp])
  const lines = stdout.split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line) as Line).sort((a, b) => (a.content < b.content ? -1 : 1))
}

async function vectorsStored(desk: Desk): Promise<(readonly number[])[]> {
  return (await stored(desk)).map(({ vector }) => vector)
}

const uuid = (number: number): string => `3f2b8c1e-9d47-4a60-8b0e-${String(number).padStart(12, '0')}`

describe('import of CSV', () => {
  it('reads a vector from one column, and infers the types of other columns', async () => {
    await using desk = await Desk.open()
    const file = desk.file(
      'points.csv',
      `\ufeffid,content,vector,price,zip,code,open,seen,note,expires_at,content_type\r
${uuid(1)},"a ""fox""\r
on two lines","[0.5, -0]",5.25,01234,12345,TRUE,2026-01-31T12:00:00+01:00,"x, y",2100-01-01T00:00:00Z,Image\r
\r
${uuid(2)},b,0.25 125e-3,-1e3,12,7,no,2026-01-31,,,\r
${uuid(3)},c,"[1 2]",,,,,,,,\r
`,
    )
    assertEnded(await desk.vicinal('import', file, '--keep-ids', '--text-columns', 'code'), 0)
    assert.deepEqual(await stored(desk), [
      {
        id: uuid(1),
        vector: [0.5, -0],
        content_type: 'Image',
        content: 'a "fox"\r\non two lines',
        attributes: {
          price: 5.25,
          zip: '01234',
          code: '12345',
          open: 'TRUE',
          seen: { $date: '2026-01-31T11:00:00Z' },
          note: 'x, y',
        },
        expires_at: '2100-01-01T00:00:00Z',
      },
      {
        id: uuid(2),
        vector: [0.25, 0.125],
        content_type: 'Text',
        content: 'b',
        attributes: {
          price: -1000,
          zip: '12',
          code: '7',
          open: 'no',
          seen: { $date: '2026-01-31T00:00:00Z' },
        },
      },
      { id: uuid(3), vector: [1, 2], content_type: 'Text', content: 'c' },
    ])
  })

  it('reads vectors from many columns, tab-separated and from standard input, with the named attributes', async () => {
    await using desk = await Desk.open()
    const file = desk.file('points.tsv', 'body\tdim_10\tdim_9\tdim_name\tprice\nx\t2\t1\tn\t5\n')
    const flags = ['--vector-prefix', 'dim_', '--content-column', 'body']
    const named = await desk.vicinal('import', file, ...flags, '--attribute-columns', 'price')
    assertEnded(named, 0, /^not stored: column dim_name \(1 row\)\n$/)
    const child = new Command(['import', '-', '--format', 'csv', ...flags, ...desk.overHttp])
    child.child.stdin.end('dim_0,dim_1,body\n3,4,y\n')
    assertEnded(await child.ended, 0)
    const points = await stored(desk)
    assert.deepEqual(
      points.map(({ content, vector, attributes }) => ({ content, vector, attributes })),
      [
        { content: 'x', vector: [1, 2], attributes: { price: 5 } },
        { content: 'y', vector: [3, 4], attributes: undefined },
      ],
    )
  })

  it('names the line of each broken row, and skips them if told to', async () => {
    await using desk = await Desk.open()
    const rows = [
      'content,vector,attributes',
      'good,1 2,',
      '"two\nlines",1 x,',
      'short,1 2',
      'infinite,1 1e39,',
      'JSON,1 2,{',
      'wrong,1 2 3,',
      'also good,3 4,"{""a"": 1}"',
    ]
    const bytes = Buffer.concat([
      Buffer.from(`${rows.join('\n')}\nbytes `),
      Buffer.from([0xff]),
      Buffer.from(',1 2,\n'),
    ])
    const file = desk.file('points.csv', bytes)
    assertEnded(await desk.vicinal('import', file), 1, /points\.csv:3: `vector` is not made of numbers: "x"/)
    const ended = await desk.vicinal('import', file, '--skip-invalid')
    assert.equal(ended.code, 0, ended.stderr)
    const messages = [
      ':3: `vector` is not made of numbers',
      ':5: 2 fields, the first row names 3 columns',
      ':6: `vector` has 1e+39 at 1: not a finite float32',
      ':7: `attributes` is not JSON',
      ':8: vector has 3 dimensions',
      ':10: not UTF-8',
    ]
    for (const message of messages)
      assert.ok(ended.stderr.includes(`points.csv${message}`), `${message} in ${ended.stderr}`)
    assert.match(ended.stdout, /^2 points .*6 bad records skipped/)
    assert.deepEqual(
      (await stored(desk)).map(({ content }) => content),
      ['also good', 'good'],
    )
  })

  it('counts a line end with a carriage return once, also inside a field, and counts lines without a row', async () => {
    await using desk = await Desk.open()
    const rows = [
      'content,vector',
      '"one\r\n\r\nthree\nlines\rand more",1 2',
      '"two\r\nlines",1 x',
      '',
      '',
      'short',
      '"end"',
    ]
    for (const [index, lineEnd] of ['\r\n', '\n', '\r'].entries()) {
      const file = desk.file(`points-${index}.csv`, rows.join(lineEnd))
      const ended = await desk.vicinal('import', file, '--skip-invalid')
      assert.equal(ended.code, 0, ended.stderr)
      const lines = Array.from(ended.stderr.matchAll(/points-\d\.csv:(\d+): (\S+ \S+)/g), (match) =>
        match.slice(1),
      )
      assert.deepEqual(lines, [
        ['7', '`vector` is'],
        ['11', '1 fields,'],
        ['12', '1 fields,'],
      ])
    }
  })

  it('refuses a file that is not a table, and lists its columns', async () => {
    await using desk = await Desk.open()
    const refusals: (readonly [string, readonly string[], number, RegExp])[] = [
      ['', [], 1, /points\.csv: it is empty: its first row must name the columns/],
      [
        'content,emb\n',
        [],
        2,
        /no column vector or embedding: name the right one with --vector-column; the columns are content, emb/,
      ],
      ['vector\n', [], 2, /no column content or text: name the right one with --content-column/],
      ['vector,content\n', ['--attribute-columns', 'x'], 2, /no column x/],
      ['vector,content,content\n', [], 2, /two columns named content/],
      ['vector,content,a.b\n', [], 2, /column `a\.b` cannot become an attribute/],
      ['d0,d2,content\n', ['--vector-prefix', 'd'], 2, /no column d1, but has later ones/],
      [
        'vector,content\n1 2,"never closed\n',
        [],
        1,
        /points\.csv:2: a quote opens a field here and is never closed/,
      ],
    ]
    for (const [text, flags, code, message] of refusals) {
      assertEnded(await desk.vicinal('import', desk.file('points.csv', text), ...flags), code, message)
    }
    assertEnded(await desk.vicinal('import', desk.file('points.csv', 'vector,content\n')), 0)
    assert.deepEqual(await stored(desk), [])
  })
})

function npy(descr: string, shape: string, rows: ArrayBufferView, fortran = 'False'): Buffer {
  const text = `{'descr': '${descr}', 'fortran_order': ${fortran}, 'shape': ${shape}, }`.padEnd(117)
  const head = Buffer.from(`\x93NUMPY\x01\x00v\x00${text}\n`, 'latin1')
  return Buffer.concat([head, Buffer.from(rows.buffer, rows.byteOffset, rows.byteLength)])
}

describe('import of .npy', () => {
  it('stores rows of each component type, with the lines of a texts file', async () => {
    const arrays: (readonly [string, ArrayBufferView])[] = [
      ['<f8', Float64Array.of(1.5, -2, 0, 7)],
      ['<f4', Float32Array.of(1.5, -2, 0, 7)],
      ['<f2', Uint16Array.of(0x3e00, 0xc000, 0x0000, 0x4700)],
    ]
    await using desk = await Desk.open()
    for (const [descr, rows] of arrays) {
      const texts = desk.file('texts', `${descr} a\n${descr} b\n`)
      const file = desk.file(`rows${descr.at(-1)}.npy`, npy(descr, '(2, 2)', rows))
      assertEnded(await desk.vicinal('import', file, '--texts', texts), 0)
    }
    assertEnded(
      await desk.vicinal('import', desk.file('i1.npy', npy('|i1', '(1, 2)', Int8Array.of(-128, 127)))),
      0,
    )
    const bytes = desk.file('u1.npy', npy('|u1', '(1, 2)', Uint8Array.of(0, 255)))
    assertEnded(await desk.vicinal('import', bytes, '--scale', '2'), 0)
    const points = await stored(desk)
    assert.deepEqual(points.map(({ content }) => content).sort(), [
      '<f2 a',
      '<f2 b',
      '<f4 a',
      '<f4 b',
      '<f8 a',
      '<f8 b',
      'row 0',
      'row 0',
    ])
    for (const { content, vector } of points) {
      if (content.endsWith('a')) assert.deepEqual(vector, [1.5, -2], content)
      if (content.endsWith('b')) assert.deepEqual(vector, [0, 7], content)
    }
    const found = points.filter(({ content }) => content === 'row 0').map(({ vector }) => vector.join())
    assert.deepEqual(found.sort(), ['-128,127', '0,510'])
  })

  it('refuses arrays that it would misread', async () => {
    await using desk = await Desk.open()
    const four = Float32Array.of(1, 2, 3, 4)
    const refusals: (readonly [Uint8Array, RegExp])[] = [
      [Buffer.alloc(0), /it is not an \.npy file/],
      [npy('<f4', '(2, 2)', four).subarray(0, 60), /its header is cut off/],
      [npy('<f4', '(2, 2)', four).subarray(0, -1), /has 143 bytes, its header says 144/],
      [npy('<f4', '(4,)', four), /has the shape \(4\)/],
      [npy('<f4', '(1, 2, 2)', four), /has the shape \(1, 2, 2\)/],
      [npy('<c8', '(2, 2)', four), /components are of type <c8: they must be numbers or booleans/],
    ]
    for (const [bytes, message] of refusals) {
      assertEnded(await desk.vicinal('import', desk.file('a.npy', bytes)), 1, message)
    }
    assertEnded(await desk.vicinal('import', desk.file('a.npy', npy('<f4', '(0, 2)', new Float32Array()))), 0)
    assert.deepEqual(await stored(desk), [])
  })
})

describe('import of HDF5', () => {
  it('is refused, with the way to convert the file', async () => {
    await using desk = await Desk.open()
    for (const name of ['a.hdf5', 'a.H5']) {
      const refused = await desk.vicinal('import', desk.file(name, '\x89HDF'))
      assertEnded(refused, 2, /a\.\w+: HDF5 cannot be imported: convert .*numpy\.save/)
    }
  })
})

const schema: SchemaElement[] = [
  { name: 'root', num_children: 3 },
  { name: 'vector', repetition_type: 'OPTIONAL', converted_type: 'LIST', num_children: 1 },
  { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  { name: 'element', repetition_type: 'OPTIONAL', type: 'FLOAT' },
  { name: 'text', repetition_type: 'REQUIRED', type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  { name: 'big', repetition_type: 'OPTIONAL', type: 'INT64' },
]

/** A file with one row for each vector, in row groups of 100. */
function parquet(vectors: readonly unknown[], big: readonly (bigint | undefined)[] = []): Uint8Array {
  const columnData: ColumnSource[] = [
    { name: 'vector', data: [...vectors] },
    { name: 'text', data: vectors.map((_, row) => `row ${String(row).padStart(4, '0')}`) },
    { name: 'big', data: vectors.map((_, row) => big[row]) },
  ]
  return new Uint8Array(parquetWriteBuffer({ columnData, schema, rowGroupSize: 100 }))
}

const vectorsOf = (count: number): number[][] => Array.from({ length: count }, (_, row) => [row, 1])

describe('import of Parquet', () => {
  it('reads files from pyarrow: lists, structs, timestamps, dates, missing values', async () => {
    await using desk = await Desk.open()
    // Written by pyarrow 26.0.1 with pq.write_table(table, path, compression='zstd', row_group_size=2). Columns: title
    // (string), embedding (list of float), price (int64), ratio (double, one NaN), open (bool), tags (list of string),
    // seen (timestamp us, UTC), day (date32) and maker (struct of name, size).
    const file = join(import.meta.dirname, 'fixtures/pyarrow.parquet')
    const flags = ['--content-column', 'title', '--journal', desk.path('journal')]
    assertEnded(await desk.vicinal('import', file, ...flags), 0)
    const points = await stored(desk)
    assert.deepEqual(
      points.map(({ content, vector, attributes }) => [content, vector, attributes]),
      [
        [
          'fox',
          [0.1, -0].map(Math.fround),
          {
            day: { $date: '2026-01-31T00:00:00Z' },
            maker: { name: 'x', size: 1 },
            open: true,
            price: 5,
            ratio: 0.25,
            seen: { $date: '2023-11-14T22:13:20.123456Z' },
            tags: ['a', 'b'],
          },
        ],
        [
          'whale',
          [3, 1e-40].map(Math.fround),
          { day: { $date: '1969-12-31T00:00:00Z' }, price: 7, ratio: -1.5 },
        ],
        [
          '🦊 ü',
          [1.5, 2.5],
          { maker: { size: 2 }, open: false, seen: { $date: '2020-09-13T12:26:40Z' }, tags: [] },
        ],
      ],
    )
    const found = await desk.vicinal('query', '--vector-file', file, '--row', '1', '--limit', '1')
    assert.match(found.stdout, /🦊 ü/)
  })

  it('names broken rows, and skips them if told to', async () => {
    await using desk = await Desk.open()
    const vectors = [[1, 2], undefined, [1, undefined], [1, 2, 3], [3, 4], [5, 6]]
    const file = desk.file(
      'p.parquet',
      parquet(vectors, [1n, undefined, undefined, undefined, 2n ** 53n + 1n, -(2n ** 53n)]),
    )
    assertEnded(await desk.vicinal('import', file), 1, /p\.parquet, row 1: `vector` is empty/)
    const ended = await desk.vicinal('import', file, '--skip-invalid')
    assert.equal(ended.code, 0, ended.stderr)
    const messages = [
      'row 1: `vector` is empty',
      'row 2: `vector` has no number',
      'row 3: vector has 3 dimensions',
      'row 4: `big` is 9007199254740993, which a number cannot represent exactly',
    ]
    for (const message of messages) assert.ok(ended.stderr.includes(message), `${message} in ${ended.stderr}`)
    const points = await stored(desk)
    assert.deepEqual(
      points.map(({ vector, attributes }) => [vector, attributes]),
      [
        [[1, 2], { big: 1 }],
        [[5, 6], { big: -9007199254740992 }],
      ],
    )
  })

  it('refuses invalid and truncated files, and accepts one without rows', async () => {
    await using desk = await Desk.open()
    const whole = parquet(vectorsOf(3))
    for (const bytes of [new Uint8Array(), whole.subarray(0, -1), Buffer.from('PAR1 and no more PAR1')]) {
      assertEnded(await desk.vicinal('import', desk.file('p.parquet', bytes)), 1, /p\.parquet: /)
    }
    assertEnded(await desk.vicinal('import', desk.file('p.parquet', parquet([]))), 0)
    assert.deepEqual(await stored(desk), [])
    const stdin = await desk.vicinal('import', '-', '--format', 'parquet')
    assertEnded(stdin, 2, /format parquet cannot be read from standard input/)
  })

  it('keeps one row group in memory: rows are emitted before later groups are read', async () => {
    await using desk = await Desk.open()
    const bytes = parquet(vectorsOf(1000))
    const page = Number(
      parquetMetadata(bytes.buffer as ArrayBuffer).row_groups[7]!.columns[0]!.meta_data!.data_page_offset,
    )
    bytes.fill(0xff, page, page + 16)
    const file = desk.file('p.parquet', bytes)
    let rows = 0
    const read = async (): Promise<void> => {
      for await (const { point } of readItems(file, {})) {
        assert.deepEqual([...point!.vector], [rows, 1])
        rows += 1
      }
    }
    await assert.rejects(read, /p\.parquet, rows 700 to 799: /)
    assert.equal(rows, 700)
  })

  it('continues after the stored rows when the file was fixed', async () => {
    await using desk = await Desk.open()
    const vectors: unknown[] = vectorsOf(450)
    const broken = vectors.with(333, undefined)
    const file = desk.file('p.parquet', parquet(broken))
    const flags = ['--batch-size', '50', '--concurrency', '1', '--ids', desk.path('ids')]
    assertEnded(
      await desk.vicinal('import', file, ...flags),
      1,
      /300 points are stored; .*\n.*p\.parquet, row 333: /,
    )
    assert.equal((await stored(desk)).length, 300)
    const other = await desk.vicinal('import', file, ...flags, '--vector-column', 'vector')
    assertEnded(other, 2, /begun with no flags that change points, not with --vector-column vector/)
    desk.file('p.parquet', parquet(vectors))
    assertEnded(
      await desk.vicinal('import', file, ...flags),
      0,
      /^continuing after record 300, by the journal\n$/,
    )
    assert.deepEqual(await vectorsStored(desk), vectors)
    assert.equal(readFileSync(desk.path('ids'), 'utf8').trim().split('\n').length, 450)
    assertEnded(await desk.vicinal('import', file, ...flags), 2, /was already imported/)
  })
})
