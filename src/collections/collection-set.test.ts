import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it, mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { openCollections } from '../../test/support/collection.ts'
import { insertIds } from '../../test/support/insert-ids.ts'
import { temporaryDirectory } from '../../test/support/process.ts'
import { seededRandom } from '../../test/support/random.ts'
import { until } from '../../test/support/until.ts'
import { DatabaseError, type Reason } from '../base/errors.ts'
import type { Payload } from '../base/point.ts'
import { collectGarbage } from '../base/runtime.ts'
import type { CollectionSet } from './collection-set.ts'
import { openCollectionBytes } from './open-collections.ts'

const payload = { contentType: 'Text', content: '' } as const

async function insert(
  set: CollectionSet,
  name: string,
  vectors: readonly number[][],
  each: Payload = payload,
): Promise<readonly string[]> {
  using lease = await set.lease(name)
  return await insertIds(
    lease.database,
    vectors.map((vector) => ({ vector: Float32Array.from(vector), payload: each })),
  )
}

async function nearest(
  set: CollectionSet,
  name: string,
  vector: readonly number[],
): Promise<readonly string[]> {
  using lease = await set.lease(name)
  const query = { vector: Float32Array.from(vector), metric: 'Euclidean', limit: 10, ef: 128 } as const
  return (await lease.database.search([query])).ids.strings()[0]!
}

function failsWith(reason: Reason): (error: unknown) => boolean {
  return (error) => error instanceof DatabaseError && error.reason === reason
}

describe('a set of collections', { timeout: 300_000 }, () => {
  it('stores words and quotas that are declared together in one commit', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path)
    const { set, store } = opened
    await set.put('texts', { hnsw: {} })
    const words = { language: 'english', paths: [{ path: 'content', weight: 1 }] } as const
    const declare = mock.method(store, 'declare')
    const declared = { hnsw: {}, words, quotas: { points: 5 } }
    for (let repeated = 0; repeated < 2; repeated += 1) {
      const { info } = await set.put('texts', declared)
      assert.deepEqual([info.words, info.quotas], [words, { points: 5 }])
    }
    assert.equal(declare.mock.callCount(), 1)
    const { info } = await set.put('texts', { hnsw: {}, words: null })
    assert.deepEqual([info.words, info.quotas], [undefined, { points: 5 }])
  })

  it('keeps each collection’s points separate, whatever their dimensions, also after a restart', async () => {
    await using directory = await temporaryDirectory()
    const ids = new Map<string, readonly string[]>()
    {
      await using opened = await openCollections(directory.path)
      for (const [name, dimension] of [
        ['two', 2],
        ['three', 3],
      ] as const) {
        assert.equal((await opened.set.put(name, { dimension, hnsw: {} })).created, true)
        ids.set(name, await insert(opened.set, name, [new Array(dimension).fill(1)]))
      }
      ids.set('default', await insert(opened.set, 'default', [[1, 1, 1, 1]]))
    }
    await using again = await openCollections(directory.path)
    assert.equal(again.set.open.length, 0, 'no collection is opened before it is used')
    assert.deepEqual(
      again.set.list().map(({ name, dimension, points }) => [name, dimension, points]),
      [
        ['default', 4, 1],
        ['three', 3, 1],
        ['two', 2, 1],
      ],
    )
    for (const [name, dimension] of [
      ['two', 2],
      ['three', 3],
      ['default', 4],
    ] as const) {
      assert.deepEqual(await nearest(again.set, name, new Array(dimension).fill(1)), ids.get(name))
    }
    assert.equal(again.set.open.length, 2)
  })

  it('reports whether a collection was created, and refuses settings that differ from those of an existing one', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path)
    const settings = { dimension: 3, hnsw: { m: 8 } }
    const first = await opened.set.put('docs', settings)
    assert.deepEqual(first, {
      created: true,
      info: { name: 'docs', dimension: 3, points: 0, hnsw: { m: 8, efConstruction: 128 }, aliases: [] },
    })
    assert.deepEqual(await opened.set.put('docs', settings), { ...first, created: false })
    assert.equal((await opened.set.put('docs', { hnsw: {} })).created, false)
    await assert.rejects(opened.set.put('docs', { dimension: 4, hnsw: {} }), {
      reason: 'already_exists',
      message: 'the collection docs exists, and its dimension is 3, not 4',
    })
    await assert.rejects(opened.set.put('docs', { hnsw: { m: 9 } }), failsWith('already_exists'))
    await assert.rejects(opened.set.put('default', { dimension: 4, hnsw: {} }), failsWith('already_exists'))
    assert.throws(() => opened.set.get('other'), failsWith('collection_not_found'))
    await assert.rejects(async () => opened.set.lease('other'), failsWith('collection_not_found'))
  })

  it('closes unused collections when too many are open, the longest unused first', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path, { maxOpenCollections: 2 })
    const { set } = opened
    const names = ['a', 'b', 'c', 'd']
    const ids = new Map<string, readonly string[]>()
    for (const name of names) await set.put(name, { hnsw: {} })
    const held = await set.lease('a')
    for (const name of names) ids.set(name, await insert(set, name, [[1, 2]]))
    await until(() => set.open.length <= 2)
    assert.deepEqual(
      set.open.map(([name]) => name),
      ['a', 'd'],
      'a collection in use stays open',
    )
    held[Symbol.dispose]()
    for (const name of names) assert.deepEqual(await nearest(set, name, [1, 2]), ids.get(name))
  })

  it('takes less than a megabyte for each small collection that is open, whatever its dimension', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path)
    const { set } = opened
    const count = 24
    // The first collection starts a writer thread.
    await set.put('first', { hnsw: {} })
    await insert(set, 'first', [[1, 2]])
    collectGarbage()
    const before = process.memoryUsage().arrayBuffers
    for (let at = 0; at < count; at += 1) {
      const vector = new Array(at % 2 === 0 ? 8 : 768).fill(at)
      await set.put(`c${at}`, { hnsw: {} })
      await insert(set, `c${at}`, [vector])
      await nearest(set, `c${at}`, vector)
    }
    collectGarbage()
    assert.equal(set.open.length, 1 + count)
    const bytes = process.memoryUsage().arrayBuffers - before
    assert.ok(bytes < count * 1024 * 1024, `${bytes} bytes for ${count} collections`)
  })

  it('closes unused collections when all together exceed MAX_MEMORY_BYTES, the longest unused first', async () => {
    await using directory = await temporaryDirectory()
    const maxMemoryBytes = 4 * openCollectionBytes
    await using opened = await openCollections(directory.path, { maxMemoryBytes })
    const { set } = opened
    const names = ['a', 'b', 'c', 'd', 'e', 'f']
    const ids = new Map<string, readonly string[]>()
    for (const name of names) {
      await set.put(name, { hnsw: {} })
      ids.set(name, await insert(set, name, [[1, 2]]))
      await until(() => set.totals.memoryBytes <= maxMemoryBytes)
    }
    assert.deepEqual(set.open.map(([name]) => name).sort(), ['d', 'e', 'f'])
    for (const name of names) {
      assert.deepEqual(await nearest(set, name, [1, 2]), ids.get(name))
      await until(() => set.totals.memoryBytes <= maxMemoryBytes)
    }
    const leases = await Promise.all(names.map(async (name) => await set.lease(name)))
    assert.equal(set.open.length, names.length, 'collections in use stay open')
    for (const lease of leases) lease[Symbol.dispose]()
    await until(() => set.totals.memoryBytes <= maxMemoryBytes)
  })

  it('closes unused collections to make room for an insert, and refuses it if all are in use', async () => {
    await using directory = await temporaryDirectory()
    const maxMemoryBytes = 8 * openCollectionBytes
    await using opened = await openCollections(directory.path, { maxMemoryBytes })
    const { set } = opened
    for (const name of ['a', 'b', 'c', 'd', 'e']) {
      await set.put(name, { hnsw: {} })
      await insert(set, name, [[1, 2]])
    }
    assert.equal(set.open.length, 5)
    const vectors = Array.from({ length: 1000 }, (_, at) => new Array(512).fill(at))
    using a = await set.lease('a')
    assert.equal((await insert(set, 'default', vectors)).length, 1000)
    assert.ok(set.totals.memoryBytes <= maxMemoryBytes)
    const names = set.open.map(([name]) => name)
    assert.ok(names.includes('a') && !names.includes('b'), String(names))
    await assert.rejects(insert(set, 'default', vectors.slice(0, 800)), failsWith('memory_full'))
    assert.deepEqual(
      set.open.map(([name]) => name),
      ['a'],
    )
    assert.equal(a.database.points, 1)
  })

  it('closes a small collection that is unused for a while, and opens it again', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path, { idleMs: 20 })
    await opened.set.put('docs', { hnsw: {} })
    for (let round = 0; round < 3; round += 1) {
      const [id] = await insert(opened.set, 'docs', [[round, 0]])
      await until(() => opened.set.open.length === 0)
      assert.equal((await nearest(opened.set, 'docs', [round, 0]))[0], id)
    }
  })

  it('does not close a collection of which further pages may be asked for', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path, { idleMs: 20 })
    const { set } = opened
    const words = { language: 'none', paths: [{ path: 'content', weight: 1 }] } as const
    await set.put('paged', { hnsw: {}, words })
    await set.put('other', { hnsw: {} })
    const page = async (cursor: string): Promise<readonly (string | undefined)[] | undefined> => {
      using lease = await set.lease('paged')
      const asked = { vector: new Float32Array(0), metric: 'Cosine', limit: 1, ef: 1, cursor } as const
      return (await lease.database.search([{ ...asked, words: { text: 'x', balance: 0 } }])).nextCursors
    }
    await insert(set, 'paged', [[1], [2]], { contentType: 'Text', content: 'x' })
    const [next] = (await page(''))!
    await insert(set, 'other', [[1]])
    await until(() => set.open.every(([name]) => name !== 'other'))
    assert.deepEqual(await page(next!), [undefined])
  })

  it('deletes a collection and its files during reads and writes, and then accepts its name again', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path)
    const { set } = opened
    await set.put('docs', { hnsw: {} })
    await set.setAliases(new Map([['current', 'docs']]), [])
    await insert(set, 'docs', [[1, 2, 3]])
    const outcomes = new Set<string>()
    const work = async (task: () => Promise<unknown>): Promise<void> => {
      for (;;) {
        try {
          // Searches of a few points never wait, so other tasks would get no turn.
          await nextTurn()
          await task()
          outcomes.add('ok')
        } catch (error) {
          assert.ok(failsWith('collection_not_found')(error), String(error))
          return
        }
      }
    }
    const workers = [
      ...Array.from({ length: 4 }, () => work(() => nearest(set, 'current', [1, 2, 3]))),
      ...Array.from({ length: 2 }, () => work(() => insert(set, 'docs', [[3, 2, 1]]))),
    ]
    await until(() => outcomes.has('ok'))
    await set.drop('docs')
    await Promise.all(workers)
    assert.deepEqual([...set.aliases], [])
    await until(() => readdirSync(join(directory.path, 'collections')).every((name) => name === '0'))
    await set.put('docs', { dimension: 2, hnsw: {} })
    const ids = await insert(set, 'docs', [[1, 2]])
    assert.deepEqual(await nearest(set, 'docs', [1, 2]), ids)
    await assert.rejects(set.drop('default'), failsWith('invalid_argument'))
    await assert.rejects(set.drop('gone'), failsWith('collection_not_found'))
  })

  it('lets a search that reads details finish, or refuses it, while its collection is deleted', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path)
    const { set } = opened
    const vectors = Array.from({ length: 200 }, (_, at) => [at, 1])
    const query = { vector: Float32Array.of(1, 1), metric: 'Euclidean', limit: 100, ef: 100 } as const
    const include = { distance: true, payload: true, vector: true, version: true }
    const attributes = new Map(Array.from({ length: 100 }, (_, at) => [`a${at}`, at]))
    const slow = { ...payload, attributes }
    for (let round = 0; round < 8; round += 1) {
      await set.put('docs', { hnsw: {} })
      await insert(set, 'docs', vectors, slow)
      using lease = await set.lease('docs')
      let isOver = false
      const search = lease.database
        .search(Array.from({ length: 10 }, () => ({ ...query, include })))
        .finally(() => {
          isOver = true
        })
      // Searches for so few points end at once, and their details are read in the next turns.
      for (let turn = 0; turn < round && !isOver; turn += 1) await nextTurn()
      const [searched] = await Promise.allSettled([search, set.drop('docs')])
      if (searched.status === 'rejected') {
        assert.ok(failsWith('collection_not_found')(searched.reason), String(searched.reason))
      } else assert.equal(searched.value.details.flat().length, 1000)
    }
  })

  it('moves an alias during reads: each read uses the old or the new collection', async () => {
    await using directory = await temporaryDirectory()
    await using opened = await openCollections(directory.path)
    const { set } = opened
    const found = new Set<string>()
    const expected: string[] = []
    for (const name of ['blue', 'green']) {
      await set.put(name, { hnsw: {} })
      expected.push(...(await insert(set, name, [[1, 2]])))
    }
    await set.setAliases(new Map([['live', 'blue']]), [])
    let isOver = false
    const readers = Array.from({ length: 4 }, async () => {
      while (!isOver) {
        await nextTurn()
        for (const id of await nearest(set, 'live', [1, 2])) found.add(id)
      }
    })
    for (let turn = 0; turn < 20 || found.size < 2; turn += 1) {
      await set.setAliases(new Map([['live', turn % 2 === 0 ? 'green' : 'blue']]), [])
    }
    isOver = true
    await Promise.all(readers)
    assert.deepEqual([...found].sort(), expected.sort())
    await assert.rejects(set.setAliases(new Map([['blue', 'green']]), []), failsWith('already_exists'))
    await assert.rejects(set.setAliases(new Map([['x', 'live']]), []), failsWith('collection_not_found'))
    await assert.rejects(set.put('live', { hnsw: {} }), failsWith('already_exists'))
    await assert.rejects(set.drop('live'), failsWith('invalid_argument'))
    await set.setAliases(new Map(), ['live', 'never'])
    assert.deepEqual([...set.aliases], [])
  })

  it('keeps what was acknowledged through any order of creating, filling, searching and deleting, seed 19', async () => {
    await using directory = await temporaryDirectory()
    const names = ['a', 'b', 'c', 'd', 'e']
    /** By name, the number of points acknowledged since the collection was created; absent if it does not exist. */
    const model = new Map<string, number>()
    {
      await using opened = await openCollections(directory.path, { maxOpenCollections: 2, idleMs: 10 })
      const { set } = opened
      // Steps for one name run one after another, so that their outcome is known. All names run concurrently.
      const work = async (name: string, at: number): Promise<void> => {
        const random = seededRandom(190 + at)
        for (let step = 0; step < 25; step += 1) {
          const points = model.get(name)
          const choice = random()
          if (points === undefined) {
            await assert.rejects(insert(set, name, [[1, 1]]), failsWith('collection_not_found'))
            await set.put(name, { hnsw: {} })
            model.set(name, 0)
          } else if (choice < 0.6) {
            await insert(set, name, [[random(), random()]])
            model.set(name, points + 1)
          } else if (choice < 0.9) {
            assert.equal((await nearest(set, name, [0, 0])).length, Math.min(10, points))
            assert.equal(set.get(name).points, points)
          } else {
            await set.drop(name)
            model.delete(name)
          }
        }
      }
      await Promise.all(names.map(work))
    }
    await using again = await openCollections(directory.path)
    const found = again.set.list().flatMap(({ name, points }) => (name === 'default' ? [] : [[name, points]]))
    assert.deepEqual(found, [...model].sort())
    assert.equal(existsSync(join(directory.path, 'collections.mdb')), true)
  })
})
