import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { partialReads } from '../src/api/partial-reads.ts'
import { DatabaseError } from '../src/base/errors.ts'
import type { Filter } from '../src/base/filter.ts'
import { type PartitionSet, partitionOf } from '../src/base/partitions.ts'
import type { Point, SearchQuery } from '../src/base/point.ts'
import type { Database } from '../src/points/database.ts'
import { filledNodes } from './support/filled-nodes.ts'
import { below } from './support/searched-points.ts'

import { until } from './support/until.ts'

/** Answers that lack exactly the partitions for which no node answers: marked, and returned only if allowed. */

const dimension = 4
const include = { distance: false, payload: true, vector: true, version: true } as const

describe('a partial answer', () => {
  it('has everything of the available partitions, and counts the missing ones', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const { database } = all.nodes[0]!.up.node
    const gone = all.shards.heldBy('node-2')
    await all.nodes[2]!.up.stop()
    await assertPartial(database, all.whole.up.node.database, gone)
  })

  it('is also returned when a node fails that is still considered available', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    all.links.get('node-2')!.close()
    const { database } = all.nodes[0]!.up.node
    await assertPartial(database, all.whole.up.node.database, all.shards.heldBy('node-2'))
  })

  it('lacks nothing if other nodes have the same partitions', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 2, dimension })
    await all.nodes[2]!.up.stop()
    const reads = allowing(all.nodes[0]!.up.node.database)
    assert.equal(await reads.database.count(), await all.whole.up.node.database.count())
    assert.deepEqual(reads.missing, [])
    all.links.get('node-1')!.close()
    await reads.database.count()
    assert.deepEqual(reads.missing, [256 - all.shards.heldBy('node-0').size])
  })

  it('is never returned unless the request allows it', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const { database } = all.nodes[0]!.up.node
    await all.nodes[2]!.up.stop()
    const reads = allowing(database)
    await reads.database.count()
    assert.equal(reads.missing.length, 1)
    const facets = { paths: ['price'], limit: 5 }
    const list = { limit: 10, include }
    const asked = [
      () => database.count(),
      () => database.search([nearest]),
      () => database.list(list),
      () => database.facets(facets),
    ]
    for (const ask of asked) await assert.rejects(ask, notReady)
  })

  it('is never returned for a single point or a change', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const gone = all.shards.heldBy('node-2')
    const points = await everything(all.whole.up.node.database)
    const id = points.find((point) => gone.has(partitionOf(point.id)))!.id
    await all.nodes[2]!.up.stop()
    const { database, missing } = allowing(all.nodes[0]!.up.node.database)
    await assert.rejects(database.get(id), notReady)
    await assert.rejects(database.search([{ ...nearest, vector: id }]), notReady)
    const change = { filter: below('price', 50), change: 'delete', dryRun: false } as const
    await assert.rejects(database.changeByFilter(change), notReady)
    assert.deepEqual(missing, [])
  })

  it('is an error when no node has any of the partitions', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const late = { endMs: performance.now(), onMissing: () => assert.fail('there is no answer') }
    const database = all.nodes[0]!.up.node.database.asOf(0, late)
    await assert.rejects(database.count(), notReady)
  })

  it('omits a node that has not answered in time', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const { database } = all.nodes[0]!.up.node
    await allowing(database).database.count()
    all.before.set('node-1', () => new Promise(() => {}))
    const gone = all.shards.heldBy('node-1')
    const points = await everything(all.whole.up.node.database)
    const available = points.filter(({ id }) => !gone.has(partitionOf(id)))
    // The other nodes, too, may need more than the first time limit.
    let waitMs = 100
    await until(async () => {
      waitMs *= 2
      const reads = allowing(database, waitMs)
      const count = await reads.database.count().catch(() => 0)
      assert.ok(count <= available.length && (reads.missing[0] ?? 256) >= gone.size)
      return count === available.length && reads.missing[0] === gone.size
    })
  })

  it('asks another owner before it omits a node', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 2, dimension })
    const { database } = all.nodes[0]!.up.node
    const expected = await all.whole.up.node.database.count()
    all.before.set('node-1', () => new Promise(() => {}))
    let waitMs = 100
    await until(async () => {
      waitMs *= 2
      const reads = allowing(database, waitMs)
      const count = await reads.database.count().catch(() => 0)
      if (reads.missing.length === 0 && count !== 0) assert.equal(count, expected)
      return count === expected && all.nodes[0]!.up.node.hedges > 0
    })
  })

  it('of a list continues in full when the partitions are back', async () => {
    await using all = await filledNodes({ nodes: 3, replicas: 1, dimension })
    const node = all.nodes[2]!
    const gone = all.shards.heldBy('node-2')
    const order = (await everything(all.whole.up.node.database)).map(({ id }) => id)
    await node.up.stop()
    const reads = allowing(all.nodes[0]!.up.node.database)
    const first = await reads.database.list({ limit: 50, include })
    const available = order.filter((id) => !gone.has(partitionOf(id)))
    assert.deepEqual(idsOf(first.points), available.slice(0, 50))
    assert.deepEqual(reads.missing, [gone.size])
    await (await node.start()).node.caughtUp()
    const rest: string[] = []
    for (let cursor = first.nextCursor; cursor !== undefined; ) {
      const page = await reads.database.list({ limit: 50, include, cursor })
      rest.push(...idsOf(page.points))
      cursor = page.nextCursor
    }
    assert.deepEqual(reads.missing, [gone.size], 'only the first page is partial')
    assert.deepEqual(rest, order.slice(order.indexOf(available[49]!) + 1))
    // Repeating the first page returns what it lacked.
    const again = await reads.database.list({ limit: 50, include })
    assert.deepEqual(idsOf(again.points), order.slice(0, 50))
  })
})

describe('permission for a partial answer', () => {
  it('applies only to reads of many points', () => {
    const call = { partial: 'allow' }
    for (const name of [
      'SearchPoints',
      'SearchPointsBatch',
      'ListPoints',
      'CountPoints',
      'FacetPoints',
    ] as const) {
      assert.ok(partialReads(name, call) !== undefined, name)
      assert.equal(partialReads(name, { ...call, partial: undefined }), undefined)
    }
    for (const name of ['GetPoint', 'InsertVector', 'UpdatePoints', 'DeletePoints'] as const) {
      assert.equal(partialReads(name, call), undefined, name)
    }
  })

  it('ends the wait before the deadline of the call', () => {
    const now = performance.now()
    const endOf = (partial: string, deadlineMs: number | undefined): number | undefined =>
      partialReads('CountPoints', { partial, deadlineMs })!.endMs
    assert.equal(endOf('allow', undefined), undefined)
    assert.ok(endOf('allow; wait=60000', undefined)! >= now + 60_000)
    assert.ok(endOf('allow; wait=60000', now + 40_000)! < now + 40_000)
    assert.ok(endOf('allow', now + 40_000)! > now + 30_000)
    assert.ok(endOf('allow; wait=10000', now + 40_000)! < now + 30_000)
  })
})

async function assertPartial(database: Database, one: Database, gone: PartitionSet): Promise<void> {
  const isThere = (id: string): boolean => !gone.has(partitionOf(id))
  const points = await everything(one)
  const available = points.filter(({ id }) => isThere(id))
  assert.ok(available.length > 0 && available.length < points.length)
  const missing: number[] = []
  const reported = [gone.size]
  const part = database.asOf!(0, { endMs: undefined, onMissing: (count) => missing.push(count) })
  const read = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
    missing.length = 0
    const answer = await ask()
    assert.deepEqual(missing, reported)
    return answer
  }
  assert.equal(await read(() => part.count()), available.length)
  assert.equal(
    await read(() => part.count(below('price', 30))),
    available.filter((each) => priceOf(each) < 30).length,
  )
  const page = await read(() => part.list({ limit: 1000, include }))
  assert.deepEqual(idsOf(page.points), idsOf(available))
  const facets = await read(() => part.facets({ paths: ['price'], limit: 1000 }))
  const counts = new Map<number, number>()
  for (const each of available) counts.set(priceOf(each), (counts.get(priceOf(each)) ?? 0) + 1)
  assert.deepEqual(new Map(facets.get('price')!.map(({ value, count }) => [value, count])), counts)
  const filters: (Filter | undefined)[] = [undefined, below('price', 40)]
  for (const filter of filters) {
    const asked = { ...nearest, limit: 1000, filter }
    const [expected] = (await one.search([asked])).ids.strings()
    const found = await read(() => part.search([{ ...asked, limit: 20 }, nearest]))
    const [first] = found.ids.strings()
    assert.deepEqual(first, expected!.filter(isThere).slice(0, 20))
  }
  const at = available[0]!.id
  const near = await read(() => part.search([{ ...nearest, vector: at }]))
  const [others] = (await one.search([{ ...nearest, vector: at, limit: 1000 }])).ids.strings()
  assert.deepEqual(near.ids.strings()[0], others!.filter(isThere).slice(0, nearest.limit))
}

/** A database whose answers may be partial, and the missing partitions that they report. */
function allowing(database: Database, waitMs?: number) {
  const missing: number[] = []
  const onMissing = (count: number): unknown => missing.push(count)
  return {
    missing,
    get database(): Database {
      const endMs = waitMs === undefined ? undefined : performance.now() + waitMs
      return database.asOf!(0, { endMs, onMissing })
    },
  }
}

async function everything(database: Database): Promise<Pick<Point, 'id' | 'payload'>[]> {
  const { points, nextCursor } = await database.list({ limit: 1000, include })
  assert.equal(nextCursor, undefined)
  return points as Pick<Point, 'id' | 'payload'>[]
}

function priceOf({ payload }: Pick<Point, 'payload'>): number {
  return payload.attributes!.get('price') as number
}

function idsOf(points: readonly { readonly id: string }[]): string[] {
  return points.map(({ id }) => id)
}

function notReady(error: unknown): boolean {
  return error instanceof DatabaseError && error.reason === 'not_ready'
}

const nearest: SearchQuery = {
  ...{ vector: Float32Array.of(1, 2, 3, 4), metric: 'Euclidean', limit: 20, ef: 1000, exact: true },
}
