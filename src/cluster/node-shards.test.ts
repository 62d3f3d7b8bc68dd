import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import type { LoggedRequest } from '../write/requests.ts'
import { StalledOwners } from './node-shards.ts'
import { OwnedPlacement } from './reads/placement.ts'

const full = new DatabaseError('disk_full', 'the disk is full')

describe('owners that are full', () => {
  const owners = Array.from({ length: partitionCount }, (_, partition) =>
    partition === 7 ? ['b', 'c'] : ['c', 'd'],
  )
  const live = new Set(['b', 'c', 'd'])
  const placement = new OwnedPlacement({
    self: 'a',
    owners: () => owners,
    held: () => noPartitions,
    isLive: (node) => live.has(node),
  })

  it('get no further writes for a moment, once all live owners of a partition are full', () => {
    let nowMs = 0
    const stalled = new StalledOwners(() => nowMs)
    stalled.note('b', full)
    stalled.check(put('07'), placement)
    stalled.note('c', new DatabaseError('not_ready', 'it starts'))
    stalled.check(put('07'), placement)
    stalled.note('c', full)
    assert.throws(() => stalled.check(put('07'), placement), full)
    stalled.check(put('08'), placement)
    live.delete('d')
    assert.throws(() => stalled.check(put('08'), placement), full)
    nowMs += 1_000
    stalled.check(put('07'), placement)
  })
})

function put(partition: string): LoggedRequest {
  return {
    kind: 'put',
    id: `${partition}000000-0000-4000-8000-000000000000`,
    point: { vector: Float32Array.of(1), payload: { contentType: 'Text', content: '' } },
  }
}

const noPartitions = new PartitionSet()
