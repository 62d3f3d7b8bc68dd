import { crc32 } from 'node:zlib'
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
 * DATA_DIR/vectors.rows has a header, then one row of fixed length for each slot:
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
 * DATA_DIR/points.mdb is an LMDB file with u32 keys in three tables:
 *
 *   payloads   slot          ->  id, payload, and numbers that are not in the row: see payload-record.ts
 *   live       slot >> 12    ->  512 bytes: bit (slot & 7) of byte (slot & 4095) >> 3 is set for a live slot;
 *                               crc of the key and of these
 *   meta       0             ->  format version u32 | dimension u32 (0: none yet) | sequence f64 | slots f64 |
 *                               points f64 |
 *                               if there have been any: oldest keyed request u32 | keyed requests u32 |
 *                               from version 5 on: flags u32 (1: named collections, 2: extended records,
 *                               4: keyed requests with outcomes) | with the last flag: bytes of outcomes f64 |
 *                               in version 6: the state of a replica, see applied.ts | crc of all before
 *              1             ->  database id 16 | crc; absent in a database that only earlier programs have opened
 *              2 + number    ->  a keyed request: see keyed-requests.ts
 *              2^31 + first 31 bits of a key's hash
 *                            ->  numbers of the requests with these bits in their keys' hashes, u32 each |
 *                               crc of the key and of these
 *
 * Keyed requests are numbered in the order of their commits, modulo 2^31 - 2. They are a queue, the oldest first.
 *
 * The meta record has the oldest version that can represent it:
 *
 *   2   A database without keyed requests.
 *   3   It has had keyed requests. They are in the table `meta` because a program that only knows version 2 checks the
 *       names of the tables before it reads the version. It would report another table as damage; it reports version 3
 *       as too new.
 *   4   It has had named collections, with or without keyed requests. The database changes to this version before the
 *       first one is created: a program that does not know collections must not serve, copy or repair a part of the
 *       data as if it were all. catalog.ts has the format of named collections.
 *   5   It has had extended records of points, or keyed requests with outcomes. The commit that stores the first of
 *       them changes the version. So earlier programs can open a database in which nobody has stored attributes.
 *   6   A replica. The first record of a cluster's log that is applied to a collection changes the version. A program
 *       that does not know clusters must not write to a replica: no other replica would get its changes.
 */

/** The version of the row file, and of a database without keyed requests. */
export const formatVersion = 2

/** The version of a database that has had keyed requests. */
export const keyedFormatVersion = 3

/** The version of a database whose directory has had named collections. */
export const collectionsFormatVersion = 4

/** The version of a database that has had extended records, or keyed requests with outcomes. */
export const extendedFormatVersion = 5

/** The version of a collection on a node of a cluster. */
export const clusterFormatVersion = 6

export const rowsHeaderBytes = 4096
const rowsMagic = Buffer.from('VICNROWS')
export const rowHeadBytes: number = idBytes + 8

export function rowBytesOf(dimension: number): number {
  return rowHeadBytes + dimension * 4 + 4
}

export function rowsHeader(dimension: number): Buffer {
  const header = Buffer.alloc(rowsHeaderBytes)
  rowsMagic.copy(header)
  header.writeUInt32LE(formatVersion, 8)
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
  if (version !== formatVersion)
    return `it has format version ${version}, this program reads ${formatVersion}`
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
function checksumUnder(key: number, value: Buffer): number {
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
  /** Undefined until the first request with a key. */
  readonly keyedRequests?: RequestQueue | undefined
  /** For the default collection: whether there have been named collections. */
  readonly hasCollections?: boolean
  /** Whether there have been extended records of points. */
  readonly hasExtendedRecords?: boolean | undefined
  /** Whether there have been keyed requests with outcomes. */
  readonly hasOutcomes?: boolean | undefined
  /** Only on a node of a cluster. */
  readonly applied?: Applied | undefined
}

/** The numbers of the keyed requests, from the oldest on. */
export interface RequestQueue {
  readonly first: number
  readonly count: number
  /** Disk space of their outcomes: see `outcomeBytesOf`. */
  readonly outcomeBytes: number
}

export const emptyQueue: RequestQueue = { first: 0, count: 0, outcomeBytes: 0 }

export const emptyMeta: Meta = { dimension: undefined, sequence: 0, slotCount: 0, pointCount: 0 }

export function encodeMeta(meta: Meta): Buffer {
  const { dimension, sequence, slotCount, pointCount } = meta
  const version = versionOf(meta)
  const isExtended = version >= extendedFormatVersion
  const keyedRequests = meta.keyedRequests ?? (isExtended ? emptyQueue : undefined)
  const value = Buffer.alloc(lengthOf(meta, version))
  value.writeUInt32LE(version, 0)
  value.writeUInt32LE(dimension ?? 0, 4)
  value.writeDoubleLE(sequence, 8)
  value.writeDoubleLE(slotCount, 16)
  value.writeDoubleLE(pointCount, 24)
  if (keyedRequests !== undefined) {
    value.writeUInt32LE(keyedRequests.first, 32)
    value.writeUInt32LE(keyedRequests.count, 36)
  }
  if (isExtended) value.writeUInt32LE(flagsOf(meta), flagsAt)
  if (meta.hasOutcomes === true) value.writeDoubleLE(keyedRequests!.outcomeBytes, outcomeBytesAt)
  if (meta.applied !== undefined)
    writeApplied(meta.applied, value, appliedAt(value, appliedBytesOf(meta.applied)))
  const end = value.length - 4
  value.writeUInt32LE(crc32(value.subarray(0, end)), end)
  return value
}

/** The oldest version that can represent this record. */
function versionOf({
  keyedRequests,
  hasCollections,
  hasExtendedRecords,
  hasOutcomes,
  applied,
}: Meta): number {
  if (applied !== undefined) return clusterFormatVersion
  if (hasExtendedRecords === true || hasOutcomes === true) return extendedFormatVersion
  if (hasCollections === true) return collectionsFormatVersion
  return keyedRequests === undefined ? formatVersion : keyedFormatVersion
}

function lengthOf({ keyedRequests, hasOutcomes, applied }: Meta, version: number): number {
  if (version < extendedFormatVersion) return keyedRequests === undefined ? metaBytes : keyedMetaBytes
  const bytes = hasOutcomes === true ? outcomesMetaBytes : extendedMetaBytes
  return bytes + (applied === undefined ? 0 : appliedBytesOf(applied))
}

/** The state of a replica is at the end, before the checksum. */
function appliedAt(value: Buffer, bytes: number): number {
  return value.length - 4 - bytes
}

const metaFlags = { hasCollections: 1, hasExtendedRecords: 2, hasOutcomes: 4 } as const

type MetaFlags = Pick<Meta, keyof typeof metaFlags>

const flagNames = Object.keys(metaFlags) as (keyof MetaFlags)[]

function flagsOf(meta: MetaFlags): number {
  return flagNames.reduce((flags, name) => (meta[name] === true ? flags | metaFlags[name] : flags), 0)
}

function fromFlags(flags: number): MetaFlags {
  return Object.fromEntries(
    flagNames.filter((name) => (flags & metaFlags[name]) !== 0).map((name) => [name, true]),
  )
}

const metaBytes = 36
const keyedMetaBytes: number = metaBytes + 8
const flagsAt = 40
const extendedMetaBytes: number = keyedMetaBytes + 4
const outcomeBytesAt = 44
const outcomesMetaBytes: number = extendedMetaBytes + 8

/** The lengths of a meta record by format version. The length shows whether it has keyed requests. */
const metaLengths: ReadonlyMap<number | undefined, readonly number[]> = new Map([
  [formatVersion, [metaBytes]],
  [keyedFormatVersion, [keyedMetaBytes]],
  [collectionsFormatVersion, [metaBytes, keyedMetaBytes]],
  [extendedFormatVersion, [extendedMetaBytes, outcomesMetaBytes]],
  [
    clusterFormatVersion,
    [appliedBytes, appliedBytes + heldBytes].flatMap((bytes) => [
      extendedMetaBytes + bytes,
      outcomesMetaBytes + bytes,
    ]),
  ],
])

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

interface MetaFault {
  readonly fault: string
  /** Whether the record is undamaged, but has another format version. */
  readonly isOtherVersion: boolean
}

/** Reads a meta record. Every format begins with its version, so that any program can report it. */
export function decodeMeta(value: Buffer): Meta | MetaFault {
  const version = value.length >= 4 ? value.readUInt32LE(0) : undefined
  const lengths = metaLengths.get(version)
  if (lengths === undefined) {
    return {
      fault: `it has format version ${version}, this program reads ${[...metaLengths.keys()].join(', ')}`,
      isOtherVersion: true,
    }
  }
  const end = value.length - 4
  if (!lengths.includes(value.length) || value.readUInt32LE(end) !== crc32(value.subarray(0, end))) {
    return { fault: 'its meta record does not match its checksum', isOtherVersion: false }
  }
  const isKeyed = value.length >= keyedMetaBytes
  const isReplica = version === clusterFormatVersion
  const isPart = isReplica && value.length >= extendedMetaBytes + appliedBytes + heldBytes
  const replicaBytes = appliedBytes + (isPart ? heldBytes : 0)
  const ownBytes = value.length - (isReplica ? replicaBytes : 0)
  const outcomeBytes = ownBytes >= outcomesMetaBytes ? value.readDoubleLE(outcomeBytesAt) : 0
  return {
    dimension: value.readUInt32LE(4) || undefined,
    sequence: value.readDoubleLE(8),
    slotCount: value.readDoubleLE(16),
    pointCount: value.readDoubleLE(24),
    keyedRequests: isKeyed
      ? { first: value.readUInt32LE(32), count: value.readUInt32LE(36), outcomeBytes }
      : undefined,
    ...(version === collectionsFormatVersion ? { hasCollections: true } : {}),
    ...(version !== undefined && version >= extendedFormatVersion
      ? fromFlags(value.readUInt32LE(flagsAt))
      : {}),
    ...(isReplica ? { applied: readApplied(value, appliedAt(value, replicaBytes), isPart) } : {}),
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
