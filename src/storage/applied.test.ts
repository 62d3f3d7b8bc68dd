import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { idToBytes } from '../base/ids.ts'
import { newId } from '../base/partitions.ts'
import { differingPartitions, PartitionDigest } from './applied.ts'

describe('the digest of a replica', () => {
  const points = Array.from({ length: 1000 }, (_, index) => ({
    id: idToBytes(newId()),
    version: index * 2 ** 33 + 1,
  }))

  it('depends on the points, not on the order of changes', () => {
    const one = new PartitionDigest()
    const other = new PartitionDigest()
    for (const { id, version } of points) one.add(id, version)
    const random = seededRandom(1)
    for (const { id, version } of points.toSorted(() => random() - 0.5)) {
      other.add(id, version - 1)
      other.remove(id, version - 1)
      other.add(id, version)
    }
    assert.deepEqual(one.bytes, other.bytes)
    assert.equal(one.points, points.length)
    for (const { id, version } of points) one.remove(id, version)
    assert.deepEqual(one.bytes, new PartitionDigest().bytes)
  })

  it('finds the partitions with points that one replica lacks or has in another version', () => {
    const one = new PartitionDigest()
    for (const { id, version } of points) one.add(id, version)
    const other = new PartitionDigest(one.bytes)
    assert.deepEqual(differingPartitions(one.bytes, other.bytes), [])
    const [first, second] = points as [(typeof points)[0], (typeof points)[0]]
    other.remove(first.id, first.version)
    other.remove(second.id, second.version)
    // The high half of a version also counts.
    other.add(second.id, second.version + 2 ** 32)
    const expected = [...new Set([first.id[0], second.id[0]])].sort((a, b) => a! - b!)
    assert.deepEqual(differingPartitions(one.bytes, other.bytes), expected)
  })
})
