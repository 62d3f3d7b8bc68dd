import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { FirstItems } from './first-items.ts'

describe('the first items of an order', () => {
  for (const [limit, count] of [
    [1, 5000],
    [10, 3],
    [10, 10],
    [700, 20_000],
  ] as const) {
    it(`are found among ${count} with limit ${limit}`, () => {
      const random = seededRandom(limit)
      const numbers = Array.from({ length: count }, () => Math.floor(random() * 1000))
      const compare = (one: number, other: number): number => one - other
      const first = new FirstItems(limit, compare)
      for (const number of numbers) first.add(number)
      assert.deepEqual(first.sorted(), numbers.toSorted(compare).slice(0, limit))
      first.add(-1)
      assert.equal(first.sorted()[0], -1)
    })
  }
})
