import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { thinned, versionRanges } from './versions.ts'

describe('the ranges of versions of a sample', () => {
  it('cover the wanted share, within the versions, and depend on the seed', () => {
    const bounds = (seed: number, share: number): number[][] =>
      versionRanges({ from: 1000, below: 33_000 }, share, seed).map((filter) => {
        const { $gte, $lt } = (filter as { $version: { $gte: number; $lt: number } }).$version
        return [$gte, $lt]
      })
    for (const share of [0.01, 0.5]) {
      let covered = 0
      let last = 1000
      for (const [from, below] of bounds(7, share)) {
        assert.ok(from! >= last && below! <= 33_001)
        covered += below! - from!
        last = below! - 1
      }
      assert.ok(Math.abs(covered - 32_000 * share) <= 2 * 32, `${covered} versions`)
    }
    assert.deepEqual(bounds(7, 0.1), bounds(7, 0.1))
    assert.notDeepEqual(bounds(7, 0.1), bounds(8, 0.1))
  })
})

describe('a thinned list', () => {
  it('has as many elements as the limit allows, from all of the list', () => {
    const all = Array.from({ length: 1099 }, (_, number) => number)
    const kept = thinned(all, 1000)
    assert.equal(kept.length, 1000)
    assert.ok(kept.every((number, at) => number - at <= 99 && number >= at))
    assert.deepEqual(thinned(all, 2000), all)
    assert.deepEqual(thinned([], 10), [])
  })
})
