import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { distanceMetrics, type Metric } from '../src/base/point.ts'
import { createHttpClient } from '../src/client/index.ts'
import type { Collection } from '../src/collections/collection.ts'
import { readConfig } from '../src/config.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import type { MapQuery, MapRow, PointMap } from '../src/points/database.ts'
import { clusteredVectors } from './support/clusters.ts'
import { type CollectionSettings, withCollection } from './support/collection.ts'
import { temporaryDirectory } from './support/process.ts'
import { seededRandom } from './support/random.ts'
import { startTestService, type TestService } from './support/service.ts'

const seed = 20_261_123
const dimension = 16
const k = 10

interface HeldPoint {
  readonly id: string
  readonly vector: Float32Array
}

/** A collection with known points, half of them with the parity "even". */
async function withPoints(
  count: number,
  seams: Partial<CollectionSettings>,
  work: (collection: Collection, points: ReadonlyMap<string, HeldPoint>) => Promise<void>,
): Promise<void> {
  await using directory = await temporaryDirectory()
  const config = { ...readConfig({ SEARCH_THREADS: '2', INDEX_THREADS: '2' }), ...seams }
  await withCollection(directory.path, config, async (collection) => {
    const vectors = clusteredVectors(seededRandom(seed), count, dimension)
    const points = vectors.map((vector) => ({ id: randomUUID() as string, vector }))
    await collection.insert(
      points.map(({ id, vector }, index) => ({
        id,
        vector,
        payload: {
          contentType: 'Text',
          content: `content ${index}`,
          attributes: new Map([['parity', index % 2 === 0 ? 'even' : 'odd']]),
        },
      })),
    )
    await work(collection, new Map(points.map((point) => [point.id, point])))
  })
}

function queryOf(changes: Partial<MapQuery>): MapQuery {
  return { metric: 'Cosine', limit: 100_000, seed: 1, k, ef: 128, ...changes }
}

async function rowsOf(map: PointMap): Promise<MapRow[]> {
  const rows: MapRow[] = []
  for await (const some of map.rows()) rows.push(...some)
  map.close()
  return rows
}

/** The distance in the units of the metric. */
function distanceOf(metric: Metric, one: Float32Array, other: Float32Array): number {
  const distance = scalarDistance(metric, one, other)
  return metric === 'Euclidean' ? Math.sqrt(distance) : distance
}

/** The recall of the rows: the share of true neighbours that they list. Also checks the distances. */
function recallOf(
  rows: readonly MapRow[],
  points: ReadonlyMap<string, HeldPoint>,
  metric: Metric,
  step = 1,
): number {
  const vectors = rows.map(({ id }) => points.get(id)!.vector)
  let found = 0
  let wanted = 0
  for (let number = 0; number < rows.length; number += step) {
    const { neighbours, distances } = rows[number]!
    const all = vectors.map((vector) => distanceOf(metric, vectors[number]!, vector))
    const others = [...all.keys()].filter((each) => each !== number).sort((a, b) => all[a]! - all[b]!)
    const expected = others.slice(0, k)
    assert.equal(neighbours.length, expected.length)
    assert.ok(!neighbours.includes(number), 'a point is its own neighbour')
    for (const [rank, other] of neighbours.entries()) {
      assert.ok(Math.abs(distances[rank]! - all[other]!) <= 1e-4 * Math.max(1, all[other]!), 'its distance')
      assert.ok(rank === 0 || distances[rank]! >= distances[rank - 1]!, 'closest first')
    }
    // Points at the distance of the last neighbour count as found.
    const last = all[expected.at(-1)!]! * (1 + 1e-6) + 1e-9
    found += neighbours.filter((other) => all[other]! <= last).length
    wanted += expected.length
  }
  return found / wanted
}

describe(`the points of a map, seed ${seed}`, () => {
  it('have their nearest neighbours in the sample, exact if searches are exact', async () => {
    await withPoints(600, {}, async (collection, points) => {
      for (const metric of distanceMetrics) {
        for (const limit of [100_000, 200]) {
          const map = await collection.map(queryOf({ metric, limit }))
          assert.deepEqual([map.points, map.sampled], [600, Math.min(600, limit)])
          assert.equal(recallOf(await rowsOf(map), points, metric), 1, `${metric} ${limit}`)
        }
      }
    })
  })

  it('have neighbours with a recall of at least 0.9 through the graph, whatever the sample size', async () => {
    const count = 6000
    await withPoints(count, { graphBytesMin: 0 }, async (collection, points) => {
      // A generous limit, because the machine may be busy.
      const deadline = Date.now() + 300_000
      while (collection.stats.isSettling || collection.stats.plans.Cosine.route === undefined) {
        assert.ok(Date.now() < deadline, 'the graph was not built and measured in time')
        await sleep(10)
      }
      for (const limit of [count, 3000, 600, 60]) {
        const map = await collection.map(queryOf({ limit }))
        assert.equal(map.sampled, limit)
        const recall = recallOf(await rowsOf(map), points, 'Cosine', Math.ceil(limit / 300))
        assert.ok(recall >= 0.9, `recall ${recall} of ${limit} points`)
      }
    })
  })

  it('are a random sample by seed, which stays nearly the same when points are added and removed', async () => {
    await withPoints(2000, {}, async (collection, points) => {
      const idsFor = async (changes: Partial<MapQuery>): Promise<Set<string>> =>
        new Set(
          (await rowsOf(await collection.map(queryOf({ limit: 500, k: 1, ...changes })))).map(({ id }) => id),
        )
      const first = await idsFor({ seed: 1 })
      assert.equal(first.size, 500)
      assert.deepEqual(await idsFor({ seed: 1 }), first)
      const shared = [...(await idsFor({ seed: 2 }))].filter((id) => first.has(id)).length
      assert.ok(shared > 80 && shared < 170, `${shared} of 500 points are in both samples`)
      const early = new Set([...points.keys()].slice(0, 1000))
      const ofFirstHalf = [...first].filter((id) => early.has(id)).length
      assert.ok(ofFirstHalf > 180 && ofFirstHalf < 320, `${ofFirstHalf} of 500 are of the first half`)
      for (const id of [...first].slice(0, 10)) await collection.remove(id)
      const later = await idsFor({ seed: 1 })
      assert.equal([...first].filter((id) => later.has(id)).length, 490)
    })
  })

  it('match the filter and have the requested parts', async () => {
    await withPoints(600, {}, async (collection, points) => {
      const filter = { kind: 'condition', path: 'parity', test: { op: 'in', values: ['odd'] } } as const
      const include = { distance: false, payload: true, vector: false, version: false }
      const map = await collection.map(queryOf({ filter, include }))
      assert.deepEqual([map.points, map.sampled], [300, 300])
      const rows = await rowsOf(map)
      for (const { payload } of rows) assert.equal(payload!.attributes!.get('parity'), 'odd')
      assert.equal(recallOf(rows, points, 'Cosine'), 1)
      const none = await collection.map(
        queryOf({ filter: { ...filter, test: { op: 'in', values: ['neither'] } } }),
      )
      assert.deepEqual(await rowsOf(none), [])
    })
  })

  it('that are removed or changed during the map are no longer neighbours', async () => {
    await withPoints(600, {}, async (collection, points) => {
      const map = await collection.map(queryOf({}))
      const rows = map.rows()
      const first = (await rows.next()).value as readonly MapRow[]
      const ids = [...points.keys()]
      const [removed, moved] = [ids[590]!, ids[10]!]
      await collection.remove(removed)
      await collection.patch(moved, { vector: Float32Array.from({ length: dimension }, () => -7) })
      const rest: MapRow[] = []
      for await (const some of rows) rest.push(...some)
      map.close()
      const all = [...first, ...rest]
      assert.equal(all.length, 600)
      const gone = new Set([removed, moved].map((id) => all.findIndex((row) => row.id === id)))
      for (const { neighbours } of rest) assert.ok(!neighbours.some((number) => gone.has(number)))
      assert.deepEqual(all.find(({ id }) => id === removed)!.neighbours, [])
    })
  })

  it('wait for room in the search queue, behind other searches', async () => {
    await withPoints(600, { maxQueuedQueries: 300, inlineBytesMax: 0 }, async (collection, points) => {
      const map = await collection.map(queryOf({}))
      const vector = points.values().next().value!.vector
      const query = { vector, metric: 'Manhattan', limit: 1, ef: 1 } as const
      // These fill the queue before the first step of the map.
      const others = collection.search(Array.from({ length: 280 }, () => query))
      const rows = await rowsOf(map)
      assert.equal((await others).ids.total, 280)
      assert.equal(recallOf(rows, points, 'Cosine'), 1)
    })
  })

  it('are sampled for one map at a time, and searches stop when the caller disconnected', async () => {
    await withPoints(600, {}, async (collection) => {
      const map = await collection.map(queryOf({}))
      await assert.rejects(collection.map(queryOf({})), { reason: 'overloaded' })
      const leaving = new AbortController()
      const rows = map.rows({ signal: leaving.signal })
      await rows.next()
      leaving.abort()
      await assert.rejects(rows.next(), { reason: 'cancelled' })
      map.close()
      const next = await collection.map(queryOf({}))
      map.close()
      await assert.rejects(
        collection.map(queryOf({})),
        { reason: 'overloaded' },
        'closing the first map twice must not end the second',
      )
      next.close()
    })
  })
})

interface MapBody {
  readonly similarity: string
  readonly seed: number
  readonly k: number
  readonly matching: number
  readonly sampled: number
  readonly points: readonly {
    readonly id: string
    readonly neighbours: readonly number[]
    readonly distances: readonly number[]
    readonly content_type?: string
    readonly content?: string
    readonly attributes?: unknown
  }[]
}

async function fill(service: TestService, path: string, count: number): Promise<void> {
  const vectors = Array.from({ length: count }, (_, index) => ({
    vector: [index, 1],
    payload: { content_type: 'Text', content: `content 😀 ${index}`, attributes: { n: index, a: { b: 1 } } },
  }))
  const response = await fetch(`${service.httpUrl}${path}/points/batch`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ vectors }),
  })
  assert.equal(response.status, 201)
}

describe('GET /map', () => {
  it('returns points with neighbours, and labels and attributes on request', async () => {
    await using service = await startTestService()
    await fetch(`${service.httpUrl}/collections/named`, { method: 'PUT' })
    for (const path of ['', '/collections/named']) {
      await fill(service, path, 700)
      const plain = await fetch(`${service.httpUrl}${path}/map`)
      assert.equal(plain.headers.get('content-type'), 'application/json; charset=utf-8')
      const { points, ...rest } = (await plain.json()) as MapBody
      assert.deepEqual(rest, { similarity: 'Cosine', seed: 0, k: 15, matching: 700, sampled: 700 })
      assert.equal(points.length, 700)
      assert.deepEqual(Object.keys(points[0]!), ['id', 'neighbours', 'distances'])
      const wanted = '?similarity=Euclidean&k=2&content=10&attributes=n&attributes=a.b'
      const filter = encodeURIComponent('{"n":{"$lt":3}}')
      const small = (await (
        await fetch(`${service.httpUrl}${path}/map${wanted}&filter=${filter}`)
      ).json()) as MapBody
      assert.deepEqual(
        small.points.map(({ neighbours, distances, content, content_type, attributes }) => ({
          ...{ neighbours, distances, content, content_type, attributes },
        })),
        [
          [1, 2],
          [0, 2],
          [1, 0],
        ].map((neighbours, index) => ({
          neighbours,
          distances: neighbours.map((other) => Math.abs(other - index)),
          // Ten characters; the surrogate pair is not split.
          content: 'content 😀',
          content_type: 'Text',
          attributes: { n: index, a: { b: 1 } },
        })),
      )
    }
  })

  it('refuses values out of range, names ignored parameters, and returns 404 for a missing collection', async () => {
    await using service = await startTestService()
    const ask = (query: string): Promise<Response> => fetch(`${service.httpUrl}/map?${query}`)
    const faults: readonly (readonly [string, string])[] = [
      ['limit=0', 'limit is 0, it must be a whole number from 1 to 100000'],
      ['limit=100001', 'limit is 100001, it must be a whole number from 1 to 100000'],
      ['k=33', 'k is 33, it must be a whole number from 1 to 32'],
      ['seed=-1', 'seed is -1, it must be a whole number from 0 to 4294967295'],
      ['seed=x', 'seed is "x", it must be a number'],
      ['content=1001', 'content is 1001, it must be a whole number from 0 to 1000'],
      ['similarity=x', 'similarity is "x", it must be one of Euclidean, Manhattan, Hamming, Cosine'],
      ['k=1&k=2', 'k is given 2 times, it must be given once'],
      ['filter=%7B', 'the request body is not valid JSON'],
      [
        `filter=${encodeURIComponent('{"$x":1}')}`,
        'filter.$x is not known: names that begin with "$" here are $and, $or, $not, $id, $content_type, $expires_at, $version',
      ],
    ]
    for (const [query, message] of faults) {
      const response = await ask(query)
      assert.equal(response.status, 400, query)
      assert.ok((await response.text()).startsWith(message) || message.startsWith('the request'), query)
    }
    const misspelled = await ask('limitt=3')
    assert.equal(misspelled.headers.get('vicinal-ignored-fields'), 'limitt')
    const empty = (await misspelled.json()) as MapBody
    assert.deepEqual([empty.sampled, empty.points], [0, []])
    assert.equal((await fetch(`${service.httpUrl}/collections/missing/map`)).status, 404)
    const posted = await fetch(`${service.httpUrl}/map`, { method: 'POST' })
    assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET'])
  })

  it('builds one map of a collection at a time, and stops when the client disconnects', async () => {
    await using service = await startTestService()
    // More than the buffers between server and client hold.
    await fill(service, '', 20_000)
    const leaving = new AbortController()
    const first = await fetch(`${service.httpUrl}/map?k=32&limit=100000&content=1000`, {
      signal: leaving.signal,
    })
    assert.equal(first.status, 200)
    const second = await fetch(`${service.httpUrl}/map`)
    assert.equal(second.status, 429)
    assert.ok(second.headers.get('retry-after'))
    leaving.abort()
    const deadline = Date.now() + 120_000
    for (;;) {
      const next = await fetch(`${service.httpUrl}/map?limit=10`)
      await next.arrayBuffer()
      if (next.status === 200) break
      assert.equal(next.status, 429)
      assert.ok(Date.now() < deadline, 'the first map was not ended in time')
      await sleep(10)
    }
    const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
    assert.match(
      text,
      /vicinal_requests_total\{operation="MapPoints",transport="http",outcome="cancelled"\} 1/,
    )
  })

  it('is available in the client', async () => {
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl, retries: 0 }).collection('named')
    await client.collections.put('named')
    await fill(service, '/collections/named', 5)
    const query = { limit: 3, metric: 'Euclidean', k: 1, seed: 7, filter: { n: { $gte: 1 } } } as const
    const map = await client.map({ ...query, attributes: ['n'], content: 7 })
    const { points, ...rest } = map
    assert.deepEqual(rest, { metric: 'Euclidean', seed: 7, k: 1, matching: 4 })
    assert.equal(points.length, 3)
    for (const { neighbours, distances, contentType, content, attributes } of points) {
      const other = points[neighbours[0]!]!.attributes!.n as number
      assert.equal(distances[0], Math.abs((attributes!.n as number) - other))
      assert.deepEqual([contentType, content], ['Text', 'content'])
    }
    await assert.rejects(client.map({ k: 99 }), { reason: 'invalid_argument' })
  })
})
