import { crc32 } from 'node:zlib'
import type { SlotSet } from '../attributes/slot-words.ts'
import { DatabaseError } from '../base/errors.ts'
import { inTurns } from '../base/turns.ts'

/** A range of points: the first `limit` of those with a higher order than `after`. */
interface OrderRange {
  readonly after: number
  readonly limit: number
}

/** The slot of a point, and its place in the order of insertion. */
export interface OrderedSlot {
  readonly slot: number
  readonly order: number
}

/**
 * Returns points in the order of their insertion. Points that change meanwhile may be missing or wrong.
 *
 * If few points match, they are sorted. Otherwise all points are walked in their order, skipping those that do not
 * match.
 *
 * @param matching undefined for all points
 */
export async function inInsertionOrder(
  points: OrderedPoints,
  matching: SlotSet | undefined,
  range: OrderRange,
): Promise<OrderedSlot[]> {
  if (matching !== undefined && isSortCheaper(matching.count, points.size, range.limit)) {
    return await inTurns(sorted(points, matching, range))
  }
  await points.order.ready()
  return await inTurns(walked(points.order.slots, matching, range))
}

/**
 * Whether sorting costs less. A walk passes `points / matching` points for each match. Sorting one point costs as much
 * as passing several.
 */
function isSortCheaper(matching: number, points: number, limit: number): boolean {
  return sortCost * matching * matching <= limit * points
}

const sortCost = 8

function* sorted(
  points: OrderedPoints,
  matching: SlotSet,
  range: OrderRange,
): Generator<void, OrderedSlot[]> {
  const slots = new OrderedSlots()
  let looked = 0
  for (const slot of matching) {
    const order = points.orderOf(slot)
    if (order > range.after) slots.set(order, slot)
    looked += 1
    if (looked % slotsPerStep === 0) yield
  }
  return yield* walked(slots, undefined, range)
}

/** Yields between pages. The slots may change then. */
function* walked(
  slots: OrderedSlots,
  matching: SlotSet | undefined,
  { after, limit }: OrderRange,
): Generator<void, OrderedSlot[]> {
  const found: OrderedSlot[] = []
  for (let last = after; ; ) {
    const page = slots.pageAfter(last)
    if (page === undefined) return found
    for (let at = positionAfter(page, last); at < page.count; at += 1) {
      const slot = page.slots[at]!
      if (matching === undefined || matching.has(slot)) found.push({ slot, order: page.orders[at]! })
      if (found.length === limit) return found
    }
    last = lastOf(page)
    yield
  }
}

/**
 * Encodes where the next page of a list begins, as base64url text that is opaque to clients:
 *
 *   ├ version, 1, u8 │ order of the last point, f64 │ crc of the rest u32 ┤
 *
 * The order of a point never changes, so a cursor stays valid whatever is written, and after a restart.
 */
export function cursorAfter(order: number): string {
  const bytes = Buffer.alloc(cursorBytes)
  bytes[0] = cursorVersion
  bytes.writeDoubleBE(order, 1)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, checksumAt)), checksumAt)
  return bytes.toString('base64url')
}

/**
 * Returns the order in a cursor.
 *
 * @throws DatabaseError `invalid_argument` for a cursor that `cursorAfter` did not create
 */
export function orderOfCursor(cursor: string): number {
  const bytes = Buffer.from(cursor, 'base64url')
  // Decoding skips characters outside base64url.
  const isWellFormed = bytes.length === cursorBytes && bytes.toString('base64url') === cursor
  if (!isWellFormed || bytes.readUInt32BE(checksumAt) !== crc32(bytes.subarray(0, checksumAt))) {
    throw new DatabaseError('invalid_argument', 'cursor is not one that a list has returned')
  }
  if (bytes[0] !== cursorVersion) {
    throw new DatabaseError(
      'invalid_argument',
      `cursor has version ${bytes[0]}, which this server does not support`,
    )
  }
  return bytes.readDoubleBE(1)
}

const cursorVersion = 1
const checksumAt = 9
const cursorBytes = 13

/** What the index needs to know about the points that it orders. */
export interface OrderedPoints {
  readonly order: OrderIndex
  /** All visible points have slots below this. */
  readonly slotCount: number
  /** The number of visible points. */
  readonly size: number
  isVisible(slot: number): boolean
  /** Returns the sequence number of the insertion of the point in a slot. */
  orderOf(slot: number): number
}

/**
 * The points in the order of their insertion. Filled at its first use, and kept up to date from then on. Main thread
 * only.
 */
export class OrderIndex {
  readonly #points: OrderedPoints
  /** Undefined before the first use. */
  #slots: OrderedSlots | undefined
  #filling: Promise<void> | undefined

  constructor(points: OrderedPoints) {
    this.#points = points
  }

  get memoryBytes(): number {
    return this.#slots?.memoryBytes ?? 0
  }

  /** The slots of all visible points. Call it when `ready` has resolved. */
  get slots(): OrderedSlots {
    return this.#slots!
  }

  /** Resolves when the index has all points. */
  ready(): Promise<void> {
    this.#filling ??= Promise.resolve(inTurns(this.#fill()))
    return this.#filling
  }

  /** Call when a point was inserted or moved to another slot. */
  placed(slot: number, order: number): void {
    this.#slots?.set(order, slot)
  }

  /** Call when the point in a slot is hidden. */
  removed(slot: number): void {
    this.#slots?.delete(this.#points.orderOf(slot))
  }

  /** Points can be placed and removed meanwhile: at each moment, those in the slots that were visited are right. */
  *#fill(): Generator<void, void> {
    const points = this.#points
    const slots = new OrderedSlots()
    this.#slots = slots
    for (let slot = 0; slot < points.slotCount; slot += 1) {
      if (points.isVisible(slot)) slots.set(points.orderOf(slot), slot)
      if (slot % slotsPerStep === 0) yield
    }
  }
}

/** Entering this many points in any order takes less than a millisecond. */
const slotsPerStep = 1024

/** One slot for each order, in ascending order, 12 bytes each, in pages. Pages are split and joined as in a B+ tree. */
class OrderedSlots {
  /** In ascending order, none of them empty. */
  readonly #pages: OrderPage[] = []

  get memoryBytes(): number {
    return this.#pages.length * entriesPerPage * 12
  }

  set(order: number, slot: number): void {
    const last = this.#pages.at(-1)
    // Usually the order is the highest.
    if (last === undefined || order > lastOf(last)) this.#append(order, slot)
    else this.#insert(this.#pageOf(order), order, slot)
  }

  delete(order: number): void {
    const index = this.#pageOf(order)
    const page = this.#pages[index]
    const at = page === undefined ? -1 : positionAfter(page, order) - 1
    if (page?.orders[at] !== order) return
    page.orders.copyWithin(at, at + 1, page.count)
    page.slots.copyWithin(at, at + 1, page.count)
    page.count -= 1
    if (page.count === 0) this.#pages.splice(index, 1)
    else this.#join(index)
  }

  /** Returns the page with the next higher order; undefined if there is none. Valid until the next change. */
  pageAfter(order: number): OrderPage | undefined {
    const index = this.#pageOf(order)
    const page = this.#pages[index]
    return page === undefined || lastOf(page) > order ? page : this.#pages[index + 1]
  }

  #append(order: number, slot: number): void {
    let page = this.#pages.at(-1)
    if (page === undefined || page.count === entriesPerPage) {
      page = emptyPage()
      this.#pages.push(page)
    }
    page.orders[page.count] = order
    page.slots[page.count] = slot
    page.count += 1
  }

  #insert(index: number, order: number, slot: number): void {
    const page = this.#pages[index]!
    const at = positionAfter(page, order)
    if (page.orders[at - 1] === order) {
      page.slots[at - 1] = slot
      return
    }
    if (page.count === entriesPerPage) {
      this.#split(index)
      this.#insert(at > page.count ? index + 1 : index, order, slot)
      return
    }
    page.orders.copyWithin(at + 1, at, page.count)
    page.slots.copyWithin(at + 1, at, page.count)
    page.orders[at] = order
    page.slots[at] = slot
    page.count += 1
  }

  #split(index: number): void {
    const page = this.#pages[index]!
    const upper = emptyPage()
    page.count = entriesPerPage / 2
    copyTo(upper, page, page.count, entriesPerPage)
    this.#pages.splice(index + 1, 0, upper)
  }

  /** Joins a page with the next one if both have little. */
  #join(index: number): void {
    const page = this.#pages[index]!
    const next = this.#pages[index + 1]
    if (next === undefined || page.count + next.count > entriesPerPage / 2) return
    copyTo(page, next, 0, next.count)
    this.#pages.splice(index + 1, 1)
  }

  /** Returns the index of the last page that begins at or before an order; 0 if there is none. */
  #pageOf(order: number): number {
    let low = 0
    let high = this.#pages.length - 1
    while (low < high) {
      const middle = (low + high + 1) >>> 1
      if (this.#pages[middle]!.orders[0]! <= order) low = middle
      else high = middle - 1
    }
    return low
  }
}

interface OrderPage {
  readonly orders: Float64Array
  readonly slots: Uint32Array
  count: number
}

/** A page takes 12 KiB: there can be thousands of small collections. */
const entriesPerPage = 1024

function emptyPage(): OrderPage {
  return { orders: new Float64Array(entriesPerPage), slots: new Uint32Array(entriesPerPage), count: 0 }
}

/** Appends the entries [from, to) of a page to another page. */
function copyTo(target: OrderPage, source: OrderPage, from: number, to: number): void {
  target.orders.set(source.orders.subarray(from, to), target.count)
  target.slots.set(source.slots.subarray(from, to), target.count)
  target.count += to - from
}

function lastOf({ orders, count }: OrderPage): number {
  return orders[count - 1]!
}

/** Returns the position of the first entry with a higher order. */
function positionAfter({ orders, count }: OrderPage, order: number): number {
  let low = 0
  let high = count
  while (low < high) {
    const middle = (low + high) >>> 1
    if (orders[middle]! <= order) low = middle + 1
    else high = middle
  }
  return low
}
