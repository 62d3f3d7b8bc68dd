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
import {
  decodeKeyedRequest,
  keyedRequestBytesMax,
  keyedRequestDiskBytes,
  outcomeBytesOf,
} from './request-record.ts'
import type { KeyedRequest } from './store.ts'
import type { Table } from './table.ts'

/**
 * Requests that are recognized by their keys, in the table `meta`: a queue of records in the order of their commits,
 * and an index from the hash of a key to the numbers of its records. key-layout.ts and request-record.ts have the
 * format.
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
      // Earlier programs did not count the bytes of outcomes, so the sum can be too small.
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

/** Disk space of a request with the largest outcome, in whole pages. */
const largestDiskBytes = keyedRequestBytesMax + 8192
