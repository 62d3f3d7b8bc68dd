import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NewPoint, OnConflict } from '../base/point.ts'
import { partitionToDraw } from './sharded-inserts.ts'

const identity = { keyHash: new Uint8Array(16), bodyHash: new Uint8Array(16) }

describe('an insert where nodes have a part of the points each', () => {
  it('draws ids anywhere when no point has one, also with a key', () => {
    assert.equal(partitionToDraw([point(), point()], { identity }), undefined)
  })

  it('draws ids beside those that decide about all of it', () => {
    assert.equal(partitionToDraw([point('07'), point(), point('07')], {}), 7)
  })

  it('is refused when nodes would have to agree on whether it is stored', () => {
    assert.throws(() => partitionToDraw([point('07'), point('08')], {}), {
      reason: 'invalid_argument',
      message: /on_conflict/,
    })
    assert.throws(() => partitionToDraw([point('07'), point('08', 'skip')], {}), /on_conflict/)
    assert.throws(() => partitionToDraw([point('07')], { identity }), /idempotency key/)
  })

  it('is taken when each point is decided for itself', () => {
    for (const rule of ['skip', 'replace'] as const) {
      assert.equal(partitionToDraw([point('07', rule), point('08', rule)], { identity }), undefined)
    }
    assert.equal(partitionToDraw([point('07'), point('08')], { onError: 'continue' }), undefined)
  })
})

function point(partition?: string, onConflict?: OnConflict): NewPoint {
  return {
    ...{ vector: Float32Array.of(1), payload: { contentType: 'Text', content: '' } },
    ...(partition === undefined ? {} : { id: `${partition}000000-0000-4000-8000-000000000000` }),
    ...(onConflict === undefined ? {} : { onConflict }),
  }
}
