import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PartitionSet, partitionCount } from './partitions.ts'
import { type HeldPart, isInParts, partitionsIn, repairPlanOf } from './repair-plan.ts'

describe('the plan of a repair', () => {
  it('keeps every partition on all nodes that have its newest points', () => {
    const { plan, missing } = repairPlanOf([
      part('a', 900, [0, 127], { docs: [900, (partition) => (partition < 64 ? 1 : 2)] }),
      // Further, but only in some of the partitions that both have.
      part('b', 905, [0, 255], { docs: [905, (partition) => (partition < 64 ? 1 : 3)] }),
      part('c', 899, [128, 255], { docs: [899, () => 3] }),
    ])
    assert.deepEqual(missing, [])
    assert.equal(plan.leader, 'b')
    assert.equal(plan.position, 905)
    assert.equal(plan.behind, 64)
    assert.deepEqual(plan.divided, [])
    assert.deepEqual(keptBy(plan.nodes.a!.keeps), range(0, 63))
    assert.deepEqual(keptBy(plan.nodes.b!.keeps), range(0, 255))
    assert.deepEqual(
      keptBy(plan.nodes.c!.keeps),
      range(128, 255),
      'it is behind in the log, but has the same points',
    )
    assert.equal(plan.replicas, 2)
  })

  it('keeps partitions that only a lagging node has', () => {
    const { plan } = repairPlanOf([
      part('a', 10, [0, 200], { docs: [10, () => 1] }),
      part('b', 20, [0, 100], { docs: [20, () => 2], more: [19, () => 1] }),
      part('c', 20, [101, 255], { docs: [20, () => 2] }),
    ])
    assert.deepEqual(keptBy(plan.nodes.a!.keeps), [])
    assert.deepEqual(keptBy(plan.nodes.b!.keeps), range(0, 100))
    const alone = repairPlanOf([
      part('a', 10, [0, 255], { docs: [10, () => 1] }),
      part('b', 20, [0, 100], { docs: [20, () => 2] }),
    ]).plan
    assert.equal(alone.leader, 'b')
    assert.deepEqual(keptBy(alone.nodes.a!.keeps), range(101, 255))
  })

  it('chooses the node further in the log when two nodes each lack points of the other', () => {
    const { plan } = repairPlanOf([
      part('a', 30, [0, 255], { docs: [30, () => 1], more: [29, () => 1] }),
      part('b', 31, [0, 255], { docs: [29, () => 2], more: [31, () => 2] }),
    ])
    assert.equal(plan.divided.length, 256)
    assert.deepEqual(keptBy(plan.nodes.b!.keeps), range(0, 255))
    assert.deepEqual(keptBy(plan.nodes.a!.keeps), [])
  })

  it('reports partitions that no node has, and leaves out nodes of an earlier log', () => {
    const old = { ...part('c', 5, [100, 255], { docs: [5, () => 9] }), log: 'before' }
    const { plan, missing } = repairPlanOf([part('a', 30, [0, 99], { docs: [30, () => 1] }), old])
    assert.deepEqual(missing, range(100, 255))
    assert.deepEqual(Object.keys(plan.nodes), ['a'])
  })

  it('contains the newest topology that any node knows', () => {
    const ring = (replicas: number) => ({ replicas, nodes: ['a'], firsts: [] })
    const one = { ...part('a', 3, [0, 255], {}), topology: { generation: 4, ring: ring(1) } }
    const other = { ...part('b', 2, [0, 255], {}), topology: { generation: 7, ring: ring(2) } }
    const { plan } = repairPlanOf([one, other])
    assert.equal(plan.generation, 7)
    assert.equal(plan.ring?.replicas, 2)
    assert.ok(isInParts([one]))
    assert.ok(!isInParts([part('a', 3, [0, 255], {})]))
    assert.ok(isInParts([part('a', 3, [0, 254], {})]))
  })
})

/** @param collections by name: the position, and the byte that fills the digest of each partition */
function part(
  node: string,
  position: number,
  [first, last]: readonly [number, number],
  collections: Readonly<Record<string, readonly [number, (partition: number) => number]>>,
): HeldPart {
  const held = PartitionSet.of(range(first, last))
  const digestOf = (byteOf: (partition: number) => number): string =>
    Buffer.from(
      Array.from({ length: partitionCount * 2 }, (_, at) => (held.has(at >> 1) ? byteOf(at >> 1) : 0)),
    ).toString('base64')
  return {
    ...{ node, zone: `zone of ${node}`, address: node, database_id: `directory of ${node}`, log: 'lost' },
    ...{ position, reach: position, held: Buffer.from(held.bytes).toString('base64') },
    collections: Object.fromEntries(
      Object.entries(collections).map(([name, [at, byteOf]]) => [
        name,
        { position: at, digest: digestOf(byteOf), last_key: null },
      ]),
    ),
  }
}

function range(first: number, last: number): number[] {
  return Array.from({ length: last - first + 1 }, (_, index) => first + index)
}

function keptBy(keeps: string): number[] {
  return [...partitionsIn(keeps)]
}
