import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { median, medianOfKnown } from './median.ts'

describe('a median', () => {
  it('is the middle, or the mean of the two in the middle', () => {
    assert.equal(median([3, 1, 2]), 2)
    assert.equal(median([4, 1, 2, 3]), 2.5)
  })

  it('is unknown when a round has no figure, and of nothing', () => {
    assert.equal(median([3, undefined, 2]), undefined)
    assert.equal(median([]), undefined)
  })

  it('of the known figures leaves out rounds without one', () => {
    const rounds = [{ rate: 3 }, {}, { rate: 5 }] as const
    const rateOf = (round: { readonly rate?: number }): number | undefined => round.rate
    assert.equal(medianOfKnown(rounds, rateOf), 4)
    assert.equal(medianOfKnown([{}], rateOf), undefined)
  })
})
