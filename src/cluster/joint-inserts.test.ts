import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../base/errors.ts'
import type { NewPoint, OnConflict } from '../base/point.ts'
import { type FoundPoints, type LoggedInsert, StaleRequest } from '../write/requests.ts'
import { insertJointly, isJoint, partitionToDraw } from './joint-inserts.ts'

const identity = { keyHash: new Uint8Array(16), bodyHash: new Uint8Array(16) }

describe('an insert when each node may hold only some of the points', () => {
  it('draws ids anywhere when no point has one, also with a key', () => {
    assert.equal(isJoint([point(), point()], { identity }), false)
    assert.equal(partitionToDraw([point(), point()], {}), undefined)
  })

  it('draws ids in the partition whose owners decide about the whole insert', () => {
    assert.equal(isJoint([point('07'), point(), point('07')], {}), false)
    assert.equal(partitionToDraw([point('07'), point(), point('07')], {}), 7)
  })

  it('is decided jointly when owners of several partitions would have to agree', () => {
    assert.equal(isJoint([point('07'), point('08')], {}), true)
    assert.equal(isJoint([point('07'), point('08', 'skip')], {}), true)
    assert.equal(isJoint([point('07')], { identity }), true)
    assert.equal(isJoint([point('07')], { identity, onError: 'continue' }), true)
  })

  it('is decided by each owner when each point is decided separately', () => {
    for (const rule of ['skip', 'replace'] as const) {
      assert.equal(isJoint([point('07', rule), point('08', rule)], { identity }), false)
    }
    assert.equal(isJoint([point('07'), point('08')], { onError: 'continue' }), false)
  })
})

describe('an insert that is decided jointly', () => {
  const request: LoggedInsert = {
    kind: 'insert',
    points: [point('07'), point('08')],
    onError: 'abort',
    idSeed: new Uint8Array(16),
  }
  const found: FoundPoints = { asOf: 3, expiries: new Map([[1, Number.POSITIVE_INFINITY]]) }
  const inserted = { ids: ['one', 'two'], errors: [] }

  it('is written together with what was found', async () => {
    const written: LoggedInsert[] = []
    const write = async (each: LoggedInsert): Promise<typeof inserted> => {
      written.push(each)
      return inserted
    }
    assert.equal(await insertJointly({ request, find: async () => found, write }), inserted)
    assert.deepEqual(written, [{ ...request, found }])
  })

  it('is retried when the points have changed, with a lookup after that change', async () => {
    const positions: number[] = []
    const find = async (position: number): Promise<FoundPoints> => {
      positions.push(position)
      return found
    }
    const write = async (): Promise<typeof inserted> => {
      if (positions.length < 3) throw new StaleRequest(10 * positions.length)
      return inserted
    }
    assert.equal(await insertJointly({ request, find, write }), inserted)
    assert.deepEqual(positions, [0, 10, 20])
  })

  it('is not retried when it is refused', async () => {
    const refusal = new DatabaseError('already_exists', 'there is one')
    let written = 0
    const write = async (): Promise<never> => {
      written += 1
      throw refusal
    }
    await assert.rejects(insertJointly({ request, find: async () => found, write }), refusal)
    assert.equal(written, 1)
  })
})

function point(partition?: string, onConflict?: OnConflict): NewPoint {
  return {
    vector: Float32Array.of(1),
    payload: { contentType: 'Text', content: '' },
    ...(partition === undefined ? {} : { id: `${partition}000000-0000-4000-8000-000000000000` }),
    ...(onConflict === undefined ? {} : { onConflict }),
  }
}
