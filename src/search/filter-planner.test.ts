import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { distanceKindOf, type Route } from '../index/routes.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import {
  type FilteredQuery,
  type FilterPlan,
  FilterPlanner,
  isScan,
  LearnedCosts,
  type Step,
} from './filter-planner.ts'

const points = 1_000_000

/** Creates an index that reports this many points, and a planner for it. */
function plannerOf(count = points): {
  readonly planner: FilterPlanner
  readonly route: Route
  readonly layout: VectorIndex['layout']
} {
  const index = new VectorIndex({
    kernels: loadKernels(),
    dimension: 512,
    maxThreads: 1,
    maxLimit: 100,
    m: 16,
    efConstruction: 100,
  })
  index.reserve(1)
  index.filled(count)
  return {
    planner: new FilterPlanner(index),
    layout: index.layout,
    route: { graph: 0, distanceKind: distanceKindOf('Euclidean', index.layout), efMultiplier: 1 },
  }
}

function queryOf(share: number, given: Partial<FilteredQuery> = {}): FilteredQuery {
  const words = new Uint32Array(new SharedArrayBuffer(4))
  const matching: SlotFilter = { id: 7, version: 0, words, count: Math.round(share * points) }
  return { metric: 'Euclidean', ef: 128, matching, ...given }
}

describe('the plan of a search with a filter', () => {
  it('is a scan if few points match and a walk if many do', () => {
    const { planner, route } = plannerOf()
    for (const share of [0.000_001, 0.000_1, 0.000_5])
      assert.equal(planner.plan(queryOf(share), route).route, undefined)
    for (const share of [0.2, 0.5, 0.9]) {
      const plan = planner.plan(queryOf(share), route)
      assert.equal(plan.route, route)
      assert.ok(plan.comparedMax > 1000, 'a limit that lets the walk cost as much as the scan')
    }
  })

  it('is at most a short walk if a long one would need a larger pool than possible', () => {
    const { planner, route } = plannerOf()
    const { route: tried, isTrial, comparedMax } = planner.plan(queryOf(0.005), route)
    assert.deepEqual({ tried, isTrial }, { tried: route, isTrial: true })
    assert.ok(
      comparedMax < 2 * 0.005 * points,
      'it costs less than the scan: codes take a sixth of the time of rows',
    )
    assert.equal(planner.plan(queryOf(0.005, { ef: 5000 }), route).route, undefined)
    assert.equal(planner.plan(queryOf(0.3, { ef: 300 }), { ...route, efMultiplier: 16 }).route, undefined)
  })

  it('is a scan by codes if they are cheaper than rows and find enough', () => {
    const { planner, route, layout } = plannerOf()
    const measured = { ...route, scanRecall: 0.99 }
    const plan = planner.plan(queryOf(0.002), measured)
    assert.equal(plan.codeScan, 'instead')
    assert.equal(plan.scanRecall, 0.99)
    assert.equal(planner.plan(queryOf(0.000_01), measured).route, undefined, 'a scan of rows, which is exact')
    assert.equal(planner.plan(queryOf(0.5), measured).codeScan, 'after', 'in case the walk is given up')
    assert.equal(planner.plan(queryOf(0.5), { ...measured, isForScans: true }).codeScan, 'instead')
    assert.equal(planner.plan(queryOf(0.002, { exact: true }), measured).route, undefined)
    assert.notEqual(planner.plan(queryOf(0.5, { ef: 4096 }), measured).codeScan, undefined)
    assert.equal(
      planner.plan(queryOf(0.5, { ef: 4097 }), measured).route,
      undefined,
      'that many results do not fit',
    )
    const onRows = { ...measured, distanceKind: distanceKindOf('Manhattan', layout) }
    assert.equal(planner.plan(queryOf(0.000_5), onRows).route, undefined, 'the metric has no codes')
  })

  it('is a scan for exact results, under Hamming, and without a graph', () => {
    const { planner, route } = plannerOf()
    assert.match(planner.plan(queryOf(0.5, { exact: true }), route).reason, /exact/)
    assert.match(planner.plan(queryOf(0.5, { metric: 'Hamming' }), route).reason, /Hamming/)
    assert.match(planner.plan(queryOf(0.5), undefined).reason, /no graph can be used/)
  })

  it('states that there are few points if that is why there is no graph', () => {
    const { planner } = plannerOf(300)
    assert.match(
      planner.plan(queryOf(0.000_1), undefined).reason,
      /so few points that a graph would save no time/,
    )
  })

  it('follows the measured costs of rows and comparisons', () => {
    const { planner, route } = plannerOf()
    const query = queryOf(0.2)
    const scanned = { compared: 200_000, measured: 200_000, hasGivenUp: false }
    assert.equal(planner.plan(query, route).route, route)
    const scan = planner.plan(query, undefined)
    for (let search = 0; search < 200; search += 1)
      planner.learn(query, scan, { ...scanned, microseconds: 100 })
    assert.equal(planner.plan(query, route).route, undefined, 'rows that cost next to nothing are scanned')
    for (let search = 0; search < 200; search += 1)
      planner.learn(query, scan, { ...scanned, microseconds: 400_000 })
    assert.equal(planner.plan(query, route).route, route)
  })

  it('is still a scan by codes after one whose codes were in no cache', () => {
    const { planner, route } = plannerOf()
    const measured = { ...route, scanRecall: 0.99 }
    const query = queryOf(0.002)
    const plan = planner.plan(query, measured)
    planner.learn(query, plan, { compared: 2000, measured: 100, microseconds: 2000, hasGivenUp: false })
    assert.equal(planner.plan(query, measured).codeScan, 'instead')
  })

  it('returns to scans by codes some time after these were slow', () => {
    const { planner, route } = plannerOf()
    const measured = { ...route, scanRecall: 0.99 }
    const query = queryOf(0.002)
    const work = { compared: 2000, measured: 100, microseconds: 4000, hasGivenUp: false }
    const slow = planner.plan(query, measured)
    for (let search = 0; search < 20; search += 1) planner.learn(query, slow, work)
    assert.equal(planner.plan(query, measured).codeScan, undefined)
    let scansOfRows = 0
    while (planner.plan(query, measured).codeScan === undefined) scansOfRows += 1
    assert.ok(scansOfRows > 100 && scansOfRows < 2000, `${scansOfRows} scans of rows`)
  })

  it('is a walk where walks are short, and a scan where long walks were given up', () => {
    const { planner, route } = plannerOf()
    const measured = { ...route, scanRecall: 0.99 }
    let id = 100
    const planOf = (share: number): { readonly query: FilteredQuery; readonly plan: FilterPlan } => {
      id += 1
      const query = queryOf(share, { matching: { ...queryOf(share).matching, id } })
      return { query, plan: planner.plan(query, measured) }
    }
    const isWalk = (share: number): boolean => {
      const { plan } = planOf(share)
      return !isScan(plan) && plan.isTrial !== true
    }
    assert.deepEqual([0.02, 0.04].map(isWalk), [false, true])
    let walks = 0
    for (let search = 0; search < 200; search += 1) {
      const { query, plan } = planOf(0.04)
      if (isScan(plan)) continue
      walks += Number(plan.isTrial !== true)
      const compared = plan.comparedMax + 1 + query.matching.count
      planner.learn(query, plan, { compared, measured: 100, microseconds: 6000, hasGivenUp: true })
    }
    assert.ok(walks < 60, `${walks} walks: the first ones and an occasional one later`)
    assert.equal(isWalk(0.3), true, 'a walk past so few other points is short')
    for (let search = 0; search < 50; search += 1) {
      const { query, plan } = planOf(0.1)
      planner.learn(query, plan, { compared: 1000, measured: 100, microseconds: 150, hasGivenUp: false })
    }
    assert.deepEqual([0.02, 0.04].map(isWalk), [true, true])
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
    assert.equal(planner.plan(other, route).route, route, 'only that filter is affected')
    planner.learn(query, walk, { ...givenUp, hasGivenUp: false })
    assert.equal(scansAfter(), 0)
  })

  it('tries short walks with new filters as long as some of them reach their end', () => {
    const { planner, route } = plannerOf()
    let id = 100
    const next = (): FilteredQuery => {
      id += 1
      return queryOf(0.005, { matching: { ...queryOf(0.005).matching, id } })
    }
    const work = { compared: 1500, measured: 50, microseconds: 100 }
    const tried = (hasGivenUp: boolean, count: number): number => {
      let walks = 0
      for (let search = 0; search < count; search += 1) {
        const query = next()
        const plan = planner.plan(query, route)
        if (plan.route === undefined) continue
        walks += 1
        planner.learn(query, plan, { ...work, hasGivenUp })
      }
      return walks
    }
    assert.equal(tried(false, 50), 50)
    assert.ok(tried(true, 100) < 30, 'no more trials after walks were given up again and again')
    assert.ok(tried(true, 80) >= 8, 'except for an occasional one')
    tried(false, 80)
    assert.equal(tried(false, 50), 50, 'its success resumes the trials')
  })

  it('is counted by how it was carried out', () => {
    const { planner, route } = plannerOf()
    const work = { compared: 900, measured: 50, microseconds: 100, hasGivenUp: false }
    const codes = { ...route, scanRecall: 0.99 }
    const rows = queryOf(0.0001)
    const many = queryOf(0.002)
    const most = queryOf(0.5)
    planner.learn(rows, planner.plan(rows, route), work)
    for (const _ of [1, 2]) planner.learn(many, { ...planner.plan(many, codes), codeScan: 'instead' }, work)
    for (const hasGivenUp of [false, true, false])
      planner.learn(most, planner.plan(most, route), { ...work, hasGivenUp })
    // The counts include the planner's own scan: it scans after a walk that was given up.
    assert.deepEqual(planner.counts, { scan: 2, code_scan: 2, walk: 1, walk_and_scan: 1 })
  })

  it('allows a longer walk with a filter whose trial ended among its points', () => {
    const { planner, route } = plannerOf()
    const query = queryOf(0.005)
    const trial = planner.plan(query, route)
    planner.learn(query, trial, { compared: 900, measured: 50, microseconds: 100, hasGivenUp: false })
    assert.ok(planner.plan(query, route).comparedMax > 2 * trial.comparedMax)
  })
})

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
