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
  /** Where the row begins: one with line breaks inside is longer than a line. */
  readonly line: number
  /** Of the file, to the end of the row. */
  readonly bytes: number
}

/** A table whose first row names the columns; `-` is standard input. */
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
    // Fields come as bytes: text that is no UTF-8 has to be noticed.
    encoding: null,
    info: true,
    max_record_size: lineBytesMax,
    relax_column_count: true,
    skip_empty_lines: true,
  })
  const input = file === '-' ? process.stdin : createReadStream(file)
  // An error of either stream ends the loop below with it.
  const feeding = pipeline(withoutMark(input), parser).catch(() => undefined)
  // The parser takes a carriage return with a line feed for two lines when they are inside a field.
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
    // Behind a quote that is never closed, or not where it may be, nobody knows where a row begins.
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

/** The bytes behind a byte order mark: the parser would take one for a sign to decode the fields itself. */
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

/** A JSON array, or numbers between spaces or commas, in brackets or not: numpy prints them with spaces. */
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

/** What a field looks like: a number, a truth value, a moment; text otherwise. */
function attributeOf(text: string): AttributeValue {
  if (/^(?:true|false)$/i.test(text)) return text.toLowerCase() === 'true'
  if (isNumber(text)) return Number(text)
  return parseDateTime(text) ?? text
}

/** A number as JSON has it. One with leading zeros or with more digits than a number can keep is a code of some kind. */
function isNumber(text: string): boolean {
  if (!/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return false
  const value = Number(text)
  return Number.isFinite(value) && (!/^-?\d+$/.test(text) || Number.isSafeInteger(value))
}
