import { type InfoRecord, parse } from 'csv-parse/browser/esm'
import type { Row, RowSource } from './rows.ts'

/** Chunks of this size are parsed at a time; their rows are what is in memory. */
const chunkBytes = 256 * 1024
/** A longer row is refused by the server too: it is the default of MAX_REQUEST_BYTES. */
const maxRowBytes = 64 * 1024 * 1024
const byteOrderMark = [0xef, 0xbb, 0xbf] as const

const newline = 0x0a

interface Parsed {
  readonly record: readonly Uint8Array[]
  readonly info: InfoRecord
}

interface Placed {
  readonly record: readonly Uint8Array[]
  /** The line where it begins. */
  readonly line: number
  readonly endBytes: number
}

/**
 * A table whose first row names the columns. The separator is a comma, a semicolon or a tab: whichever the first row has
 * most of.
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
      const fault = `${texts.length} fields, and line 1 names ${names.length} columns`
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
    // The caller says which line it was.
    return undefined
  }
}

/** The parser's records, chunk by chunk: it parses a chunk completely before it takes the next one. */
async function* recordsOf(file: Blob, delimiter: string): AsyncGenerator<Placed> {
  const parser = parse({
    delimiter,
    // Fields come as bytes: text that is no UTF-8 has to be noticed.
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
    // Behind a quote that is never closed, or not where it may be, nobody knows where a row begins.
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

/** Counts lines itself: the parser takes a line break of two characters in a field for two. */
class LineCounter {
  #chunk: Uint8Array = new Uint8Array()
  #chunkStart = 0
  /** How far lines are counted. */
  #position = 0
  #newlines = 0
  #isAtStart = true

  add(chunk: Uint8Array): void {
    this.lineBefore(this.#chunkStart + this.#chunk.length)
    this.#chunkStart += this.#chunk.length
    this.#chunk = chunk
  }

  /** The line that the byte before `end` is in. Ends come in their order. */
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

/** Bytes as a text of as many characters: the parser takes no bytes but those of its own kind of Buffer. */
function byteText(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += 8192) {
    text += String.fromCharCode(...bytes.subarray(start, start + 8192))
  }
  return text
}
