import {
  type ImportFile,
  joined,
  OptionError,
  type Row,
  recordBytesMax,
  type Table,
  utf8Chunks,
} from './file.ts'

/**
 * Tables of text. Records end with LF, CR LF or CR, also mixed. A field in double quotes may contain separators, ends of
 * lines, and doubled double quotes; a double quote inside a field without quotes is a character like any other.
 */

const separators = [',', ';', '\t', '|'] as const

/**
 * Opens a table whose first record names the columns.
 *
 * @param separator undefined: the one of `separators` that the first record has most often
 */
export async function openCsv(
  file: ImportFile,
  format: 'csv' | 'tsv',
  separator: string | undefined,
): Promise<Table> {
  const first = await firstRecords(file)
  if (first.length === 0) throw new Error('it is empty: its first row must name the columns')
  const sign = separator ?? (format === 'tsv' ? '\t' : separatorOf(first))
  const names = await namesOf(file, sign)
  return {
    format,
    unit: 'line',
    isText: true,
    isSampleCut: file.isSampleCut,
    names,
    rows: (from) => rowsOf(from === 'all' ? file.chunks() : file.sample(), sign, names),
  }
}

/** The first two records as text. Their separators are not known yet. */
async function firstRecords(file: ImportFile): Promise<readonly string[]> {
  // No record begins with U+0000 as its separator, so each is one field.
  const parser = new Parser(0)
  const records: Parsed[] = []
  for await (const chunk of utf8Chunks(file.sample())) {
    records.push(...parser.parse(chunk, false))
    if (records.length > 1) break
  }
  if (records.length < 2) records.push(...parser.parse(new Uint8Array(), true))
  return records.slice(0, 2).map(({ raw }) => loose.decode(raw))
}

const loose = new TextDecoder()

function separatorOf([header = '', second = '']: readonly string[]): string {
  const count = (text: string, sign: string): number => text.replace(/"[^"]*"/g, '').split(sign).length
  const scored = separators.map((sign) => ({
    sign,
    count: count(header, sign),
    isSame: second !== '' && count(header, sign) === count(second, sign),
  }))
  const [best] = scored.toSorted((a, b) => b.count - a.count || Number(b.isSame) - Number(a.isSame))
  return best!.sign
}

/** pandas calls a column without a name, like that of its index, by its position too. */
async function namesOf(file: ImportFile, separator: string): Promise<readonly string[]> {
  for await (const { fields, line } of recordsOf(file.sample(), separator)) {
    if (fields === undefined) throw new Error(`line ${line}: not UTF-8`)
    const names = fields.map((name, at) => (name.trim() === '' ? `Unnamed: ${at}` : name))
    const twice = names.find((name, at) => names.indexOf(name) !== at)
    if (twice !== undefined) throw new OptionError(`it has two columns named ${twice}`)
    return names
  }
  throw new Error('it is empty: its first row must name the columns')
}

async function* rowsOf(
  chunks: AsyncIterable<Uint8Array>,
  separator: string,
  names: readonly string[],
): AsyncGenerator<Row> {
  const indexes = new Map(names.map((name, index) => [name, index]))
  let isHeader = true
  for await (const { fields, fault, line: place, endBytes } of recordsOf(chunks, separator)) {
    if (isHeader) {
      isHeader = false
      continue
    }
    const wrong =
      fault ??
      (fields === undefined
        ? 'not UTF-8'
        : fields.length !== names.length
          ? `${fields.length} fields, the first row names ${names.length} columns`
          : undefined)
    if (wrong !== undefined) yield { place, endBytes, fault: wrong }
    else yield { place, endBytes, names, cell: (name) => fields![indexes.get(name) ?? -1] }
  }
}

interface TextRecord {
  /** Undefined if the record is not UTF-8. */
  readonly fields: readonly string[] | undefined
  readonly fault: string | undefined
  readonly line: number
  readonly endBytes: number
}

async function* recordsOf(chunks: AsyncIterable<Uint8Array>, separator: string): AsyncGenerator<TextRecord> {
  const parser = new Parser(separator.charCodeAt(0))
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const read = ({ raw, parts, fault, line, endBytes }: Parsed): TextRecord => ({
    fields: fault === undefined ? fieldsOf(decoder, raw, parts) : [],
    fault,
    line,
    endBytes,
  })
  for await (const chunk of utf8Chunks(chunks)) {
    for (const record of parser.parse(chunk, false)) yield read(record)
  }
  for (const record of parser.parse(new Uint8Array(), true)) yield read(record)
}

function fieldsOf(
  decoder: TextDecoder,
  raw: Uint8Array,
  parts: readonly Part[],
): readonly string[] | undefined {
  try {
    const text = decoder.decode(raw)
    // Positions in ASCII text are those of its bytes, so that one decoder call is enough.
    const isAscii = text.length === raw.length
    return parts.map(({ from, end, hasDoubledQuotes }) => {
      const field = isAscii ? text.slice(from, end) : decoder.decode(raw.subarray(from, end))
      return hasDoubledQuotes ? field.replaceAll('""', '"') : field
    })
  } catch {
    return undefined
  }
}

/** A field of a record, without its quotes. */
interface Part {
  readonly from: number
  readonly end: number
  readonly hasDoubledQuotes: boolean
}

interface Parsed {
  /** The bytes of the record, without the end of its last line. */
  readonly raw: Uint8Array
  readonly parts: readonly Part[]
  readonly fault: string | undefined
  /** The line where it begins. */
  readonly line: number
  readonly endBytes: number
}

/** Splits bytes into records. Empty lines are no records. */
class Parser {
  readonly #separator: number
  /** What follows the last complete record, in pieces. */
  #pending: Uint8Array[] = []
  #pendingBytes = 0
  /** The incomplete record is joined and parsed again only if it has doubled, so that a long one takes linear time. */
  #neededBytes = 0
  #line = 1
  #position = 0

  constructor(separator: number) {
    this.#separator = separator
  }

  /** @throws Error for a quote that is never closed, or a record that is longer than any point */
  parse(chunk: Uint8Array, isEnd: boolean): readonly Parsed[] {
    this.#pending.push(chunk)
    this.#pendingBytes += chunk.length
    if (!isEnd && this.#pendingBytes < this.#neededBytes) return []
    const bytes = joined(this.#pending)
    const records: Parsed[] = []
    let start = 0
    while (start < bytes.length) {
      const found = this.#record(bytes, start, isEnd)
      if (found === undefined) break
      const { parts, fault, end, next, lines } = found
      const isEmpty = end === start
      this.#position += next - start
      if (!isEmpty) {
        const shifted = parts.map((part) => ({ ...part, from: part.from - start, end: part.end - start }))
        const raw = bytes.subarray(start, end)
        records.push({ raw, parts: shifted, fault, line: this.#line, endBytes: this.#position })
      }
      this.#line += lines
      start = next
    }
    this.#pending = [bytes.subarray(start)]
    this.#pendingBytes = bytes.length - start
    this.#neededBytes = this.#pendingBytes * 2
    if (this.#pendingBytes > recordBytesMax) throw this.#tooLong()
    return records
  }

  #tooLong(): Error {
    return new Error(
      `line ${this.#line}: the row is longer than ${recordBytesMax} bytes: is a quote missing that closes a field?`,
    )
  }

  /** Undefined if the record may go on after these bytes. */
  #record(
    bytes: Uint8Array,
    start: number,
    isEnd: boolean,
  ): { parts: Part[]; fault: string | undefined; end: number; next: number; lines: number } | undefined {
    const parts: Part[] = []
    let fault: string | undefined
    let lines = 1
    let at = start
    for (;;) {
      if (bytes[at] === quote) {
        const closing = closingQuote(bytes, at + 1)
        if (closing === undefined || (!isEnd && closing.at + 1 === bytes.length)) {
          if (!isEnd) return undefined
          if (closing === undefined) {
            throw new Error(`line ${this.#line}: a quote opens a field here and is never closed`)
          }
        }
        const { at: closed, hasDoubledQuotes } = closing!
        parts.push({ from: at + 1, end: closed, hasDoubledQuotes })
        lines += lineEndsIn(bytes, at + 1, closed)
        at = closed + 1
        const isFollowed = at < bytes.length && !this.#endsField(bytes[at]!)
        if (isFollowed) fault ??= `text follows the closing quote of field ${parts.length}`
        while (at < bytes.length && !this.#endsField(bytes[at]!)) at += 1
      } else {
        const from = at
        while (at < bytes.length && !this.#endsField(bytes[at]!)) at += 1
        parts.push({ from, end: at, hasDoubledQuotes: false })
      }
      if (at === bytes.length) return isEnd ? { parts, fault, end: at, next: at, lines } : undefined
      if (bytes[at] === this.#separator) {
        at += 1
        continue
      }
      if (bytes[at] === lineFeed) return { parts, fault, end: at, next: at + 1, lines }
      // The line feed of a CR LF may be in the next chunk.
      if (at + 1 === bytes.length && !isEnd) return undefined
      return { parts, fault, end: at, next: at + (bytes[at + 1] === lineFeed ? 2 : 1), lines }
    }
  }

  #endsField(byte: number): boolean {
    return byte === this.#separator || byte === lineFeed || byte === carriageReturn
  }
}

function closingQuote(
  bytes: Uint8Array,
  from: number,
): { readonly at: number; readonly hasDoubledQuotes: boolean } | undefined {
  let hasDoubledQuotes = false
  for (let at = bytes.indexOf(quote, from); at !== -1; at = bytes.indexOf(quote, at + 2)) {
    if (bytes[at + 1] !== quote) return { at, hasDoubledQuotes }
    hasDoubledQuotes = true
  }
  return undefined
}

function lineEndsIn(bytes: Uint8Array, from: number, end: number): number {
  let count = 0
  for (let at = from; at < end; at += 1) {
    const isCarriageReturn = bytes[at] === carriageReturn
    if (isCarriageReturn && bytes[at + 1] === lineFeed && at + 1 < end) at += 1
    if (isCarriageReturn || bytes[at] === lineFeed) count += 1
  }
  return count
}

const quote = 0x22
const lineFeed = 0x0a
const carriageReturn = 0x0d
