import { type InfoRecord, parse } from 'csv-parse/browser/esm'
import { plural } from '../lib/format.ts'
import type { Row, RowSource } from './rows.ts'

/** The parser reads chunks of this size. Only the rows of one chunk are in memory. */
const chunkBytes = 256 * 1024
/** The server also refuses longer rows: this is the default of MAX_REQUEST_BYTES. */
const maxRowBytes = 64 * 1024 * 1024
const byteOrderMark = [0xef, 0xbb, 0xbf] as const

const newline = 0x0a

interface Parsed {
  readonly record: readonly Uint8Array[]
  readonly info: InfoRecord
}

interface Placed {
  readonly record: readonly Uint8Array[]
  /** The line where the record begins. */
  readonly line: number
  readonly endBytes: number
}

/**
 * Opens a table whose first row names the columns. The separator is the comma, semicolon or tab: whichever occurs most
 * in the first row.
 */
export async function openCsv(file: Blob): Promise<RowSource> {
  const start = new Uint8Array(await file.slice(0, 64 * 1024).arrayBuffer())
  const markBytes = byteOrderMark.every((byte, at) => start[at] === byte) ? byteOrderMark.length : 0
  const [head = ''] = new TextDecoder().decode(start.subarray(markBytes)).split(/\r|\n/, 1)
  const counts = [',', ';', '\t'].map((sign) => [sign, head.split(sign).length] as const)
  const [delimiter] = counts.reduce((best, each) => (each[1] > best[1] ? each : best))
  return { format: 'CSV', unit: 'line', isTyped: false, rows: () => rowsOf(file, markBytes, delimiter) }
}

async function* rowsOf(file: Blob, startBytes: number, delimiter: string): AsyncGenerator<Row> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let names: readonly string[] | undefined
  for await (const { record, line: place, ...read } of recordsOf(file.slice(startBytes), delimiter)) {
    const texts = decodedFields(decoder, record)
    if (names === undefined) {
      if (texts === undefined) throw new Error('Line 1 is not UTF-8.')
      names = checkedNames(texts)
      continue
    }
    const endBytes = startBytes + read.endBytes
    if (texts === undefined) yield { place, endBytes, fault: 'not UTF-8' }
    else if (texts.length !== names.length) {
      const fault = `${plural(texts.length, 'field')}, but line 1 names ${plural(names.length, 'column')}`
      yield { place, endBytes, fault }
    } else {
      const fields = names.map((name, at) => [name, texts[at]!] as const).filter(([, text]) => text !== '')
      yield { place, endBytes, record: Object.fromEntries(fields) }
    }
  }
}

function checkedNames(names: readonly string[]): readonly string[] {
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw new Error(`Two columns are named ${twice}.`)
  return names
}

function decodedFields(decoder: TextDecoder, fields: readonly Uint8Array[]): readonly string[] | undefined {
  try {
    return fields.map((bytes) => decoder.decode(bytes))
  } catch {
    // The caller reports the line.
    return undefined
  }
}

/** Yields the parser's records chunk by chunk. The parser finishes a chunk before it takes the next one. */
async function* recordsOf(file: Blob, delimiter: string): AsyncGenerator<Placed> {
  const parser = parse({
    delimiter,
    // Fields arrive as bytes, so that invalid UTF-8 is detected.
    encoding: null,
    info: true,
    max_record_size: maxRowBytes,
    relax_column_count: true,
    skip_empty_lines: true,
  })
  let records: Parsed[] = []
  const lines = new LineCounter()
  const taken = (): readonly Placed[] => {
    const complete = records
    records = []
    return complete.map(({ record, info }) => {
      const inside = record.reduce((sum, field) => sum + newlinesIn(field), 0)
      return { record, line: lines.lineBefore(info.bytes) - inside, endBytes: info.bytes }
    })
  }
  parser.on('data', (parsed: Parsed) => records.push(parsed))
  const failure = new Promise<never>((_resolve, reject) => {
    // After an unclosed or misplaced quote, the start of the next row is unknown.
    parser.on('error', (error: Error) => reject(new Error(`Line ${parser.info.lines}: ${error.message}`)))
  })
  const ended = new Promise<void>((resolve) => parser.on('end', resolve))
  for (let start = 0; start < file.size; start += chunkBytes) {
    const chunk = new Uint8Array(await file.slice(start, start + chunkBytes).arrayBuffer())
    const written = new Promise<void>((resolve) => parser.write(byteText(chunk), 'latin1', () => resolve()))
    await Promise.race([written, failure])
    lines.add(chunk)
    yield* taken()
  }
  parser.end()
  await Promise.race([ended, failure])
  yield* taken()
}

/** Counts lines, because the parser counts a CR LF inside a field as two lines. */
class LineCounter {
  #chunk: Uint8Array = new Uint8Array()
  #chunkStart = 0
  /** Lines are counted up to this byte. */
  #position = 0
  #newlines = 0
  #isAtStart = true

  add(chunk: Uint8Array): void {
    this.lineBefore(this.#chunkStart + this.#chunk.length)
    this.#chunkStart += this.#chunk.length
    this.#chunk = chunk
  }

  /** The line of the byte before `end`. Calls must pass ascending values. */
  lineBefore(end: number): number {
    const piece = this.#chunk.subarray(this.#position - this.#chunkStart, end - this.#chunkStart)
    this.#newlines += newlinesIn(piece)
    if (piece.length > 0) this.#isAtStart = piece.at(-1) === newline
    this.#position = end
    return this.#newlines + (this.#isAtStart ? 0 : 1)
  }
}

function newlinesIn(bytes: Uint8Array): number {
  let count = 0
  for (let at = bytes.indexOf(newline); at >= 0; at = bytes.indexOf(newline, at + 1)) count++
  return count
}

/** Bytes as a string with one character per byte: the only byte type that the parser accepts is its own Buffer. */
function byteText(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += 8192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8192))
  }
  return text
}
