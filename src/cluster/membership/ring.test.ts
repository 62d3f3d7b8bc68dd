import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PartitionSet, partitionCount } from '../../base/partitions.ts'
import { Placement } from '../reads/placement.ts'
import { ownersIn, type Ring, type RingNode, ringOf } from './ring.ts'

describe('a ring of nodes', () => {
  it('assigns owners to each partition, and about the same number of partitions to each node', () => {
    for (const { nodes, replicas } of shapes()) {
      const owners = ownersIn(ringOf(nodes, replicas))
      const wanted = Math.min(replicas, nodes.length)
      assert.equal(owners.length, partitionCount)
      for (const each of owners) assert.equal(new Set(each).size, wanted)
      const loads = nodes.map(({ name }) => owners.filter((each) => each.includes(name)).length)
      assert.ok(Math.max(...loads) - Math.min(...loads) <= wanted, `${loads} of ${replicas} copies`)
    }
  })

  it('is covered by every n-th of its nodes, with n replicas', () => {
    for (const { nodes, replicas } of shapes()) {
      const owners = ownersIn(ringOf(nodes, replicas))
      const [all, nothing] = [PartitionSet.all(), new PartitionSet()]
      const placement = new Placement({
        self: 'nobody',
        owners: () => owners,
        held: () => nothing,
        isLive: () => true,
      })
      const { parts, missing } = placement.cover(all)
      assert.equal(missing.size, 0)
      assert.equal(parts.length, Math.ceil(nodes.length / Math.min(replicas, nodes.length)))
    }
  })

  it('has no two owners of a partition in one zone when zones have the same size', () => {
    for (const [zones, each, replicas] of [
      [2, 3, 2],
      [3, 4, 3],
      [3, 2, 2],
    ] as const) {
      const nodes = Array.from({ length: zones * each }, (_, index) => node(index, zones))
      const zoneOf = new Map(nodes.map(({ name, zone }) => [name, zone]))
      for (const owners of ownersIn(ringOf(nodes, replicas))) {
        assert.equal(new Set(owners.map((name) => zoneOf.get(name))).size, replicas)
      }
    }
  })

  it('has no two owners in one zone either when the zones are started one after the other, or R becomes larger', () => {
    for (const [each, replicas] of [
      [2, 3],
      [3, 3],
      [2, 2],
    ] as const) {
      const nodes = Array.from({ length: 3 * each }, (_, index) => ({
        ...node(index, 1),
        zone: `zone-${Math.floor(index / each)}`,
      }))
      const zoneOf = new Map(nodes.map(({ name, zone }) => [name, zone]))
      let ring = ringOf(nodes.slice(0, 1), replicas)
      for (const count of nodes.keys()) ring = ringOf(nodes.slice(0, count + 1), replicas, ring)
      for (const now of [ring, ringOf(nodes, 3, ring)])
        for (const owners of ownersIn(now))
          assert.equal(new Set(owners.map((name) => zoneOf.get(name))).size, now.replicas)
    }
  })

  it('does not depend on the order in which nodes are listed', () => {
    for (const { nodes, replicas } of shapes()) {
      assert.deepEqual(ringOf(nodes.toReversed(), replicas), ringOf(nodes, replicas))
    }
  })

  it('moves less than twice the share of a node that joins or leaves, and stays balanced', () => {
    for (const replicas of [1, 2, 3]) {
      let nodes = Array.from({ length: 4 }, (_, index) => node(index, 3))
      let ring = ringOf(nodes, replicas)
      // Up to twelve, and down to four again.
      for (let step = 0; step < 16; step += 1) {
        const isGrowing = step < 8
        const more = isGrowing ? [...nodes, node(4 + step, 3)] : nodes.toSpliced((step * 5) % nodes.length, 1)
        const next = ringOf(more, replicas, ring)
        const larger = Math.max(nodes.length, more.length)
        const share = (partitionCount * replicas) / (larger - 1)
        // Rounding can add about one partition from each node.
        const most = 2 * share + replicas * larger
        assert.ok(moved(ring, next) <= most, `${moved(ring, next)} of ${share} are moved at ${more.length}`)
        const loads = more.map(({ name }) => ownersIn(next).filter((each) => each.includes(name)).length)
        assert.ok(Math.max(...loads) - Math.min(...loads) <= replicas)
        nodes = more
        ring = next
      }
    }
  })

  it('changes nothing when no node joins or leaves', () => {
    for (const { nodes, replicas } of shapes()) {
      const ring = ringOf(nodes, replicas)
      assert.deepEqual(ringOf(nodes, replicas, ring), ring)
    }
  })

  it('has no owners without nodes', () => {
    assert.ok(ownersIn(ringOf([], 3)).every((owners) => owners.length === 0))
  })
})

function node(index: number, zones: number): RingNode {
  return { name: `node-${index}`, zone: `zone-${index % zones}` }
}

function* shapes(): Generator<{ readonly nodes: readonly RingNode[]; readonly replicas: number }> {
  for (const count of [1, 2, 3, 4, 5, 6, 8, 13, 24]) {
    for (const replicas of [1, 2, 3, 5]) {
      for (const zones of [1, 2, 3]) {
        yield { nodes: Array.from({ length: count }, (_, index) => node(index, zones)), replicas }
      }
    }
  }
}

/** Counts the copies of partitions that nodes receive and did not have before. */
function moved(before: Ring, after: Ring): number {
  const had = ownersIn(before)
  return ownersIn(after).reduce(
    (sum, owners, partition) => sum + owners.filter((name) => !had[partition]!.includes(name)).length,
    0,
  )
}
