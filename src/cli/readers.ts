import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { NewPoint } from '../base/point.ts'
import { columnsOf } from '../import/columns.ts'
import { type ImportFile, isStreamed, OptionError, type Table, withTexts } from '../import/file.ts'
import { columnsUsed, isNumbered, type Mapping, type MappingOptions, planMapping } from '../import/mapping.ts'
import { type OpenOptions, openTable } from '../import/open.ts'
import { PointMaker } from '../import/points.ts'
import { UsageError } from './arguments.ts'

export interface ReaderOptions extends MappingOptions, OpenOptions {
  readonly scale?: number
  readonly normalize?: boolean
  /** A file with the contents of a file of vectors. */
  readonly texts?: string
  /** Whether a column that is not stored is an error. */
  readonly strict?: boolean
}

/** One record of a file: a point, or its fault. `where` is like `file:12`. */
export interface Item {
  readonly where: string
  /** Bytes of the record in the file, including blank lines before it. */
  readonly bytes: number
  readonly point?: NewPoint | undefined
  readonly fault?: string | undefined
}

/**
 * Reads a file record by record. Memory use does not depend on the size of the file; if the format has row groups, one
 * of them is in memory. `-` is standard input.
 *
 * @param startedMs when the import began, in milliseconds since 1970
 * @param notStored receives the columns that are not stored, with their numbers of rows
 */
export async function* readItems(
  path: string,
  options: ReaderOptions,
  startedMs: number = Date.now(),
  notStored: Map<string, number> = new Map(),
): AsyncGenerator<Item> {
  // Otherwise a command without input would wait for it, only to refuse it.
  if (path === '-' && !isStreamed(options.format ?? 'jsonl')) {
    throw new UsageError(`format ${options.format} cannot be read from standard input: name a file`)
  }
  await using file = await openImportFile(path)
  await using texts = options.texts === undefined ? undefined : await openImportFile(options.texts)
  try {
    yield* itemsOf(file, texts, options, startedMs, notStored)
  } catch (error) {
    throw named(error, file.name)
  }
}

async function* itemsOf(
  file: ImportFile,
  texts: ImportFile | undefined,
  options: ReaderOptions,
  startedMs: number,
  notStored: Map<string, number>,
): AsyncGenerator<Item> {
  const opened = await openTable(file, options)
  const table = texts === undefined ? opened : withTexts(opened, texts)
  const mapping = await mappingOf(table, options)
  if (options.strict) refuseLeftOut(mapping)
  const { scale, normalize, embed, strict } = options
  const { isText } = table
  const maker = new PointMaker(mapping, { isText, scale, normalize, embed, startedMs }, notStored)
  let bytesBefore = 0
  for await (const row of table.rows('all', columnsUsed(mapping))) {
    const where = table.unit === 'line' ? `${file.name}:${row.place}` : `${file.name}, row ${row.place - 1}`
    yield { where, bytes: row.endBytes - bytesBefore, ...maker.make(row) }
    bytesBefore = row.endBytes
    if (strict && notStored.size > 0) throw new Error(`${where}: ${leftOutWords([...notStored.keys()])}`)
  }
}

/** The roles of the columns. */
async function mappingOf(table: Table, options: ReaderOptions): Promise<Mapping> {
  const { names, isText } = table
  const { vectorPrefix } = options
  // Of typed columns, only the ids tell something by their values; of columns of text, all but those of a vector.
  const telling = isText
    ? names?.filter((name) => vectorPrefix === undefined || !isNumbered(name, vectorPrefix))
    : names?.filter((name) => name === 'id')
  const columns = await columnsOf(table, telling)
  // Without a good record, each record tells what is wrong with it.
  const isUnknown = names === undefined && columns.length === 0
  const usual = ['vector', 'content'].map(
    (name) => ({ name, isVector: false, isId: false, type: 'own', samples: [] }) as const,
  )
  return planMapping(isUnknown ? usual : columns, isUnknown ? {} : options)
}

function refuseLeftOut({ attributes }: Mapping): void {
  const left = attributes.filter(({ kept }) => !kept).map(({ column }) => column)
  if (left.length > 0) throw new OptionError(leftOutWords(left))
}

function leftOutWords(columns: readonly string[]): string {
  const ids = columns.includes('id') ? '; --keep-ids stores ids' : ''
  return `${columns.length === 1 ? 'column' : 'columns'} ${columns.join(', ')} would not be stored, which --strict refuses${ids}`
}

/** Adds the name of the file to an error of the importer: `file:12: …` or `file: …`. */
function named(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || error instanceof UsageError || 'code' in error) return error
  const isNamed = error.message.startsWith(name)
  const message = isNamed
    ? error.message
    : `${name}: ${error.message}`.replace(/: line (\d+): /, ':$1: ').replace(/: (rows \d+ to \d+)/, ', $1')
  const also = { cause: error }
  return error instanceof OptionError ? new UsageError(message, also) : new Error(message, also)
}

/** Opens a file for the importer; `-` is standard input, which is read once, like a pipe. */
async function openImportFile(path: string): Promise<ImportFile & AsyncDisposable> {
  if (path === '-') return await StreamFile.open('standard input', process.stdin)
  const handle = await open(path)
  const stats = await handle.stat()
  if (stats.isFile()) return new DiskFile(path, handle, stats.size)
  await handle.close()
  return await StreamFile.open(path, createReadStream(path))
}

class DiskFile implements ImportFile, AsyncDisposable {
  readonly name: string
  readonly size: number
  readonly isSampleCut = false
  readonly #handle: FileHandle

  constructor(path: string, handle: FileHandle, size: number) {
    this.name = path
    this.#handle = handle
    this.size = size
  }

  async read(start: number, end: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(Math.max(0, Math.min(end, this.size) - start))
    let length = 0
    while (length < bytes.length) {
      const { bytesRead } = await this.#handle.read(bytes, length, bytes.length - length, start + length)
      if (bytesRead === 0) throw new Error('it has become shorter while it was read')
      length += bytesRead
    }
    return bytes
  }

  chunks(start = 0): AsyncIterable<Uint8Array> {
    const highWaterMark = Math.min(chunkBytes, Math.max(chunkBytesMin, this.size))
    return createReadStream(this.name, { start, highWaterMark })
  }

  sample(): AsyncIterable<Uint8Array> {
    return this.chunks()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close()
  }
}

class StreamFile implements ImportFile, AsyncDisposable {
  readonly name: string
  readonly size = undefined
  readonly isSampleCut: boolean
  readonly #sample: readonly Uint8Array[]
  readonly #rest: AsyncIterator<Uint8Array>

  private constructor(
    name: string,
    sample: readonly Uint8Array[],
    rest: AsyncIterator<Uint8Array>,
    isSampleCut: boolean,
  ) {
    this.name = name
    this.#sample = sample
    this.#rest = rest
    this.isSampleCut = isSampleCut
  }

  static async open(name: string, stream: AsyncIterable<Uint8Array>): Promise<StreamFile> {
    const iterator = stream[Symbol.asyncIterator]()
    const sample: Uint8Array[] = []
    let bytes = 0
    while (bytes < sampleBytes) {
      const { value, done } = await iterator.next()
      if (done) return new StreamFile(name, sample, iterator, false)
      sample.push(value)
      bytes += value.length
    }
    return new StreamFile(name, sample, iterator, true)
  }

  read(): Promise<Uint8Array> {
    throw new Error('it is a stream, of which no part can be read on its own')
  }

  async *chunks(): AsyncGenerator<Uint8Array> {
    yield* this.#sample
    if (this.isSampleCut) yield* { [Symbol.asyncIterator]: () => this.#rest }
  }

  async *sample(): AsyncGenerator<Uint8Array> {
    yield* this.#sample
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#rest.return?.()
  }
}

const chunkBytes = 1024 * 1024
/** A stream allocates a chunk for each of its reads, also of a small file. */
const chunkBytesMin = 64 * 1024
/** The first bytes of a stream, which decide the types of its columns. */
const sampleBytes = 16 * 1024 * 1024
