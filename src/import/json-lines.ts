import { type ImportFile, linesOf } from './file.ts'
import type { Cell, Row, Table } from './table.ts'
import { LostValue } from './values.ts'
import { parseWithDigits, roundedNumberIn } from './whole-numbers.ts'

/** Opens a file with one JSON object per line. The fields of a `payload` count as fields of the object. */
export function openJsonLines(file: ImportFile): Table {
  return {
    format: 'jsonl',
    unit: 'line',
    isText: false,
    isSampleCut: file.isSampleCut,
    names: undefined,
    rows: (from) => rowsOf(from === 'all' ? file.chunks() : file.sample()),
  }
}

async function* rowsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Row> {
  for await (const { number: place, text, endBytes } of linesOf(chunks)) {
    if (text?.trim() === '') continue
    yield { place, endBytes, ...(text === undefined ? { fault: 'not UTF-8' } : recordIn(text)) }
  }
}

type Fields = Readonly<Record<string, unknown>>

/** Parses a line. */
function recordIn(line: string):
  | {
      readonly names: readonly string[]
      readonly cell: (name: string) => Cell
      readonly exact: (name: string) => Cell
    }
  | { readonly fault: string } {
  let parsed: unknown
  try {
    parsed = JSON.parse(line)
  } catch (error) {
    return { fault: `not JSON: ${(error as Error).message}` }
  }
  if (!isMap(parsed)) return { fault: 'not a JSON object' }
  const { fields, twice } = flattened(parsed)
  if (twice !== undefined) return { fault: `\`${twice}\` is given twice, also in \`payload\`` }
  let digits: Fields | undefined
  const withDigits = (name: string): unknown => {
    digits ??= flattened(parseWithDigits(line) as Fields).fields
    return digits[name]
  }
  const cell = (name: string): Cell => (Object.hasOwn(fields, name) ? fields[name] : undefined)
  const exact = (name: string): Cell => {
    const value = cell(name)
    const rounded = roundedNumberIn(value, () => withDigits(name), name)
    return rounded === undefined ? value : new LostValue(rounded)
  }
  return { names: Object.keys(fields), cell, exact }
}

/** A record whose `payload` is opened, as Qdrant and `vicinal get` write points, and a name that is in both. */
export function flattened(record: Fields): { readonly fields: Fields; readonly twice?: string | undefined } {
  const { payload, ...others } = record
  if (!isMap(payload)) return { fields: record }
  const twice = Object.keys(payload).find((name) => Object.hasOwn(others, name))
  return { fields: { ...others, ...payload }, twice }
}

export function isMap(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

/**
 * Adds the lines of a file to the rows of a table of vectors. A line that begins with a brace is an object of JSON, with
 * a `content` or `text` and any other fields; any other line is a content.
 */
export function withTexts(table: Table, texts: ImportFile): Table {
  return {
    ...table,
    // Fields of JSON are only known when all lines are read.
    names: undefined,
    rows: async function* (from): AsyncGenerator<Row> {
      const lines = linesOf(texts.chunks())
      let rows = 0
      try {
        for await (const row of table.rows(from)) {
          const line = await lines.next()
          if (line.done) throw new Error(`${texts.name} has ${rows} lines, the file has more rows`)
          rows += 1
          yield row.fault === undefined ? joinedRow(row, line.value.text, `${texts.name}:${rows}`) : row
        }
        const more = await lines.next()
        if (!more.done) throw new Error(`the file has ${rows} rows, ${texts.name} has more lines`)
      } finally {
        await lines.return(undefined)
      }
    },
  }
}

function joinedRow(row: Row & { readonly fault?: undefined }, text: string | undefined, where: string): Row {
  if (text === undefined) throw new Error(`${where}: not UTF-8`)
  if (!text.startsWith('{')) return { ...row, cell: (name) => (name === 'content' ? text : row.cell(name)) }
  const { place, endBytes } = row
  const record = recordIn(text)
  if ('fault' in record) throw new Error(`${where}: ${record.fault}`)
  if (record.names.includes('vector')) {
    return { place, endBytes, fault: `\`vector\` is given twice, also by ${where}` }
  }
  const isText = !record.names.includes('content')
  const own = (read: (name: string) => Cell) => (name: string) =>
    name === 'vector' ? row.cell(name) : read(isText && name === 'content' ? 'text' : name)
  const names = record.names.map((name) => (isText && name === 'text' ? 'content' : name))
  return { place, endBytes, names: ['vector', ...names], cell: own(record.cell), exact: own(record.exact) }
}
