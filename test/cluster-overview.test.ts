import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NewPoint } from '../src/base/point.ts'
import type { ClusterNode } from '../src/cluster/cluster-node.ts'
import { statsOfNodesJson } from '../src/server/http/inspection.ts'
import { PartitionDigest } from '../src/storage/applied.ts'
import { filledNodes } from './support/filled-nodes.ts'
import type { ShardedNodes } from './support/sharded-nodes.ts'
import { until } from './support/until.ts'

/** Statistics of points on several nodes equal those of one node that has all points. */

const dimension = 8

describe('the statistics of several nodes', () => {
  it('count each point once, and list what every node has', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 2, dimension })
    const count = await all.whole.up.node.database.count()
    for (const { up } of all.nodes) {
      const { points, missing, nodes } = (await up.node.database.statsOfNodes!())!
      assert.deepEqual({ points, missing }, { points: count, missing: 0 })
      assert.deepEqual(
        nodes.map(({ node }) => node),
        all.names,
      )
      for (const [index, { stats }] of nodes.entries()) {
        assert.equal(stats!.points, all.nodes[index]!.up.main.stats.points)
        assert.ok(stats!.indexBytes > 0 && stats!.diskBytes > 0)
      }
      assert.equal(
        nodes.reduce((sum, { stats }) => sum + stats!.points, 0),
        2 * count,
      )
    }
    await assertCollectionsCounted(all, count)
    await assertExpiredNotCounted(all.nodes[0]!.up.node, count)
  })

  it('name nodes that do not answer, and count partitions without an answer', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const count = await all.whole.up.node.database.count()
    const [gone, own] = [all.shards.heldBy('node-2'), all.nodes[2]!.up.main.stats.points]
    await all.nodes[2]!.up.stop()
    const stats = (await all.nodes[0]!.up.node.database.statsOfNodes!())!
    assert.equal(stats.points, count - own)
    assert.equal(stats.missing, gone.size)
    assert.deepEqual(
      stats.nodes.map(({ node, stats: found }) => [node, found !== undefined]),
      [
        ['node-0', true],
        ['node-1', true],
        ['node-2', false],
      ],
    )
    assert.deepEqual(await all.nodes[0]!.up.node.countOnNodes(undefined, 0, undefined), {
      points: new Map([['default', count - own]]),
      missing: gone.size,
    })
    const json = statsOfNodesJson('default', stats) as Json
    assert.deepEqual(json.partitions, { total: 256, missing: gone.size })
    assert.deepEqual(json.nodes[2], { node: 'node-2', answers: false })
    for (const name of ['segments', 'linked', 'waiting', 'tombstones', 'disk_bytes'] as const) {
      assert.equal(json[name], json.nodes[0]![name]! + json.nodes[1]![name]!, name)
    }
    for (const name of ['index', 'ids', 'attributes'] as const) {
      const [first, second] = json.nodes
      assert.equal(json.memory_bytes[name], first!.memory_bytes![name] + second!.memory_bytes![name], name)
    }
    assert.equal(json.points, count - own)
    assert.equal(json.dimension, dimension)
  })

  it('are those of one node if it has all points', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    assert.equal(all.whole.up.node.database.statsOfNodes!(), undefined)
  })
})

/** Asserts the point counts that lists of collections show. */
async function assertCollectionsCounted(all: ShardedNodes, count: number): Promise<void> {
  const { collections } = all.nodes[0]!.up.node
  for (const name of ['docs', 'empty']) await collections.put(name, { dimension: 1, hnsw: {} })
  {
    using lease = await collections.lease('docs')
    // One insert each: all points of one insert would be in one partition.
    const inserts = Array.from({ length: 60 }, () => lease.database.insert([pointOf(Float32Array.of(1))]))
    await Promise.all(inserts)
  }
  await all.settled()
  const points = new Map(Object.entries({ default: count, docs: 60 }))
  for (const { up } of all.nodes) {
    const asked = (name?: string): unknown => up.node.countOnNodes(name, 0, undefined)
    assert.deepEqual(await asked(), { points, missing: 0 })
    assert.deepEqual(await asked('docs'), { points: new Map([['docs', 60]]), missing: 0 })
    for (const name of ['empty', 'unknown']) {
      assert.deepEqual(await asked(name), { points: new Map(), missing: 0 })
    }
    // A collection that is not open is counted from the store.
    const { number } = up.store.collections.get('docs')!
    const stored = up.store.summary(number)
    assert.ok(stored.points > 0 && stored.points < 60)
    assert.equal(new PartitionDigest(stored.applied!.digest).pointsOf(up.node.held), stored.points)
  }
  assert.equal(all.whole.up.node.countOnNodes(undefined, 0, undefined), undefined)
}

/** Asserts that expired points are not counted, whether they are deleted yet or not. */
async function assertExpiredNotCounted(node: ClusterNode, count: number): Promise<void> {
  const { database } = node
  const soonUs = (Date.now() + 200) * 1000
  await database.insert(Array.from({ length: 20 }, () => pointOf(new Float32Array(dimension), soonUs)))
  // Without a position, a replica that has not applied the insert yet could answer.
  const current = database.asOf!(node.acknowledged)
  await until(async () => (await current.count()) === count)
  // Other replicas may answer now. At this position, the points have expired by the cluster's clock.
  const { points } = (await node.countOnNodes('default', node.answeredPosition, undefined))!
  assert.equal(points.get('default'), count)
}

function pointOf(vector: Float32Array, expiresAtUs?: number): NewPoint {
  const payload = { contentType: 'Text', content: 'of a test' } as const
  return { vector, payload: { ...payload, ...(expiresAtUs === undefined ? {} : { expiresAtUs }) } }
}

interface NodeJson extends Partial<Record<(typeof sums)[number], number>> {
  readonly node: string
  readonly memory_bytes?: Record<'index' | 'ids' | 'attributes', number>
}

interface Json extends Required<Omit<NodeJson, 'node'>> {
  readonly points: number
  readonly dimension: number | null
  readonly partitions: object
  readonly nodes: readonly NodeJson[]
}

const sums = ['segments', 'linked', 'waiting', 'tombstones', 'disk_bytes'] as const
