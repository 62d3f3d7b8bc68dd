import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { measureOf, type Route } from '../index/graph.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { type FilteredQuery, FilterPlanner } from './filter-planner.ts'

const points = 1_000_000

/** An index that says it holds so many points, and a planner for it. */
function plannerOf(): { planner: FilterPlanner; route: Route } {
  const index = new VectorIndex({
    ...{ kernels: loadKernels(), dimension: 512, maxThreads: 1, maxLimit: 100, m: 16, efConstruction: 100 },
  })
  index.reserve(1)
  index.filled(points)
  return {
    planner: new FilterPlanner(index),
    route: { graph: 0, measure: measureOf('Euclidean', index.layout), widening: 1 },
  }
}

function queryOf(share: number, given: Partial<FilteredQuery> = {}): FilteredQuery {
  const words = new Uint32Array(new SharedArrayBuffer(4))
  const matching: SlotFilter = { id: 7, version: 0, words, count: Math.round(share * points) }
  return { metric: 'Euclidean', ef: 128, isExact: false, matching, ...given }
}

describe('the plan of a search with a filter', () => {
  it('is a scan of few matching points and a walk where many match', () => {
    const { planner, route } = plannerOf()
    for (const share of [0.000_001, 0.001, 0.01])
      assert.equal(planner.plan(queryOf(share), route).route, undefined)
    for (const share of [0.2, 0.5, 0.9]) {
      const plan = planner.plan(queryOf(share), route)
      assert.equal(plan.route, route)
      assert.ok(plan.comparedMax > 1000, 'but no longer than the scan takes')
    }
  })

  it('is a scan where the walk would need a wider pool than there is', () => {
    const { planner, route } = plannerOf()
    assert.equal(planner.plan(queryOf(0.02), route).route, undefined)
    assert.equal(planner.plan(queryOf(0.5, { ef: 4000 }), route).route, undefined)
    assert.equal(planner.plan(queryOf(0.3), { ...route, widening: 16 }).route, undefined)
  })

  it('is a scan for exact results, under Hamming, and without a graph', () => {
    const { planner, route } = plannerOf()
    assert.match(planner.plan(queryOf(0.5, { isExact: true }), route).reason, /exact/)
    assert.match(planner.plan(queryOf(0.5, { metric: 'Hamming' }), route).reason, /Hamming/)
    assert.match(planner.plan(queryOf(0.5), undefined).reason, /no graph/)
  })

  it('follows what rows and comparisons turn out to cost', () => {
    const { planner, route } = plannerOf()
    const query = queryOf(0.2)
    const scanned = { compared: 200_000, measured: 200_000, hasGivenUp: false }
    assert.equal(planner.plan(query, route).route, route)
    const scan = planner.plan(query, undefined)
    for (let search = 0; search < 100; search += 1)
      planner.learn(query, scan, { ...scanned, microseconds: 200 })
    assert.equal(planner.plan(query, route).route, undefined, 'rows that cost next to nothing are scanned')
    for (let search = 0; search < 100; search += 1)
      planner.learn(query, scan, { ...scanned, microseconds: 400_000 })
    assert.equal(planner.plan(query, route).route, route)
  })

  it('is a scan for a while after walks with the filter were given up', () => {
    const { planner, route } = plannerOf()
    const query = queryOf(0.2)
    const other = queryOf(0.2, { matching: { ...query.matching, id: 8 } })
    const givenUp = { compared: 50_000, measured: 100, microseconds: 3000, hasGivenUp: true }
    const scansAfter = (): number => {
      let scans = 0
      while (planner.plan(query, route).route === undefined) scans += 1
      return scans
    }
    const walk = planner.plan(query, route)
    const counts = Array.from({ length: 8 }, () => {
      planner.learn(query, walk, givenUp)
      return scansAfter()
    })
    assert.deepEqual(counts, [2, 4, 8, 16, 32, 64, 64, 64])
    assert.equal(planner.plan(other, route).route, route, 'of that filter alone')
    planner.learn(query, walk, { ...givenUp, hasGivenUp: false })
    assert.equal(scansAfter(), 0)
  })
})
