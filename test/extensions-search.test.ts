import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, it } from 'node:test'
import { distanceMetrics } from '../src/base/point.ts'
import type { PointToInsert } from '../src/client/index.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { describeBoth, suitesRunOverHttp2 } from './support/both-transports.ts'
import { sendJson } from './support/json-http.ts'
import { randomVector, seededRandom } from './support/random.ts'

/** Searches with filters, details and distances, end to end, against a plain evaluation. */

const dimension = 8
const count = 300
const seed = 20

describeBoth('extended searches', (transport) => {
  const random = seededRandom(seed)
  const points = Array.from({ length: count }, (_, index): PointToInsert & { readonly id: string } => ({
    id: randomUUID(),
    vector: randomVector(random, dimension, 'small integers'),
    payload: {
      contentType: index % 2 === 0 ? 'Text' : 'Image',
      content: `content ${index}`,
      ...(index % 5 === 0
        ? {}
        : { attributes: { n: index, group: `g${index % 3}`, inner: { twice: 2 * index } } }),
    },
  }))
  const vector = randomVector(random, dimension, 'small integers')

  before(async () => {
    // While the collection is still empty.
    const include = { distance: true, payload: true, vector: true, version: true }
    const query = { vector, metric: 'Cosine', limit: 3, include, profile: true } as const
    assert.deepEqual((await transport.client.searchHits(query)).hits, [])
    // Of several partitions: a cluster stores all or none of these only where none can be refused.
    const stored = points.map((point) => ({ ...point, onConflict: 'replace' as const }))
    assert.equal((await transport.client.insertBatch(stored)).length, count)
  })

  /** The nearest matching points, ties by insertion. */
  function nearest(
    metric: (typeof distanceMetrics)[number],
    limit: number,
    matches: (n: number | undefined, index: number) => boolean,
  ): { readonly id: string; readonly distance: number }[] {
    return points
      .map(({ id, vector: own }, index) => ({
        id,
        index,
        distance: scalarDistance(metric, vector, own as Float32Array),
      }))
      .filter(({ index }) => matches(index % 5 === 0 ? undefined : index, index))
      .sort((a, b) => a.distance - b.distance || a.index - b.index)
      .slice(0, limit)
      .map(({ id, distance }) => ({ id, distance: metric === 'Euclidean' ? Math.sqrt(distance) : distance }))
  }

  it(`find the nearest matching points and their distances, by each metric, seed ${seed}`, async () => {
    for (const metric of distanceMetrics) {
      const query = { vector, metric, limit: 20, filter: { n: { $lt: 100 } } } as const
      const expected = nearest(metric, 20, (n) => n !== undefined && n < 100)
      assert.deepEqual(
        await transport.client.search(query),
        expected.map(({ id }) => id),
      )
      const { hits } = await transport.client.searchHits({ ...query, include: { distance: true } })
      assert.deepEqual(
        hits.map(({ id }) => id),
        expected.map(({ id }) => id),
      )
      for (const [rank, { distance }] of hits.entries()) {
        const right = expected[rank]!.distance
        assert.ok(
          Math.abs(distance! - right) <= 1e-12 * Math.max(1, right),
          `${metric}: ${distance}, not ${right}`,
        )
      }
    }
  })

  it('have exact complements, and return as many results as match', async () => {
    const { client } = transport
    const all = { vector, metric: 'Manhattan', limit: count } as const
    const matching = await client.search({ ...all, filter: { group: 'g1' } })
    const others = await client.search({ ...all, filter: { group: { $ne: 'g1' } } })
    assert.equal(matching.length, points.filter((_, index) => index % 5 !== 0 && index % 3 === 1).length)
    assert.deepEqual(new Set([...matching, ...others]).size, count)
    assert.equal(matching.length + others.length, count)
    assert.deepEqual(await client.search({ ...all, filter: { group: { $in: [] } } }), [])
    assert.equal((await client.search({ ...all, filter: {} })).length, count)
    assert.equal((await client.search({ ...all, filter: { $content_type: 'Image' } })).length, count / 2)
    const some = points.slice(7, 10).map(({ id }) => id)
    const byId = await client.search({ ...all, filter: { $id: { $in: some } } })
    assert.deepEqual([...byId].sort(), [...some].sort())
  })

  it('return only the requested parts of each hit', async () => {
    const { client } = transport
    const query = { vector, metric: 'Euclidean', limit: 3, filter: { n: { $exists: true } } } as const
    const ids = await client.search(query)
    const index = points.findIndex(({ id }) => id === ids[0])
    const point = points[index]!
    const hit = async (include: object): Promise<unknown> =>
      (await client.searchHits({ ...query, include })).hits[0]
    assert.deepEqual(await hit({}), { id: point.id })
    assert.deepEqual(await hit({ payload: true }), { id: point.id, payload: point.payload })
    assert.deepEqual(await hit({ vector: true }), { id: point.id, vector: point.vector })
    const { version } = await client.get(point.id, { version: true })
    assert.deepEqual(await hit({ version: true }), { id: point.id, version })
    const selected = (await hit({ attributes: ['inner.twice', 'group', 'none'] })) as {
      readonly payload: { readonly attributes: object }
    }
    assert.deepEqual(selected.payload.attributes, { group: `g${index % 3}`, inner: { twice: 2 * index } })
    assert.deepEqual(await hit({ payload: true, attributes: ['n'] }), {
      id: point.id,
      payload: { ...point.payload, attributes: { n: index } },
    })
  })

  it('respect a maximum distance, and can be exact', async () => {
    const { client } = transport
    const expected = nearest('Euclidean', count, () => true)
    const maxDistance = expected[30]!.distance
    const within = expected.filter(({ distance }) => distance <= maxDistance)
    for (const exact of [true, false]) {
      const found = await client.search({ vector, metric: 'Euclidean', limit: count, maxDistance, exact })
      assert.deepEqual(
        found,
        within.map(({ id }) => id),
      )
    }
    const none = { vector: new Float32Array(dimension).fill(1e6), metric: 'Euclidean', limit: 5 } as const
    assert.deepEqual(await client.search({ ...none, maxDistance: 0 }), [])
    await assert.rejects(client.search({ ...none, maxDistance: -1 }), {
      reason: 'invalid_argument',
      message: 'max_distance is -1, it must be a finite number, 0 or greater',
    })
  })

  it('find the neighbours of a stored point, without the point itself', async () => {
    const { client } = transport
    const { id, vector: own } = points[11]!
    const near = await client.search({ id, metric: 'Euclidean', limit: 10 })
    const nearVector = await client.search({ vector: own, metric: 'Euclidean', limit: 11 })
    assert.deepEqual(
      near,
      nearVector.filter((each) => each !== id),
    )
    await assert.rejects(client.search({ id: randomUUID(), metric: 'Cosine', limit: 1 }), {
      reason: 'not_found',
    })
    await assert.rejects(client.search({ id, vector: own, metric: 'Cosine', limit: 1 }), {
      reason: 'invalid_argument',
      message: /are both given: a query has one of them$/,
    })
    await assert.rejects(client.search({ metric: 'Cosine', limit: 1 }), {
      reason: 'invalid_argument',
      message: /^(query_)?vector is missing$/,
    })
  })

  it('find nothing in an empty collection', async () => {
    const { client } = transport
    const name = `empty-${randomUUID()}`
    await client.collections.put(name)
    const include = { distance: true, payload: true, vector: true, version: true }
    const query = {
      vector,
      metric: 'Cosine',
      limit: 5,
      filter: { group: 'g1' },
      include,
      profile: true,
    } as const
    const { hits, profile } = await client.collection(name).searchHits(query)
    assert.deepEqual(hits, [])
    assert.equal(profile!.points, 0)
    await client.collections.delete(name)
  })

  it('report how they were answered', async () => {
    const query = { vector, metric: 'Cosine', limit: 5, filter: { group: 'g1' } } as const
    const { profile } = await transport.client.searchHits({ ...query, include: {}, profile: true })
    const matching = await transport.client.count({ group: 'g1' })
    assert.equal(profile!.points, count)
    assert.equal(profile!.matching, matching)
    assert.ok(profile!.reason.length > 0)
    assert.ok(profile!.measured >= 5 && profile!.ef > 0)
  })

  it('are answered the same in a batch', async () => {
    const { client } = transport
    const queries = [
      { vector, metric: 'Cosine', limit: 5, include: { distance: true, payload: true } },
      { id: points[3]!.id, metric: 'Hamming', limit: 4, filter: { group: 'g2' }, include: { version: true } },
      { vector, metric: 'Manhattan', limit: 3, exact: true, include: { attributes: ['n'] } },
    ] as const
    const singly = await Promise.all(queries.map((query) => client.searchHits(query)))
    assert.deepEqual(await client.searchHitsBatch(queries), singly)
    await assert.rejects(client.searchHitsBatch([queries[0], { ...queries[1], filter: { 'a..b': 1 } }]), {
      reason: 'invalid_argument',
      message: /^queries\[1\]\.filter/,
    })
  })

  const withoutTls = { skip: suitesRunOverHttp2 && 'asks without TLS' }
  it('do not change answers to requests without extended fields', withoutTls, async () => {
    const url = `${transport.service.httpUrl}/points/search`
    const plain = { vector: [...vector], similarity: 'Cosine', limit: 2 }
    const { body } = await sendJson(url, 'POST', plain)
    assert.deepEqual(Object.keys(body as object), ['results'])
    const { body: all } = await sendJson(`${url}/batch`, 'POST', {
      queries: [plain, { ...plain, include: { distance: true } }, { ...plain, profile: true }],
    })
    const { results, hits, profile } = all as { results: string[][]; hits: object[][]; profile: object[] }
    assert.deepEqual(Object.keys(all as object), ['results', 'hits', 'profile'])
    for (const list of results) assert.deepEqual(list, (body as { results: string[] }).results)
    assert.deepEqual(
      hits.map((list) => list.length),
      [0, 2, 0],
    )
    assert.deepEqual(
      profile.map((each) => each === null),
      [true, true, false],
    )
  })
})
