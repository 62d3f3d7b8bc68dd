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
export function recordIn(line: string):
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
