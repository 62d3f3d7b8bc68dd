/**
 * `node bench/service/front-hop.ts`: what a front thread costs and saves. A get and a search of 100 points of 128
 * components, over gRPC and HTTP, with FRONT_THREADS 0 and 2: the time of one request after the other, and with 32
 * at once on 8 connections the processor time of the main thread and of all threads that serve.
 */
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import type { VectorClient } from '../../src/client/client.ts'
import { createGrpcClient } from '../../src/client/grpc-client.ts'
import { createHttpClient } from '../../src/client/http-client.ts'
import { randomVector, seededRandom } from '../../test/support/random.ts'
import { apiKey, startTestService } from '../../test/support/service.ts'

interface Order {
  readonly grpcAddress: string
  readonly httpUrl: string
  readonly transport: 'grpc' | 'http'
  readonly operation: 'get' | 'search'
  readonly connections: number
  readonly requestsAtOnce: number
  readonly milliseconds: number
  readonly ids: readonly string[]
}

interface Outcome {
  readonly requests: number
  readonly medianMicroseconds: number
  readonly clientMicroseconds: number
}

const dimension = 128
const random = seededRandom(3)
const vectors = Array.from({ length: 100 }, () => randomVector(random, dimension, 'continuous'))

if (isMainThread) await compare()
else parentPort!.on('message', async (order: Order) => parentPort!.postMessage(await load(order)))

async function compare(): Promise<void> {
  const client = new Worker(new URL(import.meta.url))
  console.log('fronts transport operation | one at a time, us | 32 at once: a second, main us, all us')
  for (let round = 0; round < Number(process.argv[2] ?? 2); round += 1) {
    for (const fronts of [0, 2]) await measure(fronts, client)
  }
  await client.terminate()
}

async function measure(fronts: number, client: Worker): Promise<void> {
  await using service = await startTestService({ FRONT_THREADS: String(fronts) })
  const { grpcAddress, httpUrl } = service
  const filler = createGrpcClient({ address: grpcAddress, apiKey })
  const payload = { contentType: 'Text', content: 'x' } as const
  const ids = await filler.insertBatch(vectors.map((vector) => ({ vector, payload })))
  await filler.close()
  const run = async (
    changes: Partial<Order>,
    order: Omit<Order, 'connections' | 'requestsAtOnce' | 'milliseconds'>,
  ): Promise<Outcome> => {
    const done = new Promise<Outcome>((resolve) => client.once('message', resolve))
    client.postMessage({ connections: 1, requestsAtOnce: 1, milliseconds: 1500, ...order, ...changes })
    return done
  }
  for (const transport of ['grpc', 'http'] as const) {
    for (const operation of ['get', 'search'] as const) {
      const order = { grpcAddress, httpUrl, transport, operation, ids }
      await run({}, order)
      const single = await run({}, order)
      const [main, all] = [process.threadCpuUsage(), process.cpuUsage()]
      const many = await run({ connections: 8, requestsAtOnce: 32, milliseconds: 3000 }, order)
      const mainUs = total(process.threadCpuUsage(main)) / many.requests
      const allUs = (total(process.cpuUsage(all)) - many.clientMicroseconds) / many.requests
      const cells = [single.medianMicroseconds, many.requests / 3, mainUs, allUs].map((each) =>
        each.toFixed(0),
      )
      console.log(`${fronts} ${transport} ${operation} | ${cells.join(' | ')}`)
    }
  }
}

async function load({
  grpcAddress,
  httpUrl,
  transport,
  operation,
  connections,
  requestsAtOnce,
  milliseconds,
  ids,
}: Order): Promise<Outcome> {
  const clients = Array.from(
    { length: connections },
    (): VectorClient =>
      transport === 'grpc'
        ? createGrpcClient({ address: grpcAddress, apiKey })
        : createHttpClient({ baseUrl: httpUrl }),
  )
  const latencies: number[] = []
  const started = process.threadCpuUsage()
  const end = performance.now() + milliseconds
  const loop = async (_: unknown, number: number): Promise<void> => {
    const client = clients[number % connections]!
    for (let at = number; performance.now() < end; at += 1) {
      const sent = performance.now()
      if (operation === 'get') await client.get(ids[at % ids.length]!)
      else await client.search({ vector: vectors[at % vectors.length]!, metric: 'Euclidean', limit: 10 })
      latencies.push(performance.now() - sent)
    }
  }
  await Promise.all(Array.from({ length: requestsAtOnce }, loop))
  const clientMicroseconds = total(process.threadCpuUsage(started))
  for (const client of clients) await client.close()
  latencies.sort((a, b) => a - b)
  return {
    requests: latencies.length,
    medianMicroseconds: latencies[Math.floor(latencies.length / 2)]! * 1000,
    clientMicroseconds,
  }
}

function total({ user, system }: NodeJS.CpuUsage): number {
  return user + system
}
