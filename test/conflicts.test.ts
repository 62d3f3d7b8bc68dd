import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Filter } from '../src/base/filter.ts'
import { newId } from '../src/base/new-ids.ts'
import type { NewPoint, OnConflict } from '../src/base/point.ts'
import type { Collection } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import type { Inserted, RequestIdentity } from '../src/points/database.ts'
import { withCollection } from './support/collection.ts'
import { insertIds } from './support/insert-ids.ts'
import { temporaryDirectory } from './support/process.ts'

const config = readConfig({ THREADS: '1' })
const everything: Filter = { kind: 'all', of: [] }

function pointOf(content: string, id?: string, onConflict?: OnConflict): NewPoint {
  return { vector: Float32Array.of(1, 2), payload: { contentType: 'Text', content }, id, onConflict }
}

async function withPoints(work: (collection: Collection) => Promise<void>): Promise<void> {
  await using directory = await temporaryDirectory()
  await withCollection(directory.path, config, work)
}

async function contentOf(collection: Collection, id: string): Promise<string | undefined> {
  return (await collection.get(id))?.payload.content
}

describe('an id chosen by the caller', () => {
  it('is stored once: a batch that repeats it is refused, and the message names the item', async () => {
    await withPoints(async (collection) => {
      const [one, other] = [newId(), newId()]
      await collection.insert([pointOf('first', one)])
      await assert.rejects(collection.insert([pointOf('second', one)]), {
        reason: 'already_exists',
        message: `id: there is a point with the id ${one} already`,
      })
      await assert.rejects(collection.insert([pointOf('new', other), pointOf('second', one)]), {
        reason: 'already_exists',
        message: `vectors[1].id: there is a point with the id ${one} already`,
      })
      assert.equal(collection.points, 1)
      assert.equal(await contentOf(collection, one), 'first')
    })
  })

  it('may occur once in a batch: the message names both items', async () => {
    await withPoints(async (collection) => {
      const id = newId()
      const points = [pointOf('a', id, 'replace'), pointOf('b'), pointOf('c', id, 'replace')]
      await assert.rejects(collection.insert(points), {
        reason: 'invalid_argument',
        message: /^vectors\[2\]\.id equals vectors\[0\]\.id/,
      })
      assert.equal(collection.points, 0)
      const { ids, errors } = await collection.insert(points, { onError: 'continue' })
      assert.equal(ids[0], id)
      assert.equal(ids[2], null)
      assert.deepEqual(
        errors.map(({ index, error }) => [index, error.reason]),
        [[2, 'invalid_argument']],
      )
      assert.equal(await contentOf(collection, id), 'a')
    })
  })

  it('keeps its position in the order when its point is replaced, and gets a higher version', async () => {
    await withPoints(async (collection) => {
      const ids = await insertIds(collection, [pointOf('a', newId()), pointOf('b'), pointOf('c')])
      const before = (await collection.get(ids[0]!))!.version
      await collection.insert([pointOf('new', ids[0]!, 'replace')])
      await collection.insert([pointOf('ignored', ids[1]!, 'skip')])
      const include = { distance: false, payload: true, vector: false, version: true }
      const { points } = await collection.list({ limit: 10, include })
      assert.deepEqual(
        points.map(({ id, payload }) => [id, payload!.content]),
        [
          [ids[0], 'new'],
          [ids[1], 'b'],
          [ids[2], 'c'],
        ],
      )
      assert.ok(points[0]!.version! > before)
      assert.equal(points[0]!.version, (await collection.get(ids[0]!))!.version)
    })
  })
})

describe('a condition', () => {
  it('that is not met changes nothing, and names both versions', async () => {
    await withPoints(async (collection) => {
      const [id] = await insertIds(collection, [pointOf('a')])
      await collection.patch(id!, { content: 'b' }, { kind: 'version', version: 1 })
      await assert.rejects(collection.patch(id!, { content: 'c' }, { kind: 'version', version: 1 }), {
        reason: 'precondition_failed',
        message: 'when.version is 1, the point has version 2',
      })
      await assert.rejects(collection.put(id!, pointOf('c'), { kind: 'absent' }), {
        reason: 'precondition_failed',
      })
      await assert.rejects(collection.put(newId(), pointOf('c'), { kind: 'version', version: 1 }), {
        reason: 'precondition_failed',
        message: 'when.version: there is no point with this id',
      })
      assert.equal(await contentOf(collection, id!), 'b')
      assert.equal(collection.points, 1)
    })
  })
})

describe('a vector of another dimension', () => {
  it('is refused by every write', async () => {
    await withPoints(async (collection) => {
      const [id] = await insertIds(collection, [pointOf('a')])
      const vector = Float32Array.of(1, 2, 3)
      const refusal = { reason: 'invalid_argument', message: 'vector has 3 dimensions, the collection has 2' }
      await assert.rejects(collection.patch(id!, { vector }), refusal)
      await assert.rejects(collection.put(newId(), { ...pointOf('b'), vector }), refusal)
      await assert.rejects(collection.insert([{ ...pointOf('b'), vector }]), refusal)
    })
  })

  it('becomes that of an empty collection if a put comes first', async () => {
    await withPoints(async (collection) => {
      const id = newId()
      const put = await collection.put(id, pointOf('a'))
      assert.deepEqual(put, { version: 1, created: true })
      assert.equal(collection.dimension, 2)
    })
  })
})

describe('a request with a key', () => {
  const identity: RequestIdentity = { keyHash: Buffer.alloc(16, 1), bodyHash: Buffer.alloc(16, 2) }

  function plain({ ids, errors }: Inserted): unknown {
    return { ids, errors: errors.map(({ index, error }) => [index, error.reason, error.message]) }
  }

  it('gets its answer again, also after a restart: chosen ids, skipped points and refusals', async () => {
    await using directory = await temporaryDirectory()
    const [existing, chosen] = [newId(), newId()]
    const points = [
      pointOf('a'),
      pointOf('b', existing, 'skip'),
      pointOf('c', existing, 'replace'),
      pointOf('d', chosen),
      pointOf('e'),
    ]
    const options = { onError: 'continue', identity } as const
    let first: Inserted | undefined
    await withCollection(directory.path, config, async (collection) => {
      await collection.insert([pointOf('there', existing)])
      first = await collection.insert(points, options)
      assert.deepEqual(first.ids.slice(1, 4), [existing, null, chosen])
      assert.deepEqual(plain(await collection.insert(points, options)), plain(first))
    })
    await withCollection(directory.path, config, async (collection) => {
      await collection.remove(chosen)
      assert.deepEqual(plain(await collection.insert(points, options)), plain(first!))
      assert.equal(collection.points, 3)
      assert.equal(await contentOf(collection, existing), 'there')
    })
  })

  it('is remembered even if it changed nothing', async () => {
    await withPoints(async (collection) => {
      const id = newId()
      await collection.insert([pointOf('there', id)])
      const skipping = [pointOf('skipped', id, 'skip')]
      assert.deepEqual((await collection.insert(skipping, { identity })).ids, [id])
      await collection.remove(id)
      assert.deepEqual((await collection.insert(skipping, { identity })).ids, [id])
      assert.equal(collection.points, 0, 'a repetition stores nothing')
    })
  })
})

describe('a change by filter', () => {
  it('starts with the points inserted first, and counts without changing', async () => {
    await withPoints(async (collection) => {
      const ids = await insertIds(
        collection,
        Array.from({ length: 5 }, (_, at) => pointOf(String(at))),
      )
      const deletion = { filter: everything, change: 'delete', limit: 2 } as const
      assert.deepEqual(await collection.changeByFilter({ ...deletion, dryRun: true }), {
        changed: 2,
        more: true,
      })
      assert.equal(collection.points, 5)
      assert.deepEqual(await collection.changeByFilter({ ...deletion, dryRun: false }), {
        changed: 2,
        more: true,
      })
      assert.deepEqual(await Promise.all(ids.map((id) => contentOf(collection, id))), [
        undefined,
        undefined,
        '2',
        '3',
        '4',
      ])
    })
  })

  it('is all or nothing, and names a point that it cannot change', async () => {
    await withPoints(async (collection) => {
      const ids = await insertIds(collection, [pointOf('a'), pointOf('b')])
      await collection.patch(ids[1]!, { set: new Map([['a', 'text']]) })
      const change = { set: new Map([['a.b', 1]]) }
      await assert.rejects(collection.changeByFilter({ filter: everything, change, dryRun: false }), {
        reason: 'invalid_argument',
        message: new RegExp(`^point ${ids[1]}: `),
      })
      assert.equal((await collection.get(ids[0]!))!.payload.attributes, undefined)
    })
  })
})

describe('a cursor', () => {
  it('that no list has returned is refused', async () => {
    await withPoints(async (collection) => {
      await collection.insert([pointOf('a'), pointOf('b')])
      const include = { distance: false, payload: false, vector: false, version: false }
      const { nextCursor } = await collection.list({ limit: 1, include })
      assert.ok(nextCursor !== undefined)
      assert.equal((await collection.list({ limit: 1, include, cursor: nextCursor })).nextCursor, undefined)
      const malformed = [
        '',
        'x',
        `${nextCursor}A`,
        nextCursor.slice(1),
        `B${nextCursor.slice(1)}`,
        'ü'.repeat(18),
      ]
      for (const cursor of malformed) {
        await assert.rejects(collection.list({ limit: 1, include, cursor }), {
          reason: 'invalid_argument',
          message: 'cursor is not one that a list has returned',
        })
      }
    })
  })
})
