import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { newId } from '../src/base/partitions.ts'
import type { NewPoint, OnConflict } from '../src/base/point.ts'
import type { Collection } from '../src/collections/engine.ts'
import { readConfig } from '../src/config.ts'
import type { Inserted, RequestIdentity } from '../src/points/database.ts'
import { withCollection } from './support/collection.ts'
import { temporaryDirectory } from './support/process.ts'

const config = readConfig({ THREADS: '1' })

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

describe('the dimension of an empty collection', () => {
  it('is that of a put that comes first', async () => {
    await withPoints(async (collection) => {
      assert.deepEqual(await collection.put(newId(), pointOf('a')), { version: 1, created: true })
      assert.equal(collection.dimension, 2)
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
