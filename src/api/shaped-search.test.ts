import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { it } from 'node:test'
import { openCollection, settingsOfSet } from '../../test/support/collection.ts'
import { noCollections } from '../../test/support/no-collections.ts'
import { temporaryDirectory } from '../../test/support/process.ts'
import { httpFields } from './call.ts'
import { searchShaped } from './shaped-search.ts'

it('groups by a path where most points have several values take few searches', async () => {
  await using directory = await temporaryDirectory()
  await using opened = await openCollection(directory.path, settingsOfSet)
  const { collection } = opened
  const points = Array.from({ length: 3000 }, (_, index) => ({
    vector: Float32Array.of(index),
    payload: {
      contentType: 'Text' as const,
      content: '',
      attributes: new Map([['tags', index % 1000 === 500 ? ['a'] : ['a', 'b']]]),
    },
  }))
  const { ids } = await collection.insert(points)
  let searches = 0
  const database = new Proxy(collection, {
    get: (target, name) => {
      if (name === 'search') searches += 1
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const context = { database, collections: noCollections, limits: { maxLimit: 1000, hnswEf: 128 } }
  const shape = { boosts: [], like: [], unlike: [], diversity: 0, rerank: undefined }
  const query = { vector: Float32Array.of(0), metric: 'Euclidean', limit: 2, ef: 128 } as const
  for (const [size, searchesMax] of [
    [1, 20],
    [3, 30],
  ] as const) {
    searches = 0
    const groupBy = { path: 'tags', size }
    const answer = await searchShaped(
      context,
      { ...query, shape: { ...shape, groupBy } },
      { fields: httpFields },
    )
    assert.deepEqual(answer.ids.strings(), [[500, 1500, 2500].slice(0, size).map((at) => ids[at])])
    assert.ok(searches <= searchesMax, `${searches} searches`)
  }
})

it('examples are read in turns: long vectors do not block other requests', async () => {
  await using directory = await temporaryDirectory()
  await using opened = await openCollection(directory.path, settingsOfSet)
  const { collection } = opened
  let round = 0
  let isRunning = true
  const count = (): void => {
    round += 1
    if (isRunning) setImmediate(count)
  }
  const roundsOfReads: number[] = []
  const get = async (): Promise<unknown> => {
    roundsOfReads.push(round)
    // Longer than a turn, as reading a vector of 60,000 components can take.
    for (const endMs = performance.now() + 2; performance.now() < endMs; );
    return { vector: Float32Array.of(1) }
  }
  const database = new Proxy(collection, {
    get: (target, name) => {
      const value: unknown = name === 'get' ? get : Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const context = { database, collections: noCollections, limits: { maxLimit: 1000, hnswEf: 128 } }
  const like = Array.from({ length: 10 }, () => randomUUID())
  const shape = { boosts: [], like, unlike: [], diversity: 0, rerank: undefined, groupBy: undefined }
  const query = { vector: new Float32Array(0), metric: 'Euclidean', limit: 2, ef: 128, shape } as const
  setImmediate(count)
  await searchShaped(context, query, { fields: httpFields })
  isRunning = false
  assert.equal(new Set(roundsOfReads).size, like.length, `read in rounds ${roundsOfReads}`)
})
