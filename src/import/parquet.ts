import {
  type Compressors,
  type FileMetaData,
  type ParquetParsers,
  parquetMetadataAsync,
  parquetReadObjects,
  parquetSchema,
  type RowGroup,
  type SchemaTree,
} from 'hyparquet'
import {
  decompressBrotli,
  decompressGzip,
  decompressLz4,
  decompressLz4Raw,
  decompressZstd,
} from 'hyparquet-compressors'
import { type DateTime, dateTimeOf } from '../base/attributes.ts'
import { type Cell, flattened, type ImportFile, isMap, type Row, type Table, unread } from './file.ts'
import { LostValue, parseWithDigits, roundedNumberIn, textOfBytes } from './values.ts'

/** Without the package's Snappy, which is WebAssembly: the console's page forbids that, and hyparquet has its own. */
const compressors: Compressors = {
  GZIP: decompressGzip,
  BROTLI: decompressBrotli,
  ZSTD: (input) => decompressZstd(input),
  LZ4: decompressLz4,
  LZ4_RAW: decompressLz4Raw,
}

/** Opens a Parquet file. Only the needed columns of one row group are in memory at a time. */
export async function openParquet(file: ImportFile): Promise<Table> {
  const source = {
    byteLength: file.size!,
    slice: async (start: number, end?: number): Promise<ArrayBuffer> => {
      const bytes = await file.read(start, end ?? file.size!)
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
    },
  }
  const metadata = await reading('', () => parquetMetadataAsync(source))
  const scales = takeDecimals(metadata)
  const trees = parquetSchema(metadata).children
  const opened = { source, metadata, trees, converters: convertersOf(trees, scales) }
  return {
    format: 'parquet',
    unit: 'row',
    isText: false,
    isSampleCut: false,
    names: trees.flatMap((tree) => (isPayload(tree) ? childNames(tree) : [tree.element.name])),
    rows: (_, columns) => rowsOf(opened, columns),
  }
}

/** A struct named `payload` is opened, as in JSON lines. */
function isPayload({ element, children }: SchemaTree): boolean {
  return element.name === 'payload' && children.length > 0 && element.converted_type === undefined
}

function childNames({ children }: SchemaTree): string[] {
  return children.map(({ element }) => element.name)
}

interface Opened {
  readonly source: { readonly byteLength: number; slice(start: number, end?: number): Promise<ArrayBuffer> }
  readonly metadata: FileMetaData
  readonly trees: readonly SchemaTree[]
  readonly converters: ReadonlyMap<string, Converter>
}

async function* rowsOf(opened: Opened, wanted: readonly string[] | undefined): AsyncGenerator<Row> {
  const { metadata, trees } = opened
  const isWanted = (tree: SchemaTree): boolean =>
    wanted === undefined ||
    (isPayload(tree)
      ? childNames(tree).some((name) => wanted.includes(name))
      : wanted.includes(tree.element.name))
  const columns = trees.filter(isWanted).map(({ element }) => element.name)
  const skipped = trees.filter((tree) => !isWanted(tree)).map(({ element }) => element.name)
  let row = 0
  let bytesBefore = 0
  for (const group of metadata.row_groups) {
    const rows = Number(group.num_rows)
    if (rows === 0) continue
    const { bytes, uncompressedBytes } = sizeOf(group, columns)
    if (uncompressedBytes > groupBytesMax) {
      throw new Error(
        `rows ${row} to ${row + rows - 1} are one row group of ${uncompressedBytes} bytes, at most ${groupBytesMax} can be read: write the file with smaller row groups (row_group_size=10000 in pyarrow and pandas)`,
      )
    }
    const records = await recordsOf(opened, columns, row, rows)
    for (const [index, record] of records.entries()) {
      const endBytes = bytesBefore + (bytes * (index + 1)) / rows
      yield { place: row + index + 1, endBytes, ...rowOf(record, skipped, opened.converters) }
    }
    row += rows
    bytesBefore += bytes
  }
}

function rowOf(
  record: Record<string, unknown>,
  skipped: readonly string[],
  converters: ReadonlyMap<string, Converter>,
): { readonly names: readonly string[]; readonly cell: (name: string) => Cell } | { readonly fault: string } {
  for (const [name, convert] of converters) {
    if (record[name] !== undefined) record[name] = convert(record[name])
  }
  const { fields, twice } = isMap(record.payload) ? flattened(record) : { fields: record, twice: undefined }
  if (twice !== undefined) return { fault: `\`${twice}\` is given twice, also in \`payload\`` }
  return {
    names: [...Object.keys(fields), ...skipped],
    cell: (name) =>
      Object.hasOwn(fields, name) ? fields[name] : skipped.includes(name) ? unread : undefined,
  }
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

async function recordsOf(
  { source, metadata }: Opened,
  columns: string[],
  row: number,
  rows: number,
): Promise<Record<string, unknown>[]> {
  // Without columns, the library would read all of them.
  if (columns.length === 0) return Array.from({ length: rows }, () => ({}))
  const range = { columns, rowStart: row, rowEnd: row + rows }
  return await reading(`rows ${row} to ${row + rows - 1}: `, () =>
    parquetReadObjects({ file: source, metadata, compressors, parsers, utf8: false, ...range }),
  )
}

async function reading<T>(what: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    // With damaged bytes, the library can fail in any way, also with a RangeError. Here that is a fault of the file.
    throw new Error(`${what}it cannot be read as Parquet: ${(error as Error).message}`)
  }
}

/** The library's own parsers would round dates to milliseconds, and drop a byte order mark at the start of a text. */
const parsers: Partial<ParquetParsers> = {
  timestampFromMilliseconds: (millis: bigint | undefined) => dateOf(millis, 1000n, 1n),
  timestampFromMicroseconds: (micros: bigint | undefined) => dateOf(micros, 1n, 1n),
  timestampFromNanoseconds: (nanos: bigint | undefined) => dateOf(nanos, 1n, 1000n),
  dateFromDays: (days: number | undefined) =>
    days === undefined || days === null ? undefined : dateOf(BigInt(days), 86_400_000_000n, 1n),
  stringFromBytes: (bytes: Uint8Array | undefined) =>
    bytes === undefined || bytes === null ? undefined : textIn(bytes),
  jsonFromBytes: (bytes: Uint8Array | undefined) =>
    bytes === undefined || bytes === null ? undefined : jsonIn(bytes),
}

function dateOf(value: bigint | undefined, times: bigint, by: bigint): DateTime | LostValue | undefined {
  if (value === undefined || value === null) return undefined
  const us = (value * times) / by
  const date = us * by === value * times ? dateTimeOf(us) : undefined
  const unit = `1/${(1_000_000n * by) / times} s since 1970`
  return date ?? new LostValue(`is not a date in whole microseconds: ${value} units of ${unit}`)
}

/** Bytes that are not UTF-8 stay bytes, and become a fault only where they are used. */
function textIn(bytes: Uint8Array): string | Uint8Array {
  try {
    return textOfBytes(bytes)
  } catch {
    return bytes
  }
}

/** The value of a column of JSON. */
function jsonIn(bytes: Uint8Array): Cell {
  try {
    const text = textOfBytes(bytes)
    const value: unknown = JSON.parse(text)
    const rounded = roundedNumberIn(value, () => parseWithDigits(text), 'value')
    return rounded === undefined ? value : new LostValue(`has a number that would be rounded: ${rounded}`)
  } catch {
    return new LostValue('is not JSON')
  }
}

type Converter = (value: unknown) => unknown

/**
 * Removes decimal types from the schema, and returns their scales. The library multiplies a decimal by a power of ten,
 * so that 0.35 becomes 0.35000000000000003; without the type it returns the whole number.
 */
function takeDecimals(metadata: FileMetaData): ReadonlyMap<object, number> {
  const scales = new Map<object, number>()
  for (const element of metadata.schema) {
    const { converted_type: converted, logical_type: logical } = element
    if (converted !== 'DECIMAL' && logical?.type !== 'DECIMAL') continue
    scales.set(element, (logical?.type === 'DECIMAL' ? logical.scale : undefined) ?? element.scale ?? 0)
    delete element.converted_type
    delete element.logical_type
  }
  return scales
}

function convertersOf(
  trees: readonly SchemaTree[],
  scales: ReadonlyMap<object, number>,
): ReadonlyMap<string, Converter> {
  const found = trees.map((tree) => [tree.element.name, converterOf(tree, scales)] as const)
  return new Map(found.filter((entry): entry is [string, Converter] => entry[1] !== undefined))
}

/** Converts the decimals in the values of a column, in the shape in which the library returns them. */
function converterOf(tree: SchemaTree, scales: ReadonlyMap<object, number>): Converter | undefined {
  const { element, children } = tree
  const scale = scales.get(element)
  if (scale !== undefined) return nested((value) => decimalOf(value, scale))
  const inner = children.map((child) => [child.element.name, converterOf(child, scales)] as const)
  const isWrapper =
    ['LIST', 'MAP', 'MAP_KEY_VALUE'].includes(element.converted_type ?? '') ||
    element.repetition_type === 'REPEATED'
  const [first] = inner
  if (inner.every(([, convert]) => convert === undefined)) return undefined
  // The library removes the levels between a list and its elements.
  if (isWrapper && inner.length === 1) return first![1]
  const converters = new Map(inner)
  return nested((value) =>
    isMap(value)
      ? Object.fromEntries(
          Object.entries(value).map(([name, each]) => {
            const convert = isWrapper ? converters.get('value') : converters.get(name)
            return [name, convert === undefined ? each : convert(each)]
          }),
        )
      : value,
  )
}

/** Applies a conversion to a value, or to each element of nested lists. */
function nested(convert: Converter): Converter {
  const apply: Converter = (value) => {
    if (value === undefined || value === null) return value
    if (Array.isArray(value)) return value.map(apply)
    const isNumbers = ArrayBuffer.isView(value) && !(value instanceof Uint8Array)
    return isNumbers ? Array.from(value as unknown as ArrayLike<unknown>, apply) : convert(value)
  }
  return apply
}

/** The number that the text of a decimal parses to. */
function decimalOf(value: unknown, scale: number): number | LostValue {
  const unscaled = value instanceof Uint8Array ? signedIn(value) : BigInt(value as number | bigint)
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, '0')
  const point = digits.length - scale
  const text = `${unscaled < 0n ? '-' : ''}${digits.slice(0, point)}${scale > 0 ? '.' : ''}${digits.slice(point)}`
  const isLarge = BigInt(digits) > 2n ** 53n * 10n ** BigInt(scale)
  return isLarge
    ? new LostValue(`is ${text}: decimals are at most 2^53; text can hold larger ones`)
    : Number(text)
}

/** A big-endian number in two's complement. */
function signedIn(bytes: Uint8Array): bigint {
  let value = 0n
  for (const byte of bytes) value = value * 256n + BigInt(byte)
  return bytes.length > 0 && bytes[0]! >= 128 ? value - 256n ** BigInt(bytes.length) : value
}

/** Decoded lists of numbers take up to nine times as much memory: Node's heap has 4 GiB by default, and a tab less. */
const groupBytesMax = 256 * 1024 * 1024
