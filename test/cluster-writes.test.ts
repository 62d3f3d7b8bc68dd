import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { partitionOf } from '../src/base/partitions.ts'
import type { NewPoint } from '../src/base/point.ts'
import { MemoryBus } from './support/memory-bus.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'

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

async function counted(node: ShardedNodes['nodes'][number]['up']['node']): Promise<number> {
  return await node.database.asOf(await node.admit({ consistency: 'latest' })).count()
}
