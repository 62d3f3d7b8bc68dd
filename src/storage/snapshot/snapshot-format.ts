import { crc32 } from 'node:zlib'
import { idBytes, idFromBytes, writeIdBytes } from '../../base/ids.ts'
import { Turn } from '../../base/turns.ts'

/**
 * The format of a snapshot: all points at one sequence number, or those that changed after an earlier one, in one stream
 * that depends neither on LMDB's pages nor on slots. Numbers are little-endian.
 *
 *   header    ├ VICNSNAP 8 │ version u32 │ dimension u32 (0: none yet) │ sequence f64 │ points f64 │
 *             │ database id 16 │ crc u32 ┤
 *
 *   changes   ├ since f64 │ live points f64 │ digest 8 │ orders bytes f64 │ crc u32 ┤├ orders │ crc u32 ┤
 *             only in version 5, whose points are those with a version above `since`: the digest is that of all live
 *             points, the orders are those of all live points (live-orders.ts). If `since` is the sequence number
 *             itself, there are neither points nor orders
 *
 *   a point   ├ id 16 │ sequence f64 │ content bytes u32 │ content type u32 │ version f64 │ order f64 │
 *             │ expires, µs since 1970, f64 (NaN: never) │ attributes bytes u32 │ crc u32 ┤
 *             ├ vector f32 x dimension │ content, UTF-8 │ attributes, canonical JSON │ crc u32 ┤
 *
 *   trailer   ├ VICNDONE 8 │ points f64 │ crc u32 ┤  and nothing after it
 *
 * Each crc is the CRC-32 (zlib's) of all bytes from the beginning of the stream to the crc, except for other crcs. So
 * the last crc covers the whole stream, every byte is checked, and a missing, repeated or moved point is detected
 * immediately. (Crcs are excluded because the CRC-32 of a message followed by its own crc is a constant, which does not
 * depend on the message.) The head of a point has its own crc, so that a reader never waits for a content whose length
 * is damaged.
 *
 * The points are in no particular order; their numbers show in which order they were inserted. `sequence` is the number
 * of the change that wrote the vector, as in the row of a point.
 */

/** The version of a snapshot of all points. Versions 1 to 3 are no longer read. */
export const snapshotVersion = 4
/** The version of a snapshot of changes. */
export const changesVersion = 5
export const snapshotHeaderBytes = 52
/** The first bytes of a header, which say whether it can be read. */
export const snapshotStartBytes = 12
/** Bytes of a point up to its vector. */
export const pointHeadBytes: number = idBytes + 8 + 2 * 4 + 3 * 8 + 4 + 4
export const checksumBytes = 4
export const snapshotTrailerBytes = 20
export const changesHeadBytes = 36

const headerMagic = Buffer.from('VICNSNAP')
const trailerMagic = Buffer.from('VICNDONE')

export interface SnapshotHeader {
  /** Id of the history that `sequence` counts. */
  readonly databaseId: string
  /** Undefined if nothing was ever inserted. */
  readonly dimension: number | undefined
  /** The snapshot contains exactly the changes up to this number. */
  readonly sequence: number
  /** Number of points in the stream. */
  readonly points: number
  /** Only for a snapshot of changes. */
  readonly changes?: Changes | undefined
}

/** What a snapshot of changes says about all live points. */
export interface Changes {
  /** The stream has the points that changed after this sequence number. */
  readonly since: number
  /** `PartitionDigest.sum` of all live points: 16 hex digits. */
  readonly digest: string
  /** Their orders, ascending. */
  readonly orders: Float64Array
}

/** The head of a point in a stream, before its vector and content. */
export interface PointHead {
  /** 16 bytes. */
  readonly id: Uint8Array
  /** Sequence number of its row. */
  readonly sequence: number
  readonly contentBytes: number
  /** Position in `contentTypes`. */
  readonly contentType: number
  readonly version: number
  readonly order: number
  /** NaN: never. */
  readonly expiresAtUs: number
  readonly attributeBytes: number
}

/** A point and its bytes. */
export interface SnapshotPointBytes extends PointHead {
  readonly vector: Uint8Array
  readonly content: Uint8Array
  /** Canonical JSON; empty: none. */
  readonly attributes: Uint8Array
}

/** The running checksum of one stream, for writing or reading. */
export class SnapshotChecksum {
  #crc = 0

  /** Adds the bytes up to `end`, and writes the checksum after them. Returns the offset after that. */
  seal(target: Buffer, offset: number, end: number): number {
    this.#crc = crc32(target.subarray(offset, end), this.#crc)
    return target.writeUInt32LE(this.#crc, end)
  }

  /** Adds all but the last four bytes; returns whether those are the checksum. */
  matches(bytes: Buffer): boolean {
    const end = bytes.length - checksumBytes
    this.#crc = crc32(bytes.subarray(0, end), this.#crc)
    return bytes.readUInt32LE(end) === this.#crc
  }
}

function encodeHeader(header: SnapshotHeader, checksum: SnapshotChecksum): Buffer {
  const bytes = Buffer.alloc(snapshotHeaderBytes)
  headerMagic.copy(bytes)
  bytes.writeUInt32LE(header.changes === undefined ? snapshotVersion : changesVersion, 8)
  bytes.writeUInt32LE(header.dimension ?? 0, 12)
  bytes.writeDoubleLE(header.sequence, 16)
  bytes.writeDoubleLE(header.points, 24)
  writeIdBytes(header.databaseId, bytes, 32)
  checksum.seal(bytes, 0, snapshotHeaderBytes - checksumBytes)
  return bytes
}

function encodeChanges({ since, digest, orders }: Changes, checksum: SnapshotChecksum): Buffer {
  const encoded = encodeOrders(orders)
  const bytes = Buffer.alloc(changesHeadBytes + encoded.length + checksumBytes)
  bytes.writeDoubleLE(since, 0)
  bytes.writeDoubleLE(orders.length, 8)
  bytes.write(digest, 16, 'hex')
  bytes.writeDoubleLE(encoded.length, 24)
  const at = checksum.seal(bytes, 0, changesHeadBytes - checksumBytes)
  encoded.copy(bytes, at)
  checksum.seal(bytes, at, at + encoded.length)
  return bytes
}

/** Reads the first part of the changes, whose checksum was verified. */
export function decodeChanges(
  bytes: Buffer,
): Omit<Changes, 'orders'> & { readonly livePoints: number; readonly orderBytes: number } {
  return {
    since: bytes.readDoubleLE(0),
    livePoints: bytes.readDoubleLE(8),
    digest: bytes.toString('hex', 16, 24),
    orderBytes: bytes.readDoubleLE(24),
  }
}

/** Returns why a snapshot with this start cannot be read. Every version begins with its number. */
export function faultOfStart(start: Buffer): string | undefined {
  if (!start.subarray(0, 8).equals(headerMagic)) return 'it does not begin like a snapshot'
  const version = start.readUInt32LE(8)
  if (version === snapshotVersion || version === changesVersion) return undefined
  return `it has format version ${version}, this program reads ${snapshotVersion} and ${changesVersion}`
}

/** @param bytes the whole header */
export function decodeHeader(
  bytes: Buffer,
  checksum: SnapshotChecksum,
): SnapshotHeader | { readonly fault: string } {
  if (!checksum.matches(bytes)) return { fault: 'its header does not match its checksum' }
  return {
    databaseId: idFromBytes(bytes.subarray(32, 32 + idBytes)),
    dimension: bytes.readUInt32LE(12) || undefined,
    sequence: bytes.readDoubleLE(16),
    points: bytes.readDoubleLE(24),
  }
}

/** Bytes of a point after its head. */
export function pointBodyBytes(
  dimension: number,
  { contentBytes, attributeBytes }: Pick<PointHead, 'contentBytes' | 'attributeBytes'>,
): number {
  return dimension * 4 + contentBytes + attributeBytes + checksumBytes
}

/** Writes a point at `offset`, where there must be room for it. Returns the offset after it. */
function encodePoint(
  target: Buffer,
  offset: number,
  point: SnapshotPointBytes,
  checksum: SnapshotChecksum,
): number {
  target.set(point.id, offset)
  let at = target.writeDoubleLE(point.sequence, offset + idBytes)
  at = target.writeUInt32LE(point.contentBytes, at)
  at = target.writeUInt32LE(point.contentType, at)
  at = target.writeDoubleLE(point.version, at)
  at = target.writeDoubleLE(point.order, at)
  at = target.writeDoubleLE(point.expiresAtUs, at)
  at = target.writeUInt32LE(point.attributeBytes, at)
  const body = checksum.seal(target, offset, at)
  let end = body
  for (const bytes of [point.vector, point.content, point.attributes]) {
    target.set(bytes, end)
    end += bytes.length
  }
  return checksum.seal(target, body, end)
}

/** Reads a point's head, whose checksum was verified. `id` is a view. */
export function decodePointHead(bytes: Buffer): PointHead {
  const at = idBytes
  return {
    id: bytes.subarray(0, idBytes),
    sequence: bytes.readDoubleLE(at),
    contentBytes: bytes.readUInt32LE(at + 8),
    contentType: bytes.readUInt32LE(at + 12),
    version: bytes.readDoubleLE(at + 16),
    order: bytes.readDoubleLE(at + 24),
    expiresAtUs: bytes.readDoubleLE(at + 32),
    attributeBytes: bytes.readUInt32LE(at + 40),
  }
}

function encodeTrailer(points: number, checksum: SnapshotChecksum): Buffer {
  const bytes = Buffer.alloc(snapshotTrailerBytes)
  trailerMagic.copy(bytes)
  bytes.writeDoubleLE(points, 8)
  checksum.seal(bytes, 0, 16)
  return bytes
}

/** Returns the fault of a trailer, or undefined. */
export function faultOfTrailer(
  bytes: Buffer,
  points: number,
  checksum: SnapshotChecksum,
): string | undefined {
  const isWhole = checksum.matches(bytes)
  if (!bytes.subarray(0, 8).equals(trailerMagic)) return 'its trailer is missing'
  if (!isWhole) return 'its trailer does not match its checksum'
  const stated = bytes.readDoubleLE(8)
  return stated === points ? undefined : `its trailer counts ${stated} points, its header ${points}`
}

/** Encodes a snapshot: call `begin`, `add` for each point, then `end`. The caller owns the returned chunks. */
export class SnapshotWriter {
  readonly #header: SnapshotHeader
  readonly #checksum = new SnapshotChecksum()
  #bytes: Buffer = Buffer.alloc(0)
  #length = 0
  #points = 0

  constructor(header: SnapshotHeader) {
    this.#header = header
  }

  /** Points added so far. */
  get points(): number {
    return this.#points
  }

  begin(): Buffer {
    const { changes } = this.#header
    const header = encodeHeader(this.#header, this.#checksum)
    return changes === undefined ? header : Buffer.concat([header, encodeChanges(changes, this.#checksum)])
  }

  /** Adds a point. @returns a full chunk with earlier points, if there is one */
  add(point: SnapshotPointBytes): Buffer | undefined {
    const { dimension = 0 } = this.#header
    const bytes = pointHeadBytes + pointBodyBytes(dimension, point)
    const full = this.#length > 0 && this.#length + bytes > this.#bytes.length ? this.#take() : undefined
    if (this.#length === 0) this.#bytes = Buffer.allocUnsafeSlow(Math.max(chunkBytes, bytes))
    this.#length = encodePoint(this.#bytes, this.#length, point, this.#checksum)
    this.#points += 1
    return full
  }

  /** Returns the last chunks. */
  end(): readonly Buffer[] {
    const last = this.#length === 0 ? [] : [this.#take()]
    return [...last, encodeTrailer(this.#points, this.#checksum)]
  }

  #take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#length)
    this.#length = 0
    return taken
  }
}

/** Large enough for efficient writes, small enough that a slow reader needs little memory. */
const chunkBytes = 256 * 1024

/**
 * The orders of all points of a collection at one moment, ascending. An order identifies a point within its history, so
 * they say which points of an earlier moment were deleted since then, in one or two bytes a point.
 *
 *   ├ gap varint │ length varint ┤ ...  runs of adjacent orders; a gap is counted from the end of the run before
 */

/** Sorts in turns: runs of `runMax` by themselves, then neighbours are merged. Uses the given memory, too. */
export async function sortOrders(orders: Float64Array): Promise<Float64Array> {
  const turn = new Turn()
  for (let from = 0; from < orders.length; from += runMax) {
    orders.subarray(from, from + runMax).sort()
    if (turn.isOver) await turn.next()
  }
  let [source, target] = [orders, orders]
  for (let width = runMax; width < orders.length; width *= 2) {
    if (target === source) target = new Float64Array(orders.length)
    for (let from = 0; from < orders.length; from += 2 * width) {
      const [middle, end] = [Math.min(from + width, orders.length), Math.min(from + 2 * width, orders.length)]
      for (let left = from, right = middle, at = from; at < end; ) {
        // Points are mostly stored in their order: then the runs are copied whole.
        if (left < middle && (right === end || source[middle - 1]! <= source[right]!)) {
          target.set(source.subarray(left, middle), at)
          at += middle - left
          left = middle
        } else if (left === middle) {
          target.set(source.subarray(right, end), at)
          at = end
        } else {
          for (const stop = Math.min(at + runMax, end); at < stop && left < middle && right < end; at += 1) {
            if (source[left]! < source[right]!) {
              target[at] = source[left]!
              left += 1
            } else {
              target[at] = source[right]!
              right += 1
            }
          }
        }
        if (turn.isOver) await turn.next()
      }
    }
    ;[source, target] = [target, source]
  }
  return source
}

/** @param orders ascending */
export function encodeOrders(orders: Float64Array): Buffer {
  let bytes = Buffer.allocUnsafe(1024)
  let at = 0
  const write = (number: number): void => {
    let rest = number
    for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) {
      bytes[at] = (rest % 0x80) | 0x80
      at += 1
    }
    bytes[at] = rest
    at += 1
  }
  let end = 0
  for (let first = 0; first < orders.length; ) {
    let next = first + 1
    while (next < orders.length && orders[next] === orders[next - 1]! + 1) next += 1
    if (at + 2 * varintMax > bytes.length) bytes = Buffer.concat([bytes], bytes.length * 2)
    write(orders[first]! - end)
    write(next - first)
    end = orders[next - 1]! + 1
    first = next
  }
  return bytes.subarray(0, at)
}

/** Returns the orders, ascending; undefined if the bytes are not those of so many orders. */
export function decodeOrders(bytes: Buffer, count: number): Float64Array | undefined {
  const orders = new Float64Array(count)
  let [at, filled, order] = [0, 0, 0]
  const read = (): number => {
    let [number, factor] = [0, 1]
    for (; at < bytes.length && bytes[at]! >= 0x80; factor *= 0x80) {
      number += (bytes[at]! - 0x80) * factor
      at += 1
    }
    number += (bytes[at] ?? Number.NaN) * factor
    at += 1
    return number
  }
  while (at < bytes.length) {
    order += read()
    const length = read()
    if (!Number.isSafeInteger(order + length) || filled + length > count) return undefined
    for (const end = filled + length; filled < end; filled += 1, order += 1) orders[filled] = order
  }
  return filled === count ? orders : undefined
}

/** Finds the place of each order, and notes which were found already. */
export class OrdersToFind {
  readonly #orders: Float64Array
  readonly #found: Uint8Array
  #left: number

  /** @param orders ascending */
  constructor(orders: Float64Array) {
    this.#orders = orders
    this.#found = new Uint8Array(Math.ceil(orders.length / 8))
    this.#left = orders.length
  }

  /** How many were not found yet. */
  get left(): number {
    return this.#left
  }

  /** Whether the order is among them, and was not found before. */
  find(order: number): boolean {
    let [low, high] = [0, this.#orders.length]
    while (low < high) {
      const middle = Math.floor((low + high) / 2)
      if (this.#orders[middle]! < order) low = middle + 1
      else high = middle
    }
    const bit = 1 << (low & 7)
    if (this.#orders[low] !== order || (this.#found[low >> 3]! & bit) !== 0) return false
    this.#found[low >> 3]! |= bit
    this.#left -= 1
    return true
  }
}

/** A run is sorted in well under a millisecond. */
const runMax = 8192
/** Bytes of the longest number. */
const varintMax = 8
