import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import { partitionOf } from '../src/base/partitions.ts'
import type { NewPoint } from '../src/base/point.ts'
import type { ClusterNode } from '../src/cluster/cluster-node.ts'
import type { Database, Inserted } from '../src/points/database.ts'
import type { SimulatedNode } from './support/cluster-nodes.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'
import { WaitingRecords } from './support/waiting-records.ts'

const sizes = [
  { nodes: 3, replicas: 1 },
  { nodes: 3, replicas: 2 },
] as const

for (const size of sizes) {
  describe(`an insert into ${size.nodes} nodes with ${size.replicas} replicas of each partition`, () => {
    it('is stored in full or not at all, whichever node receives it', async () => {
      await using all = await ShardedNodes.start(size)
      for (const [turn, database] of databasesOf(all).entries()) {
        const points = scattered(8, turn)
        assert.deepEqual((await database.insert(points)).ids, idsOf(points))
        const others = [...scattered(8, turn, 100), points[3]!]
        await assert.rejects(database.insert(others), {
          reason: 'already_exists',
          message: `vectors[8].id: there is a point with the id ${points[3]!.id} already`,
        })
        for (const each of databasesOf(all)) assert.equal(await latestCount(all, each), 8 * (turn + 1))
      }
    })

    it('of points with and without ids is stored as far as it can be', async () => {
      await using all = await ShardedNodes.start(size)
      const databases = databasesOf(all)
      for (let turn = 0; turn < 8; turn += 1) {
        const [own] = scattered(1, turn)
        const points = [own!, pointOf(3)]
        const database = databases[turn % databases.length]!
        const { ids } = await database.insert(points, { onError: 'continue' })
        assert.deepEqual([ids[0], typeof ids[1]], [own!.id, 'string'])
        const repeated = await database.insert(points, { onError: 'continue' })
        assert.deepEqual([repeated.ids[0], typeof repeated.ids[1]], [null, 'string'])
      }
      assert.equal(await latestCount(all, databases[0]!), 24)
    })

    it('gets the same answer when repeated with its key, from any node, whatever has changed', async () => {
      await using all = await ShardedNodes.start(size)
      const [first, second, third] = databasesOf(all)
      const points = scattered(6, 0)
      await first!.insert(points.slice(0, 1))
      const keyed = { identity: identity('a key'), onError: 'continue' as const }
      const inserted = await second!.insert(points, keyed)
      assert.deepEqual(inserted.ids, [null, ...idsOf(points.slice(1))])
      for (const id of idsOf(points)) await first!.remove(id)
      assert.deepEqual(asText(await third!.insert(points, keyed)), asText(inserted))
      assert.equal(await latestCount(all, third!), 0, 'nothing is stored again')
      const alone = { identity: identity('another') }
      const [one] = points
      assert.deepEqual((await third!.insert([one!], alone)).ids, [one!.id])
      await assert.rejects(third!.insert([one!], { identity: identity('a third') }), {
        reason: 'already_exists',
      })
      await first!.remove(one!.id!)
      assert.deepEqual((await first!.insert([one!], alone)).ids, [one!.id])
      assert.equal(await latestCount(all, first!), 0)
      // A refusal of the whole request is not remembered.
      assert.deepEqual((await third!.insert([one!], { identity: identity('a third') })).ids, [one!.id])
    })

    it('and a new collection are visible at the same node after its answer', async () => {
      await using all = await ShardedNodes.start(size)
      for (const [turn, { up }] of all.nodes.entries()) {
        const name = `collection-${turn}`
        await up.node.collections.put(name, { dimension: undefined, hnsw: {} })
        const asNew = async (): Promise<Database> =>
          (await leased(up.node, name)).asOf!(await up.node.admit({ consistency: 'session' }))
        assert.equal(await (await asNew()).count(), 0)
        const points = scattered(6, turn)
        await (await leased(up.node, name)).insert(points)
        assert.equal(await (await asNew()).count(), 6)
        for (const id of idsOf(points)) assert.equal((await (await asNew()).get(id))?.payload.content, '')
      }
    })

    it('is stored once when all nodes receive it at the same time', async () => {
      await using all = await ShardedNodes.start(size)
      for (let round = 0; round < 10; round += 1) {
        const points = scattered(5, round)
        const attempts = await Promise.allSettled(
          databasesOf(all).map((database) => database.insert(points.map((each) => ({ ...each })))),
        )
        const ended = attempts.map((each) => (each.status === 'fulfilled' ? '' : each.reason.reason)).sort()
        assert.deepEqual(ended, ['', 'already_exists', 'already_exists'])
      }
      for (const each of databasesOf(all)) assert.equal(await latestCount(all, each), 50)
    })

    it('is decided again if a point appears or disappears after the lookup', async () => {
      await using all = await ShardedNodes.start(size)
      const [first, second] = databasesOf(all)
      const points = scattered(4, 0)
      await all.settled()
      const looked = changingAfterLook(all.nodes[0]!.up.node, async (times) => {
        if (times === 1) await second!.put(points[2]!.id!, points[2]!)
        if (times === 2) await second!.remove(points[2]!.id!)
      })
      assert.deepEqual((await first!.insert(points)).ids, idsOf(points))
      assert.equal(looked(), 3)
    })

    it('looks into the collection to which its alias has moved', async () => {
      await using all = await ShardedNodes.start(size)
      const [first, second] = all.nodes.map(({ up }) => up.node)
      for (const name of ['old', 'new']) {
        await first!.collections.put(name, { dimension: 3, hnsw: {} })
      }
      await first!.collections.setAliases(new Map([['alias', 'old']]), [])
      const points = scattered(8, 0)
      const own = points.filter(({ id }) => first!.held.has(partitionOf(id!)))
      const { ids } = await (await leased(first!, 'new')).insert(own)
      await all.settled()
      const stored = await (await leased(second!, 'new')).get(ids[0]!)
      const looks = changingAfterLook(first!, async (times) => {
        if (times > 1) return
        await second!.collections.setAliases(new Map([['alias', 'new']]), [])
        await all.settled()
      })
      await assert.rejects((await leased(first!, 'alias')).insert(points), { reason: 'already_exists' })
      assert.equal(looks(), 2)
      assert.deepEqual(await (await leased(second!, 'new')).get(ids[0]!), stored)
    })

    it('is decided the same way by a node that has just started', async () => {
      await using all = await ShardedNodes.start(size)
      const [first] = databasesOf(all)
      const points = scattered(4, 0)
      const [, , restarted] = all.nodes
      changingAfterLook(all.nodes[0]!.up.node, async (times) => {
        if (times > 1) return
        await all.nodes[1]!.up.node.database.put(points[2]!.id!, points[2]!)
        await all.settled()
        // After this restart, the node has not read the earlier log records.
        await restarted!.up.stop()
        await (await restarted!.start()).node.caughtUp()
      })
      await assert.rejects(first!.insert(points), { reason: 'already_exists' })
      for (const each of databasesOf(all)) assert.equal(await latestCount(all, each), 1)
    })
  })

  describe(`the dimension of a collection on ${size.nodes} nodes with ${size.replicas} replicas of each partition`, () => {
    it('is fixed on all nodes by the first stored insert, whichever nodes have its points', async () => {
      await using all = await ShardedNodes.start(size)
      const { collections } = all.nodes[0]!.up.node
      await collections.put('named', { dimension: undefined, hnsw: {} })
      for (const name of ['default', 'named']) {
        await all.settled()
        const [first, second] = await Promise.all(all.nodes.map(({ up }) => leased(up.node, name)))
        const id = '07000000-0000-4000-8000-000000000000'
        // A refused write does not fix the dimension.
        await assert.rejects(first!.put(id, pointOf(5), { kind: 'version', version: 1 }), {
          reason: 'precondition_failed',
        })
        const twice = [pointOf(4, id), pointOf(4, id)]
        await assert.rejects(second!.insert(twice), { reason: 'invalid_argument' })
        assert.equal((await second!.put(id, pointOf(3))).created, true)
        await all.settled()
        for (const { up } of all.nodes) {
          assert.equal(up.node.collections.get(name).dimension, 3)
          const database = await leased(up.node, name)
          const refused = { reason: 'invalid_argument' }
          await assert.rejects(database.insert([pointOf(2)]), refused)
          await assert.rejects(database.put(id, pointOf(2)), refused)
          await database.insert([pointOf(3)])
        }
      }
      for (const node of all.nodes) {
        await node.up.stop()
        const { node: again } = await node.start()
        await again.caughtUp()
        for (const name of ['default', 'named']) assert.equal(again.collections.get(name).dimension, 3)
      }
    })

    it('can still be unknown on a node through which a point changes that others hold', async () => {
      // An audit would wait for the records before it.
      await using all = await ShardedNodes.start({ ...size, auditMs: 3_600_000 })
      const id = '07000000-0000-4000-8000-000000000000'
      const isOwner = ({ name }: SimulatedNode): boolean => all.shards.heldBy(name).has(partitionOf(id))
      const [owner, other] = [all.nodes.find(isOwner)!.up, all.nodes.find((node) => !isOwner(node))!.up]
      const waiting = new WaitingRecords([other.main])
      const { version } = await owner.node.database.put(id, pointOf(3))
      const putAgain = other.node.database.put(id, pointOf(3), { kind: 'version', version })
      await waiting.has(other.main, 2)
      waiting[Symbol.dispose]()
      assert.equal((await putAgain).created, false)
    })
  })
}

function databasesOf({ nodes }: ShardedNodes): Database[] {
  return nodes.map(({ up }) => up.node.database)
}

async function latestCount(all: ShardedNodes, database: Database): Promise<number> {
  await all.settled()
  return await database.count()
}

async function leased({ collections }: ClusterNode, name: string): Promise<Database> {
  return (await collections.lease(name)).database
}

/** Calls `change` after each lookup of the points of an insert. The returned function counts the lookups. */
function changingAfterLook(node: ClusterNode, change: (times: number) => Promise<void>): () => number {
  const { writes } = node
  const lookUp = writes.lookUp.bind(writes)
  let times = 0
  Object.assign(writes, {
    lookUp: async (...args: Parameters<typeof lookUp>) => {
      const found = await lookUp(...args)
      times += 1
      await change(times)
      return found
    },
  })
  return () => times
}

function pointOf(length: number, id?: string): NewPoint {
  return {
    vector: new Float32Array(length).fill(1),
    payload: { contentType: 'Text', content: '' },
    ...(id === undefined ? {} : { id }),
  }
}

/** Points in different partitions, with other ids for each turn. */
function scattered(count: number, turn: number, from = 0): NewPoint[] {
  return Array.from({ length: count }, (_, index) => {
    const digest = createHash('sha256')
      .update(`${turn} ${from + index}`)
      .digest('hex')
    return pointOf(
      3,
      `${((37 * (from + index)) % 256).toString(16).padStart(2, '0')}${digest.slice(0, 6)}-0000-4000-8000-000000000000`,
    )
  })
}

function idsOf(points: readonly NewPoint[]): string[] {
  return points.map(({ id }) => id!)
}

function identity(key: string): { readonly keyHash: Uint8Array; readonly bodyHash: Uint8Array } {
  const hash = (text: string): Uint8Array => createHash('sha256').update(text).digest().subarray(0, 16)
  return { keyHash: hash(key), bodyHash: hash('the same') }
}

function asText({ ids, errors }: Inserted): string {
  return JSON.stringify([ids, errors.map(({ index, error }) => [index, error.reason, error.message])])
}
