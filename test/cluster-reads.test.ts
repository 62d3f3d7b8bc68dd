import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { AttributeValue } from '../src/base/attributes.ts'
import { DatabaseError } from '../src/base/errors.ts'
import type { Filter } from '../src/base/filter.ts'
import { idFromBytes } from '../src/base/ids.ts'
import { newId, partitionOf } from '../src/base/partitions.ts'
import { distanceMetrics, type NewPoint, type SearchQuery } from '../src/base/point.ts'
import type { Database, ListPage } from '../src/points/database.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { below } from './support/searched-points.ts'
import { ShardedNodes, type ShardedNodesOptions } from './support/sharded-nodes.ts'
import { until } from './support/until.ts'
import { WaitingRecords } from './support/waiting-records.ts'

const dimension = 4

function newIdFrom(random: () => number): string {
  return idFromBytes(Uint8Array.from({ length: 16 }, () => Math.floor(random() * 256)))
}

/** Points in all partitions, many of them at equal distances. */
function points(random: () => number, count: number): NewPoint[] {
  return Array.from({ length: count }, (_, index) => ({
    id: newIdFrom(random),
    onConflict: 'skip',
    vector: randomVector(random, dimension, 'small integers'),
    payload: {
      contentType: 'Text',
      content: `point ${index}`,
      attributes: new Map<string, string | number>([
        ['price', index % 100],
        ['shop', `shop ${Math.floor(random() ** 3 * 300)}`],
      ]),
    },
  }))
}

/** A cluster whose points were inserted, patched, replaced and removed through different nodes. */
async function filled(options: Omit<ShardedNodesOptions, 'dimension'>, seed: number): Promise<ShardedNodes> {
  const all = await ShardedNodes.start({ ...options, hasWhole: true, dimension })
  const random = seededRandom(seed)
  const at = (index: number): Database => all.nodes[index % all.nodes.length]!.up.node.database
  const inserted = points(random, 300)
  for (let from = 0; from < inserted.length; from += 100) {
    await at(from / 100).insert(inserted.slice(from, from + 100))
  }
  // The ids that a request draws are all in one partition.
  await at(0).insert(points(random, 40).map(({ vector, payload }) => ({ vector, payload })))
  for (const [index, { id, payload }] of inserted.slice(0, 15).entries()) {
    if (index % 3 === 0) await at(index).remove(id!)
    else if (index % 3 === 1) await at(index).patch(id!, { content: 'patched' })
    else await at(index).put(id!, { vector: randomVector(random, dimension, 'small integers'), payload })
  }
  await all.settled()
  return all
}

const include = { distance: true, payload: true, vector: true, version: true } as const

function queries(random: () => number, ids: readonly string[]): SearchQuery[] {
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!
  return Array.from({ length: 40 }, () => ({
    vector: random() < 0.3 ? pick(ids) : randomVector(random, dimension, 'small integers'),
    metric: pick(distanceMetrics),
    limit: pick([1, 7, 50, 700]),
    ef: 700,
    exact: random() < 0.5,
    filter: pick<Filter | undefined>([undefined, undefined, below('price', 40), below('price', 0)]),
    maxDistance: pick([undefined, undefined, 1.5]),
    include: pick([undefined, include, { ...include, payload: false, attributes: ['shop'] }]),
  }))
}

async function pages(database: Database, limit: number, filter: Filter | undefined): Promise<ListPage[]> {
  const all: ListPage[] = []
  for (let cursor: string | undefined; ; ) {
    const page = await database.list({ limit, filter, cursor, include })
    all.push(page)
    cursor = page.nextCursor
    if (cursor === undefined) return all
  }
}

for (const [replicas, nodes, seed] of [
  [1, 3, 1],
  [2, 5, 3],
] as const) {
  describe(`${nodes} nodes with ${replicas} replicas of each partition`, () => {
    it('answer every read like one node with all points', async () => {
      await using all = await filled({ nodes, replicas }, seed)
      const random = seededRandom(seed + 100)
      const one = all.whole.up.node.database
      const ids = (await pages(one, 1000, undefined))[0]!.points.map(({ id }) => id)
      for (const { up } of all.nodes) {
        const { database } = up.node
        assert.ok(up.main.stats.points < ids.length, 'the node must not have all points')
        const asked = queries(random, ids)
        const [found, expected] = [await database.search(asked), await one.search(asked)]
        for (const [at, strings] of expected.ids.strings().entries()) {
          const { vector, ...query } = asked[at]!
          assert.deepEqual(found.ids.strings()[at], strings, JSON.stringify({ at, ...query }))
          assert.deepEqual(found.details[at], expected.details[at])
        }
        assert.deepEqual(found.distances, expected.distances)
        const [counted] = asked
          .slice(0, 1)
          .map((query) => ({ ...query, filter: below('price', 40), profile: true }))
        const [profiled, wanted] = [await database.search([counted!]), await one.search([counted!])]
        const { points: counts, matching } = wanted.profiles[0]!
        assert.deepEqual([profiled.profiles[0]!.points, profiled.profiles[0]!.matching], [counts, matching])
        assert.deepEqual((await database.search([asked[0]!])).ids.strings(), [expected.ids.strings()[0]])
        for (const id of ids.slice(0, 20)) assert.deepEqual(await database.get(id), await one.get(id))
        for (const filter of [undefined, below('price', 40), below('price', 0)]) {
          assert.equal(await database.count(filter), await one.count(filter))
          for (const limit of [17, 1000]) {
            assert.deepEqual(await pages(database, limit, filter), await pages(one, limit, filter))
          }
          for (const limit of [1, 10, 1000]) {
            const query = { filter, paths: ['shop', 'price', '$content_type', 'nothing'], limit }
            assert.deepEqual([...(await database.facets(query))], [...(await one.facets(query))])
          }
        }
      }
    })
  })
}

describe('a read over several nodes', () => {
  it('reports a missing point, whether it is to be returned or searched near', async () => {
    await using all = await filled({ nodes: 3, replicas: 1 }, 4)
    for (const { up } of all.nodes) {
      const near = { vector: newIdFrom(seededRandom(9)), metric: 'Cosine', limit: 1, ef: 10 } as const
      assert.equal(await up.node.database.get(near.vector), undefined)
      await assert.rejects(
        up.node.database.search([near]),
        (error) =>
          error instanceof DatabaseError &&
          error.reason === 'not_found' &&
          /to search near/.test(error.message),
      )
    }
  })

  it('refuses facets for which the nodes would have to tell each other too much', async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 1 })
    const { database } = all.nodes[0]!.up.node
    const count = 20_000
    for (let from = 0; from < count; from += 5000) {
      await database.insert(
        Array.from({ length: 5000 }, (_, at) => ({
          // Points with ids of their own are on all nodes.
          id: newId(),
          onConflict: 'skip',
          vector: Float32Array.of(1, 0),
          payload: {
            contentType: 'Text',
            content: '',
            attributes: new Map<string, AttributeValue>([
              ['sku', `sku ${from + at}`],
              ['size', at % 7],
            ]),
          },
        })),
      )
    }
    const facets = { paths: ['size', 'sku'], limit: 3, filter: undefined }
    await assert.rejects(database.facets(facets), {
      reason: 'invalid_argument',
      message: /too many different values of about the same frequency/,
    })
    const counted = await database.facets({ ...facets, paths: ['size'] })
    assert.equal(counted.get('size')?.length, 3)
  })

  it('changes by filter the points that were inserted first, wherever they are', async () => {
    await using all = await filled({ nodes: 3, replicas: 1 }, 5)
    const { database } = all.nodes[0]!.up.node
    const one = all.whole.up.node.database
    const filter = below('price', 50)
    const before = (await pages(one, 1000, filter))[0]!.points.map(({ id }) => id)
    const dry = await database.changeByFilter({ filter, change: 'delete', dryRun: true, limit: 30 })
    assert.deepEqual(dry, { changed: 30, more: true })
    const done = await database.changeByFilter({ filter, change: 'delete', dryRun: false, limit: 30 })
    assert.deepEqual(done, { changed: 30, more: true })
    await all.settled()
    const after = (await pages(one, 1000, filter))[0]!.points.map(({ id }) => id)
    assert.deepEqual(after, before.slice(30))
  })

  it('asks another owner when a node fails, and fails if there is none', async () => {
    await using all = await filled({ nodes: 3, replicas: 2 }, 6)
    const [a, b] = all.nodes
    const expected = (await all.whole.up.node.database.search([query])).ids.strings()
    const { database } = a!.up.node
    // Its link is closed, but it is still considered available.
    all.links.get('node-1')!.close()
    for (let round = 0; round < 5; round += 1) {
      assert.deepEqual((await database.search([query])).ids.strings(), expected)
    }
    await b!.up.stop()
    assert.deepEqual((await database.search([query])).ids.strings(), expected)
    all.links.get('node-2')!.close()
    await assert.rejects(
      database.search([query]),
      (error) => error instanceof DatabaseError && error.reason === 'not_ready',
    )
  })

  it('asks another owner, too, when a node does not answer within 100 ms', async () => {
    await using all = await filled({ nodes: 3, replicas: 2 }, 7)
    const { node } = all.nodes[0]!.up
    const expected = await all.whole.up.node.database.count()
    let held = 0
    all.before.set('node-1', async () => {
      held += 1
      await new Promise(() => {})
    })
    // Nodes are asked in turn.
    for (let round = 0; held === 0; round += 1) {
      assert.ok(round < 100)
      assert.equal(await node.database.count(), expected)
    }
    assert.ok(node.hedges > 0)
  })

  it('is as recent as its caller asks, whichever node answers', async () => {
    await using all = await filled({ nodes: 3, replicas: 1 }, 8)
    const random = seededRandom(10)
    for (let round = 0; round < 30; round += 1) {
      const [writer, reader] = [all.nodes[round % 3]!.up.node, all.nodes[(round + 1) % 3]!.up.node]
      const [point] = points(random, 1)
      await writer.database.insert([point!])
      const position = await reader.admit({ position: writer.answeredPosition })
      const database = reader.database.asOf(position)
      assert.equal((await database.get(point!.id!))?.id, point!.id)
      await all.whole.up.node.admit({ consistency: 'latest' })
      const latest = reader.database.asOf(await reader.admit({ consistency: 'latest' }))
      assert.equal(await latest.count(), await all.whole.up.node.database.count())
      assert.ok(reader.answeredPosition >= position)
    }
  })
})

describe('a record that takes effect before an earlier one of another collection', () => {
  it('is included in the position of answers, and a search returns its point once', async () => {
    // The record of an audit would wait for the earlier record, and the later one for the audit.
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 2, dimension, auditMs: 3_600_000 })
    const [reader, ahead] = [all.nodes[0]!, all.nodes[1]!]
    await reader.up.node.collections.put('docs', { dimension, hnsw: {} })
    await all.settled()
    const random = seededRandom(11)
    const id = points(random, 100)
      .map((each) => each.id!)
      .find((each) => [reader, ahead].every(({ up }) => up.node.held.has(partitionOf(each))))!
    const payload = { contentType: 'Text', content: 'a moved point' } as const
    using docs = await reader.up.node.collections.lease('docs')
    await docs.database.put(id, { vector: Float32Array.of(-9, -9, -9, -9), payload })
    await all.settled()
    using own = await reader.up.set.lease('docs')
    using there = await ahead.up.set.lease('docs')
    const writing: Promise<unknown>[] = []
    const write = (each: Promise<unknown>): void => {
      // If the test fails before it awaits them, these would be reported instead.
      each.catch(() => {})
      writing.push(each)
    }
    {
      // The earlier record waits on both nodes, the later one only where it is read.
      using waiting = new WaitingRecords([ahead.up.main, reader.up.main, own.database])
      write(reader.up.node.database.insert(points(random, 20)))
      await waiting.has(ahead.up.main)
      write(docs.database.put(id, { vector: query.vector, payload }))
      await until(async () => (await there.database.get(id))?.vector[0] === query.vector[0])
      await waiting.has(own.database)
      const position = ahead.up.node.answeredPosition
      assert.ok(position > ahead.up.node.position)

      // Other nodes are asked in turn. The one that is ahead has the newer vector.
      await until(async () => {
        const { ids, distances } = await docs.database.search([query])
        assert.deepEqual(ids.strings(), [[id]])
        return distances[0] === 0
      })
      assert.ok(reader.up.node.answeredPosition >= position)
    }
    await Promise.all(writing)
    await all.settled()
    assert.equal(ahead.up.node.answeredPosition, ahead.up.node.position)
  })
})

const query = {
  vector: Float32Array.of(1, 2, 3, 4),
  metric: 'Euclidean',
  limit: 20,
  ef: 20,
  exact: true,
} as const
