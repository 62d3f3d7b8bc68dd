import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { seededRandom } from '../../../test/support/random.ts'
import { until } from '../../../test/support/until.ts'
import { PartitionSet, partitionCount } from '../../base/partitions.ts'
import { ownersIn, ringOf } from '../membership/ring.ts'
import { type Owners, Placement } from './placement.ts'
import { Scatter } from './scatter.ts'

const all: PartitionSet = PartitionSet.all()

describe('a cover', () => {
  it('is the node itself alone when it has everything', () => {
    const owners = Array.from({ length: partitionCount }, () => ['a', 'b', 'c'])
    const { parts, missing } = placementOf(owners, 'b').cover(all)
    assert.deepEqual(parts, [{ node: 'b', partitions: all }])
    assert.equal(missing.size, 0)
  })

  for (const seed of [1, 2, 3, 4]) {
    it(`has every partition once, from a live owner, on few nodes, from seed ${seed}`, () => {
      const random = seededRandom(seed)
      for (let round = 0; round < 60; round += 1) {
        const isMoving = random() < 0.5
        const owners = someOwners(random, isMoving ? 0.1 : 0)
        const names = [...new Set(owners.flat())].sort()
        const dead = new Set(names.filter(() => random() < 0.2))
        const wanted = random() < 0.5 ? all : PartitionSet.of([...all].filter(() => random() < 0.1))
        const self = names[Math.floor(random() * names.length)]!
        const isLive = (node: string): boolean => !dead.has(node)
        const placement = placementOf(owners, self, isLive)
        for (let turn = Math.floor(random() * 100); turn > 0; turn -= 1) placement.cover(PartitionSet.of([0]))
        const { parts, missing } = placement.cover(wanted)
        const hasSome = [...wanted].some((partition) => owners[partition]!.includes(self))
        if (hasSome) assert.equal(parts[0]!.node, self)
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
        // Along a ring they are the fewest. While partitions move, there may be one more.
        const fewest = smallest(owners, seen, live, self)
        assert.ok(parts.length <= fewest + Number(isMoving), `${parts.length} nodes, not ${fewest}`)
      }
    })
  }

  it('asks a node with a fault, such as a full disk, only where no other has the partitions', () => {
    const owners = Array.from({ length: partitionCount }, () => ['full', 'sound'])
    const options = {
      self: 'other',
      owners: () => owners,
      held: () => new PartitionSet(),
      isLive: () => true,
    }
    const placement = new Placement({ ...options, hasFault: (node) => node === 'full' })
    const asked = (avoid?: ReadonlySet<string>): readonly string[] =>
      placement.cover(all, avoid).parts.map(({ node }) => node)
    for (let turn = 0; turn < 4; turn += 1) assert.deepEqual(asked(), ['sound'])
    assert.deepEqual(asked(new Set(['sound'])), ['full'])
  })

  it('asks all nodes in turn', () => {
    const nodes = Array.from({ length: 6 }, (_, index) => ({ name: `n${index}`, zone: '' }))
    const owners = ownersIn(ringOf(nodes, 2))
    const placement = placementOf(owners, 'other')
    const asked = new Set(
      Array.from({ length: 12 }, () => placement.cover(all)).flatMap(({ parts }) =>
        parts.map(({ node }) => node),
      ),
    )
    assert.equal(asked.size, 6)
  })

  it('asks the owners of one partition equally often, whatever other nodes there are', () => {
    const nodes = Array.from({ length: 6 }, (_, index) => ({ name: `n${index}`, zone: '' }))
    const owners = ownersIn(ringOf(nodes, 2))
    const placement = placementOf(owners, 'other')
    const asked = Array.from(
      { length: 12 },
      () => placement.cover(PartitionSet.of([7])).parts.map(({ node }) => node)[0]!,
    )
    for (const owner of owners[7]!) assert.equal(asked.filter((node) => node === owner).length, 6)
  })
})

describe('a question to several nodes', () => {
  it('ends the slower of two attempts at once, and avoids a node only if another one was faster', async () => {
    const half = partitionCount / 2
    const owners = Array.from({ length: partitionCount }, (_, at) => (at < half ? ['a', 'b'] : ['c']))
    const scatter = new Scatter({ placement: placementOf(owners, 'self'), self: 'self' })
    const asked: string[] = []
    const [answers, ended] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()]
    const first = scatter.gather({
      partitions: all,
      signal: undefined,
      ask: async ({ node }, signal) => {
        if (node === 'c') return await ended.promise.then(() => node)
        asked.push(node)
        if (asked.length === 1) return await answers.promise
        // The second one never answers.
        signal.addEventListener('abort', () => ended.resolve())
        answers.resolve(asked[0]!)
        return await new Promise<never>((_, reject) =>
          signal.addEventListener('abort', () => reject(signal.reason)),
        )
      },
    })
    // That of `c` is awaited: it comes once the second attempt has ended.
    assert.deepEqual((await first).toSorted(), [asked[0], 'c'])
    assert.deepEqual(asked.toSorted(), ['a', 'b'])
    const next = new Set<string>()
    for (let round = 0; round < 6; round += 1) {
      const all = { partitions: PartitionSet.all(), signal: undefined }
      for (const node of await scatter.gather({ ...all, ask: async (part) => part.node })) next.add(node)
    }
    assert.deepEqual([...next].sort(), ['a', 'b', 'c'])
  })

  it('asks others for all that a paused node was asked, as soon as further questions allow it', async () => {
    const owners = Array.from({ length: partitionCount }, () => ['paused', 'sound'])
    const scatter = new Scatter({ placement: placementOf(owners, 'self'), self: 'self' })
    const startMs = performance.now()
    const gather = async (): Promise<readonly string[]> =>
      await scatter.gather({
        partitions: all,
        signal: undefined,
        ask: async ({ node }) => (node === 'sound' ? node : await new Promise<never>(() => {})),
      })
    // Twenty of them ask the paused node, and half of these need what the others add to the budget.
    const first = Array.from({ length: 40 }, gather)
    await until(() => scatter.hedges === 10)
    for (let each = 0; each < 110; each += 1) await gather()
    for (const answers of await Promise.all(first)) assert.deepEqual(answers, ['sound'])
    assert.ok(performance.now() - startMs < 9_000, 'before the node counts as stuck')
  })
})

/** Where the points are, as a node sees it that holds what it owns. */
function placementOf(
  owners: Owners,
  self: string,
  isLive: (node: string) => boolean = () => true,
): Placement {
  const held = PartitionSet.of([...all].filter((partition) => owners[partition]!.includes(self)))
  return new Placement({ self, owners: () => owners, held: () => held, isLive })
}

/** The owners in a ring, a part of them with an extra owner, as while partitions move. */
function someOwners(random: () => number, moving: number): readonly (readonly string[])[] {
  const nodes = Array.from({ length: 2 + Math.floor(random() * 7) }, (_, index) => ({
    name: `n${index}`,
    zone: `${index % 3}`,
  }))
  const owners = ownersIn(ringOf(nodes, 1 + Math.floor(random() * 3)))
  return owners.map((each) => {
    if (random() >= moving) return each
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
