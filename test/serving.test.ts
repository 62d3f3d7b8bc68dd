import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Metric } from '../src/base/point.ts'
import type { VectorClient } from '../src/client/client.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { SearchPointsBatchRequestSchema } from '../src/messages/generated/vectordb_pb.js'
import { clusteredVectors } from './support/clusters.ts'
import type { ContractQuery } from './support/contract-client.ts'
import { seededRandom } from './support/random.ts'
import { RawHttp } from './support/raw-http.ts'
import { frame, RawHttp2 } from './support/raw-http2.ts'
import { apiKey, startServedBy, type TestService } from './support/service.ts'
import type { TestSettings } from './support/settings.ts'
import { until } from './support/until.ts'

const seed = 31
const dimension = 128
/** Enough points that scans take a while. */
const count = 5000
const searchThreads = 4
const vectors = clusteredVectors(seededRandom(seed), count, dimension)
const transports = ['grpc', 'http'] as const
const distanceMetrics: readonly Metric[] = ['Euclidean', 'Cosine', 'Manhattan', 'Hamming']

/** An ef larger than the index makes these queries exact scans, which take a while. */
const wide = 1_000_000

function queriesOf(size: number, from = 0): ContractQuery[] {
  return Array.from({ length: size }, (_, at) => {
    const vector = vectors[(from + at * 7) % count]!
    return { vector, metric: distanceMetrics[at % distanceMetrics.length]!, limit: 1 + (at % 5), ef: wide }
  })
}

function walksOf(size: number): ContractQuery[] {
  return queriesOf(size).map((query) => ({ ...query, metric: 'Euclidean', ef: 64 }))
}

describe('a service under many concurrent requests', () => {
  let service: TestService
  let clients: Record<'grpc' | 'http', VectorClient>
  const idOf = new Map<string, string>()

  before(async () => {
    // One serves, so that what a test holds up is beside what it measures.
    service = await startServedBy(1, { THREADS: String(searchThreads), graphBytesMin: 0 })
    const payload = { contentType: 'Text', content: '' } as const
    connect()
    const ids = await clients.grpc.insertBatch(vectors.map((vector) => ({ vector, payload })))
    for (const [at, id] of ids.entries()) idOf.set(String(vectors[at]), id)
    while ((await metricsOf(/^vicinal_index_ef_multiplier\{metric="Euclidean"\} (\d+)/gm))[0]! < 1)
      await sleep(20)
  })

  after(async () => {
    await clients.grpc.close()
    await service[Symbol.asyncDispose]()
  })

  function connect(): void {
    clients = {
      grpc: createGrpcClient({ address: service.grpcAddress, apiKey, retries: 0 }),
      http: createHttpClient({ baseUrl: service.httpUrl, retries: 0 }),
    }
  }

  async function restart(changes: TestSettings): Promise<void> {
    await clients.grpc.close()
    await service.restart(changes)
    connect()
  }

  /** The values of a metric, or 0 if it does not exist yet. */
  async function metricsOf(pattern: RegExp): Promise<number[]> {
    const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
    const found = [...text.matchAll(pattern)].map(([, figure]) => Number(figure))
    return found.length === 0 ? [0] : found
  }

  async function queued(): Promise<number> {
    return (await metricsOf(/^vicinal_queued_queries (\d+)/gm))[0]!
  }

  async function cancelled(transport: string): Promise<number> {
    const labels = `operation="SearchPointsBatch",transport="${transport}",outcome="cancelled"`
    return (await metricsOf(new RegExp(`^vicinal_requests_total\\{${labels}\\} (\\d+)`, 'gm')))[0]!
  }

  /** The number of pieces that each search thread has worked on. */
  function piecesOfThreads(): Promise<number[]> {
    return metricsOf(/^vicinal_search_thread_pieces\{thread="\d+"\} (\d+)/gm)
  }

  /**
   * Repeats a body until each search thread has worked on `most` more pieces. One round may not suffice: a thread can
   * complete most of it before the system lets the others run.
   */
  async function untilAllThreadsWorked(most: number, body: () => Promise<unknown>): Promise<void> {
    const earlier = await piecesOfThreads()
    assert.equal(earlier.length, searchThreads)
    let pieces: number[] = []
    for (let round = 0; round < 50; round += 1) {
      await body()
      pieces = (await piecesOfThreads()).map((each, thread) => each - earlier[thread]!)
      if (pieces.every((each) => each >= most)) return
    }
    assert.fail(`the threads had ${pieces} pieces`)
  }

  for (const transport of transports) {
    it(`uses every search thread for the batches of one connection, over ${transport}`, () =>
      untilAllThreadsWorked(20, () => clients[transport].searchBatch(walksOf(400))))

    it(`keeps the order in each of many concurrent batch searches, over ${transport}`, async () => {
      const client = clients[transport]
      const batches = Array.from({ length: 6 }, (_, number) => {
        // Graph searches and scans in every metric, which take different times.
        const queries = queriesOf(40, number * 100)
        return queries.map((query, at) => (at % 3 === 0 ? query : { ...query, ef: 32 }))
      })
      const together = await Promise.all(batches.map((queries) => client.searchBatch(queries)))
      let missed = 0
      for (const [number, queries] of batches.entries()) {
        for (const [at, query] of queries.entries()) {
          const found = together[number]![at]!
          assert.equal(found.length, query.limit)
          // The results of a walk vary while the graph is being repaired, but the first is the query's own point.
          if (query.ef !== wide) missed += found[0] === idOf.get(String(query.vector)) ? 0 : 1
          else
            assert.deepEqual(found, await client.search(query), `seed ${seed}, batch ${number}, query ${at}`)
        }
      }
      assert.ok(missed <= 3, `${missed} walks did not lead to their own points`)
    })

    it(`returns ids in the order of the points in each of many concurrent batch inserts, over ${transport}`, async () => {
      const client = clients[transport]
      const contents = Array.from({ length: 6 }, (_, batch) =>
        Array.from({ length: 30 }, (_, at) => `${transport} ${batch} ${at}`),
      )
      const inserted = await Promise.all(
        contents.map((each) =>
          client.insertBatch(
            each.map((content, at) => ({ vector: vectors[at]!, payload: { contentType: 'Text', content } })),
          ),
        ),
      )
      for (const [batch, ids] of inserted.entries()) {
        const points = await Promise.all(ids.map((id) => client.get(id)))
        assert.deepEqual(
          points.map(({ payload }) => payload.content),
          contents[batch],
        )
        for (const id of ids) await client.delete(id)
      }
    })

    it(`answers a single search over ${transport} before an earlier batch of 10,000`, async () => {
      await using batch = new Batch(clients.grpc, queriesOf(10_000))
      await until(async () => (await queued()) > 0)
      assert.equal((await clients[transport].search(queriesOf(5)[4]!)).length, 5)
      assert.equal(batch.hasEnded, false, 'the batch was answered first')
    })

    it(`cancels the work of a broken connection, over ${transport}`, async () => {
      const earlier = await cancelled(transport)
      const cut = transport === 'grpc' ? sendOverGrpc(8000) : await sendOverHttp(8000)
      await until(async () => (await queued()) > 0)
      cut[Symbol.dispose]()
      await until(async () => (await cancelled(transport)) > earlier)
      assert.equal(await queued(), 0)
    })
  }

  it('refuses searches that together request more ids than it may hold, on both transports', async () => {
    await restart({ maxQueuedResults: 20_000 })
    // A thread that does not know the collection yet leaves searches to the engine, which counts by itself.
    for (let search = 0; search < 5; search += 1) await clients.grpc.search(queriesOf(1)[0]!)
    const queries = queriesOf(10_000).map((query) => ({ ...query, limit: 2 }))
    await using batch = new Batch(clients.grpc, queries)
    await until(async () => (await queued()) > 0)
    for (const transport of transports) {
      // Few queries may be searched elsewhere, and not wait.
      await assert.rejects(clients[transport].searchBatch(queriesOf(5)), {
        reason: 'overloaded',
        message: /the maximum is \d+: try again later/,
      })
    }
    assert.equal(batch.hasEnded, false, 'the batch ended too early to fill the queue')
    await batch[Symbol.asyncDispose]()
    await until(async () => (await queued()) === 0)
    for (const transport of transports)
      assert.equal((await clients[transport].search(queriesOf(1)[0]!)).length, 1)
  })

  it('answers or refuses every call at ten times its capacity, and answers health checks meanwhile', async () => {
    const most = 40
    await restart({ maxQueuedQueries: most })
    const outcomes = new Map<string, number>()
    // A thread that serves answers a single search at once, so that only batches wait.
    const search = async (client: VectorClient, batch: readonly ContractQuery[]): Promise<void> => {
      const outcome = await client.searchBatch(batch).then(
        () => 'ok',
        (error: { reason?: string }) => String(error.reason),
      )
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
    const batches = Array.from({ length: most }, (_, at) => queriesOf(10, 10 * at))
    const flood = transports.flatMap((transport) => batches.map((batch) => search(clients[transport], batch)))
    for (let check = 0; check < 5; check += 1) {
      const health = await fetch(`${service.httpUrl}/health`)
      assert.deepEqual([health.status, await health.text()], [200, 'OK'])
    }
    await Promise.all(flood)
    assert.deepEqual([...outcomes.keys()].sort(), ['ok', 'overloaded'])
    assert.ok(outcomes.get('ok')! >= most / 10, `${outcomes.get('ok')} of ${flood.length} were answered`)
    assert.equal(await queued(), 0)
  })

  function sendOverGrpc(size: number): Disposable {
    const connection = new RawHttp2(service.service.grpcAddress.port)
    const queries = queriesOf(size).map(({ vector, limit }) => ({
      queryVector: { values: Array.from(vector) },
      limit: BigInt(limit),
      ef: BigInt(wide),
    }))
    const body = toBinary(SearchPointsBatchRequestSchema, create(SearchPointsBatchRequestSchema, { queries }))
    const call = connection.open('/vectordb.VectorDB/SearchPointsBatch', { authorization: apiKey })
    // The broken connection is meant to fail the call.
    call.on('error', () => {})
    call.end(frame(body))
    return connection
  }

  async function sendOverHttp(size: number): Promise<Disposable> {
    const connection = await RawHttp.open(service.service.httpAddress!.port)
    const queries = queriesOf(size).map(({ vector, limit, ef }) => {
      return { vector: Array.from(vector), similarity: 'Euclidean', limit, ef }
    })
    const body = JSON.stringify({ queries })
    connection.request('POST /points/search/batch', ['content-type: application/json'], body)
    return connection
  }
})

/** A batch that fills the queue until it is cancelled. */
class Batch implements AsyncDisposable {
  readonly #controller = new AbortController()
  readonly #outcome: Promise<unknown>
  hasEnded = false

  constructor(client: VectorClient, queries: readonly ContractQuery[]) {
    const answered = client.searchBatch(queries, { signal: this.#controller.signal })
    this.#outcome = answered
      .finally(() => {
        this.hasEnded = true
      })
      // Cancelled or answered: its outcome has already been asserted.
      .catch(() => {})
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort()
    await this.#outcome
  }
}
