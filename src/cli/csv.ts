import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { type InfoRecord, parse } from 'csv-parse'
import type { AttributeValue } from '../base/attributes.ts'
import { parseDateTime } from '../base/datetime.ts'
import { type CellReader, type ColumnPlan, outcomeOfRow, planColumns } from './columns.ts'
import type { Item, Outcome, ReaderOptions } from './items.ts'
import { lineBytesMax } from './lines.ts'

interface Row {
  readonly fields: readonly Buffer[]
  /** The line where the row begins. A row with line breaks in a field has several lines. */
  readonly line: number
  /** Bytes of the file up to the end of the row. */
  readonly bytes: number
}

/** Reads a table whose first row names the columns; `-` is standard input. */
export async function* readCsv(
  file: string,
  delimiter: string,
  options: ReaderOptions,
): AsyncGenerator<Item> {
  const name = file === '-' ? 'standard input' : file
  let table: Table | undefined
  let bytesBefore = 0
  for await (const { fields, line, bytes } of rowsOf(file, name, delimiter)) {
    if (table === undefined) {
      table = tableOf(name, fields, options)
      continue
    }
    yield { where: `${name}:${line}`, bytes: bytes - bytesBefore, ...table(fields) }
    bytesBefore = bytes
  }
  if (table === undefined) throw new Error(`${name} is empty: its first row must name the columns`)
}

type Table = (fields: readonly Buffer[]) => Outcome

function tableOf(name: string, header: readonly Buffer[], options: ReaderOptions): Table {
  if (!header.every((field) => isUtf8(field))) throw new Error(`${name}:1: not UTF-8`)
  const names = header.map((field) => field.toString())
  const plan: ColumnPlan = planColumns(name, names, options)
  const indexes = new Map(names.map((each, index) => [each, index]))
  const read = cellReader(new Set(options.textColumns))
  return (fields) => {
    if (fields.length !== names.length) {
      return { fault: `${fields.length} fields, the first row names ${names.length} columns` }
    }
    if (!fields.every((field) => isUtf8(field))) return { fault: 'not UTF-8' }
    return outcomeOfRow((column) => fields[indexes.get(column)!]!.toString(), plan, read, options)
  }
}

async function* rowsOf(file: string, name: string, delimiter: string): AsyncGenerator<Row> {
  const parser = parse({
    delimiter,
    // Get fields as bytes, to notice text that is not UTF-8.
    encoding: null,
    info: true,
    max_record_size: lineBytesMax,
    relax_column_count: true,
    skip_empty_lines: true,
  })
  const input = file === '-' ? process.stdin : createReadStream(file)
  // An error of either stream ends the loop below with that error.
  const feeding = pipeline(withoutMark(input), parser).catch(() => undefined)
  // The parser counts a carriage return and line feed inside a field as two lines.
  let surplus = 0
  try {
    for await (const { record, info } of parser as AsyncIterable<{
      readonly record: readonly Buffer[]
      readonly info: InfoRecord
    }>) {
      const breaks = record.reduce((sum, field) => sum + countOf(field, lineBreak), 0)
      surplus += record.reduce((sum, field) => sum + countOf(field, doubleBreak), 0)
      yield { fields: record, line: info.lines - surplus - breaks, bytes: info.bytes }
    }
  } catch (error) {
    // After an unclosed or misplaced quote, it is unknown where the next row begins.
    throw new Error(`${name}:${parser.info.lines - surplus}: ${(error as Error).message}`)
  } finally {
    parser.destroy()
    await feeding
  }
}

const lineBreak = /\r\n|\r|\n/g
const doubleBreak = /\r\n/g

function countOf(field: Buffer, pattern: RegExp): number {
  if (!field.includes('\r') && !field.includes('\n')) return 0
  return field.toString('latin1').match(pattern)?.length ?? 0
}

/** Skips a byte order mark: with one, the parser would decode the fields itself. */
async function* withoutMark(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let start = Buffer.alloc(0)
  let isStart = true
  for await (const chunk of input) {
    if (!isStart) {
      yield chunk
      continue
    }
    start = Buffer.concat([start, chunk])
    if (start.length < mark.length) continue
    isStart = false
    yield start.subarray(0, mark.length).equals(mark) ? start.subarray(mark.length) : start
  }
  if (isStart) yield start
}

const mark = Buffer.from('\ufeff')

function cellReader(textColumns: ReadonlySet<string>): CellReader {
  return {
    vector: (cell) => vectorIn(cell as string),
    number: (cell) => numberIn(cell as string),
    attribute: (cell, column) => {
      const text = cell as string
      if (text === '') return undefined
      return textColumns.has(column) ? text : attributeOf(text)
    },
  }
}

/** Parses a JSON array, or numbers separated by spaces or commas, with or without brackets. numpy prints spaces. */
function vectorIn(text: string): number[] {
  const inside = text
    .trim()
    .replace(/^\[(.*)\]$/s, '$1')
    .trim()
  if (inside === '') throw new Error('is empty')
  return inside.split(/\s*,\s*|\s+/).map(numberIn)
}

function numberIn(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (Number.isFinite(value)) return value
  throw new Error(`is not made of numbers: ${JSON.stringify(text.slice(0, 40))}`)
}

/** Converts a field by what it looks like: a number, true or false, or a moment; otherwise text. */
function attributeOf(text: string): AttributeValue {
  if (/^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  if (isNumber(text)) return Number(text)
  return parseDateTime(text) ?? text
}

/**
 * Whether a text is a number in JSON. With leading zeros, or more digits than a number can hold, it is likely a code.
 */
function isNumber(text: string): boolean {
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return false
  const value = Number(text)
  return Number.isFinite(value) && (!/^-?\d+$/.test(text) || Number.isSafeInteger(value))
}
