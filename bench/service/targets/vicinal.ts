import { setTimeout as sleep } from 'node:timers/promises'
import { create, type DescMessage, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { jsonNumbers } from '../../../src/base/attributes.ts'
import { createGrpcClient } from '../../../src/client/grpc-client.ts'
import {
  InsertVectorRequestSchema,
  InsertVectorsBatchRequestSchema,
  SearchPointsBatchRequestSchema,
  SearchRequestSchema,
  Similarity,
} from '../../../src/messages/generated/vectordb_pb.js'
import { figureIn } from '../../../test/support/metrics.ts'
import { apiKey, type Transport, type WireRequest } from '../load/load-plan.ts'
import { type Asked, requestsOf, type Workload } from '../load/workloads.ts'
import { startServer, type Target } from './target.ts'

const batchSize = 1000

/** The service of this working tree, with its default settings unless others are given. */
export async function startVicinal(settings?: Parameters<typeof startServer>[1]): Promise<Target> {
  const server = await startServer('vicinal', settings)
  const { ports, pid } = server
  const client = createGrpcClient({ address: `127.0.0.1:${ports.grpc}`, apiKey })
  const rowOf = new Map<string, number>()
  return {
    name: 'vicinal',
    pid,
    ports,
    async fill(rows) {
      const started = performance.now()
      const elapsed = (): number => (performance.now() - started) / 1000
      for (let from = 0; from < rows.length; from += batchSize) {
        const points = rows.slice(from, from + batchSize).map((vector) => ({ vector, payload }))
        for (const id of await client.insertBatch(points)) rowOf.set(id, rowOf.size)
      }
      const seconds = elapsed()
      await linked(ports.http)
      const indexedSeconds = elapsed()
      await measured(ports.http)
      return { seconds, indexedSeconds }
    },
    async nearest(vector, { k, ef }) {
      const ids = await client.search({ vector, metric: 'Euclidean', limit: k, ef })
      return ids.map((id) => rowOf.get(id) ?? -1)
    },
    requests,
    settled: () => linked(ports.http),
    async [Symbol.asyncDispose]() {
      await client.close()
      await server[Symbol.asyncDispose]()
    },
  }
}

/** The same transports and codecs with nothing behind them. */
export async function startEcho(): Promise<Target> {
  const server = await startServer('echo')
  return {
    name: 'echo',
    pid: server.pid,
    ports: server.ports,
    fill: async () => undefined,
    nearest: async () => undefined,
    requests,
    settled: async () => undefined,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

/** The value of one of the service's metrics; undefined if it is not known yet. */
export async function metricOf(port: number, name: string): Promise<number | undefined> {
  return figureIn(await (await fetch(`http://127.0.0.1:${port}/metrics`)).text(), name)
}

async function linked(port: number): Promise<void> {
  while ((await metricOf(port, 'vicinal_index_waiting_points')) !== 0) await sleep(100)
}

/** Waits until the service has measured recall and chosen a route. Sets too small for a graph have none. */
async function measured(port: number): Promise<void> {
  for (let round = 0; round < measuringRounds; round += 1) {
    if (Number(await metricOf(port, 'vicinal_index_ef_multiplier{metric="Euclidean"}')) > 0) return
    await sleep(100)
  }
  console.error('  searches scan all points')
}

const measuringRounds = 100

function requests(workload: Workload, transport: Transport): WireRequest[] {
  const spell = transport === 'grpc' ? grpcRequest : httpRequest
  return requestsOf(workload).map((asked) => spell(asked, workload))
}

const payload = { contentType: 'Text', content: 'a point of the benchmark' } as const

function grpcRequest({ isInsert, vectors }: Asked, { size, k, ef }: Workload): WireRequest {
  const path = (method: string): string => `/vectordb.VectorDB/${method}`
  if (isInsert) {
    const points = vectors.map((vector) => ({
      vector: { values: [...vector] },
      payload: { contentType: 1, content: payload.content },
    }))
    return size === 1
      ? { path: path('InsertVector'), body: encode(InsertVectorRequestSchema, points[0]!) }
      : {
          path: path('InsertVectorsBatch'),
          body: encode(InsertVectorsBatchRequestSchema, { vectors: points }),
        }
  }
  const queries = vectors.map((vector) => ({
    queryVector: { values: [...vector] },
    similarity: Similarity.Euclidean,
    limit: BigInt(k),
    ef: BigInt(ef),
  }))
  return size === 1
    ? { path: path('SearchPoints'), body: encode(SearchRequestSchema, queries[0]!) }
    : { path: path('SearchPointsBatch'), body: encode(SearchPointsBatchRequestSchema, { queries }) }
}

function encode<Message extends DescMessage>(schema: Message, init: MessageInitShape<Message>): Uint8Array {
  return toBinary(schema, create(schema, init))
}

function httpRequest({ isInsert, vectors }: Asked, { size, k, ef }: Workload): WireRequest {
  const { contentType: content_type, content } = payload
  const rest = isInsert ? { payload: { content_type, content } } : { similarity: 'Euclidean', limit: k, ef }
  const items = vectors.map((vector) => `{"vector":${jsonNumbers(vector)},${JSON.stringify(rest).slice(1)}`)
  const path = isInsert ? '/points' : '/points/search'
  if (size === 1) return { path, body: Buffer.from(items[0]!) }
  const list = isInsert ? 'vectors' : 'queries'
  return { path: `${path}/batch`, body: Buffer.from(`{"${list}":[${items.join(',')}]}`) }
}
