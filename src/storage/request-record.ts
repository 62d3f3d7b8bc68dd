import { crc32 } from 'node:zlib'
import { DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { idBytes, idFromBytes, idSeedBytes, writeIdBytes } from '../base/ids.ts'
import type { ItemOutcome, KeyedRequest } from './store.ts'

/**
 * The records of keyed requests. One whose points all have ids from its seed:
 *
 *   ├ hash of its key 16 │ hash of its body 16 │ seed of its ids 16 │ points u32 │ accepted, ms since 1970, f64 │ crc u32 ┤
 *
 * Any other record has the outcome of each of its points before the checksum, which is that of all before. By its first
 * byte an outcome is
 *
 *   ├ 0 ┤                                              stored, under the id from the seed
 *   ├ 1 │ id 16 ┤                                      stored or there already, under an id of its own
 *   ├ 2 │ reason bytes u8 │ message bytes u32 │ reason, ASCII │ message, UTF-8 ┤      refused
 *
 * Before these outcomes, or without any, a byte 3 says that the ids from the seed begin with its first byte: a request of a
 * cluster.
 */

/** Bytes of the hashes of keys and bodies. */
export const requestHashBytes = 16

const headBytes: number = 2 * requestHashBytes + idSeedBytes + 4 + 8

/** Of a record without outcomes. */
export const keyedRequestBytes: number = headBytes + 4

/** Of a record without outcomes and the number under its key's hash, on disk: see docs/decisions/storage-layout.md. */
export const keyedRequestDiskBytes = 160

/** Of any record. */
export const keyedRequestBytesMax: number = 1024 * 1024

/**
 * A keyed request as a record.
 *
 * @throws DatabaseError `request_too_large` when its outcome does not fit in one: it cannot be stored then
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

/** A keyed request, its hashes and its seed as views; undefined when it does not match its checksum. */
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

/** Records for the writer thread: each after its length, u32. */
export function packRequests(requests: readonly KeyedRequest[]): Uint8Array<ArrayBuffer> {
  const records = requests.map(encodeKeyedRequest)
  // Not from the pool: what is sent to a thread is the whole memory that it is a view of.
  const packed = Buffer.allocUnsafeSlow(records.reduce((sum, { length }) => sum + 4 + length, 0))
  let at = 0
  for (const record of records) {
    at = packed.writeUInt32LE(record.length, at)
    at += record.copy(packed, at)
  }
  return packed
}

/** The records as views. */
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
 * What the outcome of a record takes on disk, in addition to a record without one. LMDB stores a value of up to half a page in
 * a page with others, and a larger one in pages of its own.
 */
export function outcomeBytesOf(record: Buffer): number {
  const { length } = record
  const onDisk =
    length <= sharedPageBytesMax ? length : Math.ceil((length + pageHeadBytes) / pageBytes) * pageBytes
  return onDisk - keyedRequestBytes
}

/** Whether a record has outcomes, which programs before format version 5 do not know. */
export function hasOutcome(record: Buffer): boolean {
  return record.length > keyedRequestBytes
}

/**
 * The bytes that an outcome takes in a record.
 *
 * @throws DatabaseError `request_too_large` when there are too many: the request has to be refused before it is committed
 */
export function checkOutcome(outcome: readonly ItemOutcome[]): number {
  const bytes = outcome.reduce((sum, each) => sum + bytesOf(each), 0)
  const bytesMax = keyedRequestBytesMax - keyedRequestBytes - partitionedMark.length
  if (bytes <= bytesMax) return bytes
  throw new DatabaseError(
    'request_too_large',
    `the answer of this request takes ${bytes} bytes to be kept under its idempotency key, the most is ${bytesMax}: send fewer points at a time`,
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

/** Undefined when these are not the outcomes of so many points. */
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
  const reason = bytes.toString('latin1', reasonAt, messageAt)
  if (end > bytes.length || !isReason(reason)) return undefined
  return { reason, message: bytes.toString('utf8', messageAt, end) }
}

function isRefusal(outcome: ItemOutcome): outcome is Exclude<ItemOutcome, string | null> {
  return typeof outcome === 'object' && outcome !== null
}

function isReason(text: string): text is Reason {
  return Object.hasOwn(reasons, text)
}

const pageBytes = 4096
const pageHeadBytes = 16
const sharedPageBytesMax = 2000

/** Its kind and two lengths. */
const refusalHeadBytes = 1 + 1 + 4

const kinds = { seeded: 0, own: 1, refused: 2, partitioned: 3 } as const

const partitionedMark = Buffer.of(kinds.partitioned)
