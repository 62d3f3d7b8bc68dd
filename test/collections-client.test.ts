import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import {
  type CollectionInfo,
  createGrpcClient,
  createHttpClient,
  type PointToInsert,
  type VectorClient,
} from '../src/client/index.ts'
import { temporaryDirectory } from './support/process.ts'
import { apiKey, startTestService, type TestService } from './support/service.ts'

/** Collections through both clients, against a real service. */

interface Connecting {
  readonly collection?: string
}

const transports: Readonly<Record<string, (service: TestService, options?: Connecting) => VectorClient>> = {
  gRPC: ({ grpcAddress }, options) => createGrpcClient({ address: grpcAddress, apiKey, ...options }),
  HTTP: ({ httpUrl }, options) => createHttpClient({ baseUrl: httpUrl, ...options }),
}

function pointOf(vector: readonly number[], content: string): PointToInsert {
  return { vector, payload: { contentType: 'Text', content } }
}

const readKey = 'a-key-that-may-only-read'
const missingId = '11111111-2222-4333-8444-555555555555'

for (const [transport, connect] of Object.entries(transports)) {
  describe(`collections over ${transport}`, () => {
    let service: TestService
    let client: VectorClient

    before(async () => {
      service = await startTestService({ hnswM: 12, hnswEfConstruction: 80 })
      client = connect(service)
    })
    after(async () => {
      await client?.close()
      await service?.[Symbol.asyncDispose]()
    })

    /** The content of the nearest point. */
    async function nearest(points: VectorClient, vector: readonly number[]): Promise<string> {
      const [id] = await points.search({ vector, metric: 'Euclidean', limit: 1 })
      return (await points.get(id!)).payload.content
    }

    it('are only the default one at first', async () => {
      assert.deepEqual(await client.collections.list(), [
        {
          name: 'default',
          dimension: undefined,
          points: 0,
          hnsw: { m: 12, efConstruction: 80 },
          aliases: [],
        },
      ])
    })

    it('are created once, however often that is requested, and not again with other settings', async () => {
      const settings = { dimension: 2, hnsw: { m: 8, efConstruction: 40 } }
      const info: CollectionInfo = { name: 'made', points: 0, aliases: [], ...settings }
      assert.deepEqual(await client.collections.put('made', settings), { created: true, info })
      assert.deepEqual(await client.collections.put('made', settings), { created: false, info })
      assert.deepEqual(await client.collections.put('made'), { created: false, info })
      assert.deepEqual(await client.collections.get('made'), info)
      for (const other of [{ dimension: 3 }, { hnsw: { m: 9 } }, { hnsw: { efConstruction: 41 } }]) {
        await assert.rejects(client.collections.put('made', other), {
          reason: 'already_exists',
          message: /the collection made exists/,
        })
      }
      await client.collections.delete('made')
    })

    it('keep their points apart, each with its own dimension', async () => {
      await client.collections.put('pairs', { dimension: 2 })
      await client.collections.put('triples')
      const pairs = client.collection('pairs')
      const triples = connect(service, { collection: 'triples' })
      const pair = await pairs.insert(pointOf([1, 2], 'a pair'))
      const [triple] = await triples.insertBatch([pointOf([1, 2, 3], 'a triple'), pointOf([9, 9, 9], 'far')])
      await client.insert(pointOf([1, 2, 3, 4], 'of the default collection'))

      assert.equal(await nearest(pairs, [1, 2]), 'a pair')
      assert.equal(await nearest(triples, [1, 2, 3]), 'a triple')
      assert.equal(await nearest(client, [1, 2, 3, 4]), 'of the default collection')
      assert.equal(await nearest(pairs.collection('default'), [0, 0, 0, 0]), 'of the default collection')
      const queries = [{ vector: [1, 2, 3], metric: 'Cosine', limit: 1 } as const]
      assert.deepEqual(await triples.searchBatch(queries), [[triple]])

      await assert.rejects(pairs.insert(pointOf([1, 2, 3], 'x')), { reason: 'invalid_argument' })
      await assert.rejects(triples.get(pair), { reason: 'not_found', message: 'Point not found' })
      const listed = await client.collections.list()
      assert.deepEqual(
        listed.map(({ name, dimension, points }) => [name, dimension, points]),
        [
          ['default', 4, 1],
          ['pairs', 2, 1],
          ['triples', 3, 2],
        ],
      )

      await pairs.delete(pair)
      await assert.rejects(pairs.get(pair), { reason: 'not_found' })
      assert.equal((await client.collections.get('pairs')).points, 0)
      await triples.close()
    })

    it('each have their own idempotency keys', async () => {
      await client.collections.put('first')
      await client.collections.put('second')
      const point = pointOf([1], 'once')
      const options = { idempotencyKey: 'the same' }
      const id = await client.collection('first').insert(point, options)
      assert.equal(await client.collection('first').insert(point, options), id)
      assert.notEqual(await client.collection('second').insert(point, options), id)
      assert.equal((await client.collections.get('second')).points, 1)
    })

    it('are found by aliases, which move between collections while they are read', async () => {
      for (const name of ['words-1', 'words-2']) {
        await client.collections.put(name)
        await client.collection(name).insert(pointOf([1, 1], name))
      }
      const words = client.collection('words')
      assert.deepEqual(await client.collections.setAliases({ set: { words: 'words-1' } }), {
        words: 'words-1',
      })
      assert.equal(await nearest(words, [1, 1]), 'words-1')
      assert.deepEqual(await client.collections.setAliases({ set: { words: 'words-2', old: 'words-1' } }), {
        old: 'words-1',
        words: 'words-2',
      })
      assert.equal(await nearest(words, [1, 1]), 'words-2')
      assert.equal((await client.collections.get('words')).name, 'words-2')
      assert.deepEqual((await client.collections.get('words-2')).aliases, ['words'])

      const left = await client.collections.setAliases({ remove: ['old', 'never-was'] })
      assert.deepEqual(left, { words: 'words-2' })
      await client.collections.delete('words-2')
      await assert.rejects(client.collections.get('words'), { reason: 'collection_not_found' })
      assert.deepEqual(await client.collections.setAliases({}), {})
    })

    it('and aliases do not take each other’s names, and alias changes are all or nothing', async () => {
      await client.collections.put('taken')
      const wrong = { set: { fine: 'taken', taken: 'default' } }
      await assert.rejects(client.collections.setAliases(wrong), { reason: 'already_exists' })
      const missing = { set: { fine: 'taken', other: 'missing' } }
      await assert.rejects(client.collections.setAliases(missing), { reason: 'collection_not_found' })
      await assert.rejects(client.collections.get('fine'), { reason: 'collection_not_found' })
      await client.collections.setAliases({ set: { fine: 'taken' } })
      await assert.rejects(client.collections.put('fine'), { reason: 'already_exists' })
      await assert.rejects(client.collections.delete('fine'), { reason: 'invalid_argument' })
      await assert.rejects(client.collections.delete('default'), { reason: 'invalid_argument' })
    })

    it('that are missing are distinguished from missing points', async () => {
      const nowhere = client.collection('nowhere')
      const query = { vector: [1], metric: 'Cosine', limit: 1 } as const
      const calls: readonly (() => Promise<unknown>)[] = [
        () => nowhere.insert(pointOf([1], 'x')),
        () => nowhere.insertBatch([pointOf([1], 'x')]),
        () => nowhere.get(missingId),
        () => nowhere.delete(missingId),
        () => nowhere.search(query),
        () => nowhere.searchBatch([query]),
        () => client.collections.get('nowhere'),
        () => client.collections.delete('nowhere'),
      ]
      for (const call of calls) {
        await assert.rejects(call, { reason: 'collection_not_found', message: /nowhere/ })
      }
      await assert.rejects(client.get(missingId), { reason: 'not_found', message: 'Point not found' })
    })

    it('that are deleted free their name', async () => {
      await client.collections.put('fleeting')
      const fleeting = client.collection('fleeting')
      await fleeting.insert(pointOf([1, 2, 3], 'gone'))
      await client.collections.delete('fleeting')
      await assert.rejects(fleeting.insert(pointOf([1], 'x')), { reason: 'collection_not_found' })
      await client.collections.put('fleeting', { dimension: 1 })
      await fleeting.insert(pointOf([1], 'new'))
      assert.equal(await nearest(fleeting, [1]), 'new')
    })

    it('never have an invalid name', async () => {
      for (const name of ['', '..', 'Upper', '-first', 'a/b', 'x'.repeat(64), 'default?', 'ü']) {
        const refusal = { reason: 'invalid_argument', message: /cannot be the name of a collection/ }
        assert.throws(() => client.collection(name), refusal)
        assert.throws(() => connect(service, { collection: name }), refusal)
        await assert.rejects(client.collections.get(name), refusal)
        await assert.rejects(client.collections.put(name), refusal)
        await assert.rejects(client.collections.delete(name), refusal)
        const { set, remove } = { set: { [name]: 'default' }, remove: [name] }
        await assert.rejects(client.collections.setAliases({ set }), { reason: 'invalid_argument' })
        await assert.rejects(client.collections.setAliases({ remove }), { reason: 'invalid_argument' })
      }
    })

    it('refuse settings beyond their bounds', async () => {
      const wrong = [{ dimension: 0 }, { dimension: 65_536 }, { hnsw: { m: 3 } }, { dimension: 1.5 }]
      for (const settings of [...wrong, { hnsw: { efConstruction: 2001 } }, { dimension: -1 }]) {
        await assert.rejects(client.collections.put('refused', settings), { reason: 'invalid_argument' })
      }
      await assert.rejects(client.collections.get('refused'), { reason: 'collection_not_found' })
    })

    it('end a call when its signal aborts', async () => {
      const signal = AbortSignal.abort()
      for (const call of [
        () => client.collections.list({ signal }),
        () => client.collections.get('default', { signal }),
        () => client.collections.put('default', {}, { signal }),
        () => client.collections.delete('default', { signal }),
        () => client.collections.setAliases({}, { signal }),
      ]) {
        await assert.rejects(call, { reason: 'cancelled' })
      }
    })

    it('survive a restart, with their points and aliases', async () => {
      await client.collections.put('kept', { dimension: 2, hnsw: { m: 5 } })
      await client.collection('kept').insert(pointOf([1, 2], 'kept'))
      await client.collections.setAliases({ set: { 'by-alias': 'kept' } })
      const listed = await client.collections.list()
      await client.close()
      await service.restart()
      client = connect(service)
      assert.deepEqual(await client.collections.list(), listed)
      assert.equal(await nearest(client.collection('by-alias'), [1, 2]), 'kept')
    })
  })
}

describe('the clients of collections', () => {
  it('share a connection, which is closed for all of them', async () => {
    await using service = await startTestService()
    const client = createGrpcClient({ address: service.grpcAddress, apiKey })
    await client.collections.put('shared')
    const shared = client.collection('shared')
    await shared.close()
    await assert.rejects(client.collections.list())
  })

  it('read with a read-only key, and cannot change anything', async () => {
    await using directory = await temporaryDirectory()
    const file = join(directory.path, 'keys')
    await writeFile(file, `read dashboard ${readKey}\n`, { mode: 0o600 })
    await using service = await startTestService({ API_KEYS_FILE: file })
    const writer = createGrpcClient({ address: service.grpcAddress, apiKey })
    await writer.collections.put('guarded')
    const id = await writer.collection('guarded').insert(pointOf([1], 'x'))
    await writer.close()
    for (const reader of [
      createGrpcClient({ address: service.grpcAddress, apiKey: readKey }),
      createHttpClient({ baseUrl: service.httpUrl, apiKey: readKey }),
    ]) {
      assert.equal((await reader.collections.list()).length, 2)
      assert.equal((await reader.collections.get('guarded')).points, 1)
      assert.equal((await reader.collection('guarded').get(id)).payload.content, 'x')
      for (const change of [
        () => reader.collections.put('more'),
        () => reader.collections.delete('guarded'),
        () => reader.collections.setAliases({ set: { other: 'guarded' } }),
        () => reader.collection('guarded').delete(id),
      ]) {
        await assert.rejects(change, { reason: 'permission_denied' })
      }
      await reader.close()
    }
    const stranger = createHttpClient({ baseUrl: service.httpUrl })
    await assert.rejects(stranger.collections.list(), { reason: 'unauthenticated' })
  })
})
