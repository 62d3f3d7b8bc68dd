import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { LearnedCosts, type Step } from './filter-planner.ts'

const step: Step = { name: 'row', usual: 1 }

function learnedOf(...measured: readonly number[]): LearnedCosts {
  const costs = new LearnedCosts()
  for (const each of measured) costs.learn(step, each)
  return costs
}

describe('the cost of a step', () => {
  it('is the usual one until it is measured', () => {
    assert.equal(new LearnedCosts().of(step), 1)
  })

  it('follows the measurements, up and down', () => {
    const costs = learnedOf(...Array.from({ length: 200 }, () => 30))
    assert.ok(Math.abs(costs.of(step) - 30) < 0.1)
    for (let search = 0; search < 200; search += 1) costs.learn(step, 0.2)
    assert.ok(Math.abs(costs.of(step) - 0.2) < 0.01)
  })

  it('is little changed by a single measurement, even the first', () => {
    assert.ok(learnedOf(1000).of(step) <= 1.75)
    assert.ok(learnedOf(...Array.from({ length: 50 }, () => 1), 1000).of(step) <= 1.2)
  })

  it('falls back to the usual cost while the step is avoided, and never rises', () => {
    const slow = learnedOf(...Array.from({ length: 100 }, () => 8))
    for (let search = 0; search < 100; search += 1) slow.avoided(step)
    assert.ok(slow.of(step) > 4, 'it falls slowly')
    for (let search = 0; search < 2000; search += 1) slow.avoided(step)
    assert.ok(Math.abs(slow.of(step) - 1) < 0.01)
    const quick = learnedOf(...Array.from({ length: 100 }, () => 0.1))
    const before = quick.of(step)
    for (let search = 0; search < 1000; search += 1) quick.avoided(step)
    assert.equal(quick.of(step), before)
  })
})
