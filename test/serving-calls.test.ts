import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, it } from 'node:test'
import { grpcFields } from '../src/api/call.ts'
import { createHttpClient } from '../src/client/index.ts'
import { EngineCalls, type RemoteSnapshot } from '../src/serving/engine-calls.ts'
import { SharedState } from '../src/serving/thread-setup.ts'
import { openCollections } from './support/collection.ts'
import { lettersOf, startEmbeddingServer } from './support/embedding-server.ts'
import { temporaryDirectory } from './support/process.ts'
import { startServedBy } from './support/service.ts'
import { until } from './support/until.ts'

/** What a request on a serving thread must find although the engine's thread has the collections. */

const payload = { contentType: 'Text', content: 'one' } as const

describe('a request on a serving thread', () => {
  it('stays with the collection that its alias meant when it began', async () => {
    await using embeddings = await startEmbeddingServer()
    const settings = { EMBEDDINGS_URL: embeddings.url, EMBEDDINGS_MODEL: 'letters' }
    await using service = await startServedBy(1, settings)
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const [a, b, x] = ['a', 'b', 'x'].map((name) => client.collection(name)) as [
      typeof client,
      typeof client,
      typeof client,
    ]
    await client.collections.put('a')
    await client.collections.put('b', { dimension: 5 })
    await client.collections.setAliases({ set: { x: 'a' } })
    const id = randomUUID()
    embeddings.respond = async (request) => {
      await client.collections.setAliases({ set: { x: 'b' } })
      // Then the thread knows what the alias means now.
      assert.equal(await x.count(), 0)
      return lettersOf(request)
    }
    await x.put(id, { text: 'aab', payload })
    assert.deepEqual([await a.count(), await b.count()], [1, 0])
    await x.insert({ vector: [1, 2, 3, 4, 5], payload })
    assert.deepEqual([await a.count(), await b.count()], [1, 1])
  })

  it('knows the dimension that an insert has fixed which named the default collection', async () => {
    await using service = await startServedBy(1)
    const client = createHttpClient({ baseUrl: service.httpUrl })
    assert.equal(await client.count(), 0)
    await client.collection('default').insert({ vector: [1, 2], payload })
    const { ids, errors } = await client.insertEach([
      { vector: [1, 2, 3], payload },
      { vector: [1, 2], payload },
    ])
    assert.deepEqual([errors.map(({ index }) => index), ids.map((id) => id === null)], [[0], [true, false]])
  })

  it('keeps a collection open while it reads a snapshot of it', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path, { maxOpenCollections: 1 })
    const { set } = opened
    for (const name of ['a', 'b', 'c']) {
      await set.put(name, { hnsw: {} })
      using lease = await set.lease(name)
      const points = Array.from({ length: 100 }, () => ({ vector: new Float32Array([1, 2]), payload }))
      await lease.database.insert(points)
    }
    using main = await set.lease('default')
    const context = { database: main.database, collections: set, limits: { maxLimit: 10, hnswEf: 10 } }
    const calls = new EngineCalls(context, new SharedState()).answers
    const answers = calls as Readonly<Record<string, (...inputs: unknown[]) => unknown>>
    const isOpen = (asked: string): boolean => set.open.some(([name]) => name === asked)
    const call = { fields: grpcFields, collection: 'a' }
    const taken = await answers.operation!('TakeSnapshot', {}, call)
    const { number, points } = taken as RemoteSnapshot
    assert.equal(points, 100)
    for (const name of ['b', 'c']) (await set.lease(name))[Symbol.dispose]()
    await until(() => !isOpen('b'))
    assert.ok(isOpen('a'))
    let bytes = 0
    for (;;) {
      const chunk = (await answers.chunk!(number)) as Buffer | undefined
      if (chunk === undefined) break
      bytes += chunk.length
    }
    assert.ok(bytes > 100 * (2 * 4 + 16), `${bytes} bytes`)
    answers.closeSnapshot!(number)
    for (const name of ['b', 'c']) (await set.lease(name))[Symbol.dispose]()
    await until(() => !isOpen('a'))
  })
})
