import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { profileWords } from './profile-words.ts'

const figures = { points: 2000, matching: 2000, compared: 2000, measured: 2000, ef: 128, ef_multiplier: 1 }
const times = { filter_us: 0, queue_us: 100, search_us: 500 }

describe('the profile of a search in words', () => {
  it('explains what a scan compared and why', () => {
    assert.deepEqual(
      profileWords({ plan: 'scan of all points', reason: 'the points are few', ...figures, ...times }),
      [
        'Every point was compared, so the answer is exact and ef has no effect: the points are few.',
        'The server took 0.10 ms to wait for a thread, 0.50 ms to search.',
      ],
    )
  })

  it('explains how much a graph search compared, and its expected recall', () => {
    const walk = {
      ...figures,
      matching: 500,
      compared: 100,
      measured: 40,
      ef_multiplier: 2,
      recall_estimate: 0.987,
    }
    assert.deepEqual(
      profileWords({ plan: 'graph', reason: 'the graph reaches the recall target', ...walk, ...times }),
      [
        'The filter matches 500 of 2,000 points, 25 %.',
        'The graph search compared 100 of 2,000 points, 5 %, and kept the 256 best candidates: the graph reaches the recall target.',
        '40 distances were computed from full vectors, the others from compressed codes.',
        'The server took 0.10 ms to wait for a thread, 0.50 ms to search.',
        'Measured on this collection, such searches find 98.7 % of the true neighbours.',
      ],
    )
  })

  it('explains an empty search', () => {
    assert.deepEqual(profileWords({ plan: 'empty', reason: 'no point matches', ...figures }), [
      'There were no points to compare: no point matches.',
    ])
  })
})
