import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { tiersOf } from './tiers.ts'

describe('tiers of shares', () => {
  it('have sums of at most 1, and contain every share once', () => {
    const shares = [0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.4, 0.6, 0.9]
    const tiers = tiersOf(shares)
    assert.deepEqual(tiers.flat().sort(), shares)
    for (const tier of tiers) assert.ok(tier.reduce((sum, each) => sum + each, 0) <= 1 + 1e-9)
    assert.equal(tiers.length, 3)
  })

  it('are full at exactly 1, despite rounding errors', () => {
    assert.deepEqual(tiersOf([0.1, 0.3, 0.6]), [[0.6, 0.3, 0.1]])
    assert.deepEqual(tiersOf([0.6, 0.5]), [[0.6], [0.5]])
  })
})
