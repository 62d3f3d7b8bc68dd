import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { idFromBytes } from '../../base/ids.ts'
import { idSeedBytes, idsFromSeed } from '../../base/partitions.ts'
import type { NewPoint } from '../../base/point.ts'
import type { LoggedInsert } from '../../write/requests.ts'
import { isLongAgo, RecentChanges, recordsMax } from './recent-changes.ts'

describe('recent changes', () => {
  it('include what follows a position, and nothing else', () => {
    const changes = new RecentChanges(4)
    changes.note(5, { kind: 'remove', id: id(1) })
    changes.note(6, { kind: 'each', ids: [id(2), id(3)], filter: { kind: 'all', of: [] }, change: 'delete' })
    assert.deepEqual([changes.hasAny([id(1)], 4), changes.hasAny([id(1)], 5)], [true, false])
    assert.deepEqual([changes.hasAny([id(9), id(3)], 5), changes.hasAny([id(9)], 4)], [true, false])
    assert.deepEqual([changes.covers(4), changes.covers(3)], [true, false])
  })

  it('include the ids that are drawn from a seed', () => {
    const changes = new RecentChanges(0)
    const idSeed = new Uint8Array(idSeedBytes).fill(7)
    changes.note(1, insert([undefined, undefined], idSeed))
    const drawn = idFromBytes(idsFromSeed(idSeed, 2, true), 16)
    assert.equal(changes.hasAny([drawn], 0), true)
    assert.equal(changes.hasAny([`07${id(1).slice(2)}`], 0), false, 'the partition alone does not count')
  })

  it('treat a change of collections or aliases as a change of all points', () => {
    const changes = new RecentChanges(0)
    changes.note(1, { kind: 'barrier' })
    changes.note(2, { kind: 'expire', ids: [id(1)] })
    assert.equal(changes.hasAny([id(1)], 0), false, 'expired points were not visible before')
    changes.note(3, { kind: 'drop', name: 'other' })
    assert.deepEqual([changes.hasAny([id(1)], 2), changes.hasAny([id(1)], 3)], [true, false])
  })

  it('are bounded, and treat whatever was dropped as a change, wherever they began', () => {
    const points = Array.from({ length: 50_000 }, (_, index) => id(index))
    const long = new RecentChanges(0)
    const short = new RecentChanges(2)
    for (let position = 1; position <= 5; position += 1) {
      const request = insert(points)
      long.note(position, request)
      if (position > 2) short.note(position, request)
    }
    const asked = ['ffffffff-0000-4000-8000-000000000000']
    for (const changes of [long, short]) {
      assert.deepEqual(
        [2, 3, 4, 5].map((asOf) => changes.hasAny(asked, asOf)),
        [true, false, false, false],
      )
    }
    assert.equal(isLongAgo(1, recordsMax + 1), false)
    assert.equal(isLongAgo(0, recordsMax + 1), true)
  })
})

function insert(ids: readonly (string | undefined)[], idSeed = new Uint8Array(idSeedBytes)): LoggedInsert {
  const point = { vector: Float32Array.of(1), payload: { contentType: 'Text', content: '' } } as const
  const points = ids.map((each): NewPoint => (each === undefined ? point : { ...point, id: each }))
  return { kind: 'insert', points, onError: 'abort', idSeed }
}

function id(number: number): string {
  return `01${number.toString(16).padStart(6, '0')}-0000-4000-8000-000000000000`
}
