import {
  type Compressors,
  type FileMetaData,
  type ParquetParsers,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
} from 'hyparquet'
import {
  decompressBrotli,
  decompressGzip,
  decompressLz4,
  decompressLz4Raw,
  decompressZstd,
} from 'hyparquet-compressors'
import type { JsonObject, JsonValue } from '../api/types.ts'
import type { Row, RowSource } from './rows.ts'

/**
 * Replaces the package's own table, whose Snappy decoder is WebAssembly. The page's content security policy forbids
 * that, and hyparquet itself decodes Snappy.
 */
const compressors: Compressors = {
  GZIP: decompressGzip,
  BROTLI: decompressBrotli,
  ZSTD: (input) => decompressZstd(input),
  LZ4: decompressLz4,
  LZ4_RAW: decompressLz4Raw,
}

/** Replaces hyparquet's own parsers, which round timestamps to milliseconds. */
const parsers: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (value: bigint | undefined) => momentOf(value, 1000n),
  timestampFromMicroseconds: (value: bigint | undefined) => momentOf(value, 1_000_000n),
  timestampFromNanoseconds: (value: bigint | undefined) => momentOf(value, 1_000_000_000n),
  dateFromDays: (value: number | undefined) =>
    momentOf(value === undefined || value === null ? undefined : BigInt(value) * 86_400n, 1n),
}

/** A timestamp with all its digits. The server refuses a timestamp that it cannot store exactly. */
function momentOf(value: bigint | undefined, perSecond: bigint): JsonValue | undefined {
  if (value === undefined || value === null) return undefined
  const fraction = ((value % perSecond) + perSecond) % perSecond
  const whole = new Date(Number(((value - fraction) / perSecond) * 1000n)).toISOString().slice(0, 19)
  const digits = perSecond === 1n ? '' : fraction.toString().padStart(perSecond.toString().length - 1, '0')
  const shown = digits.replace(/0+$/, '')
  return { $date: `${whole}${shown === '' ? '' : `.${shown}`}Z` }
}

/** Decoded lists of numbers take up to nine times as much memory, and a tab has a few gigabytes. */
const maxGroupBytes = 256 * 1024 * 1024

interface Source {
  readonly byteLength: number
  slice(start: number, end?: number): Promise<ArrayBuffer>
}

/** Opens a Parquet file. One row group at a time is in memory. */
export async function openParquet(file: Blob): Promise<RowSource> {
  const source: Source = {
    byteLength: file.size,
    slice: (start, end) => file.slice(start, end).arrayBuffer(),
  }
  const metadata = await parquetMetadataAsync(source).catch((error: unknown) => {
    throw new Error(`The file cannot be read as Parquet: ${(error as Error).message}`)
  })
  const names = parquetSchema(metadata).children.map(({ element }) => element.name)
  return { format: 'Parquet', unit: 'row', isTyped: true, rows: () => rowsOf(source, metadata, names) }
}

async function* rowsOf(
  source: Source,
  metadata: FileMetaData,
  names: readonly string[],
): AsyncGenerator<Row> {
  let start = 0
  let bytesBefore = 0
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows)
    const chunks = group.columns.map(({ meta_data: chunk }) => chunk)
    const uncompressed = sum(chunks.map((chunk) => Number(chunk?.total_uncompressed_size ?? 0)))
    if (uncompressed > maxGroupBytes) {
      throw new Error(
        `Rows ${start + 1} to ${start + rows} are one row group of ${uncompressed} bytes; the limit is ${maxGroupBytes}. Write smaller row groups: row_group_size=10000 in pyarrow and pandas.`,
      )
    }
    const groupBytes = sum(chunks.map((chunk) => Number(chunk?.total_compressed_size ?? 0)))
    const range = { rowStart: start, rowEnd: start + rows }
    const records = await parquetReadObjects({
      file: source,
      metadata,
      compressors,
      parsers,
      utf8: false,
      ...range,
    }).catch((error: unknown) => {
      throw new Error(`Rows ${start + 1} to ${start + rows} cannot be read: ${(error as Error).message}`)
    })
    for (const [index, record] of records.entries()) {
      const endBytes = Math.round(bytesBefore + (groupBytes * (index + 1)) / rows)
      yield { place: start + index + 1, endBytes, ...rowOf(record as Record<string, unknown>, names) }
    }
    start += rows
    bytesBefore += groupBytes
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function rowOf(
  record: Readonly<Record<string, unknown>>,
  names: readonly string[],
): { readonly record: JsonObject } | { readonly fault: string } {
  const fields: [string, JsonValue][] = []
  for (const name of names) {
    try {
      const value = jsonOf(record[name])
      if (value !== undefined) fields.push([name, value])
    } catch (error) {
      return { fault: `${name} ${(error as Error).message}` }
    }
  }
  return { record: Object.fromEntries(fields) }
}

/** A value as JSON; undefined if it is missing. Many tools write a missing value as NaN. */
function jsonOf(value: unknown): JsonValue | undefined {
  if (value === undefined || value === null || Number.isNaN(value)) return undefined
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' || typeof value === 'bigint') return exactNumber(value)
  if (value instanceof Uint8Array) return decoded(value)
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return listOf(value as unknown as ArrayLike<unknown>)
  const entries = Object.entries(value as object).map(([name, each]) => [name, jsonOf(each)] as const)
  return Object.fromEntries(entries.filter((entry): entry is [string, JsonValue] => entry[1] !== undefined))
}

function listOf(list: ArrayLike<unknown>): JsonValue {
  return Array.from(list, (each) => {
    const value = jsonOf(each)
    if (value === undefined) throw new Error('is a list with a missing value')
    return value
  })
}

function exactNumber(value: number | bigint): number {
  const number = Number(value)
  if (!Number.isFinite(number)) throw new Error(`is ${number}`)
  if (typeof value === 'bigint' && BigInt(number) !== value)
    throw new Error(`is ${value}, which a 64-bit float cannot represent exactly`)
  return number
}

function decoded(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new Error('is not UTF-8')
  }
}
