import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../src/base/errors.ts'
import { PartitionSet, partitionOf } from '../src/base/partitions.ts'
import type { NewPoint } from '../src/base/point.ts'
import { MemoryBus } from './support/memory-bus.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'
import { WaitingRecords } from './support/waiting-records.ts'

const point: NewPoint = {
  vector: Float32Array.of(1, 2, 3),
  payload: { contentType: 'Text', content: '' },
}
const id = '07000000-0000-4000-8000-000000000000'

/** Three nodes with two copies of each partition, and the one that is no owner of the point's partition. */
async function threeNodes(bus = new MemoryBus()) {
  // An audit would be one more record.
  const all = await ShardedNodes.start({ nodes: 3, replicas: 2, dimension: 3, auditMs: 3_600_000, bus })
  const owners = all.nodes.filter(({ name }) => all.shards.heldBy(name).has(partitionOf(id)))
  const other = all.nodes.find((node) => !owners.includes(node))!.up.node
  return { all, other, [Symbol.asyncDispose]: () => all[Symbol.asyncDispose]() }
}

describe('a write through a node that is no owner', () => {
  it('is answered by another owner when the first answer is lost, and stored once', async () => {
    const bus = new MemoryBus()
    let lost = 0
    bus.change = (subject, reply) => {
      if (!subject.endsWith('.write') || lost > 0) return reply
      lost += 1
      return undefined
    }
    await using cluster = await threeNodes(bus)
    const { all, other } = cluster
    const before = (await all.log.bounds()).last
    const { version, created } = await other.database.put(id, point)
    assert.equal(lost, 1)
    assert.equal(created, true)
    assert.equal((await all.log.bounds()).last, before + 1)
    await other.admit({ consistency: 'session' })
    assert.equal((await other.database.get(id))?.version, version)
  })

  it('does not wait for one owner that hangs', async () => {
    await using cluster = await threeNodes()
    const { all, other } = cluster
    let calls = 0
    const hang = async (operation: string): Promise<void> => {
      if (operation !== 'write') return
      calls += 1
      if (calls === 1) await new Promise<never>(() => {})
    }
    for (const name of all.names) all.before.set(name, hang)
    assert.equal((await other.database.put(id, point)).created, true)
    assert.equal(calls, 2)
  })

  it('is refused soon, and nothing is stored, while no owner has its partition yet', async () => {
    await using cluster = await threeNodes()
    const { all, other } = cluster
    const partitions = PartitionSet.of([partitionOf(id)])
    const { signal } = new AbortController()
    for (const { up } of all.nodes) await up.node.dropPartitions(partitions, signal)
    const { last } = await all.log.bounds()
    await assert.rejects(within(other.database.put(id, point)), /nothing was stored, because no node/)
    assert.equal((await all.log.bounds()).last, last)
  })

  it('is refused as the owner refuses it', async () => {
    await using cluster = await threeNodes()
    const { version } = await cluster.other.database.put(id, point)
    const when = { kind: 'version', version: version + 1 } as const
    await assert.rejects(cluster.other.database.put(id, point, when), { reason: 'precondition_failed' })
    await assert.rejects(cluster.other.database.insert([{ ...point, id }]), { reason: 'already_exists' })
  })
})

describe('a change by filter over several owners', () => {
  it('counts each point once, whichever node receives it', async () => {
    await using cluster = await threeNodes()
    const { all, other } = cluster
    const points = Array.from({ length: 32 }, (_, at): NewPoint => {
      const first = (8 * at).toString(16).padStart(2, '0')
      return { ...point, id: `${first}000000-0000-4000-8000-000000000000`, onConflict: 'replace' }
    })
    assert.equal((await other.database.insert(points)).ids.length, 32)
    for (const { up } of all.nodes) assert.equal(await counted(up.node), 32)
    const change = { filter: { kind: 'all', of: [] }, change: 'delete', dryRun: false } as const
    assert.deepEqual(await other.database.changeByFilter(change), { changed: 32, more: false })
    for (const { up } of all.nodes) assert.equal(await counted(up.node), 0)
  })
})

/** The nodes answer within seconds what they can know, and not only when their time is up. */
describe('a write over several owners', () => {
  for (const nodes of [4, 5]) {
    it(`of ${nodes} is answered while the disk of one is full, if others have its points`, async () => {
      await using all = await ShardedNodes.start({ nodes, replicas: 2, dimension: 3, auditMs: 3_600_000 })
      const { database } = all.nodes[0]!.up.node
      await database.insert(points)
      await all.settled()
      {
        using _ = fullDisk(all.nodes[1]!.up)
        for (const content of ['one', 'another']) {
          assert.equal((await within(database.insert(points))).ids.length, 256)
          const { changed } = await within(database.changeByFilter({ ...allChanged, change: { content } }))
          assert.equal(changed, 256)
        }
      }
      await all.settled()
    })
  }

  it('is answered by an owner that has applied it, though its disk is full or another record takes long', async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 1, dimension: 3, auditMs: 3_600_000 })
    const [asking, owner] = all.nodes.map(({ up }) => up)
    await asking!.node.collections.put('others', { dimension: 3, hnsw: {} })
    await all.settled()
    using lease = await owner!.node.set.lease('others')
    using waiting = new WaitingRecords([lease.database])
    using others = await asking!.node.collections.lease('others')
    const slow = others.database.insert(points)
    await waiting.has(lease.database)
    assert.equal((await within(asking!.node.database.insert(points))).ids.length, 256)
    lease.database.replica.onStall(full)
    assert.equal((await within(asking!.node.database.insert(points))).ids.length, 256)
    lease.database.replica.onStall(undefined)
    waiting[Symbol.dispose]()
    await slow
  })

  it('says soon that it may be stored when the only owner of a point is full, and then refuses others', async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 1, dimension: 3, auditMs: 3_600_000 })
    const [asking, owner] = all.nodes.map(({ up }) => up)
    const { database } = asking!.node
    await database.insert(points)
    await all.settled()
    const end = async (): Promise<number> => (await all.log.bounds()).last
    {
      using _ = fullDisk(owner!)
      const each = { kind: 'each', ids: points.map(({ id: own }) => own!), ...allChanged } as const
      const change = () =>
        asking!.node.write(each, { collection: 'default', partition: undefined, signal: undefined })
      await assert.rejects(within(change()), { reason: 'not_ready', message: /may have been stored/ })
      const appended = await end()
      await assert.rejects(within(change()), { reason: 'disk_full' })
      assert.equal(await end(), appended)
    }
    await all.settled()
  })

  for (const replicas of [1, 2]) {
    it(`says soon that it may be stored, or the outcome, when an owner of ${replicas} has restarted`, async () => {
      await using all = await ShardedNodes.start({ nodes: 3, replicas, dimension: 3, auditMs: 3_600_000 })
      const { database } = all.nodes[0]!.up.node
      let restarted = 0
      for (const node of all.nodes.slice(1)) {
        all.before.set(node.name, async (operation) => {
          if (operation !== 'applied' || restarted > 0) return
          restarted += 1
          await node.up.node.admit({ consistency: 'latest' })
          await node.up.stop()
          await (await node.start()).node.caughtUp()
        })
      }
      const once = points.map(({ onConflict: _, ...each }) => each)
      const keyed = { onError: 'continue', identity: { keyHash: bytes(1), bodyHash: bytes(2) } } as const
      const insert = () => within(database.insert(once, keyed))
      if (replicas === 1)
        await assert.rejects(insert(), { reason: 'not_ready', message: /may have been stored/ })
      assert.equal((await insert()).errors.length, 0)
      assert.equal(restarted, 1)
    })
  }
})

const points = Array.from({ length: 256 }, (_, partition): NewPoint => {
  const first = partition.toString(16).padStart(2, '0')
  return { ...point, id: `${first}000000-0000-4000-8000-000000000000`, onConflict: 'replace' }
})
const allChanged = {
  filter: { kind: 'all', of: [] },
  change: { content: 'changed' },
  dryRun: false,
} as const
const full = new DatabaseError('disk_full', 'the disk is full')

function bytes(value: number): Uint8Array {
  return new Uint8Array(16).fill(value)
}

/** A node applies nothing until this is disposed. */
function fullDisk({ main }: ShardedNodes['nodes'][number]['up']): Disposable {
  const waiting = new WaitingRecords([main])
  main.replica.onStall(full)
  // What the node stores besides, which would not fail here, would say that there is room again.
  Object.assign(main.replica, { onStall: () => {} })
  return {
    [Symbol.dispose]: () => {
      Reflect.deleteProperty(main.replica, 'onStall')
      main.replica.onStall(undefined)
      waiting[Symbol.dispose]()
    },
  }
}

/** Fails when the answer takes a third of the time for which a node tries. */
async function within<Answer>(answer: Promise<Answer>): Promise<Answer> {
  const late = new Promise<never>((_, reject) => {
    setTimeout(() => reject(new Error('not answered in time')), 7_000).unref()
  })
  answer.catch(() => {})
  return await Promise.race([answer, late])
}

async function counted(node: ShardedNodes['nodes'][number]['up']['node']): Promise<number> {
  return await node.database.asOf(await node.admit({ consistency: 'latest' })).count()
}
