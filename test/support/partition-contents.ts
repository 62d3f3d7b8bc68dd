import assert from 'node:assert/strict'
import { PartitionSet } from '../../src/base/partitions.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { pointsIn } from '../../src/collections/live-points.ts'
import type { TakenPoint } from '../../src/write/requests.ts'

/** The stored points of some partitions, including expired ones that are not deleted yet. */
export async function storedIn(collection: Collection, partitions: PartitionSet): Promise<TakenPoint[]> {
  const points: TakenPoint[] = []
  for await (const { ids } of pointsIn(collection.livePoints, (each) => partitions.has(each))) {
    for (const id of ids) points.push(collection.stored(id)!)
  }
  return points.sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** Asserts that a collection has exactly the points of these partitions, bit by bit as another collection has them. */
export async function assertHasOnly(
  collection: Collection,
  partitions: PartitionSet,
  other: Collection,
): Promise<void> {
  assert.deepEqual(await storedIn(collection, partitions), await storedIn(other, partitions))
  const all = await storedIn(collection, PartitionSet.all())
  assert.equal(all.length, (await storedIn(collection, partitions)).length, 'points of other partitions')
  const [own, expected] = [collection.replica.digest, other.replica.digest]
  const entryBytes = own.length / 256
  for (let partition = 0; partition < 256; partition += 1) {
    const at = [partition * entryBytes, (partition + 1) * entryBytes] as const
    const wanted = partitions.has(partition) ? expected.subarray(...at) : new Uint8Array(entryBytes)
    assert.deepEqual(own.subarray(...at), wanted, `the digest of partition ${partition}`)
  }
}
