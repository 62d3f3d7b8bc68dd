import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { DatabaseError } from '../src/base/errors.ts'
import { idFromBytes } from '../src/base/ids.ts'
import type { SimulatedNode } from './support/cluster-nodes.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'
import { until } from './support/until.ts'
import { WaitingRecords } from './support/waiting-records.ts'

const dimension = 4
const include = { distance: true, payload: true, vector: true, version: true } as const
const payload = { contentType: 'Text', content: 'a point' } as const

/** Nodes of which any two hold all points. The record of an audit would wait for the records that a test delays. */
async function started(): Promise<ShardedNodes> {
  return await ShardedNodes.start({ nodes: 3, replicas: 2, dimension, auditMs: 3_600_000 })
}

/** Ids of points that two nodes hold, and the third one does not. */
function idsOn(holders: readonly SimulatedNode[], count = 1): string[] {
  return Array.from({ length: 256 }, (_, partition) => partition)
    .filter((partition) => holders.every(({ up }) => up.node.held.has(partition)))
    .slice(0, count)
    .map((partition) => idFromBytes(Uint8Array.from({ length: 16 }, () => partition)))
}

function at(x: number): Float32Array {
  return Float32Array.of(x, 0, 0, 0)
}

/** Writes that are awaited only after the records that a test delays. */
class Writes {
  readonly #all: Promise<unknown>[] = []

  add(write: Promise<unknown>): void {
    // If the test fails before it awaits them, these would be reported instead.
    write.catch(() => {})
    this.#all.push(write)
  }

  async done(): Promise<void> {
    await Promise.all(this.#all)
  }
}

describe('a read over nodes of which one is behind', () => {
  it('returns the nearest point although another one has moved away', async () => {
    await using all = await started()
    const [reader, ahead, other] = all.nodes as [SimulatedNode, SimulatedNode, SimulatedNode]
    const { database } = reader.up.node
    const [moved] = idsOn([reader, ahead]) as [string]
    const [near] = idsOn([reader, other]) as [string]
    await database.put(moved, { vector: at(0), payload })
    await database.put(near, { vector: at(1), payload })
    await all.settled()
    let asked = 0
    all.before.set(ahead.name, async (method) => {
      if (method === 'search') asked += 1
    })
    const query = { vector: at(0), metric: 'Euclidean', limit: 1, ef: 10, exact: true } as const
    const found = async (): Promise<[string, number]> => {
      const { ids, distances } = await database.search([query])
      return [ids.strings()[0]![0]!, distances[0]!]
    }
    const writes = new Writes()
    {
      using waiting = new WaitingRecords([reader.up.main])
      writes.add(ahead.up.node.database.put(moved, { vector: at(5), payload }))
      await waiting.has(reader.up.main)
      await until(async () => (await ahead.up.main.get(moved))?.vector[0] === 5)
      // Nodes are asked in turn.
      for (let round = 0; asked < 3; round += 1) {
        assert.ok(round < 100)
        assert.deepEqual(await found(), [moved, 0])
      }
    }
    await writes.done()
    await all.settled()
    assert.deepEqual(await found(), [near, 1])
  })

  it('lists a point that the node lacked when the first page was read', async () => {
    await using all = await started()
    const [reader, behind, ahead] = all.nodes as [SimulatedNode, SimulatedNode, SimulatedNode]
    const { database } = reader.up.node
    const [first, ...later] = idsOn([reader, ahead], 4)
    const [late] = idsOn([behind, ahead]) as [string]
    await database.put(first!, { vector: at(0), payload })
    await all.settled()
    let asked = 0
    all.before.set(behind.name, async (method) => {
      if (method === 'list') asked += 1
    })
    // So the node that is behind is asked.
    all.before.set(ahead.name, async (method) => {
      if (method === 'list') throw new DatabaseError('not_ready', 'not while the node is ahead')
    })
    const ids: string[] = []
    const writes = new Writes()
    const list = async (cursor: string | undefined): Promise<string | undefined> => {
      const { points, nextCursor } = await database.list({ limit: 2, cursor, include })
      ids.push(...points.map(({ id }) => id))
      return nextCursor
    }
    let cursor: string | undefined
    {
      using waiting = new WaitingRecords([behind.up.main])
      writes.add(ahead.up.node.database.put(late, { vector: at(1), payload }))
      await waiting.has(behind.up.main)
      await until(async () => (await ahead.up.main.get(late)) !== undefined)
      for (const id of later) await database.put(id, { vector: at(2), payload })

      cursor = await list(undefined)
      // A page ends where another node may lack points; that needs no second question.
      assert.deepEqual([ids, asked], [[first], 1])
      let hasEnded = false
      const next = list(cursor).finally(() => {
        hasEnded = true
      })
      // The next page waits for what the node lacks.
      await until(() => hasEnded || asked === 3)
      waiting[Symbol.dispose]()
      cursor = await next
    }
    while (cursor !== undefined) cursor = await list(cursor)
    assert.deepEqual(ids, [first, late, ...later])
    await writes.done()
  })

  it('is refused as of a position that includes what refused it', async () => {
    await using all = await started()
    const [reader, ahead, other] = all.nodes as [SimulatedNode, SimulatedNode, SimulatedNode]
    await reader.up.node.collections.put('docs', { dimension, hnsw: {} })
    await all.settled()
    const [id] = idsOn([ahead, other]) as [string]
    const isMissing = (error: unknown): boolean =>
      error instanceof DatabaseError && error.reason === 'collection_not_found'
    const writes = new Writes()
    let hasEnded = false
    {
      using docs = await reader.up.node.collections.lease('docs')
      const read = async (): Promise<void> => {
        await assert.rejects(docs.database.get(id), isMissing)
        hasEnded = true
      }
      using waiting = new WaitingRecords([reader.up.main])
      const [held] = idsOn([reader, ahead]) as [string]
      writes.add(ahead.up.node.database.put(held, { vector: at(0), payload }))
      await waiting.has(reader.up.main)
      await ahead.up.node.collections.drop('docs')
      const dropped = ahead.up.node.answeredPosition
      await other.up.node.admit({ position: dropped })
      assert.ok(reader.up.node.answeredPosition < dropped)
      const reading = read()
      // The node waits for the position of the refusal, with a barrier.
      await until(async () => hasEnded || (await all.log.bounds()).last > dropped)
      waiting[Symbol.dispose]()
      await reading
      assert.ok(reader.up.node.answeredPosition >= dropped)
    }
    await writes.done()
  })
})
