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
import { apiKey, startServedBy, startTestService, type TestService } from './support/service.ts'
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

  it('bound the points of its filter', async () => {
    const of = (tenant: string, points: number): object => ({ filter: { tenant }, quotas: { points } })
    const keys = keysFile({ 'the-key-of-tenant-a': of('a', 3), 'the-key-of-tenant-b': of('b', 1) })
    await using service = await startTestService({ API_KEYS_FILE: keys })
    const [grpc, http] = clientsOf(service, 'the-key-of-tenant-a')
    const [first] = await grpc.insertBatch([point('one', 'a'), point('two', 'a')])
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
    assert.equal((await http.put(id, point('three again', 'a'))).created, false)
    await http.patch(id, { content: 'three at last' })
    await http.delete(first!)
    await grpc.insert(point('four', 'a'))
    const [other] = clientsOf(service, 'the-key-of-tenant-b')
    await other.insert(point('one', 'b'))
    await assert.rejects(other.insert(point('two', 'b')), { reason: 'quota_exceeded' })
    const [all] = clientsOf(service, apiKey)
    await all.insert(point('five', 'a'))
    const response = await fetch(`${service.httpUrl}/points`, {
      method: 'POST',
      headers: { authorization: 'the-key-of-tenant-b', 'content-type': 'application/json' },
      body: '{"vector":[1,2],"payload":{"content_type":"Text","content":"x","attributes":{"tenant":"b"}}}',
    })
    assert.deepEqual([response.status, response.headers.get('retry-after')], [429, null])
    await Promise.all([grpc, other, all].map((client) => client.close()))
  })
})
