import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type SlowRequest, SlowRequests } from '../src/api/slow-requests.ts'
import { DateTime, GeoPoint } from '../src/base/attributes.ts'
import type { Filter } from '../src/base/filter.ts'
import { filterText } from '../src/base/filter-text.ts'
import { idToBytes } from '../src/base/ids.ts'
import { createGrpcClient, createHttpClient } from '../src/client/index.ts'
import { describedSettings, readConfig, settingSources } from '../src/config.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** What an operator can inspect: slow requests, the state of an index, the settings in force. */

async function json<Answer>({ httpUrl }: Pick<TestService, 'httpUrl'>, path: string): Promise<Answer> {
  const response = await fetch(httpUrl + path)
  assert.equal(response.status, 200, path)
  assert.equal(response.headers.get('content-type'), 'application/json; charset=utf-8')
  return (await response.json()) as Answer
}

interface SlowAnswer {
  readonly threshold_ms: number
  readonly queries: readonly (Readonly<Record<string, unknown>> & { readonly took_ms: number })[]
}

describe('slow requests', () => {
  const request = { collection: 'a', operation: 'SearchPoints', transport: 'http', outcome: 'ok' } as const

  it('are the slowest of the last hour, a bounded number for each collection', () => {
    let nowMs = 0
    const slow = new SlowRequests({ slowQueryMs: 10, slowQueriesKept: 2, nowMs: () => nowMs })
    const kept = (collection?: string): number[] => slow.list(collection).map(({ tookMs }) => tookMs)
    assert.deepEqual([slow.isSlow(9.9), slow.isSlow(10)], [false, true])
    for (const tookMs of [20, 40, 30]) slow.add({ ...request, tookMs })
    slow.add({ ...request, collection: 'b', tookMs: 35 })
    assert.deepEqual([kept('a'), kept('b'), kept()], [[40, 30], [35], [40, 35, 30]])
    nowMs = 3_600_001
    slow.add({ ...request, tookMs: 11 })
    assert.deepEqual([kept('a'), kept('b')], [[11], []], 'older requests are evicted')
  })

  it('are kept for a bounded number of collections, and not at all with a limit of 0 per collection', () => {
    const slow = new SlowRequests({ slowQueryMs: 0, slowQueriesKept: 5 })
    for (let index = 0; index < 100; index += 1)
      slow.add({ ...request, collection: `c-${index}`, tookMs: index })
    const names = slow.list().map(({ collection }: SlowRequest) => collection)
    assert.deepEqual(
      names,
      Array.from({ length: 64 }, (_, index) => `c-${99 - index}`),
    )
    assert.equal(new SlowRequests({ slowQueryMs: 0, slowQueriesKept: 0 }).isSlow(1e6), false)
  })

  it('are listed with their parameters, by collection, without vectors', async () => {
    await using service = await startTestService({ slowQueryMs: 0 })
    const http = createHttpClient({ baseUrl: service.httpUrl, retries: 0 })
    const grpc = createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 })
    await http.collections.put('real', {})
    await http.collections.setAliases({ set: { alias: 'real' } })
    // Part of no duration in milliseconds, and exact in float32.
    const secret = 7_654_321
    const payload = { contentType: 'Text', content: 'a secret', attributes: { kind: 'noun' } } as const
    await http.insertBatch([{ vector: [secret, 1], payload }])
    const query = { vector: [secret, 2], metric: 'Euclidean', limit: 3, ef: 64 } as const
    await http.search({ ...query, filter: { kind: 'noun' } })
    await grpc.searchBatch([query, query])
    await http.collection('alias').count({ n: { $gt: 3 } })
    await assert.rejects(http.collection('alias').list({ limit: 100_000 }))
    const { threshold_ms, queries } = await json<SlowAnswer>(service, '/slow-queries')
    assert.equal(threshold_ms, 0)
    const took = queries.map(({ took_ms }) => took_ms)
    assert.deepEqual(
      took,
      took.toSorted((a, b) => b - a),
    )
    const facts = new Map(
      queries.map(({ time, took_ms, reason, ...rest }) => {
        assert.match(String(time), /^\d{4}-.*Z$/)
        assert.equal(typeof reason, rest.plan === undefined ? 'undefined' : 'string')
        return [rest.operation, rest]
      }),
    )
    const search = { operation: 'SearchPoints', transport: 'http', outcome: 'ok' }
    const asked = { limit: 3, ef: 64, similarity: 'Euclidean' }
    assert.deepEqual(facts.get('SearchPoints'), {
      ...search,
      collection: 'default',
      ...asked,
      filter: '{"kind":"noun"}',
      hits: 1,
      plan: 'scan of matching points',
    })
    assert.deepEqual(facts.get('SearchPointsBatch'), {
      ...search,
      operation: 'SearchPointsBatch',
      transport: 'grpc',
      collection: 'default',
      ...asked,
      queries: 2,
      hits: 2,
      plan: 'scan of all points',
    })
    const shared = { transport: 'http', collection: 'real' }
    const count = { ...shared, operation: 'CountPoints', outcome: 'ok', filter: '{"n":{"$gt":3}}' }
    assert.deepEqual(facts.get('CountPoints'), count)
    const list = { ...shared, operation: 'ListPoints', outcome: 'invalid_argument', limit: 100_000 }
    assert.deepEqual(facts.get('ListPoints'), list)
    assert.ok(!facts.has('InsertVectorsBatch'), 'an insert is not a query')
    const text = JSON.stringify(queries)
    for (const hidden of [String(secret), 'a secret']) assert.ok(!text.includes(hidden), hidden)
    const typed = await http.collection('alias').slowQueries()
    assert.equal(typed.thresholdMs, 0)
    assert.ok(typed.queries.every(({ time, tookMs }) => time.getTime() <= Date.now() && tookMs >= 0))
    const all = await http.slowQueries()
    assert.deepEqual(all.queries.find(({ operation }) => operation === 'SearchPoints')?.metric, 'Euclidean')
    const ofAlias = await json<SlowAnswer>(service, '/collections/alias/slow-queries')
    assert.deepEqual(ofAlias.queries.map(({ operation }) => operation).sort(), ['CountPoints', 'ListPoints'])
    assert.equal((await fetch(`${service.httpUrl}/collections/missing/slow-queries`)).status, 404)
    await grpc.close()
  })
})

describe('a filter as text', () => {
  const condition = (path: string, test: (Filter & { kind: 'condition' })['test']): Filter => ({
    kind: 'condition',
    path,
    test,
  })

  it('is written as in JSON', () => {
    const id = 'd9f7e2a0-3a5b-4e6f-9d3c-1c2b3a495867'
    const place = new GeoPoint(1, 2)
    const texts: readonly (readonly [Filter, string])[] = [
      [{ kind: 'all', of: [] }, '{}'],
      [{ kind: 'any', of: [] }, '{"$or":[]}'],
      [{ kind: 'not', of: { kind: 'ids', ids: idToBytes(id) } }, `{"$not":{"$id":{"$in":["${id}"]}}}`],
      [condition('a.b', { op: 'in', values: ['x'] }), '{"a.b":"x"}'],
      [condition('a', { op: 'in', values: [1, true] }), '{"a":{"$in":[1,true]}}'],
      [condition('a', { op: 'contains', values: ['x', 'y'] }), '{"a":{"$all":["x","y"]}}'],
      [condition('a', { op: 'range', bounds: { gte: 1, lt: 2 } }), '{"a":{"$gte":1,"$lt":2}}'],
      [
        condition('a', { op: 'range', bounds: { gt: new DateTime(0) } }),
        '{"a":{"$gt":{"$date":"1970-01-01T00:00:00Z"}}}',
      ],
      [condition('a', { op: 'exists' }), '{"a":{"$exists":true}}'],
      [condition('a', { op: 'prefix', text: '"' }), '{"a":{"$prefix":"\\""}}'],
      [
        condition('a', { op: 'near', center: place, radiusM: 5 }),
        '{"a":{"$near":{"lat":1,"lon":2,"radius_m":5}}}',
      ],
      [
        condition('a', { op: 'box', southWest: place, northEast: place }),
        '{"a":{"$box":{"south_west":{"lat":1,"lon":2},"north_east":{"lat":1,"lon":2}}}}',
      ],
    ]
    for (const [filter, text] of texts) assert.equal(filterText(filter, 1000), text)
    const both = { kind: 'all', of: texts.slice(3, 5).map(([filter]) => filter) } as const
    assert.equal(filterText(both, 1000), '{"$and":[{"a.b":"x"},{"a":{"$in":[1,true]}}]}')
  })

  it('is truncated, and costs no more than the part shown', () => {
    const values = Array.from({ length: 1_000_000 }, (_, index) => index)
    const text = filterText(condition('a', { op: 'in', values }), 30)
    assert.equal(text, '{"a":{"$in":[0,1,2,3,4,5,6,7,8…')
    assert.equal(filterText(condition('a', { op: 'prefix', text: 'x'.repeat(1e6) }), 30).length, 31)
  })
})

describe('the state of a collection', () => {
  it('has its points, the linked points, and the search method of each metric', async () => {
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl, retries: 0 })
    await client.collections.put('named', { dimension: 2 })
    await client.collections.setAliases({ set: { alias: 'named' } })
    const payload = { contentType: 'Text', content: 'x' } as const
    await client.collection('named').insertBatch([1, 2, 3].map((x) => ({ vector: [x, 1], payload })))
    interface Stats extends Readonly<Record<string, unknown>> {
      readonly graphs: readonly unknown[]
      readonly searches: readonly Readonly<Record<string, unknown>>[]
      readonly memory_bytes: Readonly<Record<string, number>>
    }
    const { graphs, searches, memory_bytes, ...figures } = await json<Stats>(
      service,
      '/collections/alias/stats',
    )
    assert.deepEqual(figures, {
      collection: 'named',
      points: 3,
      dimension: 2,
      segments: 1,
      sequence: 3,
      linked: 3 - Number(figures.waiting),
      waiting: figures.waiting,
      tombstones: 0,
      settling: figures.settling,
    })
    assert.deepEqual(graphs, [
      { similarity: 'Euclidean', distance_source: null },
      { similarity: 'Cosine', distance_source: null },
    ])
    assert.deepEqual(
      searches.map(({ similarity, plan, ef_multiplier, recall }) => [
        similarity,
        plan,
        ef_multiplier,
        recall,
      ]),
      ['Euclidean', 'Manhattan', 'Hamming', 'Cosine'].map((metric) => [metric, 'scan', null, 1]),
    )
    assert.deepEqual((searches[0]!.filtered as readonly object[])[0], { matching_share: '0-0.1', recall: 1 })
    assert.deepEqual(Object.keys(memory_bytes), ['index', 'ids', 'attributes'])
    const typed = await client.collection('alias').stats()
    assert.deepEqual(
      [typed.collection, typed.linked, typed.isSettling],
      ['named', figures.linked, figures.settling],
    )
    assert.deepEqual(typed.graphs[0], { metric: 'Euclidean', distanceSource: undefined })
    assert.deepEqual(
      [typed.searches[0]!.efMultiplier, typed.searches[0]!.filtered[0]],
      [undefined, { matchingShare: '0-0.1', recall: 1 }],
    )
    const empty = await json<Stats>(service, '/stats')
    assert.deepEqual([empty.collection, empty.points, empty.dimension], ['default', 0, null])
    assert.equal((await fetch(`${service.httpUrl}/collections/missing/stats`)).status, 404)
    const head = await fetch(`${service.httpUrl}/stats`, { method: 'HEAD' })
    assert.deepEqual([head.status, await head.text()], [200, ''])
    const posted = await fetch(`${service.httpUrl}/stats`, { method: 'POST' })
    assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD'])
  })
})

interface SettingAnswer {
  readonly settings: readonly {
    readonly name: string
    readonly value: unknown
    readonly source: string | null
    readonly secret: boolean
  }[]
}

describe('the settings in force', () => {
  it('show their sources and no secrets', () => {
    const environment = {
      HNSW_EF: '200',
      GRPC_ROOT_PASSWORD: 'hunter2',
      HTTP_PORT: '',
      CORS_ORIGINS: 'http://a,http://b',
    }
    const flags = { hnswEf: '300', maxLimit: '5' }
    const shown = describedSettings(readConfig(environment, flags), settingSources(environment, flags))
    const of = (name: string): readonly unknown[] => {
      const { value, source } = shown.find((each) => each.name === name)!
      return [value, source]
    }
    assert.deepEqual(of('HNSW_EF'), [300, 'flag'])
    assert.deepEqual(of('MAX_LIMIT'), [5, 'flag'])
    assert.deepEqual(of('HTTP_PORT'), [3000, 'default'])
    assert.deepEqual(of('GRPC_ROOT_PASSWORD'), ['********', 'environment'])
    assert.deepEqual(of('HTTP_API_KEY'), [null, 'default'])
    assert.deepEqual(of('CORS_ORIGINS'), ['http://a, http://b', 'environment'])
    assert.ok(!JSON.stringify(shown).includes('hunter2'))
    const unknown = describedSettings(readConfig(environment, flags))
    assert.equal(unknown.find(({ name }) => name === 'HNSW_EF')!.source, undefined)
    assert.equal(unknown.find(({ name }) => name === 'HTTP_PORT')!.source, 'default')
  })

  it('are served by a process as started, to callers with a key', async () => {
    await using service = await startTestService({ HTTP_API_KEY: 'a-key-for-http' })
    for (const path of ['/settings', '/stats', '/slow-queries']) {
      assert.equal((await fetch(service.httpUrl + path)).status, 401, path)
    }
    const answer = await fetch(`${service.httpUrl}/settings`, {
      headers: { authorization: 'a-key-for-http' },
    })
    const text = await answer.text()
    assert.ok(!text.includes('a-key-for-http') && !text.includes(apiKey))
    const { settings } = JSON.parse(text) as SettingAnswer
    const key = settings.find(({ name }) => name === 'HTTP_API_KEY')!
    assert.deepEqual([key.value, key.secret], ['********', true])
    const client = createHttpClient({ baseUrl: service.httpUrl, apiKey: 'a-key-for-http' })
    const [first] = await client.settings()
    assert.deepEqual([first!.name, first!.isSecret, first!.source], ['DATA_DIR', false, undefined])
  })
})
