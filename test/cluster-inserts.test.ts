import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, it } from 'node:test'
import type { ApiContext, Call } from '../src/api/call.ts'
import { insertVector, insertVectorsBatch, type OnErrorInput } from '../src/api/insert-points.ts'
import type { PointInput } from '../src/api/validation.ts'
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
    it('of points in one partition is stored in full or not at all, whichever node receives it', async () => {
      await using all = await ShardedNodes.start(size)
      for (const [turn, database] of databasesOf(all).entries()) {
        const partition = 100 * turn
        const points = together(8, partition)
        assert.deepEqual((await database.insert(points)).ids, idsOf(points))
        const others = [...together(8, partition, 100), pointOf(3), points[3]!]
        await assert.rejects(database.insert(others), {
          reason: 'already_exists',
          message: `vectors[9].id: there is a point with the id ${points[3]!.id} already`,
        })
        for (const each of databasesOf(all)) assert.equal(await latestCount(all, each), 8 * (turn + 1))
      }
    })

    it('is refused if points of several partitions would have to decide about all of it', async () => {
      await using all = await ShardedNodes.start(size)
      const [database] = databasesOf(all)
      const [one, other] = scattered(2, 0) as [NewPoint, NewPoint]
      for (const points of [
        [one, other],
        [one, { ...other, onConflict: 'skip' } as const],
      ]) {
        await assert.rejects(database!.insert(points), {
          reason: 'invalid_argument',
          message: /^on_error is "abort", and in a cluster .* or one point at a time$/,
        })
      }
      assert.equal(await latestCount(all, database!), 0)
      const skipped = [one, other].map((point) => ({ ...point, onConflict: 'skip' as const }))
      assert.deepEqual((await database!.insert(skipped)).ids, idsOf([one, other]))
    })

    it('names the points that it has refused in the order of the request, whichever nodes have them', async () => {
      await using all = await ShardedNodes.start(size)
      for (const [turn, database] of databasesOf(all).entries()) {
        const points = scattered(24, turn)
        await database.insert(points.slice(0, 12), { onError: 'continue' })
        const mixed = [...points, points[20]!].toSorted((one, other) => (one.id! < other.id! ? 1 : -1))
        const { ids, errors } = await database.insert(mixed, { onError: 'continue' })
        const given = new Set<string>()
        const expected = mixed.map(({ id }) => {
          const isNew = !given.has(id!) && !idsOf(points.slice(0, 12)).includes(id!)
          given.add(id!)
          return isNew ? id! : null
        })
        assert.deepEqual(ids, expected)
        assert.deepEqual(
          errors.map(({ index }) => index),
          expected.flatMap((id, index) => (id === null ? [index] : [])),
        )
        assert.equal(await latestCount(all, database), 24 * (turn + 1))
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

    it('gets the same answer when repeated with its key, from any node', async () => {
      await using all = await ShardedNodes.start(size)
      const [first, second, third] = databasesOf(all)
      const points = scattered(6, 0)
      await first!.insert(points.slice(0, 1))
      const keyed = { identity: identity('a key'), onError: 'continue' as const }
      const inserted = await second!.insert(points, keyed)
      assert.deepEqual(inserted.ids, [null, ...idsOf(points.slice(1))])
      assert.deepEqual(asText(await third!.insert(points, keyed)), asText(inserted))
      await first!.patch(points[1]!.id!, { content: 'changed since' })
      assert.deepEqual(asText(await first!.insert(points, keyed)), asText(inserted))
      assert.equal(await latestCount(all, third!), 6)
    })

    it('is never stored a second time under its key, whatever has changed, and says so', async () => {
      await using all = await ShardedNodes.start(size)
      const [first, second, third] = databasesOf(all)
      const points = scattered(6, 0)
      const keyed = { identity: identity('a key'), onError: 'continue' as const }
      await second!.insert(points, keyed)
      for (const id of idsOf(points).slice(0, 3)) await first!.remove(id)
      const repeated = await third!.insert(points, keyed)
      assert.deepEqual(repeated.ids, [null, null, null, ...idsOf(points.slice(3))])
      assert.match(repeated.errors[2]!.error.message, /^vectors\[2\]\.id: the request was decided before/)
      assert.equal(await latestCount(all, third!), 3, 'nothing is stored again')
      const alone = { identity: identity('another') }
      const [one] = points
      assert.deepEqual((await third!.insert([one!], alone)).ids, [one!.id])
      const refused = { identity: identity('a third') }
      await assert.rejects(third!.insert([one!], refused), { reason: 'already_exists' })
      await first!.remove(one!.id!)
      for (const options of [alone, refused]) {
        await assert.rejects(first!.insert([one!], options), {
          reason: 'precondition_failed',
          message: `id: the request was decided before under this idempotency key, and stored no point with the id ${one!.id}, or it has been deleted since`,
        })
      }
      await first!.insert([one!], { identity: identity('a fourth') })
      for (const options of [alone, refused])
        await assert.rejects(second!.insert([one!], options), { message: /there is a point with the id/ })
      assert.equal(await latestCount(all, first!), 4)
    })

    it('says to a caller that repeats it only what is sure about a point that is not there', async () => {
      await using all = await ShardedNodes.start(size)
      const [, database] = databasesOf(all)
      const payload = { contentType: 'Text', content: 'text' } as const
      const input = (id: string, vector = [1, 2, 3]) => ({ id, vector: Float32Array.from(vector), payload })
      const [one, other, third] = idsOf(together(3, 9)) as [string, string, string]
      const context = { database } as unknown as ApiContext
      const sure = 'the request was decided before under this idempotency key, and stored no point'
      const insert = (key: string, ...args: Parameters<typeof input>) =>
        insertVector(context, input(...args), { idempotencyKey: key } as Call)
      await insert('a key', one)
      await database!.remove(one)
      await assert.rejects(insert('a key', one), {
        reason: 'precondition_failed',
        message: `id: ${sure} with the id ${one}, or it has been deleted since`,
      })
      const batch = (key: string, onError: 'abort' | 'continue', ...vectors: PointInput[]) =>
        insertVectorsBatch(context, { vectors, onError: asInput(onError) }, { idempotencyKey: key } as Call)
      await insert('another', third)
      const whole = () => batch('a third', 'abort', input(other), input(third))
      await assert.rejects(whole(), { reason: 'already_exists', message: /^vectors\[1\]\.id/ })
      await assert.rejects(whole(), {
        reason: 'precondition_failed',
        message: `vectors[0].id: ${sure} with the id ${other}, or it has been deleted since`,
      })
      const parts = () => batch('a fourth', 'continue', input(one, [1]), input(other))
      assert.deepEqual((await parts()).ids, [null, other])
      await database!.remove(other)
      const { errors } = await parts()
      assert.equal(
        errors![1]!.error.message,
        `vectors[1].id: ${sure} with the id ${other}, or it has been deleted since`,
      )
      assert.equal(await latestCount(all, database!), 1)
    })

    it('with an id that is given twice is refused by all nodes alike, and none keeps its key', async () => {
      await using all = await ShardedNodes.start(size)
      const [first, second] = databasesOf(all)
      const [one, other] = together(2, 7) as [NewPoint, NewPoint]
      await first!.insert([one])
      // Those that lack the points do not see that the first one is refused.
      const keyed = { identity: identity('a key') }
      await assert.rejects(first!.insert([one, other, other], keyed), { reason: 'invalid_argument' })
      await all.settled()
      for (const { up } of all.nodes)
        assert.equal(up.store.main.keyedRequest(keyed.identity.keyHash), undefined)
      assert.deepEqual((await second!.insert([other], keyed)).ids, [other.id])
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
        await (await leased(up.node, name)).insert(points, { onError: 'continue' })
        assert.equal(await (await asNew()).count(), 6)
        for (const id of idsOf(points)) assert.equal((await (await asNew()).get(id))?.payload.content, '')
      }
    })

    it('is stored once when all nodes receive it at the same time', async () => {
      await using all = await ShardedNodes.start(size)
      for (let round = 0; round < 10; round += 1) {
        const points = together(5, round)
        const attempts = await Promise.allSettled(
          databasesOf(all).map((database) => database.insert(points.map((each) => ({ ...each })))),
        )
        const ended = attempts.map((each) => (each.status === 'fulfilled' ? '' : each.reason.reason)).sort()
        assert.deepEqual(ended, ['', 'already_exists', 'already_exists'])
      }
      for (const each of databasesOf(all)) assert.equal(await latestCount(all, each), 50)
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

function asInput(value: 'abort' | 'continue'): OnErrorInput {
  return {
    value,
    // biome-ignore lint/correctness/useYield: the value is found in one step
    *find() {
      return value
    },
  }
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

/** Points in one partition. */
function together(count: number, partition: number, from = 0): NewPoint[] {
  const first = partition.toString(16).padStart(2, '0')
  return scattered(count, partition, from).map((point) => ({ ...point, id: first + point.id!.slice(2) }))
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
