import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { Meter, Meters } from '../src/base/quotas.ts'
import { createGrpcClient, createHttpClient, DatabaseError, type VectorClient } from '../src/client/index.ts'
import { limitsOfKey } from '../src/service/keys-file.ts'
import { lettersOf, startEmbeddingServer } from './support/embedding-server.ts'
import { figureIn } from './support/metrics.ts'
import { run } from './support/process.ts'
import {
  apiKey,
  startServedBy,
  startTestCluster,
  startTestService,
  type TestService,
} from './support/service.ts'
import { until } from './support/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'vicinal-quotas-'))
after(() => rmSync(folder, { recursive: true }))

/** A file of keys with these limits, by name. The key of each is its name. */
function keysFile(limits: Readonly<Record<string, object>>): string {
  const path = join(folder, Object.keys(limits).join('-'))
  const lines = Object.entries(limits).map(
    ([name, limit]) => `write ${name} ${name} ${JSON.stringify(limit)}\n`,
  )
  writeFileSync(path, lines.join(''), { mode: 0o600 })
  return path
}

/** One client for each transport. */
function clientsOf(
  { grpcAddress, httpUrl }: TestService,
  key: string,
): readonly [VectorClient, VectorClient] {
  return [
    createGrpcClient({ address: grpcAddress, apiKey: key, retries: 0 }),
    createHttpClient({ baseUrl: httpUrl, apiKey: key, retries: 0 }),
  ]
}

async function metricsOf({ httpUrl }: TestService, key: string): Promise<string> {
  return await (await fetch(`${httpUrl}/metrics`, { headers: { authorization: key } })).text()
}

const point = (content: string, tenant: string) =>
  ({ vector: [1, 2], payload: { contentType: 'Text', content, attributes: { tenant } } }) as const

describe('a meter', () => {
  const quotas = { requestsPerSecond: 3, searchesInFlight: 2 }

  it('lets in as many requests of a second as the quota has, over all threads', () => {
    const memory = Meter.memory(2)
    const threads = [0, 1].map((thread) => new Meter({ what: 'the key a', quotas, memory }, thread))
    const started = performance.now()
    let accepted = 0
    for (let at = 0; at < 1000; at += 1) {
      try {
        threads[at % 2]!.enter(false)
        accepted += 1
      } catch (error) {
        assert.ok(error instanceof DatabaseError)
        assert.deepEqual(
          [error.reason, error.message],
          ['overloaded', 'requests_per_second of the key a would be 4, the quota is 3: try again later'],
        )
      }
    }
    const seconds = (performance.now() - started) / 1000
    assert.ok(accepted >= 3 && accepted <= 3 + Math.ceil(3 * seconds), `${accepted} in ${seconds} s`)
    assert.equal(threads[0]!.refusals, 1000 - accepted)
  })

  it('counts searches of all threads, and forgets those of a thread that has ended', () => {
    const memory = Meter.memory(2)
    const free = { searchesInFlight: 2 }
    const threads = [0, 1].map((thread) => new Meter({ what: 'the key a', quotas: free, memory }, thread))
    const leave = threads[0]!.enter(true)
    threads[1]!.enter(true)
    assert.throws(() => threads[0]!.enter(true), /searches_in_flight of the key a would be 3, the quota is 2/)
    threads[0]!.enter(false)()
    leave()
    threads[0]!.enter(true)
    threads[0]!.drop(1)
    threads[0]!.enter(true)
    assert.equal(threads[0]!.searches, 2)
  })

  it('goes on counting when the quotas change, and is forgotten with its name', () => {
    const meters = new Meters('key', 1)
    meters.set('a', { searchesInFlight: 1 })!.enter(true)
    assert.throws(() => meters.set('a', { searchesInFlight: 1 })!.enter(true), DatabaseError)
    meters.set('a', { searchesInFlight: 2 })!.enter(true)
    assert.deepEqual(meters.refusals, [[{ kind: 'key', name: 'a' }, 1]])
    meters.retain(new Set())
    assert.equal(meters.get('a'), undefined)
  })
})

describe('the quotas of a key', () => {
  it('are read from its line, and refused if they are none', () => {
    const filter = '"filter":{"tenant":"a"}'
    const { quotas } = limitsOfKey(
      `{${filter},"quotas":{"points":5,"requests_per_second":7,"searches_in_flight":2}}`,
      'write',
    )
    assert.deepEqual(quotas, { points: 5, requestsPerSecond: 7, searchesInFlight: 2 })
    for (const [text, message] of [
      ['{"quotas":[]}', /has invalid quotas: they are an object/],
      [
        '{"quotas":{"bytes":1}}',
        /has a quota "bytes", it may have requests_per_second, searches_in_flight, points/,
      ],
      [
        '{"quotas":{"requests_per_second":0}}',
        /quotas\.requests_per_second: it is a whole number from 1 to 1000000/,
      ],
      ['{"quotas":{"searches_in_flight":1.5}}', /quotas\.searches_in_flight: it is a whole number/],
      ['{"quotas":{"points":5}}', /has quotas\.points without a filter/],
    ] as const) {
      assert.throws(() => limitsOfKey(text, 'write'), message)
    }
  })

  it('are set and shown by the command line', async () => {
    const file = join(folder, 'by-command')
    const create = ['keys', 'create', 'acme', '--file', file, '--filter', '{"tenant":"a"}']
    const limits = ['--requests-per-second', '9', '--searches-in-flight', '2', '--max-points', '100']
    const made = await run([...create, ...limits])
    assert.equal(made.code, 0, made.stderr)
    const { stdout } = await run(['keys', 'list', '--file', file])
    assert.match(stdout, /points 100 {2}requests_per_second 9 {2}searches_in_flight 2\n$/)
  })

  for (const threads of [0, 2]) {
    it(`bound its requests over both transports and ${threads} serving threads`, async () => {
      const name = `a-busy-key-on-${threads}-threads`
      const keys = keysFile({ [name]: { quotas: { requests_per_second: 5 } }, 'the-watching-key': {} })
      await using service = await startServedBy(threads, { API_KEYS_FILE: keys })
      const started = performance.now()
      const clients = Array.from({ length: 4 }, () => clientsOf(service, name)).flat()
      const asked = Array.from({ length: 48 }, (_, at) => clients[at % clients.length]!.count())
      const errors = (await Promise.allSettled(asked)).filter((each) => each.status === 'rejected')
      const seconds = (performance.now() - started) / 1000
      const accepted = asked.length - errors.length
      assert.ok(accepted >= 5 && accepted <= 5 + Math.ceil(5 * seconds), `${accepted} in ${seconds} s`)
      for (const { reason } of errors) {
        const { reason: why, message, retryAfterMs } = reason
        assert.equal(why, 'overloaded')
        assert.equal(
          message,
          `requests_per_second of the key ${name} would be 6, the quota is 5: try again later`,
        )
        assert.equal(retryAfterMs, 1000)
      }
      const metrics = await metricsOf(service, 'the-watching-key')
      assert.equal(figureIn(metrics, `vicinal_quota_refusals{kind="key",name="${name}"}`), errors.length)
      await Promise.all(clients.map((client) => client.close()))
    })
  }

  it('bound its searches in flight', async () => {
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>()
    await using endpoint = await startEmbeddingServer(async (request) => {
      await answered
      return lettersOf(request)
    })
    const keys = keysFile({ 'the-slow-searcher': { quotas: { searches_in_flight: 2 } } })
    const embeddings = { EMBEDDINGS_URL: endpoint.url, EMBEDDINGS_MODEL: 'letters' }
    await using service = await startTestService({ API_KEYS_FILE: keys, ...embeddings })
    const clients = clientsOf(service, 'the-slow-searcher')
    const query = (text: string) => ({ text, metric: 'Cosine', limit: 1 }) as const
    const slow = clients.map((client, at) => client.search(query(`text ${at}`)))
    await until(() => endpoint.requests.flatMap(({ texts }) => texts).length === 2)
    for (const client of clients) {
      await assert.rejects(client.search(query('one more')), {
        reason: 'overloaded',
        message:
          'searches_in_flight of the key the-slow-searcher would be 3, the quota is 2: try again later',
      })
      assert.equal(await client.count(), 0)
    }
    answer()
    assert.deepEqual(await Promise.all(slow), [[], []])
    assert.deepEqual(await clients[1].search(query('one more')), [])
    await clients[0].close()
  })

  for (const threads of [0, 2])
    it(`bound the points of its filter, with ${threads} serving threads`, async () => {
      const of = (tenant: string, points: number): object => ({ filter: { tenant }, quotas: { points } })
      const keys = keysFile({
        'the-key-of-tenant-a': of('a', 3),
        'the-key-of-tenant-b': of('b', 1),
        'the-key-of-tenant-c': of('c', 9),
      })
      await using service = await startServedBy(threads, { API_KEYS_FILE: keys })
      const [grpc, http] = clientsOf(service, 'the-key-of-tenant-a')
      const two = [point('one', 'a'), point('two', 'a')]
      const stored = await grpc.insertBatch(two, { idempotencyKey: 'two' })
      const [first] = stored
      const full = {
        reason: 'quota_exceeded',
        message: 'points of the key the-key-of-tenant-a would be 4, the quota is 3',
        retryAfterMs: undefined,
      }
      await assert.rejects(http.insertBatch([point('three', 'a'), point('four', 'a')]), full)
      const id = '00000000-0000-4000-8000-000000000001'
      await http.put(id, point('three', 'a'))
      await assert.rejects(http.insert(point('four', 'a')), full)
      await assert.rejects(grpc.insert(point('four', 'a')), full)
      await assert.rejects(grpc.put('00000000-0000-4000-8000-000000000002', point('four', 'a')), full)
      // What adds no point is no more than before.
      assert.deepEqual(await grpc.insertBatch(two, { idempotencyKey: 'two' }), stored)
      await http.insert({ ...point('three replaced', 'a'), id, onConflict: 'replace' })
      assert.equal((await http.put(id, point('three again', 'a'))).created, false)
      await http.patch(id, { content: 'three at last' })
      await http.delete(first!)
      await grpc.insert(point('four', 'a'))
      const [other] = clientsOf(service, 'the-key-of-tenant-b')
      await other.insert(point('one', 'b'))
      await assert.rejects(other.insert(point('two', 'b')), { reason: 'quota_exceeded' })
      const [others] = clientsOf(service, 'the-key-of-tenant-c')
      const twin = { ...point('twin', 'c'), id: '00000000-0000-4000-8000-000000000003' }
      const { errors } = await others.insertEach([point('other', 'a'), twin, twin])
      assert.deepEqual(
        errors.map(({ index, message }) => [index, /^vectors\[(\d)\]/.exec(message)?.[1]]),
        [
          [0, '0'],
          [2, '2'],
        ],
      )
      const [all] = clientsOf(service, apiKey)
      await all.insert(point('five', 'a'))
      const response = await fetch(`${service.httpUrl}/points`, {
        method: 'POST',
        headers: { authorization: 'the-key-of-tenant-b', 'content-type': 'application/json' },
        body: '{"vector":[1,2],"payload":{"content_type":"Text","content":"x","attributes":{"tenant":"b"}}}',
      })
      assert.deepEqual([response.status, response.headers.get('retry-after')], [429, null])
      await Promise.all([grpc, other, others, all].map((client) => client.close()))
    })
})

describe('the quotas of a collection', () => {
  const quotas = { points: 5, bytes: 20_000_000_000, requestsPerSecond: 500, searchesInFlight: 4 }

  it('are set, changed, shown and removed over both transports, and kept over a restart', async () => {
    await using service = await startTestService()
    for (const [at, client] of clientsOf(service, apiKey).entries()) {
      const name = `docs-${at}`
      assert.deepEqual((await client.collections.put(name, { quotas })).info.quotas, quotas)
      assert.deepEqual((await client.collections.put(name)).info.quotas, quotas)
      assert.deepEqual((await client.collections.put(name, { quotas: { points: 1 } })).info.quotas, {
        points: 1,
      })
      assert.deepEqual((await client.collections.get(name)).quotas, { points: 1 })
      assert.equal((await client.collections.put(name, { quotas: {} })).info.quotas, undefined)
      assert.equal('quotas' in (await client.collections.get(name)), false)
      await client.collections.put('default', { quotas })
      await assert.rejects(client.collections.put(name, { quotas: { requestsPerSecond: 1_000_001 } }), {
        reason: 'invalid_argument',
        message: /quotas\.requests_per_second is 1000001, it must be .*1000000/,
      })
      await client.close()
    }
    const body = '{"quotas":{"point":5}}'
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(`${service.httpUrl}/collections/docs`, { method: 'PUT', headers, body })
    assert.equal(response.status, 400)
    await service.restart()
    const [grpc, http] = clientsOf(service, apiKey)
    const names = Object.fromEntries((await grpc.collections.list()).map((info) => [info.name, info.quotas]))
    assert.deepEqual(names, { default: quotas, 'docs-0': undefined, 'docs-1': undefined })
    assert.deepEqual((await http.collections.get('default')).quotas, quotas)
    await grpc.close()
  })

  it('cannot be lifted by a key that they bound', async () => {
    const keys = keysFile({ 'the-writer-of-docs': { collections: ['docs-*'] } })
    await using service = await startTestService({ API_KEYS_FILE: keys })
    const [all] = clientsOf(service, apiKey)
    await all.collections.put('docs-a', { quotas: { points: 5 } })
    for (const client of clientsOf(service, 'the-writer-of-docs')) {
      const refused = { reason: 'permission_denied', message: /the role write: only a key of the role admin/ }
      await assert.rejects(client.collections.put('docs-a', { quotas: {} }), refused)
      await assert.rejects(client.collections.delete('docs-a'), refused)
      await client.collections.put('docs-b')
      await client.collections.delete('docs-b')
      await client.close()
    }
    assert.deepEqual((await all.collections.get('docs-a')).quotas, { points: 5 })
    await all.collections.delete('docs-a')
    await all.close()
  })

  for (const threads of [0, 2]) {
    it(`bound its points exactly, with ${threads} serving threads`, async () => {
      await using service = await startServedBy(threads)
      const [grpc, http] = clientsOf(service, apiKey)
      await grpc.collections.put('docs', { quotas: { points: 5 } })
      await http.collections.setAliases({ set: { alias: 'docs' } })
      const points = [grpc, http].map((client) => client.collection('alias'))
      const asked = Array.from({ length: 20 }, (_, at) => points[at % 2]!.insert(point(`${at}`, 'a')))
      const stored = (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled')
      assert.deepEqual([stored.length, await points[0]!.count()], [5, 5])
      const full = {
        reason: 'quota_exceeded',
        message: 'points of the collection docs would be 6, the quota is 5',
        retryAfterMs: undefined,
      }
      for (const each of points) {
        await assert.rejects(each.insert(point('more', 'a')), full)
        await assert.rejects(each.put('00000000-0000-4000-8000-000000000001', point('more', 'a')), full)
      }
      const id = (stored[0] as PromiseFulfilledResult<string>).value
      await points[0]!.put(id, point('again', 'a'))
      await points[1]!.delete(id)
      const once = { idempotencyKey: 'once' }
      const last = await points[1]!.insert(point('last', 'a'), once)
      assert.equal(await points[1]!.insert(point('last', 'a'), once), last)
      await assert.rejects(points[0]!.insert(point('more', 'a')), full)
      await grpc.collections.put('docs', { quotas: {} })
      await points[0]!.insert(point('more', 'a'))
      await grpc.close()
    })

    it(`bound requests for it, also for the default one, with ${threads} serving threads`, async () => {
      await using service = await startServedBy(threads)
      const clients = Array.from({ length: 3 }, () => clientsOf(service, apiKey)).flat()
      for (const name of ['docs', 'default']) {
        await clients[0]!.collections.put(name, { quotas: { requestsPerSecond: 4 } })
        const started = performance.now()
        const asked = Array.from({ length: 30 }, (_, at) => {
          const client = clients[at % clients.length]!
          return (name === 'docs' ? client.collection(name) : client).count()
        })
        const errors = (await Promise.allSettled(asked)).filter((each) => each.status === 'rejected')
        const seconds = (performance.now() - started) / 1000
        const accepted = asked.length - errors.length
        assert.ok(accepted >= 4 && accepted <= 4 + Math.ceil(4 * seconds), `${accepted} in ${seconds} s`)
        for (const { reason } of errors) {
          assert.equal(
            reason.message,
            `requests_per_second of the collection ${name} would be 5, the quota is 4: try again later`,
          )
        }
        const stats = await (await fetch(`${service.httpUrl}/collections/${name}/stats`)).json()
        assert.deepEqual(stats.quotas, { requests_per_second: 4, searching: 0, refused: errors.length })
        const label = `vicinal_quota_refusals{kind="collection",name="${name}"}`
        assert.equal(figureIn(await metricsOf(service, apiKey), label), errors.length)
      }
      await Promise.all(clients.map((client) => client.close()))
    })
  }

  it('bound its memory: searches and deletions go on', async () => {
    await using service = await startTestService()
    const [grpc, http] = clientsOf(service, apiKey)
    await http.collections.put('docs')
    const docs = http.collection('docs')
    const first = await docs.insert(point('one', 'a'), { idempotencyKey: 'one' })
    await http.collections.put('docs', { quotas: { bytes: 1 } })
    assert.equal(await docs.insert(point('one', 'a'), { idempotencyKey: 'one' }), first)
    const full = {
      reason: 'quota_exceeded',
      message: /^bytes of the collection docs are \d+, the quota is 1$/,
    }
    await assert.rejects(grpc.collection('docs').insert(point('two', 'a')), full)
    await assert.rejects(docs.patch(first, { content: 'two' }), full)
    assert.deepEqual(await docs.search({ vector: [1, 2], metric: 'Cosine', limit: 1 }), [first])
    await docs.delete(first)
    await grpc.close()
  })

  it('hold on all nodes of a cluster, for the points of all together', async () => {
    await using cluster = await startTestCluster(['first', 'second'])
    const nodes = cluster.services.map((service) => clientsOf(service, apiKey)[1].collection('docs'))
    await nodes[0]!.collections.put('docs', { quotas: { points: 2 } })
    const id = await nodes[0]!.insert(point('one', 'a'))
    await nodes[1]!.insert(point('two', 'a'))
    for (const node of nodes) {
      // Until a node has applied the points of the other one, it does not count them.
      await node.count(undefined, { consistency: 'latest' })
      await assert.rejects(node.insert(point('three', 'a')), { reason: 'quota_exceeded' })
      assert.equal((await node.put(id, point('one again', 'a'))).created, false)
      assert.deepEqual((await node.collections.get('docs')).quotas, { points: 2 })
    }
    await nodes[1]!.collections.put('docs', { quotas: {} })
    await nodes[1]!.insert(point('three', 'a'))
  })

  it('are set by the command line', async () => {
    await using service = await startTestService()
    const create = ['collections', 'create', 'docs', '--http', service.httpUrl]
    const infos = async (): Promise<{ readonly name: string; readonly quotas?: object }[]> => {
      const { stdout } = await run(['collections', 'list', '--json', '--http', service.httpUrl])
      return stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    }
    const limits = ['--max-points', '9', '--max-bytes', '10000', '--requests-per-second', '8']
    assert.equal((await run([...create, ...limits, '--searches-in-flight', '7'])).code, 0)
    const set = { points: 9, bytes: 10_000, requests_per_second: 8, searches_in_flight: 7 }
    assert.deepEqual(
      (await infos()).map((info) => info.quotas),
      [undefined, set],
    )
    assert.equal((await run([...create, '--no-quotas'])).code, 0)
    assert.deepEqual(
      (await infos()).map((info) => info.quotas),
      [undefined, undefined],
    )
    assert.equal((await run([...create, '--no-quotas', '--max-points', '1'])).code, 2)
  })
})
