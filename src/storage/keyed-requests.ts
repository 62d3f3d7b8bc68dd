import { crc32 } from 'node:zlib'
import { assert, DatabaseError, reasonIn } from '../base/errors.ts'
import { idSeedBytes } from '../base/partitions.ts'
import {
  decodeRequestNumbers,
  encodeRequestNumbers,
  firstRequestKey,
  isKeyOfRequest,
  keyOfHash,
  keyOfRequest,
  type RequestQueue,
  requestNumbers,
} from './key-layout.ts'
import type { KeyedRequest, RefusedPoint } from './store.ts'
import { pageBytes, type Table } from './table.ts'

/**
 * Requests that are recognized by their keys, in the table `meta`: a queue of records in the order of their commits,
 * and an index from the hash of a key to the numbers of its records. key-layout.ts has the format of their keys, and this file
 * that of their records.
 *
 *   hash of a key ──> numbers of requests ──> requests   oldest ├──┼──┼──┼──┤ newest
 *                                                        removed ┘         └ added
 *
 * Nothing is kept in memory. A lookup reads the table; an addition reads and writes it in the transaction that stores
 * the points.
 */

/** How many requests are kept, how much disk space they may use, and for how long. */
export interface RequestBounds {
  readonly maxKeys: number
  /** Counts `keyedRequestDiskBytes` for each request, and its refusals. */
  readonly maxBytes: number
  readonly keyLifeMs: number
}

/**
 * Returns the newest request with this key.
 *
 * @throws RequestFault if a record is damaged, so that it is unknown whether the request was stored
 */
export function findRequest(table: Table, keyHash: Uint8Array): KeyedRequest | undefined {
  for (const number of numbersUnder(table, keyOfHash(keyHash)).reverse()) {
    const value = table.getBinary(keyOfRequest(number))
    // The number may belong to a damaged request that was removed unread. Then its record is missing, or another's.
    if (value === undefined) continue
    const request = decodeKeyedRequest(value)
    if (request === undefined) throw new RequestFault(`keyed request ${number} does not match its checksum`)
    if (Buffer.compare(request.keyHash, keyHash) === 0) return request
  }
  return undefined
}

/**
 * Adds records of requests to the queue, and removes requests that are too old or exceed a limit. The removals are
 * bounded too: at most a few more than twice the added requests, or twice their bytes, whichever is more. So the queue
 * shrinks, and no commit takes long. Call it within the transaction that stores the points.
 *
 * @param nowMs the current time, for ages. A node of a cluster uses the clock of the log, so that all nodes remove the
 *   same
 * @throws RequestFault if a record to change is damaged
 */
export function addRequests(
  table: Table,
  records: readonly Buffer[],
  queue: RequestQueue,
  bounds: RequestBounds,
  nowMs: number = Date.now(),
): RequestQueue {
  const { first } = queue
  let { count, refusalBytes } = queue
  for (const value of records) {
    assert(decodeKeyedRequest(value) !== undefined, 'a request is sound before it is stored')
    const number = (first + count) % requestNumbers
    const key = keyOfHash(value)
    table.putSync(keyOfRequest(number), value)
    table.putSync(key, encodeRequestNumbers(key, [...numbersUnder(table, key), number]))
    count += 1
    refusalBytes += refusalBytesOf(value)
  }
  const added = { first, count: records.length, refusalBytes: refusalBytes - queue.refusalBytes }
  return removeOldest(table, { first, count, refusalBytes }, added, bounds, nowMs - bounds.keyLifeMs)
}

/** @param added the requests of this commit, as a queue */
function removeOldest(
  table: Table,
  queue: RequestQueue,
  added: RequestQueue,
  { maxKeys, maxBytes }: RequestBounds,
  expiredBeforeMs: number,
): RequestQueue {
  const countEnd = queue.count - 2 * added.count - extraRemovals
  const bytesEnd = diskBytesOf(queue) - 2 * diskBytesOf(added)
  let left = queue
  while (left.count > 0 && (left.count > countEnd || diskBytesOf(left) > bytesEnd)) {
    const { first, count, refusalBytes } = left
    const value = table.getBinary(keyOfRequest(first))
    const oldest = value && decodeKeyedRequest(value)
    // The age of a damaged request is unknown, so it stays until the queue exceeds a limit.
    const isOld = oldest !== undefined && oldest.acceptedMs <= expiredBeforeMs
    if (!isOld && count <= maxKeys && diskBytesOf(left) <= maxBytes) break
    if (oldest !== undefined) removeNumber(table, keyOfHash(oldest.keyHash), first)
    table.removeSync(keyOfRequest(first))
    left = {
      first: (first + 1) % requestNumbers,
      count: count - 1,
      refusalBytes: Math.max(0, refusalBytes - (value === undefined ? 0 : refusalBytesOf(value))),
    }
  }
  return left
}

/** Returns how many requests of any size can be added together without the removal of others. */
export function roomForRequests(queue: RequestQueue, { maxKeys, maxBytes }: RequestBounds): number {
  const byBytes = Math.floor((maxBytes - diskBytesOf(queue)) / largestDiskBytes)
  return Math.max(0, Math.min(maxKeys - queue.count, byBytes))
}

function diskBytesOf({ count, refusalBytes }: RequestQueue): number {
  return count * keyedRequestDiskBytes + refusalBytes
}

/** Removes all requests, including damaged ones. Call it within a transaction. */
export function removeRequests(table: Table): void {
  for (const key of [...table.getKeys({ start: firstRequestKey })]) table.removeSync(key)
}

/** Reads all records and yields descriptions of the damage. */
export function* faultsOfRequests(table: Table): Generator<string> {
  for (const { key, value } of table.getRange({ start: firstRequestKey })) {
    const isSound = isKeyOfRequest(key)
      ? decodeKeyedRequest(value) !== undefined
      : decodeRequestNumbers(key, value) !== undefined
    if (!isSound) yield `the record of keyed requests under ${key} does not match its checksum`
  }
}

export class RequestFault extends Error {}

function numbersUnder(table: Table, key: number): number[] {
  const value = table.getBinary(key)
  if (value === undefined) return []
  const numbers = decodeRequestNumbers(key, value)
  if (numbers === undefined) throw new RequestFault(`the keys under ${key} do not match their checksum`)
  return numbers
}

function removeNumber(table: Table, key: number, number: number): void {
  const value = table.getBinary(key)
  const numbers = value && decodeRequestNumbers(key, value)
  // A damaged list stays for `doctor` to report; lookups no longer find its requests.
  if (numbers === undefined) return
  const left = numbers.filter((each) => each !== number)
  if (left.length === 0) table.removeSync(key)
  else table.putSync(key, encodeRequestNumbers(key, left))
}

/** Removed with each commit in addition to twice those added. This also shrinks a queue after a limit was reduced. */
const extraRemovals = 16

/**
 * The format of the records of keyed requests:
 *
 *   ├ hash of key 16 │ hash of body 16 │ seed of ids 16 │ points u32 │ accepted, ms since 1970, f64 │
 *   │ in a cluster, the number of the change of its first point, else NaN, f64 │
 *   │ refused points: [[index, reason, message], ...], JSON; empty: none │ crc u32 ┤
 */

/** Bytes of the hashes of keys and bodies. */
const requestHashBytes = 16

const seedAt = 2 * requestHashBytes
const pointsAt: number = seedAt + idSeedBytes
const acceptedAt: number = pointsAt + 4
const firstSequenceAt: number = acceptedAt + 8
const headBytes: number = firstSequenceAt + 8

/** Length of a record without refused points. */
const keyedRequestBytes: number = headBytes + 4

/** Disk space of a record without refusals and its number in the index by key: see docs/decisions/storage-layout.md. */
const keyedRequestDiskBytes = 160

/** Greatest length of a record. */
const keyedRequestBytesMax: number = 1024 * 1024

/**
 * Encodes a keyed request.
 *
 * @throws DatabaseError `request_too_large` if its refusals do not fit in a record
 */
export function encodeKeyedRequest(request: KeyedRequest): Buffer {
  const { keyHash, bodyHash, idSeed, points, acceptedMs, firstSequence = Number.NaN, refused } = request
  const refusals = encodeRefusals(refused)
  const value = Buffer.alloc(keyedRequestBytes + refusals.length)
  value.set(keyHash, 0)
  value.set(bodyHash, requestHashBytes)
  value.set(idSeed, seedAt)
  value.writeUInt32LE(points, pointsAt)
  value.writeDoubleLE(acceptedMs, acceptedAt)
  value.writeDoubleLE(firstSequence, firstSequenceAt)
  value.set(refusals, headBytes)
  const end = value.length - 4
  value.writeUInt32LE(crc32(value.subarray(0, end)), end)
  return value
}

/** Decodes a keyed request, with hashes and seed as views; undefined if the record is damaged. */
export function decodeKeyedRequest(value: Buffer): KeyedRequest | undefined {
  const end = value.length - 4
  if (value.length < keyedRequestBytes || value.readUInt32LE(end) !== crc32(value.subarray(0, end))) {
    return undefined
  }
  const points = value.readUInt32LE(pointsAt)
  const refused = decodeRefusals(value.toString('utf8', headBytes, end), points)
  const firstSequence = value.readDoubleLE(firstSequenceAt)
  return (
    refused && {
      keyHash: value.subarray(0, requestHashBytes),
      bodyHash: value.subarray(requestHashBytes, seedAt),
      idSeed: value.subarray(seedAt, pointsAt),
      points,
      acceptedMs: value.readDoubleLE(acceptedAt),
      firstSequence: Number.isNaN(firstSequence) ? undefined : firstSequence,
      refused,
    }
  )
}

/** Packs records for the writer thread: each after its length, u32. */
export function packRequests(requests: readonly KeyedRequest[]): Uint8Array<ArrayBuffer> {
  const records = requests.map(encodeKeyedRequest)
  // Not from the pool: sending a view to a thread sends the whole memory behind it.
  const packed = Buffer.allocUnsafeSlow(records.reduce((sum, { length }) => sum + 4 + length, 0))
  let at = 0
  for (const record of records) {
    at = packed.writeUInt32LE(record.length, at)
    at += record.copy(packed, at)
  }
  return packed
}

/** Unpacks the records of `packRequests`, as views. */
export function unpackRequests({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Buffer[] {
  const packed = Buffer.from(buffer, byteOffset, byteLength)
  const records: Buffer[] = []
  for (let at = 0; at < packed.length; ) {
    const end = at + 4 + packed.readUInt32LE(at)
    records.push(packed.subarray(at + 4, end))
    at = end
  }
  return records
}

/**
 * Returns how much more disk space a record takes than one without refusals. LMDB stores values of up to half a page
 * together in pages; a larger value gets its own pages.
 */
function refusalBytesOf(record: Buffer): number {
  const { length } = record
  const onDisk =
    length <= sharedPageBytesMax ? length : Math.ceil((length + pageHeadBytes) / pageBytes) * pageBytes
  return onDisk - keyedRequestBytes
}

/**
 * Encodes refused points.
 *
 * @throws DatabaseError `request_too_large` if they are too long: the request must be refused before it is committed
 */
export function encodeRefusals(refused: readonly RefusedPoint[]): Buffer {
  if (refused.length === 0) return Buffer.alloc(0)
  const refusals = refused.map(({ index, reason, message }) => [index, reason, message])
  const value = Buffer.from(JSON.stringify(refusals))
  const bytesMax = keyedRequestBytesMax - keyedRequestBytes
  if (value.length <= bytesMax) return value
  throw new DatabaseError(
    'request_too_large',
    `the answer of this request takes ${value.length} bytes to be kept under its idempotency key, the maximum is ${bytesMax}: send fewer points at a time`,
  )
}

/** Returns undefined if these are not refusals of so many points. */
function decodeRefusals(json: string, points: number): RefusedPoint[] | undefined {
  if (json === '') return []
  try {
    const refused = (JSON.parse(json) as readonly unknown[][]).map(([index, reason, message]) => ({
      index: Number(index),
      reason: reasonIn(String(reason))!,
      message: String(message),
    }))
    const areSound = refused.every(({ index, reason }) => index < points && reason !== undefined)
    return areSound ? refused : undefined
  } catch {
    // It is not JSON, or no list of lists.
    return undefined
  }
}

const pageHeadBytes = 16
const sharedPageBytesMax = 2000

/** Disk space of a request with the largest refusals, in whole pages. */
const largestDiskBytes = keyedRequestBytesMax + 8192
