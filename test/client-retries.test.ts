import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { createHttpClient, ServiceError } from '../src/client/http.ts'
import { startTestService, type TestService } from './support/service.ts'

/** What the proxy does with one request. */
type Mishap =
  | 'answer is lost'
  | 'refused'
  | 'in an hour'
  | 'bad gateway'
  | 'gateway timeout'
  | 'not known to be stored'
  | 'none'

const refusals: { readonly [Name in Mishap]?: { readonly status: number; readonly after: string } } = {
  refused: { status: 429, after: '0' },
  'in an hour': { status: 503, after: '3600' },
  'bad gateway': { status: 502, after: '0' },
  'gateway timeout': { status: 504, after: '0' },
}

/** A proxy between client and service. It forwards requests, except that the next ones get the queued mishaps. */
class UnreliableProxy {
  readonly #server: Server
  readonly #mishaps: Mishap[] = []
  requests = 0

  constructor(target: string) {
    this.#server = createServer(async (request, response) => {
      this.requests += 1
      const mishap = this.#mishaps.shift() ?? 'none'
      const parts: Buffer[] = []
      for await (const part of request) parts.push(part as Buffer)
      const refusal = refusals[mishap]
      if (refusal !== undefined) {
        response
          .writeHead(refusal.status, { 'retry-after': refusal.after })
          .end('too many requests: none may have been stored')
        return
      }
      if (mishap === 'not known to be stored') {
        // The message of a node whose log is electing a leader.
        const words = 'the write may have been stored: repeat it with the same idempotency key'
        response.writeHead(503, { 'retry-after': '0' }).end(words)
        return
      }
      const headers = Object.fromEntries(
        ['content-type', 'idempotency-key'].flatMap((name) => {
          const value = request.headers[name]
          return typeof value === 'string' ? [[name, value]] : []
        }),
      )
      const method = request.method!
      const body = method === 'GET' ? {} : { body: Buffer.concat(parts) }
      const answer = await fetch(target + request.url, { method, headers, ...body })
      const text = await answer.text()
      if (mishap === 'answer is lost') response.destroy()
      else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
    })
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  next(...mishaps: readonly Mishap[]): void {
    this.#mishaps.push(...mishaps)
    this.requests = 0
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

describe('a client of a service behind an unreliable network', () => {
  let service: TestService
  let proxy: UnreliableProxy
  let url: string

  before(async () => {
    service = await startTestService()
    proxy = new UnreliableProxy(service.httpUrl)
    url = await proxy.listen()
  })
  after(async () => {
    proxy?.close()
    await service?.[Symbol.asyncDispose]()
  })

  const point = { vector: [1, 2], payload: { contentType: 'Text', content: 'once' } } as const

  it('stores a point once when the answer is lost', async () => {
    const client = createHttpClient({ baseUrl: url })
    proxy.next('answer is lost', 'answer is lost')
    const id = await client.insert(point)
    assert.equal(proxy.requests, 3)
    const found = await client.search({ vector: [1, 2], metric: 'Euclidean', limit: 10 })
    assert.deepEqual(found, [id])
  })

  it('retries every read when the answer is lost', async () => {
    const client = createHttpClient({ baseUrl: url })
    const query = { vector: [1, 2], metric: 'Euclidean', limit: 1 } as const
    for (const read of [
      () => client.search(query),
      () => client.searchBatch([query]),
      () => client.searchHits({ ...query, include: {} }),
      () => client.list(),
      () => client.count(),
      () => client.collections.list(),
      () => client.collections.get('default'),
    ]) {
      proxy.next('answer is lost')
      await read()
      assert.equal(proxy.requests, 2)
    }
  })

  it('retries refused requests until its retries are used up', async () => {
    const client = createHttpClient({ baseUrl: url, retries: 2 })
    proxy.next('refused', 'refused')
    assert.equal((await client.search({ vector: [1, 2], metric: 'Euclidean', limit: 10 })).length, 1)
    proxy.next('refused', 'refused', 'refused')
    await assert.rejects(client.get('00000000-0000-4000-8000-000000000000'), {
      reason: 'overloaded',
      retryAfterMs: 0,
      isUncertain: false,
    })
    assert.equal(proxy.requests, 3)
  })

  it('does not wait for an hour, as a proxy asks for during maintenance', async () => {
    proxy.next('in an hour')
    const error = { reason: 'not_ready', retryAfterMs: 3_600_000 }
    await assert.rejects(createHttpClient({ baseUrl: url }).count(), error)
    assert.equal(proxy.requests, 1)
  })

  it('retries where it is safe when a proxy has not reached the service, or lost it', async () => {
    const client = createHttpClient({ baseUrl: url })
    proxy.next('bad gateway', 'gateway timeout')
    const id = await client.insert(point)
    assert.equal(proxy.requests, 3)
    proxy.next('bad gateway')
    await assert.rejects(client.patch(id, { set: { a: 1 } }, { when: { version: 1 } }), {
      reason: 'not_ready',
      isUncertain: true,
    })
    assert.equal(proxy.requests, 1)
    await client.delete(id)
  })

  it('does not retry permanent failures, or if told not to', async () => {
    proxy.next()
    await assert.rejects(createHttpClient({ baseUrl: url }).insert({ ...point, vector: [] }), {
      reason: 'invalid_argument',
    })
    assert.equal(proxy.requests, 1)
    proxy.next('answer is lost')
    await assert.rejects(createHttpClient({ baseUrl: url, retries: 0 }).insert(point), (error) => {
      return error instanceof ServiceError && error.isUncertain
    })
    assert.equal(proxy.requests, 1)
  })

  it('retries a write that a cluster may have stored only where that is safe', async () => {
    const client = createHttpClient({ baseUrl: url })
    proxy.next('not known to be stored')
    const id = await client.insert(point)
    assert.equal(proxy.requests, 2)
    proxy.next('not known to be stored')
    const when = { version: 1 }
    await assert.rejects(client.patch(id, { set: { a: 1 } }, { when }), (error) => {
      return error instanceof ServiceError && error.isUncertain && error.reason === 'not_ready'
    })
    assert.equal(proxy.requests, 1)
  })

  it('stops immediately when its caller aborts during a back-off', async () => {
    const client = createHttpClient({ baseUrl: url, retries: 1000 })
    proxy.next(...Array.from({ length: 1000 }, () => 'refused' as const))
    const stop = new AbortController()
    const search = client.search({ vector: [1, 2], metric: 'Euclidean', limit: 1 }, { signal: stop.signal })
    while (proxy.requests < 2) await new Promise((resolve) => setTimeout(resolve, 5))
    stop.abort()
    await assert.rejects(search, { reason: 'cancelled' })
  })
})

describe('inserting any number of points', () => {
  it('reads points only as batches are sent, and yields their ids in order', async () => {
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    let read = 0
    function* points(): Generator<{ vector: number[]; payload: { contentType: 'Text'; content: string } }> {
      for (read = 1; read <= 100; read += 1) {
        yield { vector: [read, 0], payload: { contentType: 'Text', content: `${read}` } }
      }
    }
    const ids: string[] = []
    for await (const some of client.insertAll(points(), { batchSize: 10, concurrency: 2 })) {
      ids.push(...some)
      assert.ok(read <= ids.length + 30, `${read} points read when ${ids.length} were stored`)
    }
    assert.equal(ids.length, 100)
    const first = await client.get(ids[0]!)
    const last = await client.get(ids[99]!)
    assert.deepEqual([first.payload.content, last.payload.content], ['1', '100'])
  })
})
