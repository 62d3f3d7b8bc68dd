import { crc32 } from 'node:zlib'
import type { SlotSet } from '../attributes/slot-words.ts'
import { assert, DatabaseError } from '../base/errors.ts'
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
 * If few points match, they are sorted. Otherwise the index of all points is walked, skipping those that do not match.
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
  for (let making = points.order.ready(); making !== undefined; making = points.order.ready()) await making
  return await inTurns(walked(points, matching, range))
}

/**
 * Whether sorting costs less. A walk passes `points / matching` points for each match, at about the price of sorting
 * one.
 */
function isSortCheaper(matching: number, points: number, limit: number): boolean {
  return matching * matching <= limit * points
}

function* sorted(
  points: OrderedPoints,
  matching: SlotSet,
  { after, limit }: OrderRange,
): Generator<void, OrderedSlot[]> {
  const orders = new Float64Array(matching.count)
  const slots = new Uint32Array(matching.count)
  let count = 0
  for (const slot of matching) {
    const order = points.orderOf(slot)
    if (order <= after) continue
    orders[count] = order
    slots[count] = slot
    count += 1
    if (count % slotsPerStep === 0) yield
  }
  const result = yield* sortByOrder(orders.subarray(0, count), slots.subarray(0, count))
  return Array.from(result.slots.subarray(0, limit), (slot, at) => ({ slot, order: result.orders[at]! }))
}

function* walked(
  points: OrderedPoints,
  matching: SlotSet | undefined,
  { after, limit }: OrderRange,
): Generator<void, OrderedSlot[]> {
  const found: OrderedSlot[] = []
  let passed = 0
  for (const slot of points.order.from(after)) {
    if (matching === undefined || matching.has(slot)) found.push({ slot, order: points.orderOf(slot) })
    if (found.length === limit) break
    passed += 1
    if (passed % slotsPerStep === 0) yield
  }
  return found
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
 * The points in the order of their insertion, 12 bytes each. The index is created at its first use, and kept up to date
 * from then on.
 *
 * An insertion usually has the highest order so far and is appended. A point that comes from another node may have an
 * earlier order; it is kept separately. Entries of removed points remain. Readers recognize them, because the slot is
 * empty or has a point of another order. When such entries are the majority, the index is dropped, and created again at
 * the next use.
 *
 * Main thread only.
 */
export class OrderIndex {
  readonly #points: OrderedPoints
  #entries: OrderedEntries | undefined
  /** Entries with an order below the highest, as those of points from another node. Few, in ascending order. */
  #outOfOrder: OrderEntry[] = []
  #creating: Promise<void> | undefined
  /** Entries placed while the index is being created; undefined otherwise. */
  #placedMeanwhile: OrderEntry[] | undefined

  constructor(points: OrderedPoints) {
    this.#points = points
  }

  get memoryBytes(): number {
    return this.#entries?.memoryBytes ?? 0
  }

  /** Creates the index; undefined if it exists. Call it before `from`, in the same turn. */
  ready(): Promise<void> | undefined {
    if (this.#entries !== undefined) return undefined
    this.#creating ??= this.#create()
    return this.#creating
  }

  /**
   * Yields the slots of visible points with a higher order, lowest order first. May be interrupted; points placed
   * meanwhile may be missing.
   */
  *from(order: number): Generator<number, void> {
    const entries = this.#entries!
    const outOfOrder = this.#outOfOrder
    let last = order
    for (let at = entries.after(order); at < entries.length; at += 1) {
      const next = entries.orderAt(at)
      for (let other = after(outOfOrder, last); other !== undefined && other.order < next; ) {
        last = other.order
        if (this.#isCurrent(other)) yield other.slot
        other = after(outOfOrder, last)
      }
      last = next
      const entry = { order: next, slot: entries.slotAt(at) }
      if (this.#isCurrent(entry)) yield entry.slot
    }
    for (let other = after(outOfOrder, last); other !== undefined; other = after(outOfOrder, other.order)) {
      if (this.#isCurrent(other)) yield other.slot
    }
  }

  #isCurrent({ order, slot }: OrderEntry): boolean {
    return this.#points.isVisible(slot) && this.#points.orderOf(slot) === order
  }

  /** Call when a point was inserted or moved to another slot. */
  placed(slot: number, order: number): void {
    if (this.#placedMeanwhile !== undefined) this.#placedMeanwhile.push({ order, slot })
    else if (this.#entries !== undefined) {
      this.#place(this.#entries, { order, slot })
      if (this.#outOfOrder.length > outOfOrderMax) this.#drop()
    }
  }

  #place(entries: OrderedEntries, { order, slot }: OrderEntry): void {
    if (entries.canPlace(order)) entries.place(order, slot)
    else place(this.#outOfOrder, { order, slot })
  }

  #drop(): void {
    this.#entries = undefined
    // A new list, because a reader may still be walking the old one.
    this.#outOfOrder = []
  }

  /** Call when a point is no longer visible. */
  removed(): void {
    const length = (this.#entries?.length ?? 0) + this.#outOfOrder.length
    if (length > staleMin && length > 2 * this.#points.size) this.#drop()
  }

  async #create(): Promise<void> {
    this.#placedMeanwhile = []
    try {
      const entries = await inTurns(this.#sorted(this.#placedMeanwhile))
      for (const entry of this.#placedMeanwhile) this.#place(entries, entry)
      this.#entries = entries
    } finally {
      this.#placedMeanwhile = undefined
      this.#creating = undefined
    }
  }

  *#sorted(placedMeanwhile: OrderEntry[]): Generator<void, OrderedEntries> {
    const points = this.#points
    const found = new OrderedEntries()
    for (let slot = 0; slot < points.slotCount; slot += 1) {
      if (points.isVisible(slot)) found.push(points.orderOf(slot), slot)
      if (slot % slotsPerStep === 0) yield
    }
    // A point placed meanwhile may have been missed, or seen in one or both of its slots. Its last slot counts.
    for (const { order, slot } of placedMeanwhile.splice(0)) found.push(order, slot)
    const flat = yield* found.flat()
    const { orders, slots } = yield* sortByOrder(flat.orders, flat.slots)
    const entries = new OrderedEntries()
    for (let at = 0; at < orders.length; at += 1) {
      // The sort is stable, so this is the last entry of its order.
      if (orders[at] !== orders[at + 1]) entries.push(orders[at]!, slots[at]!)
      if (at % slotsPerStep === 0) yield
    }
    return entries
  }
}

interface OrderEntry {
  readonly order: number
  readonly slot: number
}

/** Returns the first entry with a higher order. */
function after(entries: readonly OrderEntry[], order: number): OrderEntry | undefined {
  return entries[positionAfter(entries, order)]
}

/** Adds an entry, or changes the slot of the entry with its order. */
function place(entries: OrderEntry[], entry: OrderEntry): void {
  const position = positionAfter(entries, entry.order)
  if (entries[position - 1]?.order === entry.order) entries[position - 1] = entry
  else entries.splice(position, 0, entry)
}

function positionAfter(entries: readonly OrderEntry[], order: number): number {
  let from = 0
  let to = entries.length
  while (from < to) {
    const middle = (from + to) >>> 1
    if (entries[middle]!.order <= order) from = middle + 1
    else to = middle
  }
  return from
}

/** With more entries, the index is dropped and created again at the next use. */
const outOfOrderMax = 4096

/** With fewer entries, those of removed points do no harm. */
const staleMin = 4096
/** About a tenth of a millisecond. */
const slotsPerStep = 4096

/** Slots by ascending order, 12 bytes each, in pages, so that appending never copies existing entries. */
class OrderedEntries {
  readonly #pages: SortedOrders[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  get memoryBytes(): number {
    return this.#pages.length * entriesPerPage * 12
  }

  orderAt(position: number): number {
    return this.#pages[Math.floor(position / entriesPerPage)]!.orders[position % entriesPerPage]!
  }

  slotAt(position: number): number {
    return this.#pages[Math.floor(position / entriesPerPage)]!.slots[position % entriesPerPage]!
  }

  /** Appends an entry. The order may be any if the entries are sorted later. */
  push(order: number, slot: number): void {
    const page = Math.floor(this.#length / entriesPerPage)
    if (page === this.#pages.length) {
      this.#pages.push({ orders: new Float64Array(entriesPerPage), slots: new Uint32Array(entriesPerPage) })
    }
    const { orders, slots } = this.#pages[page]!
    orders[this.#length % entriesPerPage] = order
    slots[this.#length % entriesPerPage] = slot
    this.#length += 1
  }

  /** Whether an order is the highest, or equals that of an entry. */
  canPlace(order: number): boolean {
    const position = this.after(order) - 1
    return position === this.#length - 1 || (position >= 0 && this.orderAt(position) === order)
  }

  /** Appends an entry with the highest order, or changes the slot of the entry with this order. */
  place(order: number, slot: number): void {
    const position = this.after(order) - 1
    if (position >= 0 && this.orderAt(position) === order) {
      this.#pages[Math.floor(position / entriesPerPage)]!.slots[position % entriesPerPage] = slot
      return
    }
    assert(position === this.#length - 1, 'a new entry has the highest order')
    this.push(order, slot)
  }

  /** Returns the position of the first entry with a higher order. */
  after(order: number): number {
    let from = 0
    let to = this.#length
    while (from < to) {
      const middle = Math.floor((from + to) / 2)
      if (this.orderAt(middle) <= order) from = middle + 1
      else to = middle
    }
    return from
  }

  /** Returns all entries in one pair of arrays, in steps. */
  *flat(): Generator<void, SortedOrders> {
    const flat = { orders: new Float64Array(this.#length), slots: new Uint32Array(this.#length) }
    for (const [index, { orders, slots }] of this.#pages.entries()) {
      const at = index * entriesPerPage
      const count = Math.min(entriesPerPage, this.#length - at)
      flat.orders.set(orders.subarray(0, count), at)
      flat.slots.set(slots.subarray(0, count), at)
      yield
    }
    return flat
  }
}

/** A page takes 48 KiB: there can be thousands of small collections. */
const entriesPerPage = 4096

/**
 * Sorts slots by their orders, both arrays together, in steps for `inTurns`. A million entries take some tens of
 * milliseconds. A radix sort with digits of 16 bits, lowest first, and one pass for each digit of the highest order.
 *
 * @param orders integers, 0..2^53 - 1
 */
function* sortByOrder(orders: Float64Array, slots: Uint32Array): Generator<void, SortedOrders> {
  let from: SortedOrders = { orders, slots }
  let to: SortedOrders = { orders: new Float64Array(orders.length), slots: new Uint32Array(slots.length) }
  let highest = 0
  for (let at = 0; at < orders.length; at += 1) {
    highest = Math.max(highest, orders[at]!)
    if (at % entriesPerStep === 0) yield
  }
  for (let unit = 1; unit <= highest; unit *= digits) {
    const starts = yield* startsOf(from.orders, unit)
    for (let at = 0; at < orders.length; at += 1) {
      const order = from.orders[at]!
      const digit = digitOf(order, unit)
      const target = starts[digit]!
      starts[digit] = target + 1
      to.orders[target] = order
      to.slots[target] = from.slots[at]!
      if (at % entriesPerStep === 0) yield
    }
    const sorted = to
    to = from
    from = sorted
  }
  return from
}

/** Parallel arrays. */
interface SortedOrders {
  readonly orders: Float64Array
  readonly slots: Uint32Array
}

/** Returns, for each digit, the position of its first entry. */
function* startsOf(orders: Float64Array, unit: number): Generator<void, Uint32Array> {
  const starts = new Uint32Array(digits)
  for (let at = 0; at < orders.length; at += 1) {
    starts[digitOf(orders[at]!, unit)]! += 1
    if (at % entriesPerStep === 0) yield
  }
  let sum = 0
  for (let digit = 0; digit < digits; digit += 1) {
    const count = starts[digit]!
    starts[digit] = sum
    sum += count
  }
  return starts
}

/** Orders can be longer than 32 bits, so bitwise operators cannot be used. */
function digitOf(order: number, unit: number): number {
  return Math.floor(order / unit) % digits
}

/** The number of values of a digit. */
const digits = 65_536
/** About a tenth of a millisecond. */
const entriesPerStep = 8192
