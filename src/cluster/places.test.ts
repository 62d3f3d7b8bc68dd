import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  type Entry,
  movesOf,
  replicasNote,
  shareOf,
  surplusOf,
  withEntered,
  withoutCopies,
  withPlaces,
  withRemoved,
  withReplicas,
} from './ownership.ts'
import { ownersIn } from './ring.ts'
import { noTopology, type Topology } from './topology.ts'

describe('a topology that nodes enter and leave', () => {
  it('spreads the points over the nodes when the first node has a link and a number of replicas', () => {
    const founded = entered(noTopology, 'a', { replicas: 2 })
    assert.equal(shareOf(founded.ownership!, 'a').owned, 256)
    const three = entered(entered(founded, 'b'), 'c')
    assert.equal(three.generation, 3)
    assert.deepEqual(shareOf(three.ownership!, 'c'), { owned: 0, wanted: 171 })
    assert.equal(movesOf(three.ownership!).length, 512 - shareOf(three.ownership!, 'a').wanted)
    // What a node already has stays where it is.
    assert.equal(shareOf(three.ownership!, 'a').owned, 256)
    assert.equal(surplusOf(three.ownership!), 256 - shareOf(three.ownership!, 'a').wanted)
    assert.equal(entered(three, 'c'), three)
  })

  it('otherwise keeps all points on every node, forever', () => {
    const alone = entered(noTopology, 'a')
    assert.equal(alone.ownership, undefined)
    assert.throws(
      () => entered(alone, 'b', { replicas: 1 }),
      /CLUSTER_REPLICAS is 1, and the cluster would have 2/,
    )
    assert.equal(entered(entered(noTopology, 'a'), 'b', { replicas: 2 }).ownership, undefined)
  })

  it('waits for the node that brings points', () => {
    assert.throws(() => entered(noTopology, 'b', { replicas: 2, mayFound: false }), { reason: 'not_ready' })
    const founded = entered(noTopology, 'a', { replicas: 2 })
    assert.ok(entered(founded, 'b', { mayFound: false }).members.b !== undefined)
  })

  it('follows a change of the number of replicas, but not the settings of later nodes', () => {
    const three = entered(entered(entered(noTopology, 'a', { replicas: 1 }), 'b'), 'c', { replicas: 3 })
    assert.equal(three.ownership!.ring.replicas, 1)
    assert.match(replicasNote(three, 3)!, /CLUSTER_REPLICAS is 3, and each point is on 1 nodes/)
    const more = withReplicas(three, 2)
    assert.equal(more.generation, three.generation + 1)
    assert.equal(replicasNote(more, 2), undefined)
    // The owners stay the same at first, and partitions move step by step.
    assert.deepEqual(more.ownership!.owners, three.ownership!.owners)
    const shares = ['a', 'b', 'c'].map((node) => shareOf(more.ownership!, node).wanted)
    assert.equal(
      shares.reduce((sum, each) => sum + each),
      512,
    )
    assert.deepEqual(
      ownersIn(withReplicas(more, 1).ownership!.ring),
      ownersIn(three.ownership!.ring),
      'the same owners as before',
    )
    assert.equal(withReplicas(more, 2), more)
    const whole = entered(noTopology, 'a')
    assert.throws(() => withReplicas(whole, 2), { reason: 'precondition_failed' })
  })

  it('keeps a node that has the only copy of some points', () => {
    const founded = entered(entered(noTopology, 'a', { replicas: 1 }), 'b')
    assert.throws(() => withRemoved(founded, 'a'), { reason: 'precondition_failed' })
    assert.throws(() => withoutCopies(founded, 'a'), { reason: 'precondition_failed' })
    const without = withRemoved(founded, 'b')
    assert.deepEqual(Object.keys(without.members), ['a'])
    assert.deepEqual(movesOf(without.ownership!), [])
    assert.equal(withoutCopies(founded, 'b'), founded)
  })

  it('moves the points of a drained node to others, and nowhere when all nodes are drained', () => {
    const founded = entered(entered(noTopology, 'a', { replicas: 1 }), 'b')
    const drained = withPlaces(withState(founded, 'a'))
    assert.deepEqual(
      [shareOf(drained.ownership!, 'a'), shareOf(drained.ownership!, 'b')],
      [
        { owned: 256, wanted: 0 },
        { owned: 0, wanted: 256 },
      ],
    )
    const all = withPlaces(withState(drained, 'b'))
    assert.equal(all.ownership, drained.ownership)
  })
})

function entered(topology: Topology, node: string, entry: Partial<Entry> = {}): Topology {
  const member = { zone: `zone of ${node}`, address: node }
  return withEntered(topology, { replicas: undefined, mayFound: true, ...entry, node, member })
}

function withState(topology: Topology, node: string): Topology {
  const member = { ...topology.members[node]!, state: 'draining' as const }
  return { ...topology, members: { ...topology.members, [node]: member } }
}
