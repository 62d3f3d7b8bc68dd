import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../../test/support/random.ts'
import { decodeOrders, encodeOrders, OrdersToFind, sortOrders } from './snapshot-format.ts'

/** Orders as points are deleted and inserted: mostly in runs, in slots that are mostly in order. */
function ordersOf(random: () => number, count: number): Float64Array {
  const orders: number[] = []
  let next = Math.floor(random() * 2 ** 33)
  while (orders.length < count) {
    if (random() < 0.3) next += Math.floor(random() * 2 ** (random() * 40))
    next += 1
    orders.push(next)
  }
  for (let swaps = Math.floor(random() * count); swaps > 0; swaps -= 1) {
    const [a, b] = [Math.floor(random() * count), Math.floor(random() * count)]
    ;[orders[a], orders[b]] = [orders[b]!, orders[a]!]
  }
  return Float64Array.from(orders)
}

describe('the orders of live points', () => {
  it('are sorted, stored and read back, and each is found once', async () => {
    const seed = 7
    const random = seededRandom(seed)
    for (const count of [0, 1, 2, 500, 8192, 8193, 60_001]) {
      const orders = ordersOf(random, count)
      const expected = Float64Array.from(orders).sort()
      const sorted = await sortOrders(orders)
      assert.deepEqual(sorted, expected, `seed ${seed}, ${count} orders`)
      const bytes = encodeOrders(sorted)
      assert.deepEqual(decodeOrders(bytes, count), expected)
      const toFind = new OrdersToFind(sorted)
      const known = new Set(expected)
      const absent = Array.from(expected, (order) => order + 1).filter((order) => !known.has(order))
      for (const order of [...absent, 0]) assert.equal(toFind.find(order), false)
      for (const order of orders) assert.deepEqual([toFind.find(order), toFind.find(order)], [true, false])
      assert.equal(toFind.left, 0)
    }
  })

  it('take a few bytes if they are adjacent, and at most two each if they are close', () => {
    assert.ok(encodeOrders(Float64Array.from({ length: 100_000 }, (_, at) => at + 1)).length < 8)
    assert.ok(encodeOrders(Float64Array.from({ length: 1000 }, (_, at) => 5 * at)).length <= 2000)
  })

  it('are refused if their bytes are those of another number of orders, or cut off', () => {
    const bytes = encodeOrders(Float64Array.of(1, 2, 3, 900, 2 ** 45))
    for (const count of [4, 6]) assert.equal(decodeOrders(bytes, count), undefined)
    for (let length = 1; length < bytes.length; length += 1) {
      assert.equal(decodeOrders(bytes.subarray(0, length), 5), undefined, `${length} bytes`)
    }
  })
})
