import type { SlotSet } from '../attributes/slot-set.ts'
import { inTurns } from '../base/turns.ts'
import type { PointTable } from './point-table.ts'
import { sortByOrder } from './radix-sort.ts'

/** A range of points: the first `limit` of those with a higher order than `after`. */
export interface OrderRange {
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
  table: PointTable,
  matching: SlotSet | undefined,
  range: OrderRange,
): Promise<OrderedSlot[]> {
  if (matching !== undefined && isSortCheaper(matching.count, table.size, range.limit)) {
    return await inTurns(sorted(table, matching, range))
  }
  for (let making = table.order.ready(); making !== undefined; making = table.order.ready()) await making
  return await inTurns(walked(table, matching, range))
}

/**
 * Whether sorting costs less. A walk passes `points / matching` points for each match, at about the price of sorting
 * one.
 */
function isSortCheaper(matching: number, points: number, limit: number): boolean {
  return matching * matching <= limit * points
}

function* sorted(
  table: PointTable,
  matching: SlotSet,
  { after, limit }: OrderRange,
): Generator<void, OrderedSlot[]> {
  const orders = new Float64Array(matching.count)
  const slots = new Uint32Array(matching.count)
  let count = 0
  for (const slot of matching) {
    const order = table.orderOf(slot)
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
  table: PointTable,
  matching: SlotSet | undefined,
  { after, limit }: OrderRange,
): Generator<void, OrderedSlot[]> {
  const found: OrderedSlot[] = []
  let passed = 0
  for (const slot of table.order.from(after)) {
    if (matching === undefined || matching.has(slot)) found.push({ slot, order: table.orderOf(slot) })
    if (found.length === limit) break
    passed += 1
    if (passed % slotsPerStep === 0) yield
  }
  return found
}

/** About a tenth of a millisecond. */
const slotsPerStep = 2048
