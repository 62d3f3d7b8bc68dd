import { crc32 } from 'node:zlib'
import { DatabaseError } from '../../base/errors.ts'
import { idBytes, idFromBytes, writeIdBytes } from '../../base/ids.ts'
import type { CatalogRecord } from '../catalog.ts'
import { ByteSource } from '../snapshot/snapshot-reader.ts'
import type { JournalRange } from '../store.ts'
import type { GroupPart } from '../writer/writer-messages.ts'

/**
 * The bytes of a journal of changes. It is one sequence of records, in the order of the commits; a place in it is the
 * number of bytes before. Integers are u32 and numbers f64, little-endian.
 *
 *   ├ bytes of the rest │ crc of the rest │ kind u8 │ time, ms since 1970 │ id 16 │ content ┤
 *
 *   kind          id               content
 *   place         of the journal   oldest kept place │ first place │ end │ CRC of all bytes up to the end: the first record of a stream
 *   points        database id      sequence before │ sequence after │ dimension │ bytes of rows │ bytes of both
 *                                  │ rows and records, as in group-parts.ts │ ids of deleted points, 16 bytes each
 *   created       database id      the JSON of a `CatalogRecord`
 *   declared      database id      the same: a collection has other aliases or settings, or is dropped
 *
 * A large group has several records of points of the same time. Those after the first have its sequence after as both.
 */

export interface PointsChange {
  readonly kind: 'points'
  readonly timeMs: number
  readonly databaseId: string
  /** The sequence number of the collection before and after. */
  readonly since: number
  readonly sequence: number
  readonly part: Pick<GroupPart, 'dimension' | 'packed' | 'rowsBytes'>
  /** 16 bytes each. */
  readonly deleted: Buffer
}

export interface CollectionChange {
  readonly kind: 'created' | 'declared'
  readonly timeMs: number
  readonly databaseId: string
  readonly collection: CatalogRecord
}

type PlaceRecord = JournalRange & { readonly kind: 'place' }
export type ChangeRecord = PlaceRecord | PointsChange | CollectionChange

/** The first record of a stream of changes. */
export function encodeRange({ id, start, from, to, sum, timeMs }: JournalRange): Buffer {
  return Buffer.concat(sealed('place', timeMs, id, [numbers(start, from, to, sum)]))
}

/** The parts of a record, in order: they are not copied. */
export function encodePoints({
  timeMs,
  databaseId,
  since,
  sequence,
  part,
  deleted,
}: PointsChange): Uint8Array[] {
  const { dimension, rowsBytes, packed } = part
  const head = [numbers(since, sequence), integers(dimension, rowsBytes, packed.length)]
  return sealed('points', timeMs, databaseId, [...head, packed, deleted])
}

/** @param json of a `CatalogRecord` */
export function encodeCollection(
  kind: CollectionChange['kind'],
  timeMs: number,
  databaseId: string,
  json: Uint8Array,
): Uint8Array[] {
  return sealed(kind, timeMs, databaseId, [json])
}

function sealed(
  kind: ChangeRecord['kind'],
  timeMs: number,
  id: string,
  content: readonly Uint8Array[],
): Uint8Array[] {
  const head = Buffer.alloc(headBytes)
  const bytes = content.reduce((sum, { length }) => sum + length, headBytes - sealBytes)
  head.writeUInt32LE(bytes, 0)
  head[sealBytes] = kinds.indexOf(kind)
  head.writeDoubleLE(timeMs, timeAt)
  writeIdBytes(id, head, idAt)
  const crc = content.reduce((sum, each) => crc32(each, sum), crc32(head.subarray(sealBytes)))
  head.writeUInt32LE(crc, 4)
  return [head, ...content]
}

/**
 * Reads records from chunks of any size, and verifies every byte.
 *
 * @throws DatabaseError `invalid_argument` if they are damaged or cut off
 */
export async function* recordsIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ChangeRecord> {
  const source = new ByteSource(chunks, unusable)
  try {
    while (!(await source.isAtEnd())) {
      const { position } = source
      const seal = Buffer.from(await source.take(sealBytes))
      const bytes = seal.readUInt32LE(0)
      const rest = bytes >= headBytes - sealBytes ? await source.take(bytes) : undefined
      const record = rest !== undefined && crc32(rest) === seal.readUInt32LE(4) ? recordOf(rest) : undefined
      if (record === undefined) throw unusable(`the record at byte ${position} does not match its checksum`)
      yield record
    }
  } finally {
    await source.close()
  }
}

function recordOf(rest: Buffer): ChangeRecord | undefined {
  const kind = kinds[rest[0]!]
  const timeMs = rest.readDoubleLE(timeAt - sealBytes)
  const id = idFromBytes(rest.subarray(idAt - sealBytes, idAt - sealBytes + idBytes))
  const content = rest.subarray(headBytes - sealBytes)
  if (kind === 'place') {
    const [start, from, to, sum] = [0, 8, 16, 24].map((at) => content.readDoubleLE(at)) as [
      number,
      number,
      number,
      number,
    ]
    return { kind, timeMs, id, start, from, to, sum }
  }
  if (kind === 'created' || kind === 'declared') {
    return { kind, timeMs, databaseId: id, collection: JSON.parse(content.toString()) as CatalogRecord }
  }
  if (kind !== 'points') return undefined
  const end = pointsHeadBytes + content.readUInt32LE(24)
  // Rows are read as floats, so they need memory of their own.
  const packed = new Uint8Array(end - pointsHeadBytes)
  packed.set(content.subarray(pointsHeadBytes, end))
  return {
    kind,
    timeMs,
    databaseId: id,
    since: content.readDoubleLE(0),
    sequence: content.readDoubleLE(8),
    part: { dimension: content.readUInt32LE(16), rowsBytes: content.readUInt32LE(20), packed },
    deleted: content.subarray(end),
  }
}

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length)
  for (const [index, value] of values.entries()) bytes.writeDoubleLE(value, 8 * index)
  return bytes
}

function integers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value, 4 * index)
  return bytes
}

function unusable(fault: string): DatabaseError {
  return new DatabaseError('invalid_argument', `the changes cannot be used: ${fault}`)
}

const kinds = ['place', 'points', 'created', 'declared'] as const
const sealBytes = 8
const timeAt: number = sealBytes + 1
const idAt: number = timeAt + 8
const headBytes: number = idAt + idBytes
/** Length of the first record of a stream. */
export const rangeBytes: number = headBytes + 32
const pointsHeadBytes = 28
