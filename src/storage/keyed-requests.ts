import { crc32 } from 'node:zlib'
import { DatabaseError, reasonIn } from '../base/errors.ts'
import { idBytes, idFromBytes, idSeedBytes, writeIdBytes } from '../base/ids.ts'
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
import type { ItemOutcome, KeyedRequest } from './store.ts'
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
  /** Counts `keyedRequestDiskBytes` for each request, and its outcome. */
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
  let { count, outcomeBytes } = queue
  for (const value of records) {
    const number = (first + count) % requestNumbers
    const key = keyOfHash(value)
    table.putSync(keyOfRequest(number), value)
    table.putSync(key, encodeRequestNumbers(key, [...numbersUnder(table, key), number]))
    count += 1
    outcomeBytes += outcomeBytesOf(value)
  }
  const added = { first, count: records.length, outcomeBytes: outcomeBytes - queue.outcomeBytes }
  return removeOldest(table, { first, count, outcomeBytes }, added, bounds, nowMs - bounds.keyLifeMs)
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
    const { first, count, outcomeBytes } = left
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
      outcomeBytes: Math.max(0, outcomeBytes - (value === undefined ? 0 : outcomeBytesOf(value))),
    }
  }
  return left
}

/** Returns how many requests of any size can be added together without the removal of others. */
export function roomForRequests(queue: RequestQueue, { maxKeys, maxBytes }: RequestBounds): number {
  const byBytes = Math.floor((maxBytes - diskBytesOf(queue)) / largestDiskBytes)
  return Math.max(0, Math.min(maxKeys - queue.count, byBytes))
}

function diskBytesOf({ count, outcomeBytes }: RequestQueue): number {
  return count * keyedRequestDiskBytes + outcomeBytes
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
 * The format of the records of keyed requests. If all points have ids from the seed, the record is:
 *
 *   ├ hash of key 16 │ hash of body 16 │ seed of ids 16 │ points u32 │ accepted, ms since 1970, f64 │ crc u32 ┤
 *
 * Any other record has the outcome of each point before the checksum, which covers all bytes before it. The first byte
 * of an outcome is its kind:
 *
 *   ├ 0 ┤                                              stored, under the id from the seed
 *   ├ 1 │ id 16 ┤                                      stored, or existing, under another id
 *   ├ 2 │ reason bytes u8 │ message bytes u32 │ reason, ASCII │ message, UTF-8 ┤      refused
 *
 * A byte 3 before the outcomes, or without any, means that the ids from the seed begin with its first byte: a request
 * of a cluster.
 */

/** Bytes of the hashes of keys and bodies. */
const requestHashBytes = 16

const headBytes: number = 2 * requestHashBytes + idSeedBytes + 4 + 8

/** Length of a record without outcomes. */
const keyedRequestBytes: number = headBytes + 4

/** Disk space of a record without outcomes and its number in the index by key: see docs/decisions/storage-layout.md. */
const keyedRequestDiskBytes = 160

/** Greatest length of a record. */
const keyedRequestBytesMax: number = 1024 * 1024

/**
 * Encodes a keyed request.
 *
 * @throws DatabaseError `request_too_large` if its outcome does not fit in a record
 */
export function encodeKeyedRequest(request: KeyedRequest): Buffer {
  const { keyHash, bodyHash, idSeed, isPartitioned, points, acceptedMs, outcome } = request
  const outcomes = Buffer.concat([
    isPartitioned === true ? partitionedMark : Buffer.alloc(0),
    outcome === undefined ? Buffer.alloc(0) : encodeOutcome(outcome),
  ])
  const value = Buffer.alloc(keyedRequestBytes + outcomes.length)
  value.set(keyHash, 0)
  value.set(bodyHash, requestHashBytes)
  value.set(idSeed, 2 * requestHashBytes)
  let at = value.writeUInt32LE(points, 2 * requestHashBytes + idSeedBytes)
  at = value.writeDoubleLE(acceptedMs, at)
  at += outcomes.copy(value, at)
  value.writeUInt32LE(crc32(value.subarray(0, at)), at)
  return value
}

/** Decodes a keyed request, with hashes and seed as views; undefined if the record is damaged. */
export function decodeKeyedRequest(value: Buffer): KeyedRequest | undefined {
  const end = value.length - 4
  if (value.length < keyedRequestBytes || value.readUInt32LE(end) !== crc32(value.subarray(0, end))) {
    return undefined
  }
  const seedAt = 2 * requestHashBytes
  const points = value.readUInt32LE(seedAt + idSeedBytes)
  const request = {
    keyHash: value.subarray(0, requestHashBytes),
    bodyHash: value.subarray(requestHashBytes, seedAt),
    idSeed: value.subarray(seedAt, seedAt + idSeedBytes),
    points,
    acceptedMs: value.readDoubleLE(seedAt + idSeedBytes + 4),
  }
  if (value.length === keyedRequestBytes) return request
  const isPartitioned = value[headBytes] === kinds.partitioned
  const outcomes = value.subarray(isPartitioned ? headBytes + 1 : headBytes, end)
  const marked = isPartitioned ? { ...request, isPartitioned } : request
  if (outcomes.length === 0) return marked
  const outcome = decodeOutcome(outcomes, points)
  return outcome && { ...marked, outcome }
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
 * Returns how much more disk space a record takes than one without outcomes. LMDB stores values of up to half a page
 * together in pages; a larger value gets its own pages.
 */
function outcomeBytesOf(record: Buffer): number {
  const { length } = record
  const onDisk =
    length <= sharedPageBytesMax ? length : Math.ceil((length + pageHeadBytes) / pageBytes) * pageBytes
  return onDisk - keyedRequestBytes
}

/**
 * Returns the length of an outcome in a record.
 *
 * @throws DatabaseError `request_too_large` if it is too long: the request must be refused before it is committed
 */
export function checkOutcome(outcome: readonly ItemOutcome[]): number {
  const bytes = outcome.reduce((sum, each) => sum + bytesOf(each), 0)
  const bytesMax = keyedRequestBytesMax - keyedRequestBytes - partitionedMark.length
  if (bytes <= bytesMax) return bytes
  throw new DatabaseError(
    'request_too_large',
    `the answer of this request takes ${bytes} bytes to be kept under its idempotency key, the maximum is ${bytesMax}: send fewer points at a time`,
  )
}

function encodeOutcome(outcome: readonly ItemOutcome[]): Buffer {
  const value = Buffer.alloc(checkOutcome(outcome))
  let at = 0
  for (const each of outcome) at = writeOutcome(value, at, each)
  return value
}

function bytesOf(outcome: ItemOutcome): number {
  if (outcome === null) return 1
  if (!isRefusal(outcome)) return 1 + idBytes
  return refusalHeadBytes + outcome.reason.length + Buffer.byteLength(outcome.message)
}

function writeOutcome(target: Buffer, at: number, outcome: ItemOutcome): number {
  if (outcome === null) return target.writeUInt8(kinds.seeded, at)
  if (!isRefusal(outcome)) {
    writeIdBytes(outcome, target, target.writeUInt8(kinds.own, at))
    return at + 1 + idBytes
  }
  const { reason, message } = outcome
  let end = target.writeUInt8(kinds.refused, at)
  end = target.writeUInt8(reason.length, end)
  end = target.writeUInt32LE(Buffer.byteLength(message), end)
  end += target.write(reason, end)
  return end + target.write(message, end)
}

/** Returns undefined if these are not the outcomes of so many points. */
function decodeOutcome(bytes: Buffer, points: number): ItemOutcome[] | undefined {
  const outcome: ItemOutcome[] = []
  let at = 0
  while (at < bytes.length) {
    const kind = bytes[at]
    if (kind === kinds.seeded) {
      outcome.push(null)
      at += 1
    } else if (kind === kinds.own && at + 1 + idBytes <= bytes.length) {
      outcome.push(idFromBytes(bytes, at + 1))
      at += 1 + idBytes
    } else {
      const refusal = kind === kinds.refused ? readRefusal(bytes, at + 1) : undefined
      if (refusal === undefined) return undefined
      outcome.push(refusal)
      at += refusalHeadBytes + refusal.reason.length + Buffer.byteLength(refusal.message)
    }
  }
  return outcome.length === points ? outcome : undefined
}

function readRefusal(bytes: Buffer, at: number): Exclude<ItemOutcome, string | null> | undefined {
  const reasonAt = at + refusalHeadBytes - 1
  if (reasonAt > bytes.length) return undefined
  const messageAt = reasonAt + bytes.readUInt8(at)
  const end = messageAt + bytes.readUInt32LE(at + 1)
  const reason = reasonIn(bytes.toString('latin1', reasonAt, messageAt))
  if (end > bytes.length || reason === undefined) return undefined
  return { reason, message: bytes.toString('utf8', messageAt, end) }
}

function isRefusal(outcome: ItemOutcome): outcome is Exclude<ItemOutcome, string | null> {
  return typeof outcome === 'object' && outcome !== null
}

const pageHeadBytes = 16
const sharedPageBytesMax = 2000

/** Its kind and two lengths. */
const refusalHeadBytes = 1 + 1 + 4

const kinds = { seeded: 0, own: 1, refused: 2, partitioned: 3 } as const

const partitionedMark = Buffer.of(kinds.partitioned)

/** Disk space of a request with the largest outcome, in whole pages. */
const largestDiskBytes = keyedRequestBytesMax + 8192
