import type { SchemaElement } from 'hyparquet'
import { ByteWriter, type ColumnSource, ParquetWriter } from 'hyparquet-writer'
import { attributesToJson } from '../base/attribute-json.ts'
import type { Point } from '../base/point.ts'

/**
 * Writes points as a Parquet file that `import` reads back exactly. A row group is written as soon as it is full, so
 * memory use is constant.
 */
export async function writeParquet(
  points: AsyncIterable<Point>,
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
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
