import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { clockMs, isKnown, partOf, range, request } from '../../test/support/repaired-data.ts'
import { createLogger } from '../base/log.ts'
import { PartitionSet } from '../base/partitions.ts'
import { repairPlanOf } from '../base/repair-plan.ts'
import { openDataStore } from '../storage/data-store.ts'
import { PartitionDigest } from '../storage/partition-digest.ts'
import type { DataStore, KeyedRequest } from '../storage/store.ts'
import { adoptAsLeader, adoptAsOther, type PartRepair, preparedRepair } from './part-repair.ts'
import { type ReplicaSource, replicaBytes } from './replica-transfer.ts'

const logger = createLogger({ level: 'silent', pretty: false })
const signal = new AbortController().signal
const newLog = '22'.repeat(16)
let directory: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'vicinal-part-repair-'))
})
afterEach(() => rmSync(directory, { recursive: true, force: true }))

describe('nodes that each hold some of the points and begin a new log', () => {
  it('have the same collections, aliases and keys, except keys whose points no node has', async () => {
    // Only a has the first half of the partitions, and only b, which is behind, the second half.
    await using opened = new AsyncDisposableStack()
    const [a, b] = [await open(opened, 'a'), await open(opened, 'b')]
    const halves = [range(0, 127), range(128, 255)]
    for (const [at, data] of [a, b].entries()) {
      await data.create({ name: 'docs', dimension: 2 })
      await data.create({ name: 'dropped', dimension: 2 })
      await apply(data, 10, halves[at]!, [request('both', 5), request('both too', 200)])
    }
    await a.drop('dropped')
    await a.create({ name: 'new', dimension: 3 })
    await a.setAliases(new Map([['papers', 'docs']]), [])
    // Node b has never decided about 'of b', nor about the point of 'split' in its half.
    const split = { ...request('split', 7), outcome: [idIn(7), idIn(130)] }
    await apply(a, 12, halves[0]!, [request('of a', 6), { ...split, points: 2 }, request('of b', 201)])
    const refused = { reason: 'already_exists', message: 'it is there' } as const
    await apply(a, 13, halves[0]!, [{ ...request('refused', 202), outcome: [refused] }])

    const { plan, missing } = repairPlanOf([await partOf('a', a, 13), await partOf('b', b, 10)])
    assert.deepEqual(missing, [])
    assert.equal(plan.leader, 'a')
    const repair: PartRepair = { ...(await preparedRepair(a, plan)), position: 1000 }
    await adoptAsLeader(a, newLog, repair, plan)
    // Node b must not copy what a has applied of the new log meanwhile: it reads that from the log.
    await apply(a, 1001, halves[0]!, [request('later', 3)], newLog)
    // Twice, as after a process that ended in the middle.
    for (let attempt = 0; attempt < 2; attempt += 1)
      await adoptAsOther(b, newLog, repair, plan.nodes.b!, { from: sourceOf(a), signal })

    assert.deepEqual([...b.collections.keys()].sort(), ['docs', 'new'])
    assert.deepEqual([...b.aliases], [['papers', 'docs']])
    for (const [data, half, position] of [
      [a, halves[0]!, 1001],
      [b, halves[1]!, 1000],
    ] as const) {
      const { logId, held, floor, ...applied } = data.main.applied!
      assert.deepEqual({ logId, floor, position: applied.position }, { logId: newLog, floor: 1000, position })
      assert.deepEqual([...new PartitionSet(held)], half)
      for (const key of ['both', 'both too', 'of a', 'refused']) assert.ok(isKnown(data, key), key)
      for (const key of ['split', 'of b']) assert.ok(!isKnown(data, key), key)
    }
    assert.ok(isKnown(a, 'later'))
    assert.ok(!isKnown(b, 'later'))
    const digest = new PartitionDigest(b.main.applied!.digest)
    assert.equal(digest.pointsIn(200), 1, 'its points are where they were')
  })

  it('find the end of the former log when no other key is known', async () => {
    await using opened = new AsyncDisposableStack()
    const [a, b] = [await open(opened, 'a'), await open(opened, 'b')]
    await apply(a, 10, range(0, 127), [])
    await apply(b, 9, range(128, 255), [])
    const { plan } = repairPlanOf([await partOf('a', a, 10), await partOf('b', b, 9)])
    const repair: PartRepair = { ...(await preparedRepair(a, plan)), position: 1000 }
    await adoptAsLeader(a, newLog, repair, plan)
    await apply(a, 1001, range(0, 127), [request('later', 200)], newLog)
    await adoptAsOther(b, newLog, repair, plan.nodes.b!, { from: sourceOf(a), signal })
    assert.ok(!isKnown(b, 'later'))
    assert.equal(b.main.keyedRequestCount, 1)
  })

  it('take no keys from a node that has evicted those of the former log', async () => {
    await using opened = new AsyncDisposableStack()
    const [a, b] = [await open(opened, 'a'), await open(opened, 'b')]
    await apply(a, 10, range(0, 127), [])
    await apply(b, 9, range(128, 255), [])
    const { plan } = repairPlanOf([await partOf('a', a, 10), await partOf('b', b, 9)])
    const repair: PartRepair = { ...(await preparedRepair(a, plan)), position: 1000 }
    await apply(a, 1001, range(0, 127), [request('later', 5)], newLog)
    await adoptAsOther(b, newLog, repair, plan.nodes.b!, { from: sourceOf(a), signal })
    assert.ok(!isKnown(b, 'later'))
    assert.equal(b.main.applied!.position, 1000)
  })
})

async function open(opened: AsyncDisposableStack, name: string): Promise<DataStore> {
  const data = await openDataStore({ dataDir: join(directory, name), logger })
  opened.defer(() => data.close())
  return data
}

/** Stores what a node has applied: one point for each request whose partition it holds. */
async function apply(
  data: DataStore,
  position: number,
  partitions: readonly number[],
  keyedRequests: readonly KeyedRequest[],
  logId = '11'.repeat(16),
): Promise<void> {
  const { main } = data
  const digest = new PartitionDigest(main.applied?.digest)
  const points = keyedRequests.flatMap((each, index) => {
    const partition = each.idSeed[0]!
    if (each.outcome !== undefined || !partitions.includes(partition)) return []
    return [{ id: idIn(partition), sequence: position * 65_536 + index }]
  })
  for (const { id, sequence } of points) digest.add(Buffer.from(id.replaceAll('-', ''), 'hex'), sequence)
  await main.commit({
    changes: points.map((each) => ({
      ...{ ...each, kind: 'insert' as const },
      point: { vector: Float32Array.of(1, 2), payload: { contentType: 'Text' as const, content: 'x' } },
    })),
    slots: points.map((_, index) => main.slotCount + index),
    keyedRequests,
    applied: {
      ...{ logId, position, clockUs: clockMs * 1000, base: 0, digest: digest.bytes },
      ...{ floor: logId === newLog ? 1000 : position, floorClockUs: clockMs * 1000 },
      held: PartitionSet.of(partitions).bytes,
    },
  })
}

/** Sends from a node's own store. */
function sourceOf(data: DataStore): ReplicaSource {
  return {
    name: 'a',
    catalog: async () => assert.fail('the catalog is not needed'),
    collection: async (name, _position, { hasPoints }) => {
      assert.equal(hasPoints, false)
      const store = name === 'default' ? data.main : await data.open(data.collections.get(name)!.number)
      const snapshot = store.snapshot(() => {})
      return replicaBytes(snapshot, false)
    },
  }
}

function idIn(partition: number): string {
  return `${partition.toString(16).padStart(2, '0')}000000-0000-4000-8000-000000000001`
}
