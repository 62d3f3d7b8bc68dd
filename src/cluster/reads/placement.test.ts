import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../../test/support/random.ts'
import { PartitionSet, partitionCount } from '../../base/partitions.ts'
import { ownersIn, ringOf } from '../membership/ring.ts'
import { coverOf, ownerGroups } from './placement.ts'

const all: PartitionSet = PartitionSet.all()

describe('a cover', () => {
  it('is the node itself alone when it has everything', () => {
    const owners = Array.from({ length: partitionCount }, () => ['a', 'b', 'c'])
    const { parts, missing } = coverOf({
      groups: ownerGroups(owners),
      wanted: all,
      isLive: () => true,
      self: 'b',
    })
    assert.deepEqual(parts, [{ node: 'b', partitions: all }])
    assert.equal(missing.size, 0)
  })

  for (const seed of [1, 2, 3, 4]) {
    it(`has every partition once, from a live owner, on the fewest nodes, from seed ${seed}`, () => {
      const random = seededRandom(seed)
      for (let round = 0; round < 60; round += 1) {
        const owners = someOwners(random)
        const names = [...new Set(owners.flat())].sort()
        const dead = new Set(names.filter(() => random() < 0.2))
        const wanted = random() < 0.5 ? all : PartitionSet.of([...all].filter(() => random() < 0.1))
        const self = names[Math.floor(random() * names.length)]!
        const isLive = (node: string): boolean => !dead.has(node)
        const turn = Math.floor(random() * 100)
        const { parts, missing } = coverOf({ groups: ownerGroups(owners), wanted, isLive, self, turn })
        const seen = new PartitionSet()
        for (const { node, partitions } of parts) {
          assert.ok(node === self || !dead.has(node))
          for (const partition of partitions) {
            assert.ok(wanted.has(partition) && !seen.has(partition) && owners[partition]!.includes(node))
            seen.add(partition)
          }
        }
        for (const partition of wanted) {
          const isThere = owners[partition]!.some((node) => node === self || !dead.has(node))
          assert.equal(seen.has(partition), isThere)
          assert.equal(missing.has(partition), !isThere)
        }
        const live = names.filter((name) => name === self || !dead.has(name))
        assert.equal(parts.length, smallest(owners, seen, live, self), `${parts.length} nodes`)
      }
    })
  }

  it('asks all nodes in turn', () => {
    const nodes = Array.from({ length: 6 }, (_, index) => ({ name: `n${index}`, zone: '' }))
    const owners = ownersIn(ringOf(nodes, 2))
    const asked = new Set(
      Array.from({ length: 12 }, (_, turn) =>
        coverOf({ groups: ownerGroups(owners), wanted: all, isLive: () => true, self: 'other', turn }),
      ).flatMap(({ parts }) => parts.map(({ node }) => node)),
    )
    assert.equal(asked.size, 6)
  })
})

/** The owners in a ring, some with an extra owner, as while a partition moves. */
function someOwners(random: () => number): readonly (readonly string[])[] {
  const nodes = Array.from({ length: 2 + Math.floor(random() * 7) }, (_, index) => ({
    name: `n${index}`,
    zone: `${index % 3}`,
  }))
  const owners = ownersIn(ringOf(nodes, 1 + Math.floor(random() * 3)))
  return owners.map((each) => {
    if (random() > 0.1) return each
    return [...new Set([...each, nodes[Math.floor(random() * nodes.length)]!.name])]
  })
}

/**
 * The size of the smallest set of nodes that have these partitions together. It includes the node itself if that has
 * one of them.
 */
function smallest(
  owners: readonly (readonly string[])[],
  partitions: PartitionSet,
  live: readonly string[],
  self: string,
): number {
  const masks = [...partitions].map((partition) =>
    owners[partition]!.reduce((mask, node) => {
      const at = live.indexOf(node)
      return at === -1 ? mask : mask | (1 << at)
    }, 0),
  )
  const own = 1 << live.indexOf(self)
  const must = masks.some((mask) => (mask & own) !== 0) ? own : 0
  let best = Number.POSITIVE_INFINITY
  for (let set = 0; set < 1 << live.length; set += 1) {
    if ((set & must) !== must || masks.some((mask) => (mask & set) === 0)) continue
    best = Math.min(best, bits(set))
  }
  return best
}

function bits(set: number): number {
  return set.toString(2).replaceAll('0', '').length
}
