import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { percentile } from './percentile.ts'

describe('a percentile', () => {
  it('is the smallest value that this share of values does not exceed', () => {
    const values = [50, 10, 30, 20, 40]
    assert.equal(percentile(values, 0.01), 10)
    assert.equal(percentile(values, 0.2), 10)
    assert.equal(percentile(values, 0.21), 20)
    assert.equal(percentile(values, 0.5), 30)
    assert.equal(percentile(values, 0.99), 50)
    assert.equal(percentile(values, 1), 50)
  })

  it('leaves one of a hundred values beyond it on either side', () => {
    const values = Array.from({ length: 100 }, (_, value) => value)
    assert.equal(percentile(values, 0.01), 0)
    assert.equal(percentile(values, 0.02), 1)
    assert.equal(percentile(values, 0.99), 98)
  })

  it('is refused without values', () => {
    assert.throws(() => percentile([], 0.5), /no values/)
  })
})
