import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NewPoint, OnConflict } from '../base/point.ts'
import type { LoggedInsert } from '../write/requests.ts'
import { needsLookup, partitionToDraw } from './joint-inserts.ts'

const identity = { keyHash: new Uint8Array(16), bodyHash: new Uint8Array(16) }

describe('an insert when each node may hold only some of the points', () => {
  it('draws ids anywhere when no point has one, also with a key', () => {
    assert.equal(needsLookup(insert([point(), point()], { identity }), 1), false)
    assert.equal(partitionToDraw([point(), point()]), undefined)
  })

  it('draws ids in the partition whose owners decide about the whole insert', () => {
    const points = [point('07'), point(), point('07')]
    assert.equal(needsLookup(insert(points), 1), false)
    assert.equal(partitionToDraw(points), 7)
  })

  it('needs a lookup when points of several partitions decide together, or a key keeps the result', () => {
    const continues = { onError: 'continue' } as const
    assert.equal(needsLookup(insert([point('07'), point('08')]), 1), true)
    assert.equal(needsLookup(insert([point('07'), point('08', 'skip')]), 1), true)
    assert.equal(needsLookup(insert([point('07')], { identity }), 1), true)
    assert.equal(needsLookup(insert([point('07')], { identity, ...continues }), 1), true)
    assert.equal(needsLookup(insert([point('07'), point('08')], continues), 2), true)
  })

  it('needs none when one node can decide about each point, or nothing can be refused', () => {
    for (const rule of ['skip', 'replace'] as const)
      assert.equal(needsLookup(insert([point('07', rule), point('08', rule)], { identity }), 2), false)
    assert.equal(needsLookup(insert([point('07'), point('08')], { onError: 'continue' }), 1), false)
  })
})

function insert(points: readonly NewPoint[], options: Partial<LoggedInsert> = {}): LoggedInsert {
  return { kind: 'insert', points, onError: 'abort', idSeed: new Uint8Array(16), ...options }
}

function point(partition?: string, onConflict?: OnConflict): NewPoint {
  return {
    vector: Float32Array.of(1),
    payload: { contentType: 'Text', content: '' },
    ...(partition === undefined ? {} : { id: `${partition}000000-0000-4000-8000-000000000000` }),
    ...(onConflict === undefined ? {} : { onConflict }),
  }
}
