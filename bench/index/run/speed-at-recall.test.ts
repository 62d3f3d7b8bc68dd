import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Sample, settingsFor, speedAtRecall } from './speed-at-recall.ts'

const samples: readonly Sample[] = [
  { ef: 10, recall: 0.8, queriesPerSecond: 8000 },
  { ef: 20, recall: 0.9, queriesPerSecond: 4000 },
  { ef: 40, recall: 0.98, queriesPerSecond: 1000 },
]

describe('speed at a recall', () => {
  it('is that of a setting with exactly this recall', () => {
    assert.equal(Math.round(speedAtRecall(samples, 0.9)!), 4000)
  })

  it('lies on a straight line of log(speed) between two settings', () => {
    assert.equal(Math.round(speedAtRecall(samples, 0.94)!), 2000)
  })

  it('is that of the smallest setting when this has more recall already', () => {
    assert.equal(speedAtRecall(samples, 0.5), 8000)
  })

  it('is unknown beyond the best recall', () => {
    assert.equal(speedAtRecall(samples, 0.99), undefined)
  })
})

describe('the settings that the targets need', () => {
  it('are those on either side of each, once each, ascending', () => {
    assert.deepEqual(settingsFor(samples, [0.95, 0.85]), [10, 20, 40])
    assert.deepEqual(settingsFor(samples, [0.95]), [20, 40])
  })

  it('are the largest where a target is out of reach', () => {
    assert.deepEqual(settingsFor(samples, [0.999]), [40])
  })
})
