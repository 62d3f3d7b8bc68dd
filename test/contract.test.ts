import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { type ApiContext, httpFields } from '../src/api/call.ts'
import { operations } from '../src/api/operations.ts'
import { distanceMetrics } from '../src/base/point.ts'
import { createGrpcClient } from '../src/client/grpc-client.ts'
import { createHttpClient } from '../src/client/http-client.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { makeCertsDirectory } from './support/certificates.ts'
import { openCollection } from './support/collection.ts'
import type { ContractClient, ContractPoint } from './support/contract-client.ts'
import { fetchOverHttp2 } from './support/http2-client.ts'
import { noCollections } from './support/no-collections.ts'
import { temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { apiKey, startServedBy, startTestService, type TestService } from './support/service.ts'

const seed = 7

/** A way to reach the service. One suite runs the same expectations through each. */
interface Access {
  readonly client: ContractClient
  /** Restarts the service. Returns a new client. */
  restarted(): Promise<ContractClient>
  close(): Promise<void>
}

async function serviceAccess(
  connect: (service: TestService) => ContractClient,
  start: () => Promise<TestService> = startTestService,
): Promise<Access> {
  const service = await start()
  let client = connect(service)
  return {
    client,
    async restarted() {
      await client.close()
      await service.restart()
      client = connect(service)
      return client
    },
    async close() {
      await client.close()
      await service[Symbol.asyncDispose]()
    },
  }
}

/** The operations, called directly. Both transports must behave the same. */
async function inProcessAccess(): Promise<Access> {
  const service = await startTestService()
  await service.service.close()
  const open = async (): Promise<{ context: ApiContext; close: () => Promise<void> }> => {
    const { collection, close } = await openCollection(service.dataDir, {
      ...service.config,
      indexDirectory: undefined,
    })
    return { context: { database: collection, collections: noCollections, limits: service.config }, close }
  }
  let opened = await open()
  const call = { fields: httpFields } as const
  const input = ({ vector, payload }: ContractPoint): object => ({
    vector: Float32Array.from(vector),
    payload,
  })
  const client: ContractClient = {
    insert: (point) => operations.InsertVector.run(opened.context, input(point), call),
    async insertBatch(points) {
      const { ids } = await operations.InsertVectorsBatch.run(
        opened.context,
        { vectors: points.map(input) },
        call,
      )
      return ids as readonly string[]
    },
    get: (id) => operations.GetPoint.run(opened.context, { id }, call),
    async delete(id) {
      await operations.DeletePoint.run(opened.context, { id }, call)
    },
    async search({ vector, metric, ...rest }) {
      const query = { ...rest, similarity: metric, vector: Float32Array.from(vector) }
      const found = await operations.SearchPoints.run(opened.context, query, call)
      assert.equal(found.results.ids.length, 1)
      return found.results.ids.strings()[0]!
    },
    async searchBatch(all) {
      const queries = all.map(({ vector, metric, ...rest }) => ({
        ...rest,
        similarity: metric,
        vector: Float32Array.from(vector),
      }))
      return (await operations.SearchPointsBatch.run(opened.context, { queries }, call)).results.ids.strings()
    },
    async close() {},
  }
  return {
    client,
    async restarted() {
      await opened.close()
      opened = await open()
      return client
    },
    async close() {
      await opened.close()
      await service[Symbol.asyncDispose]()
    },
  }
}

const overGrpc = ({ grpcAddress }: TestService): ContractClient =>
  createGrpcClient({ address: grpcAddress, apiKey })

const overHttp = ({ httpUrl }: TestService): ContractClient => createHttpClient({ baseUrl: httpUrl })

/** HTTP/2 over TLS, which the built-in fetch does not speak. */
async function http2Access(): Promise<Access> {
  const directory = await temporaryDirectory()
  const { certs, ca } = makeCertsDirectory(directory.path)
  const fetch = fetchOverHttp2({ ca })
  const connect = ({ service }: TestService): ContractClient =>
    createHttpClient({ baseUrl: `https://localhost:${service.httpAddress!.port}`, fetch })
  const access = await serviceAccess(connect, () => startServedBy(1, { CERTS_DIR: certs }))
  return {
    ...access,
    async close() {
      await access.close()
      fetch[Symbol.dispose]()
      await directory[Symbol.asyncDispose]()
    },
  }
}

/** One thread: what threads have in common is not of a protocol, and each takes .4 s of processor time to start. */
const overHttp2 = 'HTTP/2, on a serving thread'

const accesses: Readonly<Record<string, () => Promise<Access>>> = {
  'in process': inProcessAccess,
  gRPC: () => serviceAccess(overGrpc),
  HTTP: () => serviceAccess(overHttp),
  'gRPC, on two threads': () => serviceAccess(overGrpc, () => startServedBy(2)),
  'HTTP, on two threads': () => serviceAccess(overHttp, () => startServedBy(2)),
  [overHttp2]: http2Access,
}

/** The certificate takes openssl. */
const missing: Readonly<Record<string, string | false>> = {
  [overHttp2]: spawnSync('openssl', ['version']).status !== 0 && 'openssl not installed',
}

for (const [name, open] of Object.entries(accesses)) {
  describe(`the service, ${name}`, { skip: missing[name] ?? false }, () => {
    const dimension = 19
    const random = seededRandom(seed)
    let access: Access
    let client: ContractClient
    const stored = new Map<string, ContractPoint>()

    before(async () => {
      access = await open()
      client = access.client
    })
    after(() => access.close())

    const newPoint = (): ContractPoint => ({
      vector: randomVector(random, dimension, 'small integers'),
      payload: {
        contentType: random() < 0.5 ? 'Text' : 'Image',
        content: `content ${random()} — ünïcödé 🦊`,
      },
    })

    /** Ids in the order of the metric's definition, ties by insertion. */
    const expectedIds = (
      vector: Float32Array,
      metric: (typeof distanceMetrics)[number],
      limit: number,
    ): string[] =>
      [...stored]
        .map(([id, point], order) => ({
          id,
          order,
          distance: scalarDistance(metric, vector, point.vector as Float32Array),
        }))
        .sort((a, b) => a.distance - b.distance || a.order - b.order)
        .slice(0, limit)
        .map(({ id }) => id)

    it('answers searches of an empty database with nothing', async () => {
      const query = { vector: [1, 2], metric: 'Cosine', limit: 5 } as const
      assert.deepEqual(await client.search(query), [])
      assert.deepEqual(await client.searchBatch([query, query]), [[], []])
    })

    it('assigns lower-case version 4 ids and returns points exactly', async () => {
      const vector = Float32Array.of(
        0.1,
        -0,
        1.401298464324817e-45,
        3.4028234663852886e38,
        ...new Float32Array(15).fill(1 / 3),
      )
      const payload = { contentType: 'Text', content: 'a "quoted"\n\u0000 text' } as const
      const id = await client.insert({ vector, payload })
      assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      assert.deepEqual(await client.get(id), { id, vector, payload })
      assert.deepEqual((await client.get(id.toUpperCase())).vector, vector)
      await client.delete(id)
    })

    it('stores batches in order, including an empty one', async () => {
      assert.deepEqual(await client.insertBatch([]), [])
      assert.deepEqual(await client.searchBatch([]), [])
      for (let round = 0; round < 3; round += 1) {
        const points = Array.from({ length: 50 }, newPoint)
        const ids = await client.insertBatch(points)
        for (const [index, id] of ids.entries()) stored.set(id, points[index]!)
      }
      assert.equal(stored.size, 150)
      for (const [id, point] of stored) assert.deepEqual(await client.get(id), { id, ...point })
    })

    it(`returns the nearest points by the definition of each metric, ties by insertion, seed ${seed}`, async () => {
      for (const metric of distanceMetrics) {
        const vector = randomVector(random, dimension, 'small integers')
        assert.deepEqual(await client.search({ vector, metric, limit: 40 }), expectedIds(vector, metric, 40))
      }
    })

    it('answers a batch like its individual queries', async () => {
      const queries = distanceMetrics.map((metric) => ({
        vector: randomVector(random, dimension, 'small integers'),
        metric,
        limit: 7,
        ef: 64,
      }))
      const singly = await Promise.all(queries.map((query) => client.search(query)))
      assert.deepEqual(await client.searchBatch(queries), singly)
    })

    it('returns all points if the limit exceeds their number', async () => {
      const vector = new Float32Array(dimension)
      assert.equal((await client.search({ vector, metric: 'Manhattan', limit: 16_384 })).length, stored.size)
    })

    it('no longer finds a deleted point', async () => {
      const [id] = stored.keys()
      const { vector } = stored.get(id!)!
      await client.delete(id!)
      stored.delete(id!)
      await assert.rejects(client.get(id!), { reason: 'not_found', message: 'Point not found' })
      assert.ok(!(await client.search({ vector, metric: 'Euclidean', limit: 200 })).includes(id!))
    })

    it('keeps the insertion order when a slot is reused', async () => {
      const point = newPoint()
      const id = await client.insert(point)
      stored.set(id, point)
      const vector = randomVector(random, dimension, 'small integers')
      assert.deepEqual(
        await client.search({ vector, metric: 'Hamming', limit: 200 }),
        expectedIds(vector, 'Hamming', 200),
      )
    })

    it('reports a point that was never inserted as missing', async () => {
      await assert.rejects(client.get(randomUUID()), { reason: 'not_found', message: 'Point not found' })
    })

    it('serves the same after a restart, including the dimension', async () => {
      client = await access.restarted()
      for (const [id, point] of stored) assert.deepEqual(await client.get(id), { id, ...point })
      const vector = randomVector(random, dimension, 'small integers')
      assert.deepEqual(
        await client.search({ vector, metric: 'Cosine', limit: 200 }),
        expectedIds(vector, 'Cosine', 200),
      )
      await assert.rejects(client.insert({ ...newPoint(), vector: [1, 2, 3] }), {
        reason: 'invalid_argument',
        message: 'vector has 3 dimensions, the collection has 19',
      })
    })

    it('accepts concurrent inserts, deletes and searches', async () => {
      const writers = Array.from({ length: 40 }, async () => {
        const id = await client.insert(newPoint())
        assert.equal((await client.get(id)).id, id)
        await client.delete(id)
        await assert.rejects(client.get(id), { reason: 'not_found' })
      })
      const readers = Array.from({ length: 40 }, () =>
        client.search({ vector: new Float32Array(dimension), metric: 'Euclidean', limit: 5 }),
      )
      await Promise.all([...writers, ...readers])
    })
  })
}
