import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SharedBudget } from './budgets.ts'

function budgetOf(max: number): SharedBudget {
  return new SharedBudget({ max, setting: 'MAX_THINGS', inWords: (things) => `${things} things are held` })
}

describe('a budget that collections share', () => {
  it('is fully available to a collection that is used alone, and names the held amount and the setting when it refuses', () => {
    const budget = budgetOf(100)
    const [first, other] = [budget.share(), budget.share()]
    first.hold(60)
    assert.equal(first.refusal(40), undefined)
    assert.deepEqual(
      [first.refusal(41)?.reason, first.refusal(41)?.message],
      ['overloaded', '60 things are held, the maximum is 100 (MAX_THINGS): try again later'],
    )
    assert.equal(other.held, 0)
  })

  it('leaves a quarter to others while they hold something', () => {
    const budget = budgetOf(100)
    const [flood, other] = [budget.share(), budget.share()]
    flood.hold(70)
    other.hold(1)
    assert.equal(flood.refusal(5), undefined)
    assert.equal(
      flood.refusal(6)?.message,
      '70 things are held in this collection, the maximum is 75 while others are used (three quarters of MAX_THINGS): try again later',
    )
    flood.hold(5)
    assert.equal(other.refusal(24), undefined)
    assert.match(other.refusal(25)!.message, /^76 things are held, the maximum is 100/)
    other.release(1)
    assert.equal(flood.refusal(25), undefined)
    assert.equal(budget.used, 75)
  })

  it('accepts a collection that holds nothing, even with more than the limit, or while another holds all', () => {
    const budget = budgetOf(100)
    const [large, late] = [budget.share(), budget.share()]
    assert.equal(large.refusal(1000), undefined)
    large.hold(1000)
    assert.equal(large.refusal(1)?.reason, 'overloaded')
    assert.equal(late.refusal(1), undefined)
    late.hold(1)
    assert.equal(late.refusal(1)?.reason, 'overloaded')
    large.release(1000)
    assert.equal(late.refusal(74), undefined)
    assert.equal(budget.used, 1)
  })

  it('is one for all threads, and gets back what a thread held that has died', () => {
    const max = 100
    const budget = new SharedBudget({ max, inWords: String, threads: 3 })
    const [flood, other] = [budget.share(), budget.share()]
    const [first, second] = [1, 2].map((thread) => {
      const ofThread = new SharedBudget({ ...budget.setupOf(thread), inWords: String })
      return ofThread.share(flood.memory)
    })
    first!.hold(90)
    second!.hold(9)
    assert.deepEqual([flood.held, second!.held, budget.used], [99, 99, 99])
    assert.match(second!.refusal(2)!.message, /^99, the maximum is 100/)
    other.hold(1)
    budget.drop(1)
    flood.drop(1)
    assert.deepEqual([flood.held, budget.used], [9, 10])
    assert.match(flood.refusal(67)!.message, /the maximum is 75 while others are used/)
    second!.release(9)
    assert.equal(other.refusal(99), undefined)
  })
})
