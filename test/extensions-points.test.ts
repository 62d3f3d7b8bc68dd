import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { it } from 'node:test'
import { DateTime, GeoPoint } from '../src/base/attributes.ts'
import type { PointToInsert } from '../src/client/index.ts'
import { describeBoth } from './support/both-transports.ts'

/** Points with attributes, chosen ids and conditions, end to end. */

const attributes = {
  shop: 'x',
  price: 9.5,
  stock: true,
  tags: ['a', 'b'],
  at: new DateTime(1_795_000_000_000_001),
  where: new GeoPoint(47.5, 19.25),
  nested: { list: [{ deep: 1 }, { deep: 2 }] },
} as const

function pointOf(more: Partial<PointToInsert> = {}): PointToInsert {
  return { vector: [1, 2], payload: { contentType: 'Text', content: 'x' }, ...more }
}

describeBoth('points with attributes', (transport) => {
  it('may use any attribute names, including those that are special in JavaScript', async () => {
    const { client } = transport
    const names = JSON.parse(
      '{"constructor":1,"toString":[{"__proto__":"a"}],"__proto__":{"__proto__":2,"kind":3}}',
    )
    const payload = { contentType: 'Text', content: '', attributes: names } as const
    const [id] = await client.insertBatch([{ vector: [1, 2], payload }])
    const found = (await client.get(id!)).payload.attributes
    assert.deepEqual(Object.entries(found!).sort(), Object.entries(names).sort())
    const inner = Object.getOwnPropertyDescriptor(found, '__proto__')!.value
    assert.deepEqual(Object.entries(inner).sort(), [
      ['__proto__', 2],
      ['kind', 3],
    ])
    await client.patch(id!, { set: JSON.parse('{"__proto__":4}') })
    const filter = JSON.parse('{"__proto__":4}')
    const { hits } = await client.searchHits({
      vector: [1, 2],
      metric: 'Euclidean',
      limit: 1,
      filter,
      include: { attributes: ['__proto__'] },
    })
    assert.deepEqual(Object.entries(hits[0]!.payload!.attributes!), [['__proto__', 4]])
  })

  it('are all stored or none, unless the batch continues after errors', async () => {
    const { client } = transport
    const taken = randomUUID()
    await client.insert(pointOf({ id: taken }))
    const stored = await client.count()
    const batch = [
      pointOf(),
      pointOf({ vector: [1] }),
      pointOf({ id: taken }),
      pointOf({ payload: { contentType: 'Text', content: '', attributes: { 'a.b': 1 } } }),
      pointOf({ id: 'no-id' }),
      pointOf({ vector: [5, 6] }),
    ]
    await assert.rejects(client.insertBatch(batch), {
      reason: 'invalid_argument',
      message: /^vectors\[1\]\./,
    })
    assert.equal(await client.count(), stored)
    const { ids, errors } = await client.insertEach(batch)
    assert.deepEqual(
      ids.map((id) => id !== null),
      [true, false, false, false, false, true],
    )
    assert.deepEqual(
      errors.map(({ index, reason }) => [index, reason]),
      [
        [1, 'invalid_argument'],
        [2, 'already_exists'],
        [3, 'invalid_argument'],
        [4, 'invalid_argument'],
      ],
    )
    for (const { index, message } of errors) assert.ok(message.startsWith(`vectors[${index}].`), message)
    assert.equal(await client.count(), stored + 2)
    assert.deepEqual((await client.get(ids[5]!)).vector, Float32Array.of(5, 6))
    assert.deepEqual((await client.insertEach([pointOf()])).errors, [])
    assert.deepEqual(await client.insertEach([]), { ids: [], errors: [] })
  })

  it('expire, unless a patch removes the expiry', async () => {
    const { client } = transport
    const payload = { contentType: 'Text', content: 'x' } as const
    const past = new Date(Date.now() - 1)
    const gone = await client.insert({ vector: [1, 2], payload: { ...payload, expiresAt: past } })
    await assert.rejects(client.get(gone), { reason: 'not_found' })
    await assert.rejects(client.patch(gone, { expiresAt: null }), { reason: 'not_found' })
    assert.equal(await client.count({ $id: gone }), 0)
    const future = new Date(Date.now() + 60_000)
    const kept = await client.insert({ vector: [1, 2], payload: { ...payload, expiresAt: future } })
    assert.deepEqual((await client.get(kept)).payload.expiresAt, future)
    await client.patch(kept, { expiresAt: null })
    assert.deepEqual((await client.get(kept)).payload, payload)
    await client.patch(kept, { expiresAt: past })
    await assert.rejects(client.get(kept), { reason: 'not_found' })
  })

  it('with an idempotency key are stored once, attributes and ids included', async () => {
    const { client } = transport
    const idempotencyKey = randomUUID()
    const expiresAt = new Date(4_000_000_000_000)
    const points = [
      pointOf({ payload: { contentType: 'Text', content: 'x', attributes, expiresAt } }),
      pointOf({ id: randomUUID() }),
    ]
    const ids = await client.insertBatch(points, { idempotencyKey })
    const stored = await client.count()
    assert.deepEqual(await client.insertBatch(points, { idempotencyKey }), ids)
    assert.equal(await client.count(), stored)
    for (const other of [
      [
        pointOf({ payload: { contentType: 'Text', content: 'x', attributes: { ...attributes, price: 10 } } }),
        points[1]!,
      ],
      [points[0]!, pointOf({ id: randomUUID() })],
    ]) {
      await assert.rejects(client.insertBatch(other, { idempotencyKey }), {
        message: /^another request was stored under this idempotency key/,
      })
    }
  })

  it('with an idempotency key get the same answer again, even if some could not be stored', async () => {
    const { client } = transport
    const idempotencyKey = randomUUID()
    const points = [pointOf(), pointOf({ vector: [1] }), pointOf({ vector: [2, 2] })]
    const { ids, errors } = await client.insertEach(points, { idempotencyKey })
    assert.deepEqual(
      errors.map(({ index }) => index),
      [1],
    )
    const stored = await client.count()
    assert.deepEqual(await client.insertEach(points, { idempotencyKey }), { ids, errors })
    assert.equal(await client.count(), stored)
  })

  it('of a named collection are separate', async () => {
    const { client } = transport
    await client.collections.put('named', {})
    const named = client.collection('named')
    const id = randomUUID()
    await named.put(id, { vector: [1, 2, 3], payload: { contentType: 'Text', content: 'n', attributes } })
    await assert.rejects(client.get(id), { reason: 'not_found' })
    await named.patch(id, { set: { price: 1 } })
    assert.equal(await named.count({ price: 1 }), 1)
    const [hit] = (await named.list({ filter: { shop: 'x' }, include: { attributes: ['price'] } })).points
    assert.equal(hit!.id, id)
    assert.deepEqual(await named.deleteMatching({ filter: { shop: 'x' } }), { changed: 1, more: false })
    assert.equal(await named.count(), 0)
  })
})
