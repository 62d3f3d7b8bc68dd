import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Sample, settingsFor, speedAtRecall } from './speed-at-recall.ts'

const samples: readonly Sample[] = [
  { ef: 10, recall: 0.8, queriesPerSecond: 8000 },
  { ef: 20, recall: 0.9, queriesPerSecond: 4000 },
  { ef: 40, recall: 0.98, queriesPerSecond: 1000 },
]

describe('speed at a recall', () => {
  it('is the speed of a setting with exactly this recall', () => {
    assert.equal(Math.round(speedAtRecall(samples, 0.9)!), 4000)
  })

  it('is interpolated linearly in log(speed) between two settings', () => {
    assert.equal(Math.round(speedAtRecall(samples, 0.94)!), 2000)
  })

  it('is the speed of the smallest setting if this already has more recall', () => {
    assert.equal(speedAtRecall(samples, 0.5), 8000)
  })

  it('is unknown beyond the best recall', () => {
    assert.equal(speedAtRecall(samples, 0.99), undefined)
  })
})

describe('the settings that the targets need', () => {
  it('are those just below and above each target, without repetition, ascending', () => {
    assert.deepEqual(settingsFor(samples, [0.95, 0.85]), [10, 20, 40])
    assert.deepEqual(settingsFor(samples, [0.95]), [20, 40])
  })

  it('are the largest if a target is out of reach', () => {
    assert.deepEqual(settingsFor(samples, [0.999]), [40])
  })
})
