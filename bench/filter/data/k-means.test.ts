import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { GaussianRandom } from '../../shared/data/gaussian-random.ts'
import { centresByDistance, kMeans, nearestCentre, permutation } from './k-means.ts'

/** 300 points around each of three places. */
function threeGroups(): Float32Array {
  const random = new GaussianRandom(7)
  const places = [
    [0, 0],
    [10, 0],
    [0, 10],
  ] as const
  const rows = new Float32Array(900 * 2)
  for (let row = 0; row < 900; row += 1) {
    const [x, y] = places[row % 3]!
    rows.set([x + random.next(), y + random.next()], row * 2)
  }
  return rows
}

describe('k-means', () => {
  it('finds groups that are far apart', () => {
    const rows = threeGroups()
    const centres = kMeans(rows, { dimension: 2, clusters: 6, sample: 400, rounds: 8, seed: 1 })
    const clustersOfGroup = [0, 1, 2].map(
      (group) =>
        new Set(Array.from({ length: 300 }, (_, at) => nearestCentre(rows, at * 3 + group, centres, 2))),
    )
    const all = new Set(clustersOfGroup.flatMap((clusters) => [...clusters]))
    assert.equal(
      clustersOfGroup.reduce((sum, { size }) => sum + size, 0),
      all.size,
      'no cluster spans two groups',
    )
  })

  it('orders centres by their distance', () => {
    const centres = Float32Array.of(...[5, 0], ...[1, 0], ...[3, 0])
    assert.deepEqual(centresByDistance(Float32Array.of(9, 9, 0, 0), 1, centres, 2), [1, 2, 0])
    assert.equal(nearestCentre(Float32Array.of(4.5, 0), 0, centres, 2), 0)
  })
})

describe('a permutation', () => {
  it('has every number once, in an order determined by the seed', () => {
    const order = permutation(1000, new GaussianRandom(3))
    assert.deepEqual(
      [...order].sort((a, b) => a - b),
      Array.from({ length: 1000 }, (_, number) => number),
    )
    assert.deepEqual(order, permutation(1000, new GaussianRandom(3)))
    assert.notDeepEqual(order, permutation(1000, new GaussianRandom(4)))
  })
})
