import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint } from '../src/base/point.ts'
import type { Collection } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import { type OpenedCollection, openCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'
import { until } from './support/until.ts'

const config = readConfig({ THREADS: '1' })
const startUs = 1_790_000_000_000_000
const secondUs = 1_000_000
const include = { distance: false, payload: true, vector: false, version: false }

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
let nowUs: number

beforeEach(async () => {
  directory = await temporaryDirectory()
  nowUs = startUs
})
afterEach(() => directory[Symbol.asyncDispose]())

function open(): Promise<OpenedCollection> {
  return openCollection(directory.path, { ...config, nowUs: () => nowUs })
}

function pointOf(expiresAtUs?: number, id?: string): NewPoint {
  return {
    vector: Float32Array.of(1, 2, 3),
    payload: {
      contentType: 'Text',
      content: 'x',
      attributes: new Map([['a', 1]]),
      ...(expiresAtUs === undefined ? {} : { expiresAtUs }),
    },
    id,
  }
}

/** The ids that each operation returns. */
async function seen(collection: Collection, ids: readonly string[]): Promise<Record<string, unknown>> {
  const query = { vector: Float32Array.of(1, 2, 3), metric: 'Euclidean', limit: 50, ef: 50 } as const
  const isThere = async (id: string): Promise<boolean> => (await collection.get(id)) !== undefined
  const there = await Promise.all(ids.map(isThere))
  const sorted = (list: readonly string[]): readonly string[] => list.toSorted()
  return {
    get: sorted(ids.filter((_, at) => there[at])),
    list: sorted((await collection.list({ limit: 50, include })).points.map(({ id }) => id)),
    search: sorted((await collection.search([query])).ids.strings()[0]!),
    filtered: sorted(
      (
        await collection.search([
          { ...query, filter: { kind: 'condition', path: 'a', test: { op: 'exists' } } },
        ])
      ).ids.strings()[0]!,
    ),
    count: await collection.count(),
    facet: (await collection.facets({ paths: ['a'], limit: 5 })).get('a')![0]?.count ?? 0,
    points: collection.points,
  }
}

function all(ids: readonly string[]): Record<string, unknown> {
  const sorted = ids.toSorted()
  const count = ids.length
  return { get: sorted, list: sorted, search: sorted, filtered: sorted, count, facet: count, points: count }
}

describe('a point that expires', () => {
  it('is in every answer until its expiry time, and in none from then on', async () => {
    await using opened = await open()
    const { collection } = opened
    const ids = await insertIds(collection, [
      pointOf(),
      pointOf(startUs + secondUs),
      pointOf(startUs + 2 * secondUs),
    ])

    nowUs = startUs + secondUs - 1
    assert.deepEqual(await seen(collection, ids), all(ids))
    nowUs += 1
    assert.deepEqual(await seen(collection, ids), all([ids[0]!, ids[2]!]))
    assert.equal(await collection.remove(ids[1]!), false)
    await assert.rejects(collection.patch(ids[1]!, { content: 'y' }), { reason: 'not_found' })
    const near = { vector: ids[1]!, metric: 'Euclidean', limit: 1, ef: 1 } as const
    await assert.rejects(collection.search([near]), { reason: 'not_found' })
    nowUs += secondUs
    assert.deepEqual(await seen(collection, ids), all([ids[0]!]))
  })

  it('is accepted after its expiry time, and never returned', async () => {
    await using opened = await open()
    const ids = await insertIds(opened.collection, [pointOf(startUs), pointOf(startUs - secondUs)])
    assert.equal(new Set(ids).size, 2)
    assert.deepEqual(await seen(opened.collection, ids), all([]))
  })

  it('is deleted on disk, and frees its slot and id', async () => {
    const id = newId()
    {
      await using opened = await open()
      const { collection, store } = opened
      await collection.insert([
        pointOf(startUs + secondUs, id),
        ...Array.from({ length: 9 }, () => pointOf(startUs + secondUs)),
      ])
      nowUs += secondUs
      // Immediately, before the expired point is deleted.
      assert.deepEqual((await collection.insert([pointOf(undefined, id)])).ids, [id])
      assert.deepEqual(await seen(collection, [id]), all([id]))
      // 10 inserts, one replacement of an expired point, 9 deletions.
      await until(() => store.sequence === 20)
      await collection.insert(Array.from({ length: 9 }, () => pointOf()))
      assert.ok(store.slotCount <= 11, `${store.slotCount} slots were used`)
    }
    // Also with an earlier clock.
    nowUs = startUs
    await using opened = await open()
    assert.equal(await opened.collection.count(), 10)
  })

  it('stays hidden when the clock goes back; points inserted then live until their own moment', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const early = await insertIds(collection, [pointOf(startUs + 3600 * secondUs)])
    nowUs += 3600 * secondUs
    assert.equal(await collection.get(early[0]!), undefined)
    nowUs = startUs
    assert.deepEqual(await seen(collection, early), all([]))
    // Its insertion and deletion.
    await until(() => store.sequence === 2)
    const ids = await insertIds(collection, [pointOf(startUs + 60 * secondUs), pointOf()])
    await collection.patch(ids[1]!, { expiresAtUs: startUs + 60 * secondUs })
    nowUs += 60 * secondUs - 1
    assert.deepEqual(await seen(collection, ids), all(ids))
    nowUs += 1
    assert.deepEqual(await seen(collection, ids), all([]))
  })

  it('stays if it is renewed before', async () => {
    await using opened = await open()
    const { collection } = opened
    const ids = await insertIds(
      collection,
      Array.from({ length: 4 }, () => pointOf(startUs + secondUs)),
    )
    await collection.patch(ids[0]!, { expiresAtUs: null })
    await collection.patch(ids[1]!, { expiresAtUs: startUs + 3 * secondUs })
    await collection.put(ids[2]!, pointOf())
    nowUs += secondUs
    assert.deepEqual(await seen(collection, ids), all(ids.slice(0, 3)))
    nowUs += 2 * secondUs
    assert.deepEqual(await seen(collection, ids), all([ids[0]!, ids[2]!]))
  })

  it('stays if a renewal is decided before its expiry time and acknowledged after it', async () => {
    await using opened = await open()
    const { collection } = opened
    const ids = await insertIds(collection, [pointOf(startUs + secondUs), pointOf(startUs + 100 * secondUs)])
    for (const [at, id] of ids.entries()) {
      const renewing = collection.patch(id, { expiresAtUs: startUs + 1000 * secondUs })
      // By now the change is decided, and most likely not on the disk yet.
      await new Promise<void>((resolve) => setImmediate(resolve))
      nowUs = startUs + (at === 0 ? 1 : 100) * secondUs
      await collection.count()
      await renewing
    }
    assert.deepEqual(await seen(collection, ids), all(ids))
  })

  it('may expire with thousands of others; no answer waits for their deletion', async () => {
    await using opened = await open()
    const { collection, store } = opened
    const count = 20_000
    await collection.insert(Array.from({ length: count }, () => pointOf(startUs + secondUs)))
    const ids = await insertIds(collection, [pointOf()])
    nowUs += secondUs
    assert.equal(await collection.count(), 1)
    assert.deepEqual(await seen(collection, ids), all(ids))
    await until(() => store.sequence === 2 * count + 1)
  })

  it('is deleted automatically, by the system clock', async () => {
    await using opened = await openCollection(directory.path, config)
    const { collection, store } = opened
    const expiresAtUs = Date.now() * 1000 + 30_000
    const ids = await insertIds(collection, [pointOf(expiresAtUs), pointOf()])
    await until(() => store.sequence === 3)
    assert.ok(Date.now() * 1000 >= expiresAtUs)
    assert.deepEqual(await seen(collection, ids), all([ids[1]!]))
  })
})
