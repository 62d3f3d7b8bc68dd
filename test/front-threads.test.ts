import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Client, credentials, status } from '@grpc/grpc-js'
import { DatabaseError } from '../src/base/errors.ts'
import { createLogger } from '../src/base/log.ts'
import { ServiceMetrics } from '../src/base/metrics.ts'
import type { Query, VectorClient } from '../src/client/client.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { readConfig } from '../src/config.ts'
import { type Collection, startEngine } from '../src/engine/engine.ts'
import { FrontThreads } from '../src/front/front-threads.ts'
import { openStore } from '../src/storage/lmdb-store.ts'
import { figureIn } from './support/metrics.ts'
import { run, ServerProcess, temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { RawGrpc } from './support/raw-grpc.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'
import { pieces, readSnapshot } from './support/snapshots.ts'

const dimension = 64
const maxQueuedQueries = 100
const random = seededRandom(23)
const vectors = Array.from({ length: 8000 }, () => randomVector(random, dimension, 'continuous'))
const payload = { contentType: 'Text', content: 'ünïcödé' } as const
const transports = ['grpc', 'http'] as const

/** Exact scans that run on search threads: an ef wider than the index takes no graph. */
function queriesOf(count: number): Query[] {
  return Array.from({ length: count }, (_, index) => ({
    vector: vectors[index % vectors.length]!,
    metric: 'Euclidean',
    limit: 5,
    ef: 1_000_000,
  }))
}

describe('a service with two front threads', () => {
  let service: TestService
  let clients: Record<'grpc' | 'http', VectorClient>
  let ids: readonly string[]

  before(async () => {
    service = await startTestService({ FRONT_THREADS: '2', MAX_QUEUED_QUERIES: String(maxQueuedQueries) })
    clients = {
      grpc: createGrpcClient({ address: service.grpcAddress, apiKey }),
      http: createHttpClient({ baseUrl: service.httpUrl }),
    }
    ids = await clients.grpc.insertBatch(vectors.map((vector) => ({ vector, payload })))
  })

  after(async () => {
    for (const transport of transports) await clients[transport].close()
    await service[Symbol.asyncDispose]()
  })

  async function metric(name: string): Promise<number> {
    const { text } = await onNewConnection(service, '/metrics')
    return figureIn(text, name) ?? 0
  }

  function outcomes(transport: string, outcome: string): Promise<number> {
    const labels = `operation="SearchPointsBatch",transport="${transport}",outcome="${outcome}"`
    return metric(`vicinal_requests_total{${labels}}`)
  }

  it('deals connections out to both, and either tells the figures of all', async () => {
    const counted = 'vicinal_requests_total{operation="GetPoint",transport="http",outcome="ok"}'
    for (let number = 0; number < 40; number += 1) {
      const { status } = await onNewConnection(service, `/points/${ids[number]}`)
      assert.equal(status, 200)
    }
    for (let number = 0; number < 12; number += 1) assert.equal(await metric(counted), 40)
    const [first, second] = await Promise.all(
      [1, 2].map((front) => metric(`vicinal_front_requests{front="${front}"}`)),
    )
    assert.ok(first! > 0 && second! > 0, `${first} and ${second} requests`)
    assert.equal(await metric('vicinal_points'), vectors.length)
    assert.ok((await metric('process_resident_memory_bytes')) > 0)
  })

  it('gives answers that are larger than the ring between the threads', async () => {
    for (const transport of transports) {
      const [list] = await clients[transport].searchBatch([
        { vector: vectors[0]!, metric: 'Manhattan', limit: vectors.length },
        { vector: vectors[1]!, metric: 'Manhattan', limit: vectors.length },
      ])
      assert.deepEqual(list!.toSorted(), ids.toSorted())
    }
  })

  it('answers what cannot be served as one thread would', async () => {
    const http = async (method: string, path: string, body?: string): Promise<[number, string]> => {
      const headers = body === undefined ? {} : { 'content-type': 'application/json' }
      const response = await fetch(`${service.httpUrl}${path}`, { method, headers, ...(body && { body }) })
      return [response.status, await response.text()]
    }
    assert.deepEqual(await http('GET', '/points/nonsense'), [400, 'id "nonsense" is not a UUID'])
    assert.deepEqual(await http('GET', '/points/00000000-0000-4000-8000-000000000000'), [
      404,
      'Point not found',
    ])
    assert.deepEqual(await http('DELETE', '/points/00000000-0000-4000-8000-000000000000'), [204, ''])
    assert.deepEqual(
      await http('POST', '/points', '{"vector":[1],"payload":{"content_type":"Text","content":""}}'),
      [400, 'vector has 1 dimensions, the database has 64'],
    )
    assert.equal((await http('POST', '/points', '{'))[0], 400)
    assert.equal((await http('PUT', '/points'))[0], 405)
    assert.equal((await http('GET', '/nowhere'))[0], 404)
    using grpc = new RawGrpc(service.grpcAddress, apiKey)
    const missing = { id: { value: '00000000-0000-4000-8000-000000000000' } }
    assert.deepEqual(await grpc.call('GetPoint', missing), {
      code: 5,
      text: 'Point not found',
      answer: undefined,
    })
    assert.equal((await grpc.call('DeletePoint', missing)).code, 5)
    assert.equal((await grpc.call('GetPoint', missing, { authorization: ['wrong'] })).code, 16)
    assert.equal((await grpc.call('InsertVector', {})).code, 3)
  })

  it('serves the pages, and says that it is ready', async () => {
    for (const path of ['/', '/health', '/readyz', '/docs', '/docs/openapi.yaml', '/metrics']) {
      assert.equal((await fetch(`${service.httpUrl}${path}`)).status, 200, path)
    }
    assert.equal(await grpcHealth(service.grpcAddress), 'SERVING')
  })

  it('refuses at once what it cannot hold, and stays healthy meanwhile', async () => {
    let ended = false
    const batch = clients.grpc.searchBatch(queriesOf(6000)).then(() => {
      ended = true
    })
    while ((await metric('vicinal_queued_queries')) < maxQueuedQueries) await sleep(1)
    const response = await fetch(`${service.httpUrl}/points/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ vector: [...vectors[0]!], similarity: 'Euclidean', limit: 5, ef: 1_000_000 }),
    })
    assert.equal(response.status, 429)
    assert.equal(response.headers.get('retry-after'), '1')
    assert.match(await response.text(), /\(MAX_QUEUED_QUERIES\): try again later/)
    await assert.rejects(clients.grpc.search(queriesOf(1)[0]!), { reason: 'overloaded' })
    assert.equal((await fetch(`${service.httpUrl}/health`)).status, 200)
    assert.ok(!ended, 'the batch ended before it could be in the way')
    await batch
  })

  for (const transport of transports) {
    it(`drops the work of a caller who has gone, over ${transport}`, async () => {
      const cancelled = await outcomes(transport, 'cancelled')
      const controller = new AbortController()
      const search = clients[transport].searchBatch(queriesOf(6000), { signal: controller.signal })
      const dropped = assert.rejects(search, { reason: 'cancelled' })
      while ((await metric('vicinal_queued_queries')) === 0) await sleep(1)
      controller.abort()
      await dropped
      while ((await outcomes(transport, 'cancelled')) === cancelled) await sleep(5)
      assert.equal(await metric('vicinal_queued_queries'), 0)
    })
  }

  it('drops the work of a gRPC call whose deadline passes', async () => {
    // Too short a time is over before the call has come in.
    for (let timeoutMs = 100; (await outcomes('grpc', 'deadline_exceeded')) === 0; timeoutMs *= 1.5) {
      assert.ok(timeoutMs < 5000, 'no call was under way when its time was up')
      const impatient = createGrpcClient({ address: service.grpcAddress, apiKey, timeoutMs })
      await assert.rejects(impatient.searchBatch(queriesOf(6000)), { reason: 'deadline_exceeded' })
      await impatient.close()
      while ((await metric('vicinal_queued_queries')) > 0) await sleep(5)
    }
  })

  it('takes snapshots, one at a time, on whatever front', async () => {
    const response = await fetch(`${service.httpUrl}/snapshots`, { method: 'POST' })
    assert.equal(response.headers.get('vicinal-points'), String(vectors.length))
    const { points } = await readSnapshot(pieces(new Uint8Array(await response.arrayBuffer())))
    assert.deepEqual([...points.keys()].toSorted(), ids.toSorted())
    assert.deepEqual(points.get(ids[7]!)!.vector, vectors[7])
  })

  it('lets go of a snapshot whose reader has gone', async () => {
    for (let number = 0; number < 3; number += 1) {
      const reading = request(`${service.httpUrl}/snapshots`, { method: 'POST', agent: false }).end()
      const [response] = (await once(reading, 'response')) as [IncomingMessage]
      if (response.statusCode === 429) await sleep(10)
      else assert.equal(response.statusCode, 200)
      response.destroy()
    }
    for (;;) {
      const response = await fetch(`${service.httpUrl}/snapshots`, { method: 'POST' })
      if (response.status === 200) {
        await response.arrayBuffer()
        return
      }
      assert.equal(response.status, 429)
      await response.text()
      await sleep(10)
    }
  })

  it('stores on one front what the others read, with deletions', async () => {
    const point = { vector: vectors[3]!, payload }
    const id = await clients.grpc.insert(point)
    for (let number = 0; number < 8; number += 1) {
      assert.equal((await onNewConnection(service, `/points/${id}`)).status, 200)
    }
    await clients.http.delete(id)
    for (let number = 0; number < 8; number += 1) {
      assert.equal((await onNewConnection(service, `/points/${id}`)).status, 404)
    }
  })
})

describe('first inserts of different lengths through two front threads', () => {
  it('fix one dimension, and the others are refused by it', async () => {
    await using service = await startTestService({ FRONT_THREADS: '2' })
    const inserts = Array.from({ length: 16 }, async (_, index) => {
      const vector = new Array(1 + (index % 4)).fill(1)
      const body = JSON.stringify({ vector, payload: { content_type: 'Text', content: '' } })
      const { status, text } = await onNewConnection(service, '/points', body)
      return { length: vector.length, status, text }
    })
    const answers = await Promise.all(inserts)
    const stored = new Set(answers.filter(({ status }) => status === 201).map(({ length }) => length))
    assert.equal(stored.size, 1)
    for (const { length, status, text } of answers.filter((each) => !stored.has(each.length))) {
      assert.equal(status, 400)
      assert.match(text, new RegExp(`has ${length} dimensions, the database has ${[...stored][0]}$`))
    }
  })
})

describe('the process of front threads', () => {
  const settings = { FRONT_THREADS: '2', GRPC_ROOT_PASSWORD: apiKey }

  it('ends when one of them dies, with a word about it', async () => {
    await using directory = await temporaryDirectory()
    const order = join(directory.path, 'die')
    const data = join(directory.path, 'data')
    const preload = preloadOf('dying-front-preload.ts', `?order=${encodeURIComponent(order)}`)
    await using server = await ServerProcess.start(data, { ...settings, ...preload })
    const id = await createHttpClient({ baseUrl: server.httpUrl }).insert({ vector: [1, 2], payload })
    await writeFile(order, '')
    const { code, stdout, stderr } = await server.command.ended
    assert.equal(code, 1)
    assert.match(stdout, /"level":60,.*"msg":"a front thread has died/)
    assert.match(stdout, /this front was told to fail/)
    assert.equal(stderr, 'vicinal: a front thread ended with code 1\n')

    await using again = await ServerProcess.start(data, settings)
    assert.deepEqual((await createHttpClient({ baseUrl: again.httpUrl }).get(id)).payload, payload)
  })

  it('stops under load without losing what it has acknowledged, and exits 0', async () => {
    await using directory = await temporaryDirectory()
    const acknowledged: string[] = []
    {
      await using server = await ServerProcess.start(directory.path, settings)
      const inserting = Array.from({ length: 8 }, async (_, number) => {
        const client =
          number % 2 === 0
            ? createGrpcClient({ address: server.grpcAddress, apiKey })
            : createHttpClient({ baseUrl: server.httpUrl })
        try {
          for (;;) acknowledged.push(await client.insert({ vector: [number, 1, 2], payload }))
        } catch {
          // The server has stopped.
        } finally {
          await client.close()
        }
      })
      while (acknowledged.length < 100) await sleep(5)
      server.command.kill('SIGTERM')
      const { code, stdout, stderr } = await server.command.ended
      assert.deepEqual({ code, stderr }, { code: 0, stderr: '' })
      assert.match(stdout, /"msg":"stopped"/)
      await Promise.all(inserting)
    }
    await using again = await ServerProcess.start(directory.path, settings)
    const client = createGrpcClient({ address: again.grpcAddress, apiKey })
    for (const id of acknowledged) assert.equal((await client.get(id)).id, id)
    await client.close()
  })

  it('does not share its ports with a second service', async () => {
    await using first = await temporaryDirectory()
    await using second = await temporaryDirectory()
    await using server = await ServerProcess.start(first.path, settings)
    const ports = { GRPC_PORT: '0', HTTP_PORT: new URL(server.httpUrl).port }
    const { code, stderr } = await run(['serve'], { DATA_DIR: second.path, ...settings, ...ports })
    assert.equal(code, 1)
    assert.match(
      stderr,
      /^vicinal: HTTP cannot listen on 127\.0\.0\.1 port \d+ \(HTTP_PORT\): listen EADDRINUSE/,
    )
  })

  it('has none where the system cannot share a port, and says so', async () => {
    await using directory = await temporaryDirectory()
    const preload = preloadOf('no-port-sharing-preload.ts')
    await using server = await ServerProcess.start(directory.path, { ...settings, ...preload })
    assert.match(server.command.stdout, /"level":40,.*"msg":"FRONT_THREADS has no effect: this system cannot/)
    assert.equal((await fetch(`${server.httpUrl}/readyz`)).status, 200)
  })
})

describe('front threads without an engine', () => {
  it('say that they are not ready, and answer once they are', async () => {
    await using directory = await temporaryDirectory()
    const config = readConfig({
      DATA_DIR: directory.path,
      FRONT_THREADS: '2',
      GRPC_PORT: '0',
      HTTP_PORT: '0',
    })
    const logger = createLogger({ level: 'silent', pretty: false })
    await using closers = new AsyncDisposableStack()
    const store = await openStore({ dataDir: directory.path, logger })
    closers.defer(() => store.close())
    let loaded: Collection | undefined
    const engine = (): Collection => {
      if (loaded === undefined) throw new DatabaseError('not_ready', 'the stored points are still loading')
      return loaded
    }
    const keys = { grpc: [{ name: 'test', key: apiKey, role: 'write' as const }], http: undefined }
    const fronts = new FrontThreads({ config, keys, engine, metrics: new ServiceMetrics(), logger })
    closers.defer(() => fronts.close(100))
    const { grpc, http } = await fronts.listen()
    const url = `http://127.0.0.1:${http}`
    using raw = new RawGrpc(`localhost:${grpc}`, apiKey)
    const point = { id: { value: '00000000-0000-4000-8000-000000000000' } }

    for (const path of ['/readyz', `/points/${point.id.value}`]) {
      const response = await fetch(url + path)
      assert.deepEqual([response.status, await response.text()], [503, 'the stored points are still loading'])
    }
    assert.equal((await fetch(`${url}/health`)).status, 200)
    assert.equal((await raw.call('GetPoint', point)).code, status.UNAVAILABLE)
    assert.equal(await grpcHealth(`localhost:${grpc}`), 'NOT_SERVING')

    loaded = await closers.use(startEngine({ ...config, logger })).openCollection(store, config)
    await fronts.serve(loaded)
    assert.equal((await fetch(`${url}/readyz`)).status, 200)
    assert.equal((await raw.call('GetPoint', point)).code, status.NOT_FOUND)
    assert.equal(await grpcHealth(`localhost:${grpc}`), 'SERVING')
  })
})

/** A program's environment in which it loads a file of test/support first, in each of its threads. */
function preloadOf(file: string, query = ''): { readonly NODE_OPTIONS: string } {
  return { NODE_OPTIONS: `--import=${pathToFileURL(join(import.meta.dirname, 'support', file))}${query}` }
}

async function bodyOf(response: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** A request on a connection of its own, so that any front may get it. */
async function onNewConnection(
  { httpUrl }: TestService,
  path: string,
  body?: string,
): Promise<{ readonly status: number | undefined; readonly text: string }> {
  const headers = {
    connection: 'close',
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  }
  const method = body === undefined ? 'GET' : 'POST'
  const sent = request(`${httpUrl}${path}`, { method, headers, agent: false }).end(body)
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: response.statusCode, text: (await bodyOf(response)).toString() }
}

/** HealthCheckResponse is one field, the status. */
async function grpcHealth(address: string): Promise<string | undefined> {
  const client = new Client(address, credentials.createInsecure())
  try {
    return await new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        '/grpc.health.v1.Health/Check',
        (bytes: Buffer) => bytes,
        (bytes: Buffer) => ['UNKNOWN', 'SERVING', 'NOT_SERVING'][bytes[1] ?? 0],
        Buffer.alloc(0),
        (error, status) => (error ? reject(error) : resolve(status)),
      )
    })
  } finally {
    client.close()
  }
}
