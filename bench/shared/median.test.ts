import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { median, medianOfKnown } from './median.ts'

describe('a median', () => {
  it('is the middle value, or the mean of the two middle values', () => {
    assert.equal(median([3, 1, 2]), 2)
    assert.equal(median([4, 1, 2, 3]), 2.5)
  })

  it('is undefined if a round has no figure, or without rounds', () => {
    assert.equal(median([3, undefined, 2]), undefined)
    assert.equal(median([]), undefined)
  })

  it('ignores rounds without a figure if asked for known figures', () => {
    const rounds = [{ rate: 3 }, {}, { rate: 5 }] as const
    const rateOf = (round: { readonly rate?: number }): number | undefined => round.rate
    assert.equal(medianOfKnown(rounds, rateOf), 4)
    assert.equal(medianOfKnown([{}], rateOf), undefined)
  })
})
