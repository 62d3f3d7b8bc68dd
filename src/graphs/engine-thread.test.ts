import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { shareRanges, stopRanges, takeRanges } from './engine-thread.ts'

describe('shared ranges', () => {
  it('go to several threads, every slot once', () => {
    const ranges = shareRanges(100, 131, 4)
    const takers = [takeRanges(ranges), takeRanges(ranges), takeRanges(ranges)]
    const slots: number[] = []
    for (let turn = 0; takers.length > 0; turn += 1) {
      const taker = takers[turn % takers.length]!
      const { value, done } = taker.next()
      if (done) takers.splice(takers.indexOf(taker), 1)
      else for (let slot = value.from; slot < value.to; slot += 1) slots.push(slot)
    }
    assert.deepEqual(
      slots,
      Array.from({ length: 31 }, (_, index) => 100 + index),
    )
  })

  it('end for all threads when one stops them', () => {
    const ranges = shareRanges(0, 1000, 10)
    const [one, other] = [takeRanges(ranges), takeRanges(ranges)]
    assert.deepEqual(one.next().value, { from: 0, to: 10 })
    stopRanges(ranges)
    assert.equal(other.next().done, true)
    assert.equal(one.next().done, true)
  })
})
