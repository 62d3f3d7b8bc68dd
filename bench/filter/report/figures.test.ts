import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Cell, WayResult } from '../run/cell.ts'
import type { WayName } from '../ways.ts'
import { bestOf, timesBetterPlan, timesLibraries, timesOthers } from './figures.ts'
import { verdictsOf } from './verdicts.ts'

function result(way: WayName, queriesPerSecond: number, of: Partial<WayResult> = {}): WayResult {
  return {
    way,
    queriesPerSecond,
    ef: 128,
    hasReached: true,
    queries: 100,
    recall: 1,
    recallP1: 1,
    short: 0,
    p50Us: 1,
    p99Us: 1,
    rounds: [],
    plans: {},
    ...of,
  }
}

function cell(...results: readonly WayResult[]): Cell {
  const of = { kind: 'range', relation: 'independent', k: 10, wantedShare: 0.1, share: 0.1 } as const
  return { name: 'range', ...of, results }
}

/** All queries of a cell. */
const walked = { plans: { walk: 100 } }
const missed = { hasReached: false, recall: 0.5 }

describe('the figures of a cell', () => {
  it('compare the time of the engine with that of the better plan', () => {
    assert.equal(
      timesBetterPlan(cell(result('planned', 100), result('exact', 50), result('walk', 200, walked))),
      2,
    )
    assert.equal(
      timesBetterPlan(cell(result('planned', 100), result('exact', 150), result('walk', 20, walked))),
      1.5,
    )
  })

  it('add the time of filter evaluation to the walk, because every plan needs it', () => {
    const planned = result('planned', 100, { filterUs: 5000 })
    assert.equal(timesBetterPlan(cell(planned, result('exact', 50), result('walk', 200, walked))), 1)
  })

  it('add the same time to the scan instead of its own evaluation, whichever ran first', () => {
    const slow = { filterUs: 5000 }
    const walk = result('walk', 20, walked)
    assert.equal(timesBetterPlan(cell(result('planned', 100, slow), result('exact', 200), walk)), 1)
    assert.equal(timesBetterPlan(cell(result('planned', 200), result('exact', 100, slow), walk)), 1)
  })

  it('ignore a walk that mostly fell back to a scan', () => {
    const walk = result('walk', 900, { plans: { 'walk, then scan': 50, walk: 50 } })
    assert.equal(timesBetterPlan(cell(result('planned', 100), result('exact', 50), walk)), 0.5)
  })

  it('ignore a walk with too little recall, and are unknown if a plan was not measured', () => {
    const walk = result('walk', 900, { ...missed, ...walked })
    assert.equal(timesBetterPlan(cell(result('planned', 100), result('exact', 50), walk)), 0.5)
    assert.equal(timesBetterPlan(cell(result('planned', 100), result('exact', 50))), undefined)
    assert.equal(timesBetterPlan(cell(result('exact', 50), walk)), undefined)
  })

  it('compare the engine with the fastest library with enough recall', () => {
    const planned = result('planned', 600)
    assert.equal(timesLibraries(cell(planned, result('hnswlib', 300), result('zvec', 200))), 2)
    assert.equal(timesLibraries(cell(planned, result('hnswlib', 300, missed), result('zvec', 200))), 3)
    assert.equal(timesLibraries(cell(planned)), undefined)
    assert.equal(timesOthers(cell(planned, result('hnswlib', 300), result('exact', 1200))), 0.5)
  })

  it('use the library with the highest recall if none has enough', () => {
    const poor = result('hnswlib', 300, { ...missed, recall: 0.1 })
    const better = result('zvec', 200, missed)
    assert.equal(bestOf(cell(poor, better), ['hnswlib', 'zvec']), better)
  })
})

describe('the verdicts', () => {
  const good = cell(
    result('planned', 400),
    result('exact', 100),
    result('walk', 400, walked),
    result('zvec', 100),
  )

  it('are reached if all cells are good enough', () => {
    const verdicts = verdictsOf([good, good])
    assert.deepEqual(
      verdicts.map(({ isReached }) => isReached),
      verdicts.map(() => true),
    )
  })

  it('are missed if one cell has too little recall, too few results or takes too long', () => {
    const bad = cell(
      result('planned', 100, { recall: 0.9, short: 2 }),
      result('exact', 300),
      result('walk', 10, walked),
      result('zvec', 100),
    )
    const [mean, worst, short, plan, libraries] = verdictsOf([good, good, bad])
    assert.deepEqual(
      [mean, worst, short, plan, libraries].map((verdict) => verdict!.isReached),
      [false, false, false, false, true],
    )
    assert.equal(worst!.spelled, '0.9000')
    assert.equal(short!.figure, 2)
    assert.equal(plan!.figure, 3)
  })

  it('are undecided if nothing was measured', () => {
    for (const verdict of verdictsOf([])) assert.equal(verdict.isReached, undefined)
  })
})
