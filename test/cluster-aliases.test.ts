import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { NewPoint } from '../src/base/point.ts'
import type { ClusterNode } from '../src/cluster/cluster-node.ts'
import type { Database } from '../src/points/database.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'
import { until } from './support/until.ts'
import { WaitingRecords } from './support/waiting-records.ts'

const dimension = 4
const include = { distance: false, payload: true, vector: true, version: true } as const
const filter = { kind: 'condition', path: 'n', test: { op: 'exists', exists: true } } as const
const query = { metric: 'Euclidean', limit: 100, ef: 100, exact: true } as const

function points(seed: number, count: number): NewPoint[] {
  const random = seededRandom(seed)
  return Array.from({ length: count }, (_, n) => ({
    vector: randomVector(random, dimension, 'small integers'),
    payload: { contentType: 'Text', content: '', attributes: new Map([['n', n]]) },
  }))
}

async function leased({ collections }: ClusterNode, name: string): Promise<Database> {
  return (await collections.lease(name)).database
}

describe('a read over several nodes', () => {
  it('is of the collection that its alias had when it began', async () => {
    // The record of an audit would wait for the records that are delayed.
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, auditMs: 3_600_000 })
    const [reader, ahead] = [all.nodes[0]!.up, all.nodes[1]!.up]
    for (const [seed, name] of ['old', 'new'].entries()) {
      await reader.node.collections.put(name, { dimension, hnsw: {} })
      await (await leased(reader.node, name)).insert(points(seed, 30))
    }
    await reader.node.collections.setAliases(new Map([['alias', 'old']]), [])
    await all.settled()
    const [alias, old] = [await leased(reader.node, 'alias'), await leased(reader.node, 'old')]
    const writing: Promise<unknown>[] = []
    {
      using waiting = new WaitingRecords([reader.main])
      writing.push(ahead.node.database.insert(points(4, 200)))
      await waiting.has(reader.main)
      await ahead.node.collections.setAliases(new Map([['alias', 'new']]), [])
      assert.equal(reader.node.collections.aliases.get('alias'), 'old')

      const { vector } = points(5, 1)[0]!
      assert.equal(await alias.count(), await old.count())
      assert.deepEqual(await alias.list({ limit: 100, include }), await old.list({ limit: 100, include }))
      const found = async (from: Database): Promise<unknown> =>
        (await from.search([{ ...query, vector }])).ids.strings()
      assert.deepEqual(await found(alias), await found(old))
    }
    await Promise.all(writing)
  })

  it('changes by filter the collection that its alias had when it looked', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1 })
    const { node } = all.nodes[0]!.up
    for (const [seed, name] of ['old', 'new'].entries()) {
      await node.collections.put(name, { dimension, hnsw: {} })
      await (await leased(node, name)).insert(points(seed, 30))
    }
    await node.collections.setAliases(new Map([['alias', 'old']]), [])
    await all.settled()
    const write = node.write.bind(node)
    Object.assign(node, {
      write: async (...args: Parameters<typeof write>) => {
        await node.collections.setAliases(new Map([['alias', 'new']]), [])
        return await write(...args)
      },
    })
    const alias = await leased(node, 'alias')
    const deleted = await alias.changeByFilter({ filter, change: 'delete', dryRun: false })
    assert.deepEqual(deleted, { changed: 30, more: false })
    await all.settled()
    assert.equal(await (await leased(node, 'old')).count(), 0)
    assert.equal(await (await leased(node, 'new')).count(), 30)
  })

  it('refuses a vector whose length another node knows to be wrong', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, auditMs: 3_600_000 })
    const [reader, ahead] = [all.nodes[0]!.up, all.nodes[1]!.up]
    const waiting = new WaitingRecords([reader.main])
    const writing = ahead.node.database.insert(points(1, 50))
    await waiting.has(reader.main)
    await until(() => ahead.node.database.dimension !== undefined)
    const asked = Promise.withResolvers<void>()
    all.before.set('node-1', async (method) => {
      if (method === 'search') asked.resolve()
    })
    assert.equal(reader.node.database.dimension, undefined)
    const search = reader.node.database.search([{ ...query, vector: new Float32Array(dimension + 1) }])
    const refused = assert.rejects(search, {
      reason: 'invalid_argument',
      message: 'vector has 5 dimensions, the collection has 4',
    })
    await asked.promise
    // The refusal of another node is passed on when this one has applied as much.
    waiting[Symbol.dispose]()
    await Promise.all([refused, writing])
  })
})
