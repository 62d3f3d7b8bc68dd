import { inTurns } from '../base/turns.ts'
import { OrderedEntries } from './ordered-entries.ts'
import { sortByOrder } from './radix-sort.ts'

/** What the index asks of the points that it orders. */
export interface OrderedPoints {
  /** Every visible point is below it. */
  readonly slotCount: number
  /** Visible points. */
  readonly size: number
  isVisible(slot: number): boolean
  /** Sequence number of the insertion of the point in a slot. */
  orderOf(slot: number): number
}

/**
 * Points in the order of their insertion, 12 bytes each: made when somebody first asks for it, kept up to date from then
 * on. An insertion is appended, because its order is the highest so far; of points that come from another node, it is not. Entries of removed points remain; readers
 * recognize them, because the slot is empty or has a point of another order. When they are the majority, the index is
 * dropped, and made again when it is needed.
 *
 * Main thread only.
 */
export class OrderIndex {
  readonly #points: OrderedPoints
  #entries: OrderedEntries | undefined
  /** What was placed behind the highest order, as points are that come from another node: few, in order. */
  #apart: ApartEntry[] = []
  #making: Promise<void> | undefined
  /** What was placed since the making began; undefined while nobody makes it. */
  #late: ApartEntry[] | undefined

  constructor(points: OrderedPoints) {
    this.#points = points
  }

  get memoryBytes(): number {
    return this.#entries?.memoryBytes ?? 0
  }

  /** Makes the index unless it is there: undefined when it is. Call it before `from`, in the same turn. */
  ready(): Promise<void> | undefined {
    if (this.#entries !== undefined) return undefined
    this.#making ??= this.#make()
    return this.#making
  }

  /**
   * The slots of visible points with a higher order, lowest first. It may be interrupted: a point that is placed meanwhile may
   * be missing.
   */
  *from(order: number): Generator<number, void> {
    const entries = this.#entries!
    const apart = this.#apart
    let last = order
    for (let at = entries.after(order); at < entries.length; at += 1) {
      const next = entries.orderAt(at)
      for (let other = after(apart, last); other !== undefined && other.order < next; ) {
        last = other.order
        if (this.#isThere(other)) yield other.slot
        other = after(apart, last)
      }
      last = next
      const entry = { order: next, slot: entries.slotAt(at) }
      if (this.#isThere(entry)) yield entry.slot
    }
    for (let other = after(apart, last); other !== undefined; other = after(apart, other.order)) {
      if (this.#isThere(other)) yield other.slot
    }
  }

  #isThere({ order, slot }: ApartEntry): boolean {
    return this.#points.isVisible(slot) && this.#points.orderOf(slot) === order
  }

  /** A point was inserted, or got another slot. */
  placed(slot: number, order: number): void {
    if (this.#late !== undefined) this.#late.push({ order, slot })
    else if (this.#entries !== undefined) {
      this.#place(this.#entries, { order, slot })
      if (this.#apart.length > apartMax) this.#drop()
    }
  }

  #place(entries: OrderedEntries, { order, slot }: ApartEntry): void {
    if (entries.canPlace(order)) entries.place(order, slot)
    else place(this.#apart, { order, slot })
  }

  #drop(): void {
    this.#entries = undefined
    // Not emptied: somebody may be walking it.
    this.#apart = []
  }

  /** A point is not visible any more. */
  removed(): void {
    const length = (this.#entries?.length ?? 0) + this.#apart.length
    if (length > staleMin && length > 2 * this.#points.size) this.#drop()
  }

  async #make(): Promise<void> {
    this.#late = []
    try {
      const entries = await inTurns(this.#sorted(this.#late))
      for (const entry of this.#late) this.#place(entries, entry)
      this.#entries = entries
    } finally {
      this.#late = undefined
      this.#making = undefined
    }
  }

  *#sorted(late: ApartEntry[]): Generator<void, OrderedEntries> {
    const points = this.#points
    const found = new OrderedEntries()
    for (let slot = 0; slot < points.slotCount; slot += 1) {
      if (points.isVisible(slot)) found.push(points.orderOf(slot), slot)
      if (slot % slotsPerStep === 0) yield
    }
    // A point that was placed meanwhile may have been missed, or seen in one slot or in both: its last slot counts.
    for (const { order, slot } of late.splice(0)) found.push(order, slot)
    const flat = yield* found.flat()
    const { orders, slots } = yield* sortByOrder(flat.orders, flat.slots)
    const entries = new OrderedEntries()
    for (let at = 0; at < orders.length; at += 1) {
      // The sort is stable.
      if (orders[at] !== orders[at + 1]) entries.push(orders[at]!, slots[at]!)
      if (at % slotsPerStep === 0) yield
    }
    return entries
  }
}

interface ApartEntry {
  readonly order: number
  readonly slot: number
}

/** The first entry with a higher order. */
function after(apart: readonly ApartEntry[], order: number): ApartEntry | undefined {
  return apart[positionAfter(apart, order)]
}

/** Adds an entry, or changes the slot of the one with its order. */
function place(apart: ApartEntry[], entry: ApartEntry): void {
  const position = positionAfter(apart, entry.order)
  if (apart[position - 1]?.order === entry.order) apart[position - 1] = entry
  else apart.splice(position, 0, entry)
}

function positionAfter(apart: readonly ApartEntry[], order: number): number {
  let from = 0
  let to = apart.length
  while (from < to) {
    const middle = (from + to) >>> 1
    if (apart[middle]!.order <= order) from = middle + 1
    else to = middle
  }
  return from
}

/** With more, the index is made again when somebody asks for it. */
const apartMax = 4096

/** Below so many entries, those of removed points do no harm. */
const staleMin = 4096
const slotsPerStep = 4096
