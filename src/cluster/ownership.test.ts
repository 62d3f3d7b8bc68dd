import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { partitionCount } from '../base/partitions.ts'
import {
  checkOwnership,
  foundedOwnership,
  movesOf,
  withOwner,
  withoutNode,
  withoutOwner,
  withRing,
} from './ownership.ts'
import { ownersIn } from './ring.ts'
import type { Ownership } from './topology.ts'

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
        ownership = settled(withRing(ownership, nodes(count), replicas), random)
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
    const ownership = withRing(before, nodes(2), 1)
    const [move] = movesOf(ownership)
    const { partition, to, from } = move!
    assert.equal(withoutOwner(ownership, partition, from[0]!), undefined)
    const both = withOwner(ownership, partition, to)
    assert.deepEqual(withoutOwner(both, partition, from[0]!)?.owners[partition], [to])
    assert.throws(() => withoutOwner(both, partition, to), RangeError)
    assert.throws(() => withOwner(ownership, partition, 'nobody'), RangeError)
  })

  it('reports what is lost with a node', () => {
    const single = foundedOwnership(nodes(4), 1)
    assert.equal(withoutNode(single, 'n0').lost.length, partitionCount / 4)
    assert.deepEqual(withoutNode(foundedOwnership(nodes(4), 2), 'n0').lost, [])
  })

  it('detects a damaged document', () => {
    const ownership = foundedOwnership(nodes(3), 2)
    assert.throws(() => checkOwnership({ ...ownership, owners: [] }), RangeError)
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
      ownership = withOwner(ownership, partition, to)
    } else if (drops.length > 0) {
      const { partition, node } = drops[Math.floor(random() * drops.length)]!
      ownership = withoutOwner(ownership, partition, node) ?? ownership
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

function nodes(count: number): { readonly name: string; readonly zone: string }[] {
  return Array.from({ length: count }, (_, index) => ({ name: `n${index}`, zone: `${index % 2}` }))
}
