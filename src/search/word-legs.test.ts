import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { randomVector, seededRandom } from '../../test/support/random.ts'
import { distanceMetrics, nearness, type SearchQuery } from '../base/point.ts'
import { scalarDistance, scalarDistances } from '../kernels/scalar.ts'
import { contenders, fused, inUnits, type Leg } from './leg-search.ts'

const seed = 11

describe('the legs of a hybrid search', () => {
  it(`leave out only points that cannot be among the best, seed ${seed}`, () => {
    const random = seededRandom(seed)
    const below = (limit: number): number => Math.floor(random() * limit)
    let leftOut = 0
    for (let round = 0; round < 400; round += 1) {
      const metric = distanceMetrics[below(distanceMetrics.length)]!
      // Few values, so that many scores are equal; far away, all are.
      const steps = [4, 1000][below(2)]!
      const far = metric === 'Cosine' && below(8) === 0
      const distance = (): number => (far ? 2 - 1e-12 * below(3) : (2 * below(steps)) / steps)
      const limit = 1 + below(20)
      const bestWords = 1 + random()
      const wordsMax = (bestWords * below(steps)) / steps
      const found = Array.from({ length: below(30) }, (_, sequence): Leg => {
        const words = wordsMax + ((bestWords - wordsMax) * below(steps)) / steps
        return { sequence, distance: distance(), words }
      })
      const points = Array.from({ length: below(30) }, (_, at): Leg => {
        return { sequence: 100 + at, distance: distance(), words: (wordsMax * below(steps + 1)) / steps }
      })
      const query: SearchQuery = {
        ...{ vector: Float32Array.of(1), metric, limit, ef: 1, words: { text: '', balance: below(5) / 4 } },
        maxDistance: below(3) === 0 ? distance() : undefined,
      }
      const legs = { found, bestWords, nearest: 0 }
      const all = fused(query, { ...legs, found: [...found, ...points] })
      const least = Math.min(...points.map((each) => each.distance))
      const nearest = points.length === 0 ? 0 : nearness(metric, inUnits(metric, least))
      // As kernels measure them.
      const measured = points.map((each) => ({
        ...each,
        distance: each.distance * (1 + 1e-13 * (random() - 0.5)),
      }))
      const kept = contenders(query, { ...legs, nearest }, measured, { wordsMax, limit })
      const exact = kept.map(({ sequence }) => points[sequence - 100]!)
      leftOut += points.length - kept.length
      const few = fused(query, { ...legs, nearest, found: [...found, ...exact] })
      assert.deepEqual(few.slice(0, limit), all.slice(0, limit), `round ${round}`)
    }
    assert(leftOut > 0)
  })

  it('measure four rows at a time as one', () => {
    const random = seededRandom(seed)
    const vector = randomVector(random, 37, 'continuous')
    const rows = Array.from({ length: 11 }, () => randomVector(random, 37, 'continuous'))
    rows[2]!.fill(0)
    for (const metric of distanceMetrics) {
      for (let count = 0; count <= rows.length; count += 1) {
        const some = rows.slice(0, count)
        const expected = some.map((row) => scalarDistance(metric, vector, row))
        assert.deepEqual([...scalarDistances(metric, vector, some)], expected)
      }
    }
  })
})
