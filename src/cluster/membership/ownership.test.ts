import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../../test/support/random.ts'
import { partitionCount } from '../../base/partitions.ts'
import {
  type Entry,
  foundedOwnership,
  movesOf,
  replicasNote,
  shareOf,
  surplusOf,
  withEntered,
  withOwnChanges,
  withoutCopies,
  withPlaces,
  withRemoved,
  withReplicas,
} from './ownership.ts'
import { ownersIn, ringOf } from './ring.ts'
import { noTopology, type Ownership, type Topology } from './topology.ts'

describe('ownership', () => {
  it('has nothing to move when it is founded', () => {
    assert.deepEqual(movesOf(foundedOwnership(nodes(5), 2)), [])
  })

  for (const seed of [1, 2, 3]) {
    it(`moves from any ring to another without losing a copy, from seed ${seed}`, () => {
      const random = seededRandom(seed)
      let ownership = foundedOwnership(nodes(4), 2)
      for (const [count, replicas] of [
        [5, 2],
        [7, 3],
        [6, 3],
        [3, 3],
        [4, 1],
        [2, 2],
      ] as const) {
        ownership = settled({ ...ownership, ring: ringOf(nodes(count), replicas, ownership.ring) }, random)
        checkOwnership(ownership)
        assert.deepEqual(
          ownership.owners,
          ownersIn(ownership.ring).map((each) => each.toSorted()),
        )
      }
    })
  }

  it('lets no node drop a partition that others do not have yet, or that it has to keep', () => {
    const before = foundedOwnership(nodes(3), 1)
    const ownership = { ...before, ring: ringOf(nodes(2), 1, before.ring) }
    const [move] = movesOf(ownership)
    const { partition, to, from } = move!
    const leave = (each: Ownership, answers = (_: string) => true): Ownership =>
      withOwnChanges(each, from[0]!, () => false, answers)
    assert.deepEqual(leave(ownership).owners[partition], from, 'nobody else has it')
    const enter = (each: Ownership, node: string): Ownership =>
      withOwnChanges(
        each,
        node,
        (at) => at === partition,
        () => true,
      )
    const both = enter(ownership, to)
    assert.deepEqual(leave(both).owners[partition], [to])
    assert.ok(leave(both, (node) => node !== to).owners[partition]!.includes(from[0]!), 'it does not answer')
    assert.ok(enter(both, to).owners[partition]!.includes(to))
    assert.equal(enter(ownership, 'nobody'), ownership)
  })
})

/** Moves partitions in any order until no move is left. */
function settled(start: Ownership, random: () => number): Ownership {
  let ownership = start
  for (;;) {
    const wanted = ownersIn(ownership.ring)
    const copies = movesOf(ownership)
    const drops = ownership.owners.flatMap((owners, partition) =>
      owners.filter((node) => !wanted[partition]!.includes(node)).map((node) => ({ partition, node })),
    )
    if (copies.length + drops.length === 0) return ownership
    if (random() < 0.5 && copies.length > 0) {
      const { partition, to } = copies[Math.floor(random() * copies.length)]!
      ownership = changed(ownership, to, partition)
    } else if (drops.length > 0) {
      ownership = changed(ownership, drops[Math.floor(random() * drops.length)]!.node)
    }
    for (const [partition, owners] of ownership.owners.entries()) {
      const had = start.owners[partition]!
      const isWhole =
        had.every((node) => owners.includes(node)) ||
        wanted[partition]!.every((node) => owners.includes(node))
      assert.ok(isWhole, `partition ${partition} has ${owners}`)
    }
  }
}

/** @param partition that the node has in addition */
function changed(ownership: Ownership, node: string, partition?: number): Ownership {
  return withOwnChanges(
    ownership,
    node,
    (each) => each === partition,
    () => true,
  )
}

function nodes(count: number): { readonly name: string; readonly zone: string }[] {
  return Array.from({ length: count }, (_, index) => ({ name: `n${index}`, zone: `${index % 2}` }))
}

describe('a topology that nodes enter and leave', () => {
  it('spreads the points over the nodes as the first node says', () => {
    const founded = entered(noTopology, 'a', { replicas: 2 })
    assert.equal(shareOf(founded.ownership, 'a').owned, 256)
    const three = entered(entered(founded, 'b'), 'c')
    assert.equal(three.generation, 3)
    assert.deepEqual(shareOf(three.ownership, 'c'), { owned: 0, wanted: 171 })
    assert.equal(movesOf(three.ownership).length, 512 - shareOf(three.ownership, 'a').wanted)
    // What a node already has stays where it is.
    assert.equal(shareOf(three.ownership, 'a').owned, 256)
    assert.equal(surplusOf(three.ownership), 256 - shareOf(three.ownership, 'a').wanted)
    assert.equal(entered(three, 'c'), three)
  })

  it('admits only nodes with the dimension of the first', () => {
    const founded = entered(noTopology, 'a', { dimension: 3 })
    assert.throws(
      () => entered(founded, 'b', { dimension: 4 }),
      /DIMENSION is 4 on node b and 3 in the cluster: set it to 3/,
    )
    assert.throws(() => entered(founded, 'b'), /DIMENSION is not set on node b and 3 in the cluster/)
    const unset = entered(noTopology, 'a')
    assert.throws(() => entered(unset, 'b', { dimension: 3 }), /3 on node b and not set .*: unset it on this/)
    const { dimension: _, ...earlier } = unset
    assert.throws(() => entered(earlier as Topology, 'a', { dimension: 3 }), /and not set in .*: unset it/)
    assert.ok(entered(earlier as Topology, 'b').members.b !== undefined, 'the topology of an earlier program')
    assert.equal(entered(entered(founded, 'b', { dimension: 3 }), 'a', { dimension: 3 }).dimension, 3)
  })

  it('keeps all points on each of up to three nodes, unless the first node says otherwise', () => {
    const three = entered(entered(entered(noTopology, 'a'), 'b'), 'c')
    for (const node of ['a', 'b', 'c']) assert.equal(shareOf(three.ownership, node).wanted, 256)
    assert.equal(shareOf(entered(three, 'd').ownership, 'd').wanted, 192)
  })

  it('waits for the node that brings points', () => {
    assert.throws(() => entered(noTopology, 'b', { replicas: 2, mayFound: false }), { reason: 'not_ready' })
    const founded = entered(noTopology, 'a', { replicas: 2 })
    assert.ok(entered(founded, 'b', { mayFound: false }).members.b !== undefined)
  })

  it('follows a change of the number of replicas, but not the settings of later nodes', () => {
    const three = entered(entered(entered(noTopology, 'a', { replicas: 1 }), 'b'), 'c', { replicas: 3 })
    assert.equal(three.ownership.ring.replicas, 1)
    assert.match(replicasNote(three, 3)!, /CLUSTER_REPLICAS is 3, and each point is on 1 nodes/)
    const more = withReplicas(three, 2)
    assert.equal(more.generation, three.generation + 1)
    assert.equal(replicasNote(more, 2), undefined)
    // The owners stay the same at first, and partitions move step by step.
    assert.deepEqual(more.ownership.owners, three.ownership.owners)
    const shares = ['a', 'b', 'c'].map((node) => shareOf(more.ownership, node).wanted)
    assert.equal(
      shares.reduce((sum, each) => sum + each),
      512,
    )
    assert.deepEqual(
      ownersIn(withReplicas(more, 1).ownership.ring),
      ownersIn(three.ownership.ring),
      'the same owners as before',
    )
    assert.equal(withReplicas(more, 2), more)
  })

  it('keeps a node that has the only copy of some points', () => {
    const founded = entered(entered(noTopology, 'a', { replicas: 1 }), 'b')
    assert.throws(() => withRemoved(founded, 'a'), { reason: 'precondition_failed' })
    assert.throws(() => withoutCopies(founded, 'a'), { reason: 'precondition_failed' })
    const without = withRemoved(founded, 'b')
    assert.deepEqual(Object.keys(without.members), ['a'])
    assert.deepEqual(movesOf(without.ownership), [])
    assert.equal(withoutCopies(founded, 'b'), founded)
  })

  it('moves the points of a drained node to others, and nowhere when all nodes are drained', () => {
    const founded = entered(entered(noTopology, 'a', { replicas: 1 }), 'b')
    const drained = withPlaces(withState(founded, 'a'))
    assert.deepEqual(
      [shareOf(drained.ownership, 'a'), shareOf(drained.ownership, 'b')],
      [
        { owned: 256, wanted: 0 },
        { owned: 0, wanted: 256 },
      ],
    )
    const all = withPlaces(withState(drained, 'b'))
    assert.deepEqual(all.ownership, drained.ownership)
  })
})

function entered(topology: Topology, node: string, entry: Partial<Entry> = {}): Topology {
  const member = { zone: `zone of ${node}`, address: node }
  return withEntered(topology, {
    replicas: undefined,
    dimension: null,
    mayFound: true,
    ...entry,
    node,
    member,
  })
}

function withState(topology: Topology, node: string): Topology {
  const member = { ...topology.members[node]!, state: 'draining' as const }
  return { ...topology, members: { ...topology.members, [node]: member } }
}

function checkOwnership({ ring, owners }: Ownership): void {
  assert.equal(owners.length, partitionCount)
  assert.equal(ring.firsts.length, partitionCount)
  assert.ok(ring.firsts.every((first) => first >= 0 && first < Math.max(1, ring.nodes.length)))
}
