import { inTurns } from '../base/turns.ts'
import { OrderedEntries } from './ordered-entries.ts'
import { sortByOrder } from './radix-sort.ts'

/** What the index needs to know about the points that it orders. */
export interface OrderedPoints {
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
const slotsPerStep = 4096
