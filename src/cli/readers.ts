import { isUtf8 } from 'node:buffer'
import { createReadStream, statSync } from 'node:fs'
import { attributesFromJson } from '../base/attribute-json.ts'
import { dateTimeWords, parseDateTime } from '../base/datetime.ts'
import { isWellFormedId } from '../base/ids.ts'
import { dimensionMax, type NewPoint, type Payload } from '../base/point.ts'
import { UsageError } from './usage.ts'

export const formats = ['jsonl', 'fvecs', 'f32', 'i8'] as const
export type Format = (typeof formats)[number]

export interface ReaderOptions {
  readonly format?: Format
  readonly dimension?: number
  readonly scale?: number
  readonly normalize?: boolean
  readonly texts?: string
  /** Whether points keep the ids that they have in the file. */
  readonly keepIds?: boolean
}

/** One record of a file: a point, or what is wrong with it. `where` is like `file:12`. */
export interface Item {
  readonly where: string
  /** Bytes of the file that the record takes, blank lines before it included. */
  readonly bytes: number
  readonly point?: NewPoint
  readonly fault?: string
}

/** Reads a file record by record; memory stays flat whatever its size. `-` is standard input, JSON lines. */
export function readItems(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const format = options.format ?? formatOf(file)
  if (format === 'jsonl') return readJsonLines(file, options)
  return readRows(file, { ...options, format })
}

function formatOf(file: string): Format {
  return formats.find((format) => file.endsWith(`.${format}`)) ?? 'jsonl'
}

async function* readJsonLines(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const name = file === '-' ? 'standard input' : file
  let number = 0
  let bytes = 0
  for await (const line of linesOf(file)) {
    number += 1
    bytes += line.bytes
    const where = `${name}:${number}`
    const text = number === 1 ? line.text?.replace(/^\ufeff/, '') : line.text
    if (text?.trim() === '') continue
    yield { where, bytes, ...(text === undefined ? { fault: 'not UTF-8' } : parsed(text, options)) }
    bytes = 0
  }
}

type Outcome = Pick<Item, 'point' | 'fault'>

/** A line as the documentation shows it, or a point as `vicinal get` prints it. */
function parsed(line: string, options: ReaderOptions): Outcome {
  let record: unknown
  try {
    record = JSON.parse(line)
  } catch (error) {
    return { fault: `not JSON: ${(error as Error).message}` }
  }
  const { payload, ...fields } = (record ?? {}) as Record<string, unknown>
  const {
    id,
    vector,
    content,
    content_type: contentType = 'Text',
    attributes,
    expires_at: expiresAt,
  } = { ...fields, ...(payload ?? {}) } as Record<string, unknown>
  if (!Array.isArray(vector) || !vector.every((each) => typeof each === 'number')) {
    return { fault: '`vector` is not an array of numbers' }
  }
  if (typeof content !== 'string') return { fault: '`content` is not a string' }
  if (contentType !== 'Text' && contentType !== 'Image') {
    return { fault: '`content_type` is not Text or Image' }
  }
  if (options.keepIds && !(typeof id === 'string' && isWellFormedId(id)))
    return { fault: '`id` is not a UUID' }
  try {
    const payload = {
      contentType,
      content,
      ...(attributes === undefined ? {} : { attributes: attributesIn(attributes) }),
      ...(expiresAt === undefined ? {} : { expiresAtUs: microsecondsIn(expiresAt) }),
    } as const
    return outcomeOf(vector, payload, options, options.keepIds ? String(id).toLowerCase() : undefined)
  } catch (error) {
    return { fault: (error as Error).message }
  }
}

/** Attributes as `export` writes them; null stands for absent. */
function attributesIn(value: unknown): NonNullable<Payload['attributes']> {
  const text = JSON.stringify(value, function (this: unknown, _, each: unknown) {
    return each === null && !Array.isArray(this) ? undefined : each
  })
  try {
    return attributesFromJson(text)
  } catch {
    throw new Error(
      '`attributes` is not an object with values, like {"price": 5, "at": {"$date": "2026-01-31T00:00:00Z"}}',
    )
  }
}

function microsecondsIn(value: unknown): number {
  const moment = typeof value === 'string' ? parseDateTime(value) : undefined
  if (moment === undefined) throw new Error(`\`expires_at\` is not ${dateTimeWords}`)
  return moment.us
}

interface RowOptions extends ReaderOptions {
  readonly format: Exclude<Format, 'jsonl'>
}

/** Raw rows of `dimension` components; an .fvecs row has its dimension, an int32, in front. */
async function* readRows(file: string, options: RowOptions): AsyncGenerator<Item> {
  const { format, texts: textsFile } = options
  const texts = textsFile === undefined ? undefined : linesOf(textsFile)
  let row = 0
  try {
    for await (const bytes of rowsOf(file, options)) {
      const text = await texts?.next()
      if (text?.done) throw new Error(`${textsFile} has ${row} lines, ${file} has more rows`)
      const content =
        text === undefined ? `row ${row}` : contentOf(text.value.text, `${textsFile}:${row + 1}`)
      const where = `${file}, row ${row}`
      const components = componentsOf(bytes, format)
      yield {
        where,
        bytes: headBytes(format) + bytes.length,
        ...outcomeOf(components, { contentType: 'Text', content }, options),
      }
      row += 1
    }
    const more = await texts?.next()
    if (more?.done === false) throw new Error(`${file} has ${row} rows, ${textsFile} has more lines`)
  } finally {
    await texts?.return(undefined)
  }
}

function headBytes(format: RowOptions['format']): number {
  return format === 'fvecs' ? 4 : 0
}

async function* rowsOf(file: string, { format, dimension }: RowOptions): AsyncGenerator<Buffer> {
  const head = headBytes(format)
  const componentBytes = format === 'i8' ? 1 : 4
  if (head === 0) checkSize(file, format, dimension, componentBytes)
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) {
    rest = Buffer.concat([rest, chunk as Buffer])
    let at = 0
    while (rest.length - at >= Math.max(head, 1)) {
      const length = head === 0 ? dimension! : rest.readInt32LE(at)
      if (length < 1 || length > dimensionMax)
        throw new Error(`${file} is no .fvecs file: a row of ${length} components`)
      const end = at + head + length * componentBytes
      if (end > rest.length) break
      yield rest.subarray(at + head, end)
      at = end
    }
    rest = rest.subarray(at)
  }
  if (rest.length > 0) throw new Error(`${file} ends inside a row: ${rest.length} bytes are left`)
}

/** Rows without their length in front look right whatever their length: the size is the only check there is. */
function checkSize(
  file: string,
  format: Format,
  dimension: number | undefined,
  componentBytes: number,
): void {
  if (dimension === undefined) throw new UsageError(`format ${format} needs --dimension`)
  const { size } = statSync(file)
  const rowBytes = dimension * componentBytes
  if (size % rowBytes === 0) return
  throw new UsageError(
    `${file} has ${size} bytes, which is no whole number of rows of ${rowBytes} bytes: is --dimension ${dimension} right?`,
  )
}

function componentsOf(bytes: Buffer, format: RowOptions['format']): ArrayLike<number> {
  if (format === 'i8') return new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length)
  // A row begins anywhere in its chunk; a Float32Array must begin at a multiple of four.
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
}

function contentOf(line: string | undefined, where: string): string {
  if (line === undefined) throw new Error(`${where}: not UTF-8`)
  if (!line.startsWith('{')) return line
  try {
    const { text, content } = JSON.parse(line) as { text?: unknown; content?: unknown }
    return String(text ?? content ?? '')
  } catch (error) {
    throw new Error(`${where}: not JSON: ${(error as Error).message}`)
  }
}

function outcomeOf(
  components: ArrayLike<number>,
  payload: Payload,
  { scale = 1, normalize = false }: ReaderOptions,
  id?: string,
): Outcome {
  const factor = normalize ? 1 / (lengthOf(components) || 1) : scale
  const vector = new Float32Array(components.length)
  for (let index = 0; index < components.length; index += 1) {
    vector[index] = components[index]! * factor
    if (!Number.isFinite(vector[index])) {
      return { fault: `\`vector\` has ${components[index]! * factor} at ${index}: no finite float32` }
    }
  }
  return { point: { vector, payload, ...(id === undefined ? {} : { id }) } }
}

function lengthOf(components: ArrayLike<number>): number {
  let sum = 0
  for (let index = 0; index < components.length; index += 1) sum += components[index]! ** 2
  return Math.sqrt(sum)
}

interface Line {
  /** Without its end; undefined when it is not UTF-8. */
  readonly text: string | undefined
  /** With its end. */
  readonly bytes: number
}

/**
 * Lines end with \n or \r\n and with nothing else: U+2028 and U+2029, which Node's readline takes for ends, may stand
 * in JSON as they are.
 *
 * @throws Error at a line that is longer than any point
 */
async function* linesOf(file: string): AsyncGenerator<Line> {
  const input: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file)
  let pieces: Buffer[] = []
  let pending = 0
  let number = 1
  const take = (piece: Buffer): void => {
    pieces.push(piece)
    pending += piece.length
    if (pending > lineBytesMax)
      throw new Error(`${file}:${number}: the line is longer than ${lineBytesMax} bytes`)
  }
  for await (const chunk of input) {
    let from = 0
    for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
      take(chunk.subarray(from, end))
      yield { text: textOf(pieces), bytes: pending + 1 }
      pieces = []
      pending = 0
      number += 1
      from = end + 1
    }
    take(chunk.subarray(from))
  }
  if (pending > 0) yield { text: textOf(pieces), bytes: pending }
}

function textOf(pieces: readonly Buffer[]): string | undefined {
  const line = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
  if (!isUtf8(line)) return undefined
  return line.toString('utf8', 0, line.at(-1) === carriageReturn ? line.length - 1 : line.length)
}

const newline = 0x0a
const carriageReturn = 0x0d
/** As large as a request may be, unless the service was told otherwise. */
const lineBytesMax = 64 * 1024 * 1024
