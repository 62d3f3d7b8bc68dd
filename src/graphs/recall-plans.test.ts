import assert from 'node:assert/strict'
import { it } from 'node:test'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { slotStates } from '../index/graph-state.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import type { RouteRecall } from './index-thread-pool.ts'
import { type MeasuredPoints, plansInWords, RecallPlans, recallInForce } from './recall-plans.ts'

const options = { recallTarget: 0.98, hnswEf: 128 }

const euclidean = { graph: 0, distanceKind: 0 }
const good: RouteRecall = { route: { ...euclidean, efMultiplier: 1 }, recall: 1 }

it('recall is measured when most points are linked, and again when the rest are', () => {
  const plans = new RecallPlans(options)
  plans.routeFor('Euclidean')
  plans.linked(3000)
  assert.deepEqual(plans.due(6000, 3001), [], 'most points wait')
  assert.deepEqual(plans.due(6000, 3000), ['Euclidean'])

  const tried = [
    { ...good, recall: 0.97 },
    { ...good, route: { ...euclidean, efMultiplier: 2 }, recall: 0.99 },
  ]
  plans.decide('Euclidean', tried, plans.now(3000))
  assert.equal(plans.of('Euclidean').route?.efMultiplier, 2)
  plans.linked(100)
  assert.deepEqual(plans.due(6000, 2900), [], 'the graph is nearly the one that was measured')
  plans.linked(2900)
  assert.deepEqual(plans.due(6000, 0), distanceMetrics, 'half a graph does not represent the complete graph')

  decideAll(plans, { Euclidean: [good] }, plans.now(6000))
  assert.equal(plans.of('Euclidean').route?.efMultiplier, 1)
  assert.deepEqual(plans.due(6000, 0), [], 'nothing has changed since the measurement')
  plans.linked(1500)
  assert.deepEqual(plans.due(6000, 0), distanceMetrics, 'a quarter of the points have changed')
})

it('recall is reported as searches get it, and plans are described in words', () => {
  const plans = new RecallPlans(options)
  plans.linked(6000)
  const graph = { points: 6000, linkedBefore: 6000, removedBefore: 0 }
  plans.decide('Euclidean', [{ ...good, recall: 0.991 }], graph)
  plans.decide('Hamming', [{ ...good, recall: 0.51 }], graph)
  plans.decide('Cosine', [{ route: { graph: 1, distanceKind: 1, efMultiplier: 2 }, recall: 0.985 }], graph)
  const recalls = distanceMetrics.map((metric) => [metric, recallInForce(plans.of(metric))])
  assert.deepEqual(Object.fromEntries(recalls), { Euclidean: 0.991, Manhattan: 1, Hamming: 1, Cosine: 0.985 })
  assert.deepEqual(plansInWords(plans.all), {
    Euclidean: 'graph, recall 0.991',
    Manhattan: 'exact scan',
    Hamming: 'exact scan: the recall of the graph is only 0.510',
    Cosine: 'separate graph with 2 times the ef, recall 0.985',
  })
})

it('while points wait, recall is measured only for the metrics of actual searches', () => {
  const plans = new RecallPlans(options)
  plans.linked(5900)
  assert.deepEqual(plans.due(6000, 100), [])
  assert.equal(plans.routeFor('Cosine'), undefined)
  assert.deepEqual(plans.due(6000, 100), ['Cosine'])

  plans.decide('Cosine', [good], plans.now(5900))
  plans.linked(14_000)
  assert.deepEqual(plans.due(20_000, 100), [], 'no search since')
  assert.equal(plans.routeFor('Cosine'), undefined, 'the graph has changed too much since the measurement')
  assert.deepEqual(plans.due(20_000, 100), ['Cosine'])
  const others = distanceMetrics.filter((metric) => metric !== 'Cosine')
  assert.deepEqual(plans.due(20_000, 0), ['Cosine', ...others], 'all metrics, when no points wait')
  assert.deepEqual(plans.due(20_000, 0, false), ['Cosine'], 'no time for the other metrics')
})

it('a plan is trusted until a third of its points have changed, and less after that', () => {
  const changed = (linked: number, removed: number, route = good.route): number | undefined => {
    const plans = new RecallPlans(options)
    plans.decide('Cosine', [{ route, recall: 1 }], plans.now(6000))
    plans.linked(linked)
    plans.removed(removed)
    const kept = new RecallPlans(options)
    kept.restore(plans.kept, 6000)
    const efMultiplier = plans.routeFor('Cosine')?.efMultiplier
    assert.equal(kept.routeFor('Cosine')?.efMultiplier, efMultiplier, 'the same after a restart')
    return efMultiplier
  }
  assert.equal(changed(2000, 0), 1)
  assert.equal(changed(1000, 1000), 1)
  assert.equal(changed(2001, 0), 2, 'twice as wide')
  assert.equal(changed(3000, 2000), 2)
  assert.equal(changed(2001, 0, { ...good.route, efMultiplier: 16 }), undefined, 'there is no wider route')
  assert.equal(changed(6001, 0), undefined, 'exact, if more points were linked than there were')
  assert.equal(changed(0, 2001), undefined, 'exact, if more than a third were removed')
})

it('measurements of an earlier run are used, and repeated if the settings differ', () => {
  const earlier = new RecallPlans(options)
  earlier.linked(6000)
  decideAll(earlier, { Euclidean: [good] }, earlier.now(6000))
  const restored = (linked: number, by = options): RecallPlans => {
    const plans = new RecallPlans(by)
    plans.restore(earlier.kept, linked)
    assert.deepEqual(plans.all, earlier.all)
    return plans
  }
  assert.deepEqual(restored(6000).due(6000, 0), [])
  assert.deepEqual(restored(7500).due(7500, 0), distanceMetrics, 'linked after the measurement')
  assert.deepEqual(restored(6000, { ...options, hnswEf: 64 }).due(6000, 0), distanceMetrics)
  assert.deepEqual(restored(6000, { ...options, recallTarget: 0.99 }).due(6000, 0), distanceMetrics)

  earlier.expire('Cosine')
  assert.deepEqual(restored(6000).due(6000, 0), ['Cosine'], 'was due to be measured again')
})

it('recall is not measured if there are no points', () => {
  const plans = new RecallPlans(options)
  assert.deepEqual(plans.due(0, 0), [])
})

it('recall is measured on the same number of linked points whether or not others wait', () => {
  const count = 6000
  const index = indexOf(Array.from({ length: count }, () => new Float32Array(4)))
  const { states } = index.linkQueue(0, 0).state
  const plans = new RecallPlans(options)
  for (const linked of [count / 2, count]) {
    states.fill(slotStates.linked, 0, linked)
    for (const asked of ['Euclidean', 'Hamming'] as const) {
      const { slots, fewest, metric } = plans.request(index, asked, [true, false], count - linked)
      assert.ok(slots.length > 350 && slots.length <= 400, `${slots.length}, without duplicates`)
      assert.ok(slots.every((slot) => slot < linked))
      const first = slots.slice(0, fewest)
      assert.ok(first.some((slot) => slot >= 0.9 * linked) && first.some((slot) => slot < 0.1 * linked))
      assert.equal(metric, asked)
    }
  }
})

it('a sample takes few steps and contains linked points even if all points wait by now', (t) => {
  const count = 2000
  const index = indexOf(Array.from({ length: count }, () => new Float32Array(4)))
  index.linkQueue(0, 0).state.states.fill(slotStates.linked, 0, count)
  const plans = new RecallPlans(options)
  const { random } = Math
  t.after(() => {
    Math.random = random
  })
  for (const waiting of [0, count - 1, count + 1, count]) {
    let steps = 0
    // Fails instead of running for minutes, or for ever.
    Math.random = () => {
      steps += 1
      assert.ok(steps <= 10_000, `too many steps with ${waiting} waiting points of ${count}`)
      return random()
    }
    const { slots } = plans.request(index, 'Euclidean', [true, false], waiting)
    assert.ok(slots.length >= 300, `${slots.length} slots with ${waiting} waiting points of ${count}`)
  }
})

it('all metrics are measured again after ten minutes, or after an hour while searches need the processors', () => {
  const plans = new RecallPlans(options)
  const after = (minutes: number, isBusy: boolean): readonly Metric[] => {
    decideAll(plans, {}, plans.now(200))
    plans.expireWhenOld(performance.now() + minutes * 60_000, isBusy)
    return plans.due(200, 0)
  }
  assert.deepEqual(after(9, false), [])
  assert.deepEqual(after(11, false), distanceMetrics)
  assert.deepEqual(after(59, true), [])
  assert.deepEqual(after(61, true), distanceMetrics)
})

it('Cosine gets a separate graph if the other one serves it badly and lengths differ', () => {
  const graph = { points: 200, linkedBefore: 200, removedBefore: 0 }
  for (const [spread, isWanted] of [
    [1, false],
    [1.05, false],
    [2, true],
  ] as const) {
    const vectors = Array.from({ length: 200 }, (_, at) => Float32Array.of(1 + ((spread - 1) * at) / 199, 0))
    const index = indexOf([new Float32Array(2), ...vectors])
    index.linkQueue(0, 0).state.states.fill(slotStates.linked, 0, vectors.length + 1)
    const plans = new RecallPlans(options)
    plans.request(index, 'Cosine', [true, false], 0)
    assert.ok(!plans.isCosineGraphWanted, 'it was not measured')
    decideAll(plans, {}, graph)
    assert.equal(
      plans.isCosineGraphWanted,
      isWanted,
      `the longest is ${spread} times as long as the shortest`,
    )
    decideAll(plans, { Cosine: [good] }, graph)
    assert.ok(!plans.isCosineGraphWanted, 'it is served well')
  }
})

/** Decides all metrics by these measurements; those without any have no route. */
function decideAll(
  plans: RecallPlans,
  found: Partial<Record<Metric, readonly RouteRecall[]>>,
  on: MeasuredPoints,
): void {
  for (const metric of distanceMetrics) plans.decide(metric, found[metric] ?? [], on)
}

function indexOf(vectors: readonly Float32Array[]): VectorIndex {
  const index = new VectorIndex({
    dimension: vectors[0]!.length,
    kernels: loadKernels(),
    maxThreads: 1,
    maxLimit: 10,
    m: 16,
    efConstruction: 100,
  })
  for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot)
  return index
}
