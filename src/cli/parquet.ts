import { isUtf8 } from 'node:buffer'
import {
  type AsyncBuffer,
  asyncBufferFromFile,
  type FileMetaData,
  type ParquetParsers,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
  type RowGroup,
} from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { type AttributeValue, DateTime } from '../base/attributes.ts'
import { dateTimeOf } from '../base/datetime.ts'
import { type CellReader, type ColumnPlan, outcomeOfRow, planColumns } from './columns.ts'
import type { Item, ReaderOptions } from './items.ts'

/** Reads the rows of a Parquet file. Only the needed columns of one row group are in memory at a time. */
export async function* readParquet(file: string, options: ReaderOptions): AsyncGenerator<Item> {
  const source = await asyncBufferFromFile(file)
  const metadata = await reading(file, () => parquetMetadataAsync(source))
  const names = parquetSchema(metadata).children.map(({ element }) => element.name)
  const plan = planColumns(file, names, options)
  const columns = columnsOf(plan)
  let row = 0
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows)
    if (rows === 0) continue
    const { bytes, uncompressedBytes } = sizeOf(group, columns)
    if (uncompressedBytes > groupBytesMax) {
      throw new Error(
        `${file}: rows ${row} to ${row + rows - 1} are one row group of ${uncompressedBytes} bytes, at most ${groupBytesMax} can be read: write the file with smaller row groups (row_group_size=10000 in pyarrow and pandas)`,
      )
    }
    const range = { columns, rowStart: row, rowEnd: row + rows }
    for (const record of await groupOf(file, source, metadata, range)) {
      const where = `${file}, row ${row}`
      yield { where, bytes: bytes / rows, ...outcomeOfRow((column) => record[column], plan, cells, options) }
      row += 1
    }
  }
}

function columnsOf({ vector, others, ...single }: ColumnPlan): string[] {
  const named = [single.content, single.id, single.contentType, single.attributes, single.expiresAt]
  return [...new Set([...vector, ...others, ...named.filter((name) => name !== undefined)])]
}

function sizeOf(
  { columns: chunks }: RowGroup,
  columns: readonly string[],
): { bytes: number; uncompressedBytes: number } {
  let bytes = 0
  let uncompressedBytes = 0
  for (const { meta_data: chunk } of chunks) {
    bytes += Number(chunk?.total_compressed_size ?? 0)
    if (!columns.includes(chunk?.path_in_schema[0] ?? '')) continue
    uncompressedBytes += Number(chunk?.total_uncompressed_size ?? 0)
  }
  return { bytes, uncompressedBytes }
}

function groupOf(
  file: string,
  source: AsyncBuffer,
  metadata: FileMetaData,
  range: { readonly columns: string[]; readonly rowStart: number; readonly rowEnd: number },
): Promise<Record<string, unknown>[]> {
  return reading(`${file}, rows ${range.rowStart} to ${range.rowEnd - 1}`, () =>
    parquetReadObjects({ file: source, metadata, compressors, parsers, utf8: false, ...range }),
  )
}

async function reading<T>(what: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    // With damaged bytes, the library can fail in any way, also with a RangeError. Here that is a fault of the file.
    throw new Error(`${what}: ${(error as Error).message}`)
  }
}

/** A moment that whole microseconds cannot represent. */
class LostMoment {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** The library's own parsers would round moments to milliseconds, and drop a byte order mark at the start of a text. */
const parsers: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (millis: bigint | undefined) => momentOf(millis, 1000n, 1n),
  timestampFromMicroseconds: (micros: bigint | undefined) => momentOf(micros, 1n, 1n),
  timestampFromNanoseconds: (nanos: bigint | undefined) => momentOf(nanos, 1n, 1000n),
  dateFromDays: (days: number | undefined) =>
    days === undefined || days === null ? undefined : momentOf(BigInt(days), 86_400_000_000n, 1n),
  stringFromBytes: (bytes: Uint8Array | undefined) =>
    bytes === undefined || bytes === null ? undefined : textIn(bytes),
  jsonFromBytes: (bytes: Uint8Array | undefined) =>
    bytes === undefined || bytes === null ? undefined : textIn(bytes),
}

function momentOf(value: bigint | undefined, times: bigint, by: bigint): DateTime | LostMoment | undefined {
  if (value === undefined || value === null) return undefined
  const us = (value * times) / by
  const moment = us * by === value * times ? dateTimeOf(us) : undefined
  return moment ?? new LostMoment(`${value} units of 1/${(1_000_000n * by) / times} s since 1970`)
}

function textIn(bytes: Uint8Array): string | Uint8Array {
  return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString() : bytes
}

const cells: CellReader = {
  vector: (cell) => {
    if (!Array.isArray(cell) && !ArrayBuffer.isView(cell)) throw new Error('is not a list of numbers')
    const list = cell as ArrayLike<unknown>
    return Array.from(list, (each) => numberIn(each))
  },
  number: numberIn,
  attribute: (cell) => attributeOf(cell),
}

function numberIn(cell: unknown): number {
  if (typeof cell === 'bigint') return Number(cell)
  if (typeof cell === 'number') return cell
  throw new Error(cell === undefined || cell === null ? 'has no number' : 'is not made of numbers')
}

/** Converts a cell to an attribute. Many tools write NaN for a missing number. */
function attributeOf(cell: unknown): AttributeValue | undefined {
  if (cell === undefined || cell === null || Number.isNaN(cell)) return undefined
  if (typeof cell === 'string' || typeof cell === 'boolean' || cell instanceof DateTime) return cell
  if (typeof cell === 'bigint' || typeof cell === 'number') return exactNumber(cell)
  if (cell instanceof LostMoment) throw new Error(`is not a moment in whole microseconds: ${cell.text}`)
  if (cell instanceof Uint8Array) return decoded(cell)
  if (Array.isArray(cell) || ArrayBuffer.isView(cell)) return listOf(cell as ArrayLike<unknown>)
  const entries = Object.entries(cell as object).map(([name, each]) => [name, attributeOf(each)] as const)
  return new Map(entries.filter((entry): entry is [string, AttributeValue] => entry[1] !== undefined))
}

function exactNumber(cell: bigint | number): number {
  const value = Number(cell)
  if (!Number.isFinite(value)) throw new Error(`is ${value}`)
  if (typeof cell === 'bigint' && BigInt(value) !== cell)
    throw new Error(`is ${cell}, which a number cannot represent exactly`)
  return value
}

function decoded(bytes: Uint8Array): string {
  const text = textIn(bytes)
  if (typeof text === 'string') return text
  throw new Error('is not UTF-8')
}

function listOf(list: ArrayLike<unknown>): AttributeValue[] {
  return Array.from(list, (each) => {
    const value = attributeOf(each)
    if (value === undefined) throw new Error('is a list with a missing element')
    return value
  })
}

/** Decoded lists of numbers take up to nine times as much memory, and the default limit of Node's heap is 4 GiB. */
const groupBytesMax = 384 * 1024 * 1024
