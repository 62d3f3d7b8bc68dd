import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { Document } from '@langchain/core/documents'
import { FakeVectorStore } from '@langchain/core/utils/testing'
import { createHttpClient, type Filter, GeoPoint, uuidOf } from 'vicinal-client'
import { runReadmeExample } from '../../../test/support/readme-example.ts'
import { startTestService, type TestService } from '../../../test/support/service.ts'
import { VicinalVectorStore } from '../src/index.ts'
import { Letters } from './letters.ts'

const texts = ['a fox in the forest', 'a bird in the forest', 'a whale in the sea', 'an owl at night']
const metadatas = [
  { legs: 4, loc: { lines: { from: 1, to: 2 } }, tags: ['red', 'fast'] },
  { legs: 2, loc: { lines: { from: 3, to: 4 } }, tags: ['fast'] },
  { legs: 0, loc: { lines: { from: 5, to: 6 } }, tags: [] },
  { legs: 2, loc: { lines: { from: 7, to: 8 } } },
]
const animals = texts.map((pageContent, index) => new Document({ pageContent, metadata: metadatas[index]! }))
const textsOf = (documents: readonly { pageContent: string }[]): string[] =>
  documents.map((each) => each.pageContent)

describe('VicinalVectorStore', () => {
  const embeddings = new Letters()
  let service: TestService
  let store: VicinalVectorStore
  let collection: string
  let made = 0
  const options = () => ({ client: createHttpClient({ baseUrl: service.httpUrl }), collection })

  before(async () => {
    service = await startTestService()
  })
  after(() => service?.[Symbol.asyncDispose]())
  beforeEach(() => {
    made += 1
    collection = `animals-${made}`
    store = new VicinalVectorStore(embeddings, options())
  })

  it('finds the same documents as the in-memory store, in the same order and with the same scores', async () => {
    const memory = await FakeVectorStore.fromDocuments(animals, embeddings)
    await store.addDocuments(animals)
    for (const query of ['foxes of the forest', 'night owl']) {
      const expected = await memory.similaritySearchWithScore(query, 3)
      const found = await store.similaritySearchWithScore(query, 3)
      assert.deepEqual(textsOf(found.map(([each]) => each)), textsOf(expected.map(([each]) => each)))
      found.forEach(([, score], index) => {
        assert.ok(Math.abs(score - expected[index]![1]) < 1e-6, `${score} is not ${expected[index]![1]}`)
      })
    }
  })

  it('returns documents as they were stored, including nested metadata, dates and places', async () => {
    const metadata = {
      loc: { lines: { from: 1, to: 2 } },
      list: [{ a: 1 }, { a: [true, 'x'] }],
      at: new Date('2026-01-31T10:00:00.5Z'),
      where: new GeoPoint(47.4, 8.5),
    }
    const id = '018F2C7E-1111-4222-8333-444455556666'
    await store.addDocuments([
      new Document({ pageContent: 'a fox', metadata: { ...metadata, gone: null }, id }),
    ])
    const [found] = await store.similaritySearch('a fox', 1)
    assert.deepEqual(found, new Document({ pageContent: 'a fox', metadata, id }))
  })

  it('takes an id from the options, or else from the document, or else makes one', async () => {
    const own = new Document({ pageContent: 'a fox', id: 'own' })
    assert.deepEqual(await store.addDocuments([own], { ids: ['given'] }), ['given'])
    assert.deepEqual(await store.addDocuments([own]), ['own'])
    const [fresh] = await store.addDocuments([new Document({ pageContent: 'a fox' })])
    assert.match(fresh!, /^[\da-f]{8}-/)
    const found = await store.similaritySearch('a fox', 9)
    assert.deepEqual(found.map(({ id }) => id).sort(), ['given', 'own', fresh!].sort())
    assert.deepEqual(found[0]!.metadata, {})
  })

  it('keeps an id that is not a UUID in an attribute, and makes the UUID of the point from it', async () => {
    await store.addDocuments(animals.slice(0, 1), { ids: ['fox/1'] })
    const point = await store.client.get(uuidOf('fox/1'))
    assert.equal(point.payload.attributes?.langchain_id, 'fox/1')
  })

  it('replaces the document whose id exists', async () => {
    await store.addDocuments(animals.slice(0, 1), { ids: ['1'] })
    await store.addVectors([await embeddings.embedQuery('whale')], animals.slice(2, 3), { ids: ['1'] })
    assert.deepEqual(textsOf(await store.similaritySearch('fox', 5)), [texts[2]])
  })

  it('keeps the last of documents with the same id', async () => {
    await store.addDocuments(animals.slice(0, 2), { ids: ['1', '1'] })
    assert.deepEqual(textsOf(await store.similaritySearch('fox', 5)), [texts[1]])
  })

  it('filters by metadata, including nested ones, and returns as many documents as match', async () => {
    await store.addDocuments(animals)
    const find = async (filter: Filter): Promise<string[]> =>
      textsOf(await store.similaritySearch('foxes of the forest', 9, filter))
    assert.deepEqual(await find({ legs: 2 }), [texts[1], texts[3]])
    assert.deepEqual(await find({ 'loc.lines.from': { $gte: 5 } }), [texts[2], texts[3]])
    assert.deepEqual(await find({ tags: 'fast', $not: { legs: 4 } }), [texts[1]])
    assert.deepEqual(await find({ legs: 100 }), [])
  })

  it('refuses a function as a filter, and an operator that does not exist', async () => {
    await store.addDocuments(animals)
    const byFunction = (() => true) as unknown as Filter
    await assert.rejects(store.similaritySearch('fox', 1, byFunction), { reason: 'invalid_argument' })
    await assert.rejects(store.delete({ filter: byFunction }), { reason: 'invalid_argument' })
    await assert.rejects(store.similaritySearch('fox', 1, { legs: { $gtee: 1 } as object }), /\$gtee/)
    assert.equal(await store.client.count(), 4)
  })

  it('deletes by ids, whether they exist or not', async () => {
    const [first] = await store.addDocuments(animals.slice(0, 1))
    await store.addDocuments(animals.slice(1), { ids: ['b', 'c', 'd'] })
    await store.delete({ ids: [first!, 'c', 'missing'] })
    assert.deepEqual(textsOf(await store.similaritySearch('forest', 9)), [texts[1], texts[3]])
    await store.delete({ ids: [] })
    assert.equal(await store.client.count(), 2)
  })

  it('deletes by filter, by both, and everything only on explicit request', async () => {
    await store.addDocuments(animals, { ids: ['a', 'b', 'c', 'd'] })
    await store.delete({ ids: ['a', 'b'], filter: { legs: 2 } })
    assert.equal(await store.client.count(), 3)
    await store.delete({ filter: { legs: 4 } })
    assert.equal(await store.client.count(), 2)
    await assert.rejects(store.delete({}), { reason: 'invalid_argument' })
    await assert.rejects(store.delete({ filter: {} }), { reason: 'invalid_argument' })
    assert.equal(await store.client.count(), 2)
    await store.delete({ deleteAll: true })
    assert.equal(await store.client.count(), 0)
    assert.deepEqual(await store.similaritySearch('fox'), [])
  })

  it('chooses documents that differ from each other', async () => {
    const vectors = [
      [1, 0],
      [0.99, 0.01],
      [0.7, 0.7],
    ]
    const plain = new VicinalVectorStore(
      Object.assign(new Letters(), { embedQuery: async () => [1, 0.1] }),
      options(),
    )
    await plain.addVectors(vectors, animals.slice(0, 3))
    const chosen = async (lambda: number, filter?: Filter): Promise<string[]> =>
      textsOf(await plain.maxMarginalRelevanceSearch('', { k: 2, lambda, ...(filter && { filter }) }))
    assert.deepEqual(await chosen(1), [texts[1], texts[0]])
    assert.deepEqual(await chosen(0), [texts[1], texts[2]])
    assert.deepEqual(await chosen(0, { legs: { $gt: 0 } }), [texts[1], texts[0]])
  })

  it('is a retriever, by similarity and by diversity, with a filter', async () => {
    await store.addDocuments(animals)
    assert.deepEqual(textsOf(await store.asRetriever(1).invoke('night owl')), [texts[3]])
    assert.deepEqual(textsOf(await store.asRetriever({ k: 2, filter: { legs: 0 } }).invoke('owl')), [
      texts[2],
    ])
    const diverse = store.asRetriever({ searchType: 'mmr', k: 2, searchKwargs: { fetchK: 3 } })
    assert.equal((await diverse.invoke('night owl')).length, 2)
    await diverse.addDocuments([new Document({ pageContent: 'night owl night owl' })])
    assert.equal(await store.client.count(), 5)
  })

  it('is created from texts, from documents, and over an existing collection', async () => {
    await assert.rejects(VicinalVectorStore.fromExistingIndex(embeddings, options()), {
      reason: 'collection_not_found',
    })
    await VicinalVectorStore.fromTexts(texts.slice(0, 2), metadatas, embeddings, options())
    await VicinalVectorStore.fromTexts(texts.slice(2, 3), { legs: 0 }, embeddings, options())
    await VicinalVectorStore.fromDocuments(animals.slice(3), embeddings, options())
    const existing = await VicinalVectorStore.fromExistingIndex(embeddings, options())
    assert.deepEqual(textsOf(await existing.similaritySearch('whale', 1, { legs: 0 })), [texts[2]])
    assert.equal(await existing.client.count(), 4)
  })

  it('finds documents by words, alone and together with a vector', async () => {
    const words = { paths: { content: 1 } }
    const retrieving = (retrieval: 'vector' | 'words' | 'hybrid', balance?: number): VicinalVectorStore =>
      new VicinalVectorStore(embeddings, { ...options(), words, retrieval, balance })
    const bread = ['anadama bread', 'rye flour for bread'].map((pageContent) => new Document({ pageContent }))
    const [first, second] = bread.map(({ pageContent }) => pageContent)
    await retrieving('words').addVectors(
      [await embeddings.embedQuery('z'), await embeddings.embedQuery('anadama')],
      bread,
    )
    const [best, other] = await retrieving('words').similaritySearchWithScore('anadama', 2)
    assert.deepEqual([best![0].pageContent, best![1], other], [first, 1, undefined])
    assert.deepEqual(textsOf(await retrieving('hybrid', 0).similaritySearch('anadama', 1)), [first])
    assert.deepEqual(textsOf(await retrieving('hybrid', 1).similaritySearch('anadama', 1)), [second])
    assert.deepEqual(textsOf(await retrieving('vector').similaritySearch('anadama', 1)), [second])
    const boost = [{ filter: { content: { $match: 'bread anadama' } }, weight: 9 }]
    const shaped = new VicinalVectorStore(embeddings, { ...options(), search: { boost } })
    const [raised, lower] = await shaped.similaritySearchWithScore('anadama', 2)
    assert.equal(raised![0].pageContent, first)
    assert.ok(raised![1] > lower![1])
    const plain = await retrieving('vector').similaritySearchWithScore('anadama', 2)
    const tuned = new VicinalVectorStore(embeddings, { ...options(), search: { ef: 200, boost: undefined } })
    assert.deepEqual(await tuned.similaritySearchWithScore('anadama', 2), plain)
    const search = { like: await store.client.search({ words: 'anadama', limit: 1 }) }
    const alike = new VicinalVectorStore(embeddings, { ...options(), retrieval: 'words', search })
    assert.deepEqual(textsOf(await alike.similaritySearch('anadama', 1)), [second])
  })

  it('works over an alias', async () => {
    await store.addDocuments(animals)
    const { client } = store
    await client.collections.setAliases({ set: { [`${collection}-now`]: collection } })
    const byAlias = new VicinalVectorStore(embeddings, { client, collection: `${collection}-now` })
    await byAlias.addDocuments([new Document({ pageContent: 'one more' })])
    assert.equal(await client.count(), 5)
  })

  it('supports other metrics', async () => {
    const near = new VicinalVectorStore(embeddings, { ...options(), metric: 'Euclidean' })
    await near.addVectors([[3, 4]], animals.slice(0, 1))
    assert.deepEqual((await near.similaritySearchVectorWithScore([3, 4], 1))[0]![1], 1)
    assert.deepEqual((await near.similaritySearchVectorWithScore([0, 0], 1))[0]![1], 1 / 6)
  })

  it('stores nothing if the counts differ, and accepts an empty list of documents', async () => {
    await assert.rejects(store.addVectors([[1]], animals), { reason: 'invalid_argument' })
    await assert.rejects(store.addDocuments(animals, { ids: ['1'] }), { reason: 'invalid_argument' })
    assert.deepEqual(await store.addDocuments([]), [])
    assert.equal(await store.client.count(), 0)
  })

  it('runs the example of its README', async () => {
    const { printed, expected } = await runReadmeExample(join(import.meta.dirname, '..'), service.httpUrl)
    assert.equal(printed, expected)
  })

  it('names refused metadata in the error', async () => {
    const reserved = new Document({ pageContent: 'x', metadata: { a: { $b: 1 } } })
    await assert.rejects(store.addDocuments([reserved]), { reason: 'invalid_argument', message: /a\.\$b/ })
  })

  it('keeps metadata of kinds that attributes do not have', async () => {
    class Info {
      readonly pages = 3
      readonly hidden = undefined
    }
    const metadata = {
      pdf: { info: new Info() },
      'loc.line': 7,
      tags: new Set(['a']),
      size: 2n ** 60n,
      at: Number.NaN,
    }
    await store.addDocuments([new Document({ pageContent: 'kinds', metadata })])
    const found = await store.similaritySearch('kinds', 1)
    const kept = { pdf: { info: { pages: 3 } }, loc: { line: 7 }, tags: ['a'], size: '1152921504606846976' }
    assert.deepEqual(found[0]!.metadata, kept)
  })
})
