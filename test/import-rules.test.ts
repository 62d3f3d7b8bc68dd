import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { attributesToJson } from '../src/base/attributes.ts'
import { type ReaderOptions, readItems } from '../src/cli/readers.ts'
import { columnsOf } from '../src/import/columns.ts'
import type { ImportFile } from '../src/import/file.ts'
import { type MappingOptions, planMapping } from '../src/import/mapping.ts'
import { openTable } from '../src/import/open.ts'
import { PointMaker } from '../src/import/points.ts'

/** The rules of docs/import.md, with the importer alone. */

const directory = mkdtempSync(join(tmpdir(), 'vicinal-rules-'))
after(() => rmSync(directory, { recursive: true }))

interface Read {
  readonly vector: readonly number[]
  readonly content: string
  readonly attributes: Readonly<Record<string, unknown>>
  readonly expiresAtUs?: number | undefined
}

/** All rows of a file: points, or faults with their place in the file. */
async function read(
  name: string,
  content: string | Uint8Array,
  options: ReaderOptions = {},
  notStored = new Map<string, number>(),
): Promise<(Read | string)[]> {
  const path = join(directory, name)
  writeFileSync(path, content)
  const rows: (Read | string)[] = []
  for await (const { where, point, fault } of readItems(path, options, 1_000_000, notStored)) {
    if (point === undefined) rows.push(`${where.slice(directory.length + 1)}: ${fault}`)
    else {
      const { attributes, content, expiresAtUs } = point.payload
      const plain = JSON.parse(
        attributes === undefined ? '{}' : attributesToJson(attributes),
      ) as Read['attributes']
      rows.push({
        vector: [...point.vector],
        content,
        attributes: plain,
        ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
      })
    }
  }
  return rows
}

const attributesIn = (rows: readonly (Read | string)[]): unknown[] =>
  rows.map((row) => (typeof row === 'string' ? row : row.attributes))

describe('the types of CSV columns', () => {
  const page = readFileSync(join(import.meta.dirname, '../docs/import.md'), 'utf8')
  const table = /\| all values of the column.*\n.*\n((?:\|.*\n)+)/.exec(page)![1]!
  const rules = table
    .trim()
    .split('\n')
    .map((line) => line.split('|').slice(1, 3) as [string, string])

  it('have rules in the documentation', () => {
    assert.ok(rules.length > 10)
  })

  for (const [given, stored] of rules) {
    it(`are as documented for ${given.trim()}`, async () => {
      const values = Array.from(given.matchAll(/`([^`]*)`/g), ([, value]) => value!)
      const expected = Array.from(stored.matchAll(/`([^`]*)`|missing/g), ([, value]) =>
        value === undefined ? {} : { x: JSON.parse(value) as unknown },
      )
      assert.equal(values.length, expected.length)
      const lines = values.map((value) => `a,1 2,"${value}"\n`)
      const rows = await read('rules.csv', `content,vector,x\n${lines.join('')}`)
      assert.deepEqual(attributesIn(rows), expected)
    })
  }
})

describe('a CSV file', () => {
  const expected = ['foo', 'two\nlines', 'bar'].map((content) => ({
    vector: [1, 2],
    content,
    attributes: {},
  }))

  it('may mix the ends of its lines, with and without quotes, in any encoding of Unicode', async () => {
    const ends = ['\n', '\r\n', '\r']
    const textOf = (end: string, second: string, third: string): string =>
      `content,vector${end}foo,1 2${second}"two\nlines","[1, 2]"${end}${second}bar,"1,2"${third}`
    for (const end of ends) {
      for (const second of ends) {
        for (const third of [...ends, '']) {
          const rows = await read('ends.csv', textOf(end, second, third))
          assert.deepEqual(rows, expected, JSON.stringify([end, second, third]))
        }
      }
    }
    // Lines end in UTF-8: the others are converted before.
    for (const [at, end] of ends.entries()) {
      const text = `\ufeff${textOf(end, ends[(at + 1) % ends.length]!, '')}`
      const utf16 = Buffer.from(text, 'utf16le')
      for (const bytes of [Buffer.from(text), utf16, Buffer.from(utf16).swap16()]) {
        assert.deepEqual(await read('ends.csv', bytes), expected, JSON.stringify(text))
      }
    }
  })

  it('names the encoding that it cannot read', async () => {
    const text = 'content,vector\nfoo,1 2\n'
    await assert.rejects(
      read('a.csv', Buffer.from(text, 'utf16le')),
      /a\.csv: its encoding is UTF-16 without/,
    )
    await assert.rejects(read('a.csv', Buffer.from([0xff, 0xfe, 0, 0])), /a\.csv: its encoding is UTF-32/)
    const latin = Buffer.from('content,vector\nfoo,1 2\n\xe4,1 2\nbar,1 2\n', 'latin1')
    assert.equal((await read('a.csv', latin))[1], 'a.csv:3: not UTF-8')
  })

  it('has the separator of its first row, or the given one, with an ending in any case', async () => {
    for (const sign of [',', ';', '\t', '|']) {
      const text = `content${sign}vector${sign}x\nfoo${sign}"[1, 2]"${sign}5\n`
      assert.deepEqual(attributesIn(await read('signs.CSV', text)), [{ x: 5 }], sign)
    }
    assert.deepEqual(attributesIn(await read('a.csv', 'content vector x\nfoo 1;2 5\n', { separator: ' ' })), [
      { x: 5 },
    ])
  })

  it('reports a stray quote by its line, and goes on after it', async () => {
    const rows = await read('q.csv', 'content,vector\n5" nail,1 2\n"a"b,1 2\n"a ""b""",1 2\n')
    assert.deepEqual(
      rows.map((row) => (typeof row === 'string' ? row : row.content)),
      ['5" nail', 'q.csv:3: text follows the closing quote of field 1', 'a "b"'],
    )
    await assert.rejects(
      read('q.csv', 'content,vector\na,1 2\n"b,1 2\nc,1 2\n'),
      /q\.csv:3: a quote opens .* never closed/,
    )
  })

  it('reads rows that are longer than a chunk, and many of them', async () => {
    const long = 'x'.repeat(3 * 1024 * 1024)
    const rows = await read('long.csv', `content,vector,n\n${`"${long}",1 2,5\n`.repeat(3)}`)
    assert.deepEqual(
      rows.map((row) => (row as Read).content.length),
      [long.length, long.length, long.length],
    )
  })

  it('may have a column for each component, in any order', async () => {
    const numbered = await read('v.csv', 'content,d1,d0,d2,d3,n\na,2,1,3,4,5\n', { vectorPrefix: 'd' })
    assert.deepEqual(numbered, [{ vector: [1, 2, 3, 4], content: 'a', attributes: { n: 5 } }])
  })

  it('has attributes with the names of roles as the console exports them', async () => {
    const rows = await read(
      'c.csv',
      'id,content,vector,attributes.id,attributes.text\n8f14e45f-ceea-467f-a8d0-2b4e1c9f7a63,a,1 2,7,b\n',
    )
    assert.deepEqual(attributesIn(rows), [{ id: 7, text: 'b' }])
  })

  it('may have what tools write for a missing value in the columns of expiries and attributes', async () => {
    const rows = await read(
      'm.csv',
      'content,vector,expires_at,ttl_seconds,attributes\na,1 2,NaT,nan,null\nb,1 2,1970-01-02,NA,None\nc,1 2, ,5,{}\n',
    )
    const point = { vector: [1, 2], attributes: {} }
    assert.deepEqual(rows, [
      { ...point, content: 'a' },
      { ...point, content: 'b', expiresAtUs: 86_400_000_000 },
      { ...point, content: 'c', expiresAtUs: 1_005_000_000 },
    ])
  })

  it('names columns without a name as pandas does, and keeps ids of its own as attributes', async () => {
    const rows = await read('p.csv', ',id,content,vector\n0,7,a,1 2\n1,8,b,1 2\n')
    assert.deepEqual(attributesIn(rows), [
      { 'Unnamed: 0': 0, id: 7 },
      { 'Unnamed: 0': 1, id: 8 },
    ])
  })
})

describe('a CSV stream', () => {
  it('has types by its first part, and reports the line and column of a later value that does not fit', async () => {
    const text = 'content,vector,n,late\na,1 2,1,\nb,1 2,2,\nc,1 2,three,x\n'
    // The sample ends inside a row.
    const cut = Buffer.from(text.slice(0, text.indexOf('2,\nc') - 3))
    const whole = async function* (bytes: Uint8Array): AsyncGenerator<Uint8Array> {
      yield bytes
    }
    const stream: ImportFile = {
      name: 'standard input',
      size: undefined,
      read: () => Promise.reject(new Error('not for streams')),
      chunks: () => whole(Buffer.from(text)),
      sample: () => whole(cut),
      isSampleCut: true,
    }
    const table = await openTable(stream, { format: 'csv' })
    const columns = await columnsOf(table)
    const outcomesWith = async (options: MappingOptions): Promise<unknown[]> => {
      const maker = new PointMaker(planMapping(columns, options), { isText: true, startedMs: 0 }, new Map())
      const outcomes: unknown[] = []
      for await (const row of table.rows('all')) {
        const { point, fault } = maker.make(row)
        outcomes.push(fault ?? Object.fromEntries(point!.payload.attributes ?? []))
      }
      return outcomes
    }
    assert.deepEqual(await outcomesWith({}), [
      { n: 1 },
      { n: 2 },
      '`n` is not a number, as the column is: "three"',
    ])
    assert.deepEqual(await outcomesWith({ textColumns: ['n'] }), [
      { n: '1' },
      { n: '2' },
      { n: 'three', late: 'x' },
    ])
  })
})

describe('a row of many chunks', () => {
  const long = 'x'.repeat(2 * 1024 * 1024)
  for (const [format, text] of [
    ['csv', `content,vector\n"${long}",1 2\n`],
    ['jsonl', `{"content":"${long}","vector":[1,2]}\n`],
  ] as const) {
    it(`is copied a few times, not once for each chunk: ${format}`, async (context) => {
      const bytes = Buffer.from(text)
      const chunks = async function* (): AsyncGenerator<Uint8Array> {
        for (let at = 0; at < bytes.length; at += 4096) yield bytes.subarray(at, at + 4096)
      }
      const read = (): Promise<never> => Promise.reject(new Error('not for streams'))
      const stream = {
        name: 'standard input',
        size: undefined,
        read,
        chunks,
        sample: chunks,
        isSampleCut: false,
      }
      const table = await openTable(stream, { format })
      const arrays = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array
      const { mock } = context.mock.method(arrays, 'set')
      for await (const row of table.rows('all')) {
        assert.ok(row.fault === undefined)
        assert.equal(row.cell('content'), long)
      }
      const copied = mock.calls.reduce((sum, { arguments: [from] }) => sum + from.length, 0)
      assert.ok(copied < 8 * bytes.length, `${copied} bytes were copied`)
    })
  }
})

describe('JSON lines', () => {
  const record = {
    vector: [1, 2],
    content: 'a',
    metadata: { k: 1 },
    lang: 'en',
    attributes: { n: 2 },
    ttl_seconds: 3600,
  }
  const line = (value: unknown): string => `${JSON.stringify(value)}\n`

  it('have the roles of columns: other fields become attributes, and a life an expiry', async () => {
    assert.deepEqual(await read('a.jsonl', line(record)), [
      {
        vector: [1, 2],
        content: 'a',
        attributes: { lang: 'en', metadata: { k: 1 }, n: 2 },
        // The import began at 1,000,000 ms.
        expiresAtUs: 1_000_000_000 + 3_600_000_000,
      },
    ])
    const payload = { vector: [1, 2], payload: { content: 'a', k: 1 } }
    assert.deepEqual(await read('a.jsonl', line(payload)), [
      { vector: [1, 2], content: 'a', attributes: { k: 1 } },
    ])
  })

  it('take the options for columns', async () => {
    const options = { vectorColumn: 'v', contentColumn: 'body', attributeColumns: ['lang'] }
    const notStored = new Map<string, number>()
    const text =
      line({ v: [1], body: 'x', lang: 'en', k: 1 }).repeat(3) + line({ v: [1], body: 'x', later: 5 })
    const rows = await read('a.jsonl', text, options, notStored)
    assert.deepEqual(attributesIn(rows), [{ lang: 'en' }, { lang: 'en' }, { lang: 'en' }, {}])
    assert.deepEqual(
      [...notStored],
      [
        ['k', 3],
        ['later', 1],
      ],
    )
    await assert.rejects(
      read('a.jsonl', text, { ...options, strict: true }),
      /columns k, later would not be stored/,
    )
    await assert.rejects(
      read('a.jsonl', text, { vectorColumn: 'w' }),
      /it has no column w: .* --vector-column; the columns are v, body/,
    )
  })

  it('are refused where a value is missing, given twice or of the wrong kind', async () => {
    const faults: (readonly [unknown, RegExp])[] = [
      [{ vector: ['1', '2'], content: 'a' }, /`vector` is not made of numbers: "1"/],
      [{ vector: '[1, 2]', content: 'a' }, /`vector` is not a list of numbers/],
      // Where the service has embeddings, it would embed the content.
      [{ vector: [], content: 'a' }, /`vector` is empty/],
      [{ vector: [1, 2] }, /`content` is missing/],
      [{ vector: [1, 2], content: null }, /`content` is missing/],
      [{ vector: [1, 2], content: 5 }, /`content` is not a text/],
      [{ vector: [1, 2], content: 'a', x: [1, null] }, /`x` is a list with a missing element/],
      [
        { vector: [1, 2], content: 'a', payload: { content: 'b' } },
        /`content` is given twice, also in `payload`/,
      ],
      [
        { vector: [1, 2], content: 'a', attributes: { x: 1 }, x: 2 },
        /`x` is given twice, also in `attributes`/,
      ],
      [{ vector: [1, 2], content: 'a', ttl_seconds: 0 }, /`ttl_seconds` must be a number greater than 0/],
      [{ vector: [1, 2], content: 'a', ttl_seconds: 5, expires_at: '2030-01-01' }, /are both given/],
      [{ vector: [1, 2], content: 'a', expires_at: 'soon' }, /`expires_at` is not a time/],
      [{ vector: [1, 2], content: 'a', at: { $date: 'soon' } }, /`at` has a \$date that is not a time/],
      [{ vector: [1, 2], content: 'a', content_type: 'image' }, /`content_type` is not Text or Image/],
    ]
    const good = line(record)
    for (const [value, message] of faults) {
      const [, row] = await read('f.jsonl', good + line(value))
      assert.match(String(row), message, JSON.stringify(value))
    }
  })

  it('are refused if they are another format', async () => {
    await assert.rejects(read('a.json', '[{"vector":[1]}]'), /a\.json: it is one JSON array/)
    await assert.rejects(read('a.jsonl', Buffer.from([0x1f, 0x8b, 8, 0])), /a\.jsonl: it is compressed/)
    assert.deepEqual(await read('empty.jsonl', ''), [])
  })
})

describe('a file of vectors', () => {
  const npy = (descr: string, fortran: string, bytes: Uint8Array): Buffer => {
    const text = `{'descr': '${descr}', 'fortran_order': ${fortran}, 'shape': (2, 3), }`.padEnd(117)
    return Buffer.concat([Buffer.from(`\x93NUMPY\x01\x00v\x00${text}\n`, 'latin1'), bytes])
  }
  const values = [1, 0, 1, 0, 1, 1]
  /** The values as components of `size` bytes, little-endian. */
  const bytesOf = (type: string): Uint8Array => {
    if (type === 'f8') return new Uint8Array(Float64Array.from(values).buffer)
    if (type === 'f4') return new Uint8Array(Float32Array.from(values).buffer)
    if (type === 'f2') return new Uint8Array(Uint16Array.from(values, (each) => each * 0x3c00).buffer)
    if (type === 'i8' || type === 'u8') return new Uint8Array(BigInt64Array.from(values, BigInt).buffer)
    if (type === 'i4' || type === 'u4') return new Uint8Array(Int32Array.from(values).buffer)
    if (type === 'i2' || type === 'u2') return new Uint8Array(Int16Array.from(values).buffer)
    return Uint8Array.from(values)
  }
  const swapped = (bytes: Uint8Array, size: number): Uint8Array =>
    bytes.map((_, at) => bytes[at - (at % size) + size - 1 - (at % size)]!)

  it('may hold numbers of any size, in either byte order, in C or Fortran order', async () => {
    for (const type of ['f8', 'f4', 'f2', 'i8', 'u8', 'i4', 'u4', 'i2', 'u2', 'i1', 'u1', 'b1']) {
      const size = type === 'b1' ? 1 : Number(type[1])
      const signs = size === 1 ? ['|'] : ['<', '>']
      for (const sign of signs) {
        const bytes = sign === '>' ? swapped(bytesOf(type), size) : bytesOf(type)
        for (const [order, expected] of [
          [
            'False',
            [
              [1, 0, 1],
              [0, 1, 1],
            ],
          ],
          [
            'True',
            [
              [1, 1, 1],
              [0, 0, 1],
            ],
          ],
        ] as const) {
          const rows = await read('a.npy', npy(`${sign}${type}`, order, bytes))
          assert.deepEqual(
            rows.map((row) => (row as Read).vector),
            expected,
            `${sign}${type} ${order}`,
          )
        }
      }
    }
    await assert.rejects(read('a.npy', npy('<c8', 'False', new Uint8Array(48))), /components are of type <c8/)
  })

  it('takes contents and attributes from --texts', async () => {
    const texts = join(directory, 'texts')
    writeFileSync(texts, '{"text":"a","k":1}\n{"text":"b","expires_at":"1970-01-01T00:00:01Z"}\n')
    const array = npy('|i1', 'False', bytesOf('i1'))
    assert.deepEqual(await read('a.npy', array, { texts }), [
      { vector: [1, 0, 1], content: 'a', attributes: { k: 1 } },
      { vector: [0, 1, 1], content: 'b', attributes: {}, expiresAtUs: 1_000_000 },
    ])
    writeFileSync(texts, 'plain\n{"text":"b"}\n')
    const plain = await read('a.npy', array, { texts })
    assert.deepEqual(
      plain.map((row) => (row as Read).content),
      ['plain', 'b'],
    )
  })
})

describe('a Parquet file', () => {
  // Written by pyarrow 26.0.1. Columns: vector (list of bool), content (binary), price (decimal128(9, 2)), big
  // (decimal128(38, 0)), prices (list of decimal128(20, 2)), box (struct of cost, a decimal, and n), lang (string).
  const bytes = readFileSync(join(import.meta.dirname, 'fixtures/decimals.parquet'))

  it('has decimals as the numbers of their texts, contents in bytes, and vectors of booleans', async () => {
    const notStored = new Map<string, number>()
    const attributeColumns = ['price', 'big', 'prices', 'box']
    assert.deepEqual(await read('d.parquet', bytes, { attributeColumns }, notStored), [
      {
        vector: [1, 0],
        content: 'a',
        attributes: { price: 0.35, big: 9007199254740992, prices: [0.35, 0.57], box: { cost: 1.1, n: 1 } },
      },
      { vector: [0, 1], content: 'ü', attributes: { price: 19.99, prices: [] } },
      { vector: [1, 1], content: 'c', attributes: { price: -0.57, big: 5, box: { n: 2 } } },
    ])
    assert.deepEqual([...notStored], [['lang', 3]])
  })
})
