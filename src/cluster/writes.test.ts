import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionCount } from '../base/partitions.ts'
import { Placement } from './reads/placement.ts'
import { FullOwners } from './writes.ts'

const full = new DatabaseError('disk_full', 'the disk is full')

describe('owners that are full', () => {
  const owners = Array.from({ length: partitionCount }, (_, partition) =>
    partition === 7 ? ['b', 'c'] : ['c', 'd'],
  )
  const live = new Set(['b', 'c', 'd'])
  const placement = new Placement({
    self: 'a',
    owners: () => owners,
    held: () => noPartitions,
    isLive: (node) => live.has(node),
  })

  it('get no further writes for a moment, once all live owners of a partition are full', () => {
    let nowMs = 0
    const owned = new FullOwners(() => nowMs)
    owned.note('b', full)
    owned.check(PartitionSet.of([7]), placement)
    owned.note('c', new DatabaseError('not_ready', 'it starts'))
    owned.check(PartitionSet.of([7]), placement)
    owned.note('c', full)
    assert.throws(() => owned.check(PartitionSet.of([7]), placement), full)
    owned.check(PartitionSet.of([8]), placement)
    live.delete('d')
    assert.throws(() => owned.check(PartitionSet.of([8]), placement), full)
    nowMs += 2_000
    owned.check(PartitionSet.of([7]), placement)
  })
})

const noPartitions = new PartitionSet()
