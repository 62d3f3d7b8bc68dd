import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PartitionSet, partitionCount, partitionOf } from './partitions.ts'

describe('partitions', () => {
  it('are the first bytes of ids', () => {
    assert.equal(partitionOf('00a4b52e-0000-4000-8000-000000000000'), 0)
    assert.equal(partitionOf('ffa4b52e-0000-4000-8000-000000000000'), 255)
  })

  it('are in a set after they are added, until they are deleted', () => {
    const set = PartitionSet.of([0, 7, 8, 255, 8])
    assert.deepEqual([...set], [0, 7, 8, 255])
    assert.equal(set.size, 4)
    set.delete(7)
    assert.equal(set.has(7), false)
    assert.ok(set.equals(new PartitionSet(Uint8Array.from(set.bytes))))
    assert.ok(!set.equals(PartitionSet.of([0, 8])))
  })

  it('are 256 together', () => {
    assert.equal(PartitionSet.all().size, partitionCount)
    assert.equal(PartitionSet.all().isAll, true)
    assert.equal(new PartitionSet().size, 0)
    assert.throws(() => new PartitionSet(new Uint8Array(31)), RangeError)
  })
})
