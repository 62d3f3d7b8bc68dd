import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../src/base/errors.ts'
import type { NewPoint } from '../src/base/point.ts'
import type { SimulatedNode } from './support/cluster-nodes.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { ShardedNodes, type ShardedNodesOptions } from './support/sharded-nodes.ts'
import { readSnapshot } from './support/snapshots.ts'
import { until } from './support/until.ts'

const dimension = 4

/** Ids in all partitions, one in each. */
function pointsOf(round: number): NewPoint[] {
  const random = seededRandom(round)
  return Array.from({ length: 256 }, (_, partition) => ({
    id: `${partition.toString(16).padStart(2, '0')}000000-0000-4000-8000-000000000001`,
    onConflict: 'replace',
    vector: randomVector(random, dimension, 'small integers'),
    payload: { contentType: 'Text', content: `round ${round}`, attributes: new Map([['round', round]]) },
  }))
}

async function started(options: Omit<ShardedNodesOptions, 'dimension'>): Promise<ShardedNodes> {
  return await ShardedNodes.start({ ...options, hasWhole: true, dimension })
}

async function snapshotOf(node: SimulatedNode): ReturnType<typeof readSnapshot> {
  const snapshot = await node.up.node.database.snapshot()
  try {
    return await readSnapshot(snapshot.chunks())
  } finally {
    snapshot.close()
  }
}

for (const [replicas, nodes] of [
  [1, 3],
  [2, 5],
] as const) {
  describe(`a snapshot of ${nodes} nodes with ${replicas} replicas of each partition`, () => {
    it('equals that of one node with all points, through any node', async () => {
      await using all = await started({ nodes, replicas })
      const at = (index: number): SimulatedNode => all.nodes[index % nodes]!
      const points = Array.from({ length: 3 }, (_, round) => pointsOf(round))
      for (const [round, each] of points.entries()) {
        const others = each.map(({ id, ...rest }, index) => ({
          ...rest,
          id: `${id!.slice(0, 24)}${(10_000 + round * 1000 + index).toString(16).padStart(12, '0')}`,
        }))
        await at(round).up.node.database.insert([...each, ...others])
      }
      for (let index = 0; index < 20; index += 1) {
        const id = points[0]![index * 7]!.id!
        if (index % 2 === 0) await at(index).up.node.database.remove(id)
        else await at(index).up.node.database.patch(id, { content: 'patched' })
      }
      await all.settled()
      const expected = await snapshotOf(all.whole)
      assert.equal(expected.header.points, 3 * 256 + 256 - 10)
      for (const node of all.nodes) {
        assert.ok(!node.up.node.held.isAll)
        const { header, points: found } = await snapshotOf(node)
        assert.equal(header.points, expected.header.points)
        assert.equal(header.sequence, expected.header.sequence)
        assert.equal(header.dimension, dimension)
        assert.deepEqual(new Map([...found].sort()), new Map([...expected.points].sort()))
      }
    })
  })
}

describe('a snapshot of several nodes', () => {
  it('has one log position, while others write', async () => {
    await using all = await started({ nodes: 4, replicas: 2 })
    const writer = all.nodes[0]!.up.node.database
    await writer.insert(pointsOf(0))
    let [round, isEnded] = [0, false]
    const writing = (async () => {
      while (!isEnded) {
        await writer.insert(pointsOf(round + 1))
        round += 1
      }
    })()
    const seen = new Set<string>()
    for (let attempt = 0; attempt < 12; attempt += 1) {
      const before = round
      const { header, points } = await snapshotOf(all.nodes[attempt % 4]!)
      assert.equal(header.points, 256)
      const rounds = new Set([...points.values()].map(({ payload }) => payload.content))
      assert.equal(rounds.size, 1, [...rounds].join(', '))
      seen.add([...rounds][0]!)
      await until(async () => round > before)
    }
    isEnded = true
    await writing
    assert.ok(seen.size > 3, `${seen.size} rounds were seen`)
  })

  it('asks another owner instead of a node that has no snapshot', async () => {
    await using all = await started({ nodes: 3, replicas: 2 })
    await all.nodes[0]!.up.node.database.insert(pointsOf(1))
    const asked: string[] = []
    for (const name of all.names) {
      all.before.set(name, async (method) => {
        if (method !== 'snapshotPart') return
        asked.push(name)
        if (asked.length === 1) throw new DatabaseError('not_ready', 'not now')
      })
    }
    const { points } = await snapshotOf(all.nodes[0]!)
    assert.equal(points.size, 256)
    assert.equal(new Set(asked).size, 2, 'each owner is asked')
  })

  it('fails when a node fails in the middle, and the log continues on all nodes', async () => {
    await using all = await started({ nodes: 3, replicas: 1 })
    const { database } = all.nodes[0]!.up.node
    await database.insert(pointsOf(1))
    for (const name of all.names.slice(1)) {
      all.before.set(name, async (method) => {
        if (method === 'snapshotPart') throw new DatabaseError('internal', 'a fault')
      })
    }
    await assert.rejects(snapshotOf(all.nodes[0]!), /a fault/)
    // This insert needs every node: none still holds its log.
    await database.insert(pointsOf(2))
    for (const name of all.names) all.before.delete(name)
    const { points } = await snapshotOf(all.nodes[0]!)
    assert.deepEqual([...new Set([...points.values()].map(({ payload }) => payload.content))], ['round 2'])
  })

  it('releases its resources when it is not read to the end', async () => {
    await using all = await started({ nodes: 3, replicas: 1 })
    const { database } = all.nodes[0]!.up.node
    await database.insert(pointsOf(1))
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const snapshot = await database.snapshot()
      const chunks = snapshot.chunks()
      await chunks.next()
      await chunks.return(undefined)
      snapshot.close()
      // A node reads one snapshot of a collection at a time.
      await until(async () => await isFree(all.nodes))
    }
  })

  it('is refused while a partition has no node or another snapshot is being read', async () => {
    await using all = await started({ nodes: 3, replicas: 1 })
    const { database } = all.nodes[0]!.up.node
    await database.insert(pointsOf(1))
    const first = await database.snapshot()
    await assert.rejects(async () => await all.nodes[1]!.up.node.database.snapshot(), {
      reason: 'overloaded',
    })
    first.close()
    await until(async () => await isFree(all.nodes))
    await all.nodes[2]!.up.stop()
    await assert.rejects(async () => await database.snapshot(), { reason: 'not_ready' })
    await database.count(undefined).catch(() => {})
    assert.ok(await isFree(all.nodes.slice(0, 2)))
  })
})

/** Whether no node has a snapshot open. */
async function isFree(nodes: readonly SimulatedNode[]): Promise<boolean> {
  try {
    for (const { up } of nodes) up.main.snapshot().close()
    return true
  } catch {
    return false
  }
}
