import { LostValue, parseWithDigits, roundedNumberIn } from './values.ts'

/** The bytes of a file, or of standard input. The command line and the console each open their own. */
export interface ImportFile {
  /** The name for messages, and for the ending that tells the format. */
  readonly name: string
  /** Undefined for a stream, which can only be read once. */
  readonly size: number | undefined
  /** Reads a range of a file. Not for a stream. */
  readonly read: (start: number, end: number) => Promise<Uint8Array>
  /** All bytes from `start` on; a stream has only one pass, from 0. */
  readonly chunks: (start?: number) => AsyncIterable<Uint8Array>
  /** The bytes from which the types of columns are decided: those of the whole file, or the first ones of a stream. */
  readonly sample: () => AsyncIterable<Uint8Array>
  /** Whether `sample` ends before the end of the stream. */
  readonly isSampleCut: boolean
}

/** The formats that `import` reads. */
export const formats = ['jsonl', 'csv', 'tsv', 'parquet', 'npy', 'fvecs', 'f32', 'i8'] as const
export type Format = (typeof formats)[number]

/** Whether a format can be read from a stream, such as standard input. */
export function isStreamed(format: Format): boolean {
  return format === 'jsonl' || format === 'csv' || format === 'tsv'
}

/**
 * A value of a row. Text, whole numbers beyond 2^53 as bigint, dates as `DateTime`; lists and maps as arrays and plain
 * objects. `undefined` and `null` are missing values.
 */
export type Cell = unknown

/** The value of a column that is in the file, but was not read because nothing needs it. */
export const unread: unique symbol = Symbol('unread')

/** A record of a file, or what is wrong with it. */
export type Row = {
  /** The line where the record begins in a text file; otherwise its number. From 1. */
  readonly place: number
  /** Position in the file up to which it has been read. */
  readonly endBytes: number
} & (
  | {
      /** The columns of the file, or the fields of this record of JSON. */
      readonly names: readonly string[]
      readonly cell: (name: string) => Cell
      /** As `cell`; a whole number that the parser of JSON has rounded is a `LostValue`. Slower, and not for vectors. */
      readonly exact?: (name: string) => Cell
      readonly fault?: undefined
    }
  | { readonly fault: string }
)

/** The records of a file, all with the same columns or each with its own fields. */
export interface Table {
  readonly format: Format
  /** What `place` counts. */
  readonly unit: 'line' | 'row'
  /** Whether all values are text, so that a column's type is decided from its texts. */
  readonly isText: boolean
  /** Whether the first rows of the table do not tell all its columns, as with standard input. */
  readonly isSampleCut: boolean
  /** The columns in the order of the file; undefined if each record has its own fields. */
  readonly names: readonly string[] | undefined
  /**
   * Reads from the beginning.
   *
   * @param from all rows, or those that decide the types of columns; a stream has one pass of each
   * @param columns the columns to read; without it, all
   * @throws Error if the rest of the file cannot be read
   */
  readonly rows: (from: 'all' | 'sample', columns?: readonly string[]) => AsyncGenerator<Row>
}

/** The place of a row for messages: lines are counted from 1, as editors do, and rows from 0, as pandas does. */
export function placeText(
  unit: Table['unit'],
  place: number,
  format: (value: number) => string = String,
): string {
  return unit === 'line' ? `line ${format(place)}` : `row ${format(place - 1)}`
}

/** A fault that other options or another file solve. To be read after the name of the file. */
export class OptionError extends Error {}

/** A longer record is an error: no request could hold it. It is the default of MAX_REQUEST_BYTES. */
export const recordBytesMax: number = 64 * 1024 * 1024

/**
 * The bytes of a text file as UTF-8, without its byte order mark. UTF-16 is converted.
 *
 * @throws Error that names the encoding, if it is another one
 */
export async function* utf8Chunks(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  let decoder: TextDecoder | undefined
  let head: Uint8Array | undefined = new Uint8Array()
  for await (const chunk of chunks) {
    let bytes = chunk
    if (head !== undefined) {
      head = joined([head, chunk])
      if (head.length < headBytes) continue
      ;[decoder, bytes] = decoderFor(head)
      head = undefined
    }
    yield decoder === undefined ? bytes : encoder.encode(decoded(decoder, bytes, true))
  }
  if (head !== undefined && head.length > 0) {
    const [found, bytes] = decoderFor(head)
    decoder = found
    yield decoder === undefined ? bytes : encoder.encode(decoded(decoder, bytes, true))
  }
  if (decoder !== undefined) yield encoder.encode(decoded(decoder, new Uint8Array(), false))
}

const headBytes = 64

/** The decoder of a text that begins with these bytes, undefined for UTF-8, and the bytes after the byte order mark. */
function decoderFor(head: Uint8Array): [TextDecoder | undefined, Uint8Array] {
  const begins = (...mark: readonly number[]): boolean => mark.every((byte, at) => head[at] === byte)
  if (begins(0xef, 0xbb, 0xbf)) return [undefined, head.subarray(3)]
  if (begins(0xff, 0xfe, 0, 0) || begins(0, 0, 0xfe, 0xff)) throw encodingError('UTF-32')
  const name = begins(0xff, 0xfe) ? 'utf-16le' : begins(0xfe, 0xff) ? 'utf-16be' : undefined
  if (name !== undefined) return [new TextDecoder(name, { fatal: true, ignoreBOM: true }), head.subarray(2)]
  if (head.subarray(0, 4).includes(0))
    throw encodingError('UTF-16 without a byte order mark, or a binary format')
  return [undefined, head]
}

function encodingError(name: string): Error {
  return new Error(`its encoding is ${name}: it must be UTF-8, or UTF-16 with a byte order mark`)
}

function decoded(decoder: TextDecoder, bytes: Uint8Array, stream: boolean): string {
  try {
    return decoder.decode(bytes, { stream })
  } catch {
    // Half of a surrogate pair, or an odd number of bytes.
    throw new Error('it is not well-formed UTF-16')
  }
}

/** The bytes of all pieces; not a copy if only one has any. */
export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const some = pieces.filter(({ length }) => length > 0)
  if (some.length === 1) return some[0]!
  const bytes = new Uint8Array(some.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of some) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}

interface Line {
  /** From 1. */
  readonly number: number
  /** Without its end; undefined if it is not UTF-8. */
  readonly text: string | undefined
  /** Position in the UTF-8 text after its end. */
  readonly endBytes: number
}

/**
 * Reads lines that end with \n or \r\n only. JSON may contain U+2028 and U+2029, which others take for ends of lines.
 *
 * @throws Error at a line that is longer than any point
 */
async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let pieces: Uint8Array[] = []
  let pending = 0
  let number = 1
  let endBytes = 0
  const take = (piece: Uint8Array): void => {
    pieces.push(piece)
    pending += piece.length
    if (pending > recordBytesMax) {
      throw new Error(`line ${number}: the line is longer than ${recordBytesMax} bytes`)
    }
  }
  const finish = (): Line => {
    const text = textOf(decoder, pieces)
    pieces = []
    pending = 0
    number += 1
    return { number: number - 1, text, endBytes }
  }
  for await (const chunk of utf8Chunks(chunks)) {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      take(chunk.subarray(from, end))
      endBytes += end + 1 - from
      yield finish()
      from = end + 1
    }
    take(chunk.subarray(from))
    endBytes += chunk.length - from
  }
  if (pending > 0) yield finish()
}

function textOf(decoder: TextDecoder, pieces: readonly Uint8Array[]): string | undefined {
  const line = joined(pieces)
  try {
    return decoder.decode(line.at(-1) === carriageReturn ? line.subarray(0, -1) : line)
  } catch {
    return undefined
  }
}

const newline = 0x0a
const carriageReturn = 0x0d

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
