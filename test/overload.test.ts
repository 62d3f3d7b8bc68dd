import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import type { Query, VectorClient } from '../src/client/client.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { figureOf } from './support/metrics.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'
import { until } from './support/until.ts'

const dimension = 64
const maxQueuedQueries = 2000
const random = seededRandom(11)
const vectors = Array.from({ length: 16_000 }, () => randomVector(random, dimension, 'continuous'))

/** Exact scans that are too large for the main thread. An ef larger than the index disables the graph. */
function queriesOf(count: number): Query[] {
  return Array.from({ length: count }, (_, index) => ({
    vector: vectors[index % vectors.length]!,
    metric: 'Euclidean',
    limit: 5,
    ef: 1_000_000,
  }))
}

const [single] = queriesOf(1)

describe('a busy service', () => {
  let service: TestService
  let clients: Record<'grpc' | 'http', VectorClient>

  before(async () => {
    service = await startTestService({ maxQueuedQueries })
    clients = {
      grpc: createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 }),
      http: createHttpClient({ baseUrl: service.httpUrl, retries: 0 }),
    }
    const payload = { contentType: 'Text', content: '' } as const
    await clients.grpc.insertBatch(vectors.map((vector) => ({ vector, payload })))
  })

  after(async () => {
    await clients.grpc.close()
    await clients.http.close()
    await service[Symbol.asyncDispose]()
  })

  /** The number of batch searches with this outcome. */
  function outcomes(transport: string, outcome: string): Promise<number> {
    const labels = `operation="SearchPointsBatch",transport="${transport}",outcome="${outcome}"`
    return figureOf(service, `vicinal_requests_total{${labels}}`)
  }

  function queued(): Promise<number> {
    return figureOf(service, 'vicinal_queued_queries')
  }

  /**
   * Runs `body` while a batch is being searched, from the moment when `queuedMin` of its queries wait, and then cancels
   * what is left of the batch, which must not have ended.
   */
  async function duringBatch(
    client: VectorClient,
    { queries, queuedMin }: { readonly queries: number; readonly queuedMin: number },
    body: () => Promise<void>,
  ): Promise<void> {
    const controller = new AbortController()
    const batch = client.searchBatch(queriesOf(queries), { signal: controller.signal })
    const cancelled = assert.rejects(batch, { reason: 'cancelled' }, 'the batch ended too early')
    await until(async () => (await queued()) >= queuedMin)
    await body()
    controller.abort()
    await cancelled
    await until(async () => (await queued()) === 0)
  }

  /** Runs `body` while the queue is full. */
  async function whileFull(body: () => Promise<void>): Promise<void> {
    const sizes = { queries: 4 * maxQueuedQueries, queuedMin: maxQueuedQueries }
    await duringBatch(clients.grpc, sizes, body)
  }

  it('immediately refuses requests beyond its bound, and says when to retry, on both transports', async () => {
    await whileFull(async () => {
      // Fewer queries may be searched elsewhere, and not wait.
      const query = { vector: [...vectors[0]!], similarity: 'Euclidean', limit: 5, ef: 1_000_000 }
      const response = await fetch(`${service.httpUrl}/points/search/batch`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ queries: Array(5).fill(query) }),
      })
      assert.equal(response.status, 429)
      assert.equal(response.headers.get('retry-after'), '1')
      assert.match(await response.text(), /the maximum is \d+: try again later/)

      const refusal = await searchRefusal(service.grpcAddress)
      assert.equal(refusal.code, status.RESOURCE_EXHAUSTED)
      assert.deepEqual(refusal.metadata.get('retry-after-ms'), ['1000'])
      assert.match(refusal.details, /the maximum is \d+: try again later/)
    })
    for (const client of Object.values(clients)) assert.equal((await client.search(single!)).length, 5)
  })

  it('answers health checks and reads while it refuses searches', async () => {
    await whileFull(async () => {
      const health = await fetch(`${service.httpUrl}/health`)
      assert.deepEqual([health.status, await health.text()], [200, 'OK'])
      await assert.rejects(clients.grpc.get(randomUUID()), { reason: 'not_found' })
    })
  })

  it('cancels the work of a gRPC call after its deadline', async () => {
    const impatient = createGrpcClient({ address: service.grpcAddress, apiKey, timeoutMs: 500, retries: 0 })
    const answered = await outcomes('grpc', 'ok')
    const late = impatient.searchBatch(queriesOf(maxQueuedQueries * 5))
    await assert.rejects(late, { reason: 'deadline_exceeded' })
    await until(async () => (await queued()) === 0)
    assert.equal(await outcomes('grpc', 'ok'), answered)
    await impatient.close()
  })

  for (const transport of ['grpc', 'http'] as const) {
    it(`cancels the work of a disconnected caller, over ${transport}`, async () => {
      const cancelled = await outcomes(transport, 'cancelled')
      const controller = new AbortController()
      const search = clients[transport].searchBatch(queriesOf(maxQueuedQueries * 3), {
        signal: controller.signal,
      })
      const dropped = assert.rejects(search, { reason: 'cancelled' })
      await until(async () => (await queued()) > 0)
      controller.abort()
      await dropped
      await until(async () => (await outcomes(transport, 'cancelled')) > cancelled)
      assert.equal(await queued(), 0)
    })

    it(`returns the answers of a batch in the order of its queries, over ${transport}`, async () => {
      const queries = queriesOf(50)
      const singles = await Promise.all(queries.map((query) => clients[transport].search(query)))
      assert.deepEqual(await clients[transport].searchBatch(queries), singles)
      assert.equal(new Set(singles.map(([nearest]) => nearest)).size, queries.length)
    })
  }

  it('answers single searches before a batch of 10,000 on the same connection', async () => {
    await service.restart({ maxQueuedQueries: 20_000 })
    const client = createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 })
    await duringBatch(client, { queries: 10_000, queuedMin: 1 }, async () => {
      for (let number = 0; number < 5; number += 1) {
        assert.equal((await client.search(single!)).length, 5)
      }
    })
    await client.close()
  })
})

/** The failure of a batch, with the metadata that our client does not expose. */
async function searchRefusal(address: string): Promise<ServiceError> {
  const client = new Client(address, credentials.createInsecure())
  const metadata = new Metadata()
  metadata.set('authorization', apiKey)
  const floats = Buffer.from(vectors[0]!.buffer)
  const length = Buffer.from([0x80 | (floats.length & 0x7f), floats.length >> 7])
  const values = Buffer.concat([Buffer.from([0x0a]), length, floats])
  const valuesLength = Buffer.from([0x80 | (values.length & 0x7f), values.length >> 7])
  // query_vector, limit 5, ef 1,000,000
  const query = Buffer.concat([
    Buffer.from([0x0a]),
    valuesLength,
    values,
    Buffer.from([0x18, 5, 0x20, 0xc0, 0x84, 0x3d]),
  ])
  const queryLength = Buffer.from([0x80 | (query.length & 0x7f), query.length >> 7])
  const request = Buffer.concat(
    Array(5)
      .fill([Buffer.from([0x0a]), queryLength, query])
      .flat(),
  )
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        '/vectordb.VectorDB/SearchPointsBatch',
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => bytes,
        request,
        metadata,
        (error) => (error ? resolve(error) : reject(new Error('the batch was not refused'))),
      )
    })
  } finally {
    client.close()
  }
}
