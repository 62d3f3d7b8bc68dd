import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { seededRandom } from '../../test/support/random.ts'
import { SlotSet } from '../attributes/slot-words.ts'
import { inInsertionOrder, type OrderedPoints, OrderIndex } from './insertion-order.ts'

/** Points in slots, changed as in the engine: orders usually grow, and slots are reused. */
class Points implements OrderedPoints {
  readonly order: OrderIndex = new OrderIndex(this)
  readonly #orders = new Map<number, number>()
  readonly #slots = new Map<number, number>()
  /** The orders of all points, ascending. */
  readonly #sorted: number[] = []
  readonly #free: number[] = []
  readonly #random: () => number
  slotCount = 0
  /** Passes 2^32, as after billions of changes. */
  #order = 2 ** 32 - 3000

  constructor(random: () => number) {
    this.#random = random
  }

  get size(): number {
    return this.#slots.size
  }

  isVisible(slot: number): boolean {
    return this.#orders.get(slot) !== undefined
  }

  orderOf(slot: number): number {
    return this.#orders.get(slot)!
  }

  get orders(): number[] {
    return [...this.#sorted]
  }

  change(): void {
    const kind = this.#random()
    const chosen = this.#sorted.at(Math.floor(this.#random() * this.size))
    if (kind < 0.5 || chosen === undefined) {
      this.#order += 1 + Math.floor(this.#random() * 3)
      this.#place(this.#order)
    } else if (kind < 0.75) {
      this.#place(chosen)
    } else this.remove(chosen)
  }

  /** Places a point whose order is not the highest, like a point from another node. */
  takeEarly(): void {
    this.#place(2 ** 32 - 3000 + Math.floor(this.#random() * 7500))
  }

  remove(order: number): void {
    this.order.removed(this.#slots.get(order)!)
    this.#leave(order)
    this.#slots.delete(order)
    this.#sorted.splice(this.#positionOf(order), 1)
  }

  #place(order: number): void {
    const slot = this.#free.pop() ?? this.slotCount
    this.slotCount = Math.max(this.slotCount, slot + 1)
    if (this.#slots.has(order)) this.#leave(order)
    else this.#sorted.splice(this.#positionOf(order), 0, order)
    this.#orders.set(slot, order)
    this.#slots.set(order, slot)
    this.order.placed(slot, order)
  }

  #leave(order: number): void {
    const slot = this.#slots.get(order)!
    this.#orders.delete(slot)
    this.#free.splice(Math.floor(this.#random() * this.#free.length), 0, slot)
  }

  /** Returns how many points have a lower order. */
  #positionOf(order: number): number {
    let [low, high] = [0, this.#sorted.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#sorted[middle]! < order) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Checks pages of all points, of many of them and of few, which are found in two ways. */
  async check(): Promise<void> {
    const { orders } = this
    for (const after of [0, orders[Math.floor(orders.length / 2)] ?? 0]) {
      for (const share of [1, 0.5, 0.003]) {
        const wanted = orders.filter((order) => order > after && hash(order) < share)
        const matching = new SlotSet(this.slotCount)
        for (const order of orders) if (hash(order) < share) matching.set(this.#slots.get(order)!)
        for (const limit of [1, 100, 100_000]) {
          const within = share === 1 ? undefined : matching
          const page = await inInsertionOrder(this, within, { after, limit })
          const expected = wanted.slice(0, limit).map((order) => ({ slot: this.#slots.get(order)!, order }))
          assert.deepEqual(page, expected, `${limit} after ${after} of ${share}`)
        }
      }
    }
  }
}

/** A number in [0, 1) for each order. */
function hash(order: number): number {
  return ((order * 7919) % 1000) / 1000
}

describe('OrderIndex', () => {
  for (const seed of [1, 2, 3]) {
    it(`lists points by insertion through any changes: seed ${seed}`, async () => {
      const points = new Points(seededRandom(seed))
      for (let change = 0; change < 3000; change += 1) points.change()
      await points.check()
      for (let round = 0; round < 8; round += 1) {
        for (let change = 0; change < 50; change += 1) points.change()
        await points.check()
      }
    })

    it(`includes changes made while it is being created: seed ${seed}`, async () => {
      const points = new Points(seededRandom(seed))
      for (let change = 0; change < 20_000; change += 1) points.change()
      // The index is created in turns of a millisecond; once it is complete, later changes reach it directly.
      const making = points.order.ready()
      for (let turn = 0; turn < 20; turn += 1) {
        await nextTurn()
        for (let change = 0; change < 10; change += 1) points.change()
      }
      await making
      await points.check()
    })
  }

  it('lists points with earlier orders, few or many, even if they arrive while it is being created', async () => {
    const points = new Points(seededRandom(8))
    for (let change = 0; change < 6000; change += 1) points.change()
    for (const count of [1, 30, 300, 5000]) {
      await points.check()
      const making = points.order.ready()
      for (let change = 0; change < count; change += 1) {
        points.takeEarly()
        if (change % 3 === 0) points.change()
        if (change % 100 === 0) await nextTurn()
      }
      await making
      await points.check()
      for (const order of points.orders.slice(0, 20)) points.remove(order)
    }
    await points.check()
  })

  it('frees the memory of removed points, in whatever order they are removed', async () => {
    for (const everyNth of [1, 2, 50]) {
      const points = new Points(seededRandom(7))
      for (let change = 0; change < 20_000; change += 1) points.change()
      await points.check()
      const before = points.order.memoryBytes

      for (const [at, order] of points.orders.entries()) if ((at % 100) % everyNth === 0) points.remove(order)
      for (const order of points.orders.slice(100)) points.remove(order)

      assert.ok(points.order.memoryBytes < before / 4, `${points.order.memoryBytes} of ${before} bytes`)
      await points.check()
    }
  })
})
