import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import type { ContentType } from '../base/point.ts'
import type { PointToInsert } from '../client/client.ts'
import { UsageError } from './usage.ts'

export interface ReaderOptions {
  readonly format?: 'jsonl' | 'fvecs' | 'f32' | 'i8'
  readonly dimension?: number
  readonly scale: number
  readonly normalize?: boolean
  readonly texts?: string
}

/** One record of a file: a point, or what is wrong with it. `where` is like `file:12`. */
export interface Item {
  readonly where: string
  readonly point?: PointToInsert
  readonly fault?: string
}

/** Reads a file record by record; memory stays flat whatever its size. */
export function readItems(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const format = options.format ?? formatOf(file)
  if (format === 'jsonl') return readJsonLines(file, options)
  return readRows(file, { ...options, format })
}

function formatOf(file: string): NonNullable<ReaderOptions['format']> {
  const ending = /\.(fvecs|f32|i8)$/.exec(file)?.[1]
  return (ending as 'fvecs' | 'f32' | 'i8' | undefined) ?? 'jsonl'
}

async function* readJsonLines(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  let number = 0
  for await (const line of linesOf(file)) {
    number += 1
    if (line.trim() !== '') yield itemOf(line, `${file}:${number}`, options)
  }
}

function itemOf(line: string, where: string, options: ReaderOptions): Item {
  let record: unknown
  try {
    record = JSON.parse(line)
  } catch (error) {
    return { where, fault: `not JSON: ${(error as Error).message}` }
  }
  const { vector, content, content_type: contentType = 'Text' } = (record ?? {}) as Record<string, unknown>
  if (!Array.isArray(vector) || !vector.every((each) => typeof each === 'number')) {
    return { where, fault: '`vector` is not an array of numbers' }
  }
  if (typeof content !== 'string') return { where, fault: '`content` is not a string' }
  if (contentType !== 'Text' && contentType !== 'Image') {
    return { where, fault: '`content_type` is not Text or Image' }
  }
  return { where, point: pointOf(Float64Array.from(vector as number[]), content, options, contentType) }
}

interface RowOptions extends ReaderOptions {
  readonly format: 'fvecs' | 'f32' | 'i8'
}

/** Raw rows of `dimension` components; an .fvecs row has its dimension, an int32, in front. */
async function* readRows(file: string, options: RowOptions): AsyncGenerator<Item> {
  const texts = options.texts === undefined ? undefined : linesOf(options.texts)[Symbol.asyncIterator]()
  let row = 0
  for await (const bytes of chunksOf(file, options)) {
    const text = await texts?.next()
    if (text?.done) throw new UsageError(`${options.texts} has ${row} lines, ${file} has more rows`)
    const where = `${file}, row ${row}`
    const content = text === undefined ? `row ${row}` : contentOf(text.value)
    yield { where, point: pointOf(componentsOf(bytes, options.format), content, options, 'Text') }
    row += 1
  }
}

async function* chunksOf(file: string, { format, dimension }: RowOptions): AsyncGenerator<Buffer> {
  const headBytes = format === 'fvecs' ? 4 : 0
  if (headBytes === 0 && dimension === undefined) throw new UsageError(`--format ${format} needs --dimension`)
  const componentBytes = format === 'i8' ? 1 : 4
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of createReadStream(file, { highWaterMark: 1024 * 1024 })) {
    rest = Buffer.concat([rest, chunk as Buffer])
    let at = 0
    while (rest.length - at >= Math.max(headBytes, 1)) {
      const length = headBytes === 0 ? dimension! : rest.readInt32LE(at)
      if (length < 1 || length > 65_535)
        throw new Error(`${file} is no .fvecs file: a row of ${length} components`)
      const end = at + headBytes + length * componentBytes
      if (end > rest.length) break
      yield rest.subarray(at + headBytes, end)
      at = end
    }
    rest = rest.subarray(at)
  }
  if (rest.length > 0) throw new Error(`${file} ends inside a row: ${rest.length} bytes are left`)
}

function componentsOf(bytes: Buffer, format: RowOptions['format']): Float64Array {
  if (format === 'i8') return Float64Array.from(new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length))
  return Float64Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(index * 4))
}

function contentOf(line: string): string {
  if (!line.startsWith('{')) return line
  const { text, content } = JSON.parse(line) as { text?: unknown; content?: unknown }
  return String(text ?? content ?? '')
}

function pointOf(
  components: Float64Array,
  content: string,
  { scale, normalize }: ReaderOptions,
  contentType: ContentType,
): PointToInsert {
  const factor = normalize ? 1 / (norm(components) || 1) : scale
  return { vector: Float32Array.from(components, (each) => each * factor), payload: { contentType, content } }
}

function norm(components: Float64Array): number {
  return Math.sqrt(components.reduce((sum, each) => sum + each * each, 0))
}

function linesOf(file: string): AsyncIterable<string> {
  const input = file === '-' ? process.stdin : createReadStream(file)
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  // A file that cannot be read must end the loop over its lines, not only its own stream.
  input.once('error', (error: Error) => lines.emit('error', error))
  return lines
}
