import { assert } from '../base/assert.ts'
import type { SortedOrders } from './radix-sort.ts'

/** Slots by ascending order, 12 bytes each, in pages, so that appending never copies existing entries. */
export class OrderedEntries {
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
