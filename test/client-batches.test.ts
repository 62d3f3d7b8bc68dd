import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type BatchInsert, insertInBatches } from '../src/client/bulk-insert.ts'
import type { BulkOptions } from '../src/client/calls.ts'
import { createGrpcClient, createHttpClient, type PointToInsert } from '../src/client/index.ts'
import { describeBoth } from './support/both-transports.ts'
import { apiKey, startTestCluster } from './support/service.ts'

/** Batches of the client: their order, their sizes, and what their errors say. */

function idOf(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, 'a')}`
}

function pointOf(content: string, more: Partial<PointToInsert> = {}): PointToInsert {
  return { vector: [1, 2], payload: { contentType: 'Text', content }, ...more }
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const read: Item[] = []
  for await (const item of items) read.push(item)
  return read
}

/** What happens to the batches of a bulk insert: `sent` and `stored`, each with the contents of its points. */
async function eventsOf(points: readonly PointToInsert[], options: BulkOptions): Promise<string[]> {
  const events: string[] = []
  const insert: BatchInsert['insertChecked'] = async (batch) => {
    const contents = batch.map(({ payload }) => payload.content).join('')
    events.push(`sent ${contents}`)
    await nextTurn()
    events.push(`stored ${contents}`)
    return { ids: [], errors: [] }
  }
  await all(insertInBatches(insert, points, options))
  return events
}

describe('the batches of a bulk insert', () => {
  it('wait for those that have one of their ids, and have no id twice', async () => {
    const points = [
      pointOf('a', { id: idOf(1) }),
      pointOf('b', { id: idOf(2) }),
      pointOf('c', { id: idOf(2).toUpperCase() }),
      pointOf('d'),
      pointOf('e', { id: idOf(3) }),
      pointOf('f'),
      pointOf('g', { id: idOf(4) }),
      pointOf('h', { id: idOf(4) }),
    ]
    assert.deepEqual(await eventsOf(points, { batchSize: 2, concurrency: 2 }), [
      'sent ab',
      'stored ab',
      'sent cd',
      'sent ef',
      'stored cd',
      'sent g',
      'stored ef',
      'stored g',
      'sent h',
      'stored h',
    ])
  })

  it('are bounded in bytes, too', async () => {
    const content = 'x'.repeat(100_000)
    const points = Array.from({ length: 100 }, () => pointOf(content))
    const sent = (await eventsOf(points, {})).filter((event) => event.startsWith('sent'))
    const charactersMax = (8 * 1024 * 1024) / 2
    for (const event of sent) assert.ok(event.length < charactersMax + 10, `${event.length} characters`)
    assert.equal(sent.length, 3)
  })
})

function pointsWithIds(): PointToInsert[] {
  // In a cluster, each is in another partition.
  return Array.from({ length: 6 }, (_, index) =>
    pointOf('new', { id: `0${index}000000-0000-4000-8000-000000000000` }),
  )
}

describe('a bulk insert into a cluster', () => {
  for (const transport of ['http', 'grpc']) {
    it(`stores the other points of a batch if an id exists, and names that one, over ${transport}`, async () => {
      await using cluster = await startTestCluster(['a', 'b'])
      const { httpUrl, grpcAddress } = cluster.services[0]!
      const client =
        transport === 'http'
          ? createHttpClient({ baseUrl: httpUrl, apiKey })
          : createGrpcClient({ address: grpcAddress, apiKey })
      const points = pointsWithIds()
      await client.insert({ ...points[4]!, ...pointOf('stored before') })
      await assert.rejects(client.insertBatch(points), { reason: 'invalid_argument' })
      await assert.rejects(all(client.insertAll(points, { batchSize: 3 })), {
        reason: 'already_exists',
        message: `vectors[4].id ${points[4]!.id} exists: send on_conflict to replace or skip it`,
      })
      const contents = await Promise.all(
        points.map(async ({ id }) => (await client.get(id!)).payload.content),
      )
      assert.deepEqual(contents, ['new', 'new', 'new', 'new', 'stored before', 'new'])
      await client.close()
    })
  }
})

describeBoth('a bulk insert', (transport) => {
  it('stores the last point given with an id', async () => {
    const { client } = transport
    const ids = Array.from({ length: 10 }, (_, index) => idOf(index))
    const points = Array.from({ length: 200 }, (_, index) =>
      pointOf(String(index), { id: ids[index % ids.length]!, onConflict: 'replace' }),
    )
    const stored = await all(client.insertAll(points, { batchSize: 7, concurrency: 4 }))
    assert.equal(stored.flat().length, 200)
    const contents = await Promise.all(ids.map(async (id) => (await client.get(id)).payload.content))
    assert.deepEqual(
      contents,
      ids.map((_, index) => String(190 + index)),
    )
  })

  it('stores nothing of a batch if an id exists, and names it', async () => {
    const { client } = transport
    const points = pointsWithIds()
    await client.insert({ ...points[4]!, ...pointOf('stored before') })
    await assert.rejects(all(client.insertAll(points, { batchSize: 3 })), {
      reason: 'already_exists',
      message: `vectors[4].id: there is a point with the id ${points[4]!.id} already`,
    })
    assert.equal((await client.get(points[2]!.id!)).payload.content, 'new')
    for (const { id } of [points[3]!, points[5]!])
      await assert.rejects(client.get(id!), { reason: 'not_found' })
    for (const { id } of points) await client.delete(id!)
  })

  it('names a bad point by its place among all points', async () => {
    const { client } = transport
    const points = Array.from({ length: 50 }, (_, index) => pointOf(String(index)))
    for (const [vector, message] of [
      [[1, 2, 3], /^vectors\[34\]\.vector has 3 dimensions/],
      [[1, Number.NaN], /^vectors\[34\]\.vector\[1\] is NaN/],
    ] as const) {
      const faulty = points.with(34, pointOf('bad', { vector }))
      const inserted = all(client.insertAll(faulty, { batchSize: 10 }))
      await assert.rejects(inserted, { reason: 'invalid_argument', message })
    }
  })

  it('may continue after bad points: reports all of them, wherever they were found', async () => {
    const { client } = transport
    const id = idOf(99)
    const { ids, errors } = await client.insertEach([
      pointOf('nan', { vector: [1, Number.NaN] }),
      pointOf('good', { id }),
      pointOf('long', { vector: [1, 2, 3] }),
      pointOf('url', {
        payload: { contentType: 'Text', content: '', attributes: { a: new URL('http://x') } as never },
      }),
      pointOf('again', { id }),
      pointOf('good'),
    ])
    assert.deepEqual(
      [ids.length, ids[1], ids.map((each) => each !== null)],
      [6, id, [false, true, false, false, false, true]],
    )
    assert.deepEqual(
      errors.map(({ index, reason, message }) => [index, reason, message.split(' ', 4).join(' ')]),
      [
        [0, 'invalid_argument', 'vectors[0].vector[1] is NaN, it'],
        [2, 'invalid_argument', 'vectors[2].vector has 3 dimensions,'],
        [3, 'invalid_argument', 'vectors[3].payload.attributes.a is an object'],
        [4, 'invalid_argument', 'vectors[4].id equals vectors[1].id: the'],
      ],
    )
  })

  it('and a deletion of a missing point, a used key and a missing collection have one outcome', async () => {
    const { client } = transport
    await client.delete(idOf(12345))
    const missing = client.collection('missing')
    for (const call of [
      () => missing.delete(idOf(1)),
      () => missing.count(),
      () => client.collections.get('missing'),
    ]) {
      await assert.rejects(call, { reason: 'collection_not_found' })
    }
    await client.insert(pointOf('one'), { idempotencyKey: 'k' })
    await assert.rejects(client.insert(pointOf('other'), { idempotencyKey: 'k' }), { reason: 'key_reused' })
    await assert.rejects(client.get(idOf(12345)), { reason: 'not_found', message: 'Point not found' })
  })
})

describe('the bounds of a client', () => {
  it('refuse a request that is too large, before it is sent', async () => {
    // Nothing listens at port 1.
    const bounds = { maxRequestBytes: 10_000, retries: 0 }
    for (const client of [
      createHttpClient({ baseUrl: 'http://127.0.0.1:1', ...bounds }),
      createGrpcClient({ address: '127.0.0.1:1', apiKey, ...bounds }),
    ]) {
      const refusal = { reason: 'request_too_large', message: /10000 bytes \(maxRequestBytes .*insertAll/ }
      const points = Array.from({ length: 100 }, () => pointOf('x'.repeat(200)))
      const query = { vector: new Float32Array(6000), metric: 'Cosine', limit: 1 } as const
      await assert.rejects(client.insertBatch(points), refusal)
      await assert.rejects(client.insert(pointOf('x'.repeat(20_000))), refusal)
      await assert.rejects(client.searchBatch([query]), refusal)
      await assert.rejects(client.count(), { reason: 'not_ready' })
      await client.close()
    }
  })

  it('end a call that gets no answer', async () => {
    const sockets: Socket[] = []
    const silent = createServer((socket) => sockets.push(socket)).listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`
    const bounds = { timeoutMs: 50, retries: 0 }
    const clients = [
      createHttpClient({ baseUrl: `http://${address}`, ...bounds }),
      createGrpcClient({ address, apiKey, ...bounds }),
    ]
    for (const client of clients) {
      await assert.rejects(client.count(), {
        reason: 'deadline_exceeded',
        message: /127\.0\.0\.1:\d+ has not answered within 50 ms \(timeoutMs\)$/,
        isUncertain: true,
      })
      await client.close()
    }
    silent.close()
    for (const socket of sockets) socket.destroy()
  })

  it('are whole numbers', () => {
    for (const bounds of [
      { timeoutMs: 0 },
      { timeoutMs: Number.POSITIVE_INFINITY },
      { retries: -1 },
      { timeout: 5 },
    ]) {
      assert.throws(() => createHttpClient({ baseUrl: 'http://x', ...bounds }), {
        reason: 'invalid_argument',
      })
      assert.throws(() => createGrpcClient({ address: 'x:1', apiKey, ...bounds }), {
        reason: 'invalid_argument',
      })
    }
  })
})
