import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { profileWords } from './profile-words.ts'

const figures = { points: 2000, matching: 2000, compared: 2000, measured: 2000, ef: 128, ef_multiplier: 1 }
const times = { filter_us: 0, queue_us: 100, search_us: 500 }

describe('the profile of a search in words', () => {
  it('says what a scan compared and why', () => {
    assert.deepEqual(
      profileWords({ plan: 'scan of all points', reason: 'the points are few', ...figures, ...times }),
      [
        'Every point was compared, so the answer is exact and ef changes nothing: the points are few.',
        'The server took 0.10 ms waiting for a thread, 0.50 ms searching.',
      ],
    )
  })

  it('says how far a walk went, and what it finds', () => {
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
        'A walk through the graph compared 100 of 2,000 points, 5 %, and kept the 256 best on its way: the graph reaches the recall target.',
        '40 distances were computed from the whole vectors, the others from their short codes.',
        'The server took 0.10 ms waiting for a thread, 0.50 ms searching.',
        'Measured on the points of this collection, searches of this kind find 98.7 % of the true neighbours.',
      ],
    )
  })

  it('says that there was nothing to compare', () => {
    assert.deepEqual(profileWords({ plan: 'empty', reason: 'no point matches', ...figures }), [
      'There was nothing to compare: no point matches.',
    ])
  })
})
