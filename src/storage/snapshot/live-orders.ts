import { Turn } from '../../base/turns.ts'

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
