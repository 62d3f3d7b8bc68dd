import { once } from 'node:events'
import { existsSync } from 'node:fs'
import type { SchemaElement } from 'hyparquet'
import type { ColumnSource } from 'hyparquet-writer'
import { attributesToJson, DateTime, formatDateTime, jsonNumbers } from '../base/attributes.ts'
import type { Point } from '../base/point.ts'
import { SnapshotReader, writeWholeFile } from '../service/stored-data.ts'
import { type Environment, UsageError } from './arguments.ts'
import { checkOthers, type SourceOptions, snapshotBytes } from './snapshot.ts'

type ExportFormat = 'jsonl' | 'parquet'

export interface ExportOptions extends SourceOptions {
  readonly format?: ExportFormat
}

/**
 * Writes all points in a format that `import` reads, with exact float32 numbers: JSON lines, or Parquet if the options
 * or the ending of the file say so. Writes to standard output, or to a file, which is complete or not created.
 */
export async function exportPoints(
  file: string | undefined,
  options: ExportOptions,
  environment: Environment,
): Promise<void> {
  if (file !== undefined && file !== '-' && existsSync(file)) throw new UsageError(`${file} already exists`)
  const format = options.format ?? formatOf(file)
  if (file === undefined || file === '-') {
    const { points } = await writePoints(format, options, environment, async (chunk) => {
      if (!process.stdout.write(chunk)) await once(process.stdout, 'drain')
    })
    await checkOthers(points, options, environment)
    console.error(`${points} points`)
    return
  }
  let summary = ''
  await writeWholeFile(`${file}.partial-${process.pid}`, async (handle) => {
    const { points, sequence } = await writePoints(format, options, environment, (chunk) =>
      handle.writeFile(chunk),
    )
    await checkOthers(points, options, environment)
    summary = `${points} points, sequence ${sequence}`
    return file
  })
  // Not before the file has its name: if nobody reads standard output, printing ends the process.
  console.log(summary)
}

/** The format by the ending of the file. A file with the ending of another format would mislead its reader. */
function formatOf(file: string | undefined): ExportFormat {
  const ending = /\.[^./\\]*$/.exec(file ?? '')?.[0].toLowerCase() ?? ''
  if (ending === '.parquet') return 'parquet'
  if (['', '.jsonl', '.ndjson', '.json'].includes(ending)) return 'jsonl'
  throw new UsageError(
    `export writes .jsonl and .parquet files, not ${ending}: name such a file, or choose the format with --format jsonl`,
  )
}

async function writePoints(
  format: ExportFormat,
  options: SourceOptions,
  environment: Environment,
  write: (chunk: string | Uint8Array) => Promise<void>,
): Promise<SnapshotReader['header']> {
  const reader = await SnapshotReader.open(snapshotBytes(options, environment))
  if (format === 'parquet') await writeParquet(reader.points(), write)
  else await writeLines(reader.points(), write)
  return reader.header
}

async function writeLines(
  points: AsyncIterable<Point>,
  write: (text: string) => Promise<void>,
): Promise<void> {
  let text = ''
  for await (const point of points) {
    text += lineOf(point)
    if (text.length < writeChars) continue
    await write(text)
    text = ''
  }
  if (text !== '') await write(text)
}

function lineOf({ id, vector, payload }: Point): string {
  const { contentType, content, attributes, expiresAtUs } = payload
  const fields = [
    `"id":"${id}"`,
    `"vector":${jsonNumbers(vector)}`,
    JSON.stringify({ content_type: contentType, content }).slice(1, -1),
    ...(attributes === undefined ? [] : [`"attributes":${attributesToJson(attributes)}`]),
    ...(expiresAtUs === undefined ? [] : [`"expires_at":"${formatDateTime(new DateTime(expiresAtUs))}"`]),
  ]
  const line = `{${fields.join(',')}}\n`
  // JSON allows these two characters, but many readers of lines, including Node's, take them for ends of lines.
  return line.replace(/[\u2028\u2029]/g, (end) => (end === '\u2028' ? '\\u2028' : '\\u2029'))
}

const writeChars = 1024 * 1024

/**
 * Writes points as a Parquet file that `import` reads back exactly. A row group is written as soon as it is full, so
 * memory use is constant.
 */
async function writeParquet(
  points: AsyncIterable<Point>,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const { ByteWriter, ParquetWriter } = await import('hyparquet-writer')
  const bytes = new ByteWriter()
  const flush = async (): Promise<void> => {
    const written = bytes.getBytes().slice()
    bytes.index = 0
    await write(written)
  }
  const parquet = new ParquetWriter({
    writer: Object.assign(bytes, { flush, finish: flush }),
    schema,
    createdBy: 'vicinal',
  })
  let group: Point[] = []
  let groupBytes = 0
  for await (const point of points) {
    group.push(point)
    groupBytes += point.vector.byteLength + Buffer.byteLength(point.payload.content) + pointBytes
    if (groupBytes < groupBytesMax) continue
    await parquet.write({ columnData: columnsOf(group), rowGroupSize: group.length })
    group = []
    groupBytes = 0
  }
  if (group.length > 0) await parquet.write({ columnData: columnsOf(group), rowGroupSize: group.length })
  await parquet.finish()
}

function columnsOf(points: readonly Point[]): ColumnSource[] {
  return [
    { name: 'id', data: points.map(({ id }) => id) },
    // A dictionary would turn -0 into 0.
    {
      name: 'vector',
      data: points.map(({ vector }) => Array.from(vector)),
      encoding: 'PLAIN',
      statistics: false,
    },
    { name: 'content', data: points.map(({ payload }) => payload.content), statistics: false },
    { name: 'content_type', data: points.map(({ payload }) => payload.contentType) },
    {
      name: 'attributes',
      data: points.map(({ payload: { attributes } }) =>
        attributes === undefined ? undefined : attributesToJson(attributes),
      ),
      statistics: false,
    },
    {
      name: 'expires_at',
      data: points.map(({ payload: { expiresAtUs } }) =>
        expiresAtUs === undefined ? undefined : BigInt(expiresAtUs),
      ),
    },
  ]
}

const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8' } as const

const schema: SchemaElement[] = [
  { name: 'root', num_children: 6 },
  { name: 'id', repetition_type: 'REQUIRED', ...text },
  { name: 'vector', repetition_type: 'REQUIRED', converted_type: 'LIST', num_children: 1 },
  { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  { name: 'element', repetition_type: 'REQUIRED', type: 'FLOAT' },
  { name: 'content', repetition_type: 'REQUIRED', ...text },
  { name: 'content_type', repetition_type: 'REQUIRED', ...text },
  { name: 'attributes', repetition_type: 'OPTIONAL', ...text },
  {
    name: 'expires_at',
    repetition_type: 'OPTIONAL',
    type: 'INT64',
    logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
  },
]

/** Bytes of vectors and contents in a row group; the writer needs a few times as much memory. */
const groupBytesMax = 8 * 1024 * 1024
/** Approximate bytes of the rest of a point. */
const pointBytes = 64
