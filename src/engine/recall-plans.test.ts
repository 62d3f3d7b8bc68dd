import assert from 'node:assert/strict'
import { it } from 'node:test'
import { metrics } from '../base/point.ts'
import { slotStates } from '../index/graph-state.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { RecallPlans } from './recall-plans.ts'

const options = { recallTarget: 0.98, hnswEf: 128 }

const euclidean = { graph: 0, measure: 0 }

it('recall is measured when most points are linked, and again when the rest of them are', () => {
  const plans = new RecallPlans(options)
  plans.routeFor('Euclidean', 6000)
  assert.deepEqual(plans.due(6000, 3001), [], 'most points wait')
  assert.deepEqual(plans.due(6000, 3000), ['Euclidean'])

  const tried = [
    { metric: 'Euclidean', route: { ...euclidean, widening: 1 }, recall: 0.97 },
    { metric: 'Euclidean', route: { ...euclidean, widening: 2 }, recall: 0.99 },
  ] as const
  plans.decide(['Euclidean'], tried, 3000)
  assert.equal(plans.of('Euclidean').route?.widening, 2)
  assert.deepEqual(plans.due(6000, 2900), [], 'the graph is nearly what was measured')
  assert.deepEqual(plans.due(6000, 0), metrics, 'half a graph does not speak for the whole')

  plans.decide(metrics, [{ ...tried[0], recall: 1 }], 6000)
  assert.equal(plans.of('Euclidean').route?.widening, 1)
  assert.deepEqual(plans.due(6000, 0), [], 'it is as it was measured')
})

it('while points wait, recall is measured for the metrics that somebody searches with', () => {
  const plans = new RecallPlans(options)
  assert.deepEqual(plans.due(6000, 100), [])
  assert.equal(plans.routeFor('Cosine', 6000), undefined)
  assert.deepEqual(plans.due(6000, 100), ['Cosine'])

  plans.decide(['Cosine'], [{ metric: 'Cosine', route: { ...euclidean, widening: 1 }, recall: 1 }], 5900)
  assert.deepEqual(plans.due(20_000, 100), [], 'nobody has asked since')
  assert.equal(plans.routeFor('Cosine', 20_000)?.widening, 1)
  assert.deepEqual(plans.due(20_000, 100), ['Cosine'])
  assert.equal(plans.routeFor('Cosine', 24_000), undefined, 'the graph is not the one that was measured')
  assert.deepEqual(plans.due(20_000, 0), metrics, 'all, when none waits')
})

it('what an earlier run measured is believed, and measured again', () => {
  const plans = new RecallPlans(options)
  plans.restore([{ metric: 'Euclidean', route: { ...euclidean, widening: 4 }, recall: 0.99 }], 6000)
  assert.equal(plans.routeFor('Euclidean', 6000)?.widening, 4)
  assert.deepEqual(plans.due(6000, 0), metrics)
  plans.decide(metrics, [], 6000)
  assert.deepEqual(plans.due(6000, 0), [])
  plans.expire('Cosine')
  assert.deepEqual(plans.due(6000, 0), ['Cosine'])
})

it('recall is not measured where there is nothing to measure', () => {
  const plans = new RecallPlans(options)
  assert.deepEqual(plans.due(0, 0), [])
})

it('recall is measured on linked points, as many while others wait as when none does', async () => {
  const dimension = 4
  const count = 6000
  const index = new VectorIndex({
    dimension,
    kernels: await loadKernels(),
    maxThreads: 1,
    maxLimit: 10,
    m: 16,
    efConstruction: 100,
    maxMemoryBytes: 0,
  })
  for (let slot = 0; slot < count; slot += 1) index.place(slot, new Float32Array(dimension), slot)
  const { states } = index.linkQueue(0, 0).state
  const plans = new RecallPlans(options)
  for (const linked of [count / 2, count]) {
    states.fill(slotStates.linked, 0, linked)
    const { slots, candidates } = plans.request(
      index,
      ['Euclidean', 'Hamming'],
      [true, false],
      count - linked,
    )
    assert.equal(slots.length, 100)
    assert.ok(slots.every((slot) => slot < linked))
    assert.ok(slots.some((slot) => slot >= 0.9 * linked) && slots.some((slot) => slot < 0.1 * linked))
    assert.deepEqual(
      candidates.map(({ metric }) => metric),
      ['Euclidean', 'Hamming'],
    )
  }
})
