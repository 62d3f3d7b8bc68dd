import { crc32 } from 'node:zlib'
import { assert } from '../base/errors.ts'
import { idBytes, idFromBytes, writeIdBytes } from '../base/ids.ts'
import {
  type Applied,
  appliedBytes,
  appliedBytesOf,
  heldBytes,
  readApplied,
  writeApplied,
} from './applied.ts'

/**
 * The format of the files of a collection. Numbers are little-endian; checksums are CRC-32 (zlib's).
 *
 * DATA_DIR/collections/NUMBER/vectors.rows has a header, then one row of fixed length for each slot:
 *
 *   0         8         12          16       20                   4096
 *   ├─────────┼─────────┼───────────┼────────┼────────────────────┤
 *   │ VICNROWS│ version │ dimension │ crc of │ zeros              │
 *   │         │ u32     │ u32       │ 0..16  │                    │
 *   └─────────┴─────────┴───────────┴────────┴────────────────────┘
 *
 *   4096 + slot * (28 + 4 * dimension)
 *   ├─────────┼──────────────┼──────────────────────┼─────────────────────┤
 *   │ id      │ sequence f64 │ vector f32 x dim     │ crc of all before   │
 *   │ 16      │ 8            │ 4 * dim              │ 4                   │
 *   └─────────┴──────────────┴──────────────────────┴─────────────────────┘
 *
 * A row is valid only while its slot's bit is set in LMDB. A row that was written for a commit that never happened is
 * garbage; the next use of the slot overwrites it.
 *
 * DATA_DIR/collections.mdb has three tables of all collections. Each key begins with the number of the collection
 * (catalog.ts); the rest of the key is a u32:
 *
 *   payloads   slot          ->  everything that is not in the row: see payload-record.ts
 *   live       slot >> 12    ->  512 bytes: bit (slot & 7) of byte (slot & 4095) >> 3 is set for a live slot;
 *                               crc of the key and of these
 *   meta       0             ->  dimension u32 (0: none yet) | sequence f64 | slots f64 | points f64 |
 *                               oldest keyed request u32 | keyed requests u32 | bytes of their refusals f64 |
 *                               on a node of a cluster: the state of a replica, see applied.ts | crc of all before
 *              1             ->  database id 16 | crc
 *              2 + number    ->  a keyed request: see keyed-requests.ts
 *              2^31 + first 31 bits of a key's hash
 *                            ->  numbers of the requests with these bits in their keys' hashes, u32 each |
 *                               crc of the key and of these
 *
 * Keyed requests are numbered in the order of their commits, modulo 2^31 - 2. They are a queue, the oldest first.
 */

/** The version of the row file. */
export const rowsVersion = 2

export const rowsHeaderBytes = 4096
const rowsMagic = Buffer.from('VICNROWS')
export const rowHeadBytes: number = idBytes + 8

export function rowBytesOf(dimension: number): number {
  return rowHeadBytes + dimension * 4 + 4
}

export function rowsHeader(dimension: number): Buffer {
  const header = Buffer.alloc(rowsHeaderBytes)
  rowsMagic.copy(header)
  header.writeUInt32LE(rowsVersion, 8)
  header.writeUInt32LE(dimension, 12)
  header.writeUInt32LE(crc32(header.subarray(0, 16)), 16)
  return header
}

/** Whether the bytes are an undamaged header, of any version and dimension. */
export function isRowsHeader(header: Buffer): boolean {
  if (header.length < 20 || !header.subarray(0, 8).equals(rowsMagic)) return false
  return header.readUInt32LE(16) === crc32(header.subarray(0, 16))
}

/** Returns the fault of a row file's header, or undefined. */
export function faultOfRowsHeader(header: Buffer, dimension: number): string | undefined {
  if (!header.subarray(0, 8).equals(rowsMagic)) return 'it does not begin like a row file'
  if (!isRowsHeader(header)) return 'its header does not match its checksum'
  const version = header.readUInt32LE(8)
  if (version !== rowsVersion) return `it has format version ${version}, this program reads ${rowsVersion}`
  const stored = header.readUInt32LE(12)
  return stored === dimension ? undefined : `it holds vectors of ${stored} dimensions, not ${dimension}`
}

/** Writes a row at `offset` of `target`, except for its checksum. */
export function packRow(
  target: Buffer,
  offset: number,
  row: { readonly id: string; readonly sequence: number; readonly vector: Float32Array },
): void {
  const { buffer, byteOffset, byteLength } = row.vector
  writeIdBytes(row.id, target, offset)
  target.writeDoubleLE(row.sequence, offset + idBytes)
  target.set(new Uint8Array(buffer, byteOffset, byteLength), offset + rowHeadBytes)
}

/** Fills in the checksum of the row of `rowBytes` at `offset`. */
export function sealRow(target: Buffer, offset: number, rowBytes: number): void {
  const end = offset + rowBytes - 4
  target.writeUInt32LE(crc32(target.subarray(offset, end)), end)
}

/** Views of the parts of a row in a buffer that is reused for reading. */
export class RowView {
  /** The whole row. */
  readonly bytes: Buffer
  readonly id: Buffer
  readonly vector: Float32Array
  readonly vectorBytes: Buffer
  readonly #sealed: Buffer
  readonly #numbers: DataView

  /** @param offset a multiple of 4 in the memory that the buffer is a view of */
  constructor(source: Buffer, offset: number, dimension: number) {
    const end = offset + rowHeadBytes + 4 * dimension
    const at = source.byteOffset + offset
    this.bytes = source.subarray(offset, offset + rowBytesOf(dimension))
    this.id = source.subarray(offset, offset + idBytes)
    this.vector = new Float32Array(source.buffer, at + rowHeadBytes, dimension)
    this.vectorBytes = source.subarray(offset + rowHeadBytes, end)
    this.#sealed = source.subarray(offset, end)
    this.#numbers = new DataView(source.buffer, at, rowBytesOf(dimension))
  }

  /** Returns the sequence number of the row in the buffer; undefined if the checksum does not match. */
  verify(): number | undefined {
    if (this.#numbers.getUint32(this.#sealed.length, true) !== crc32(this.#sealed)) return undefined
    return this.#numbers.getFloat64(idBytes, true)
  }
}

/** Views of all rows that fit into a buffer. */
export function rowViews(source: Buffer, dimension: number): RowView[] {
  const rowBytes = rowBytesOf(dimension)
  const count = Math.floor(source.length / rowBytes)
  return Array.from({ length: count }, (_, index) => new RowView(source, index * rowBytes, dimension))
}

/** Slots in one value of the table `live`. */
export const slotsPerBlock = 4096

export const blockBytes: number = slotsPerBlock / 8

/** The bits of one block of slots, none set. */
export const emptyBlock: Buffer = Buffer.alloc(blockBytes)

/** The value of a block of bits in the table `live`. */
export function encodeBlock(block: number, bits: Buffer): Buffer {
  const value = Buffer.alloc(blockBytes + 4)
  bits.copy(value)
  value.writeUInt32LE(checksumUnder(block, bits), blockBytes)
  return value
}

/** Returns a copy of the bits; undefined if they do not match their checksum. */
export function decodeBlock(block: number, value: Buffer): Buffer | undefined {
  const bits = Buffer.from(value.subarray(0, blockBytes))
  const isWhole = value.length === blockBytes + 4
  return isWhole && value.readUInt32LE(blockBytes) === checksumUnder(block, bits) ? bits : undefined
}

/** The checksum of a key and its value. */
export function checksumUnder(key: number, value: Buffer): number {
  const keyBytes = Buffer.alloc(4)
  keyBytes.writeUInt32LE(key)
  return crc32(value, crc32(keyBytes))
}

export interface Meta {
  /** Undefined until the first insertion. */
  readonly dimension: number | undefined
  readonly sequence: number
  readonly slotCount: number
  /** Number of live points. There must be as many payloads and live bits. */
  readonly pointCount: number
  readonly keyedRequests: RequestQueue
  /** Only on a node of a cluster. */
  readonly applied?: Applied | undefined
}

/** The numbers of the keyed requests, from the oldest on. */
export interface RequestQueue {
  readonly first: number
  readonly count: number
  /** Disk space of their refusals: see `refusalBytesOf`. */
  readonly refusalBytes: number
}

export const emptyQueue: RequestQueue = { first: 0, count: 0, refusalBytes: 0 }

export const emptyMeta: Meta = {
  dimension: undefined,
  sequence: 0,
  slotCount: 0,
  pointCount: 0,
  keyedRequests: emptyQueue,
}

export function encodeMeta(meta: Meta): Buffer {
  const { dimension, sequence, slotCount, pointCount, keyedRequests, applied } = meta
  assert(pointCount <= slotCount && slotCount <= 2 ** 32, 'every point has a slot')
  assert(Number.isSafeInteger(sequence) && sequence >= 0, 'a sequence number is whole and exact')
  const value = Buffer.alloc(appliedAt + (applied === undefined ? 0 : appliedBytesOf(applied)) + 4)
  let at = value.writeUInt32LE(dimension ?? 0, 0)
  at = value.writeDoubleLE(sequence, at)
  at = value.writeDoubleLE(slotCount, at)
  at = value.writeDoubleLE(pointCount, at)
  at = value.writeUInt32LE(keyedRequests.first, at)
  at = value.writeUInt32LE(keyedRequests.count, at)
  value.writeDoubleLE(keyedRequests.refusalBytes, at)
  if (applied !== undefined) writeApplied(applied, value, appliedAt)
  const end = value.length - 4
  value.writeUInt32LE(crc32(value.subarray(0, end)), end)
  return value
}

/** Offset of the state of a replica. */
const appliedAt = 44
const metaLengths: readonly number[] = [0, appliedBytes, appliedBytes + heldBytes].map(
  (bytes) => appliedAt + bytes + 4,
)

/** Keys of the table `meta`. */
export const metaKeys = { state: 0, databaseId: 1 } as const

export function encodeDatabaseId(id: string): Buffer {
  const value = Buffer.alloc(idBytes + 4)
  writeIdBytes(id, value, 0)
  value.writeUInt32LE(crc32(value.subarray(0, idBytes)), idBytes)
  return value
}

/** Returns undefined if the record does not match its checksum. */
export function decodeDatabaseId(value: Buffer): string | undefined {
  const isWhole = value.length === idBytes + 4
  if (!isWhole || value.readUInt32LE(idBytes) !== crc32(value.subarray(0, idBytes))) return undefined
  return idFromBytes(value)
}

/** Reads a meta record; undefined if it does not match its checksum. */
export function decodeMeta(value: Buffer): Meta | undefined {
  const end = value.length - 4
  if (!metaLengths.includes(value.length) || value.readUInt32LE(end) !== crc32(value.subarray(0, end))) {
    return undefined
  }
  const isPart = end === appliedAt + appliedBytes + heldBytes
  return {
    dimension: value.readUInt32LE(0) || undefined,
    sequence: value.readDoubleLE(4),
    slotCount: value.readDoubleLE(12),
    pointCount: value.readDoubleLE(20),
    keyedRequests: {
      first: value.readUInt32LE(28),
      count: value.readUInt32LE(32),
      refusalBytes: value.readDoubleLE(36),
    },
    ...(end > appliedAt ? { applied: readApplied(value, appliedAt, isPart) } : {}),
  }
}

/** How many numbers keyed requests can have before they wrap around: far more than can exist at a time. */
export const requestNumbers: number = 2 ** 31 - 2

/** The keys before it belong to other records. */
export const firstRequestKey = 2

/** The key of a keyed request in the table `meta`. */
export function keyOfRequest(number: number): number {
  return firstRequestKey + number
}

export function isKeyOfRequest(key: number): boolean {
  return key >= firstRequestKey && key < firstRequestKey + requestNumbers
}

/** The key in the table `meta` for the numbers of all requests whose keys' hashes have the same first 31 bits. */
export function keyOfHash(hash: Uint8Array): number {
  const first = (hash[0]! << 24) | (hash[1]! << 16) | (hash[2]! << 8) | hash[3]!
  return 2 ** 31 + (first >>> 1)
}

export function encodeRequestNumbers(key: number, numbers: readonly number[]): Buffer {
  const value = Buffer.alloc(numbers.length * 4 + 4)
  for (const [index, number] of numbers.entries()) value.writeUInt32LE(number, index * 4)
  const end = value.length - 4
  value.writeUInt32LE(checksumUnder(key, value.subarray(0, end)), end)
  return value
}

/** Returns the numbers in the order of their commits; undefined if they do not match their checksum. */
export function decodeRequestNumbers(key: number, value: Buffer): number[] | undefined {
  const end = value.length - 4
  if (end < 4 || end % 4 !== 0) return undefined
  if (value.readUInt32LE(end) !== checksumUnder(key, value.subarray(0, end))) return undefined
  return Array.from({ length: end / 4 }, (_, index) => value.readUInt32LE(index * 4))
}
