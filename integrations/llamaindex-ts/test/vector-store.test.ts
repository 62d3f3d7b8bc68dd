import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, beforeEach, describe, it } from 'node:test'
import { getTopKEmbeddings } from '@llamaindex/core/embeddings'
import { Document, MetadataMode, NodeRelationship, TextNode } from '@llamaindex/core/schema'
import {
  type FilterCondition,
  type MetadataFilter,
  type VectorStoreQuery,
  VectorStoreQueryMode,
  type VectorStoreQueryResult,
} from '@llamaindex/core/vector-store'
import { createHttpClient, uuidOf } from 'vicinal-client'
import { runReadmeExample } from '../../../test/support/readme-example.ts'
import { startTestService, type TestService } from '../../../test/support/service.ts'
import { VicinalVectorStore } from '../src/index.ts'
import { Letters } from './letters.ts'

const vectors = [
  [1, 0],
  [0.99, 0.01],
  [0.7, 0.7],
  [0, 1],
]
const query: VectorStoreQuery = {
  queryEmbedding: [1, 0.1],
  similarityTopK: 9,
  mode: VectorStoreQueryMode.DEFAULT,
}
const metadatas = [
  { legs: 4, kind: 'fox', tags: ['red', 'fast'], place: { zone: 1 } },
  { legs: 2, kind: 'bird', tags: ['fast'], place: { zone: 2 } },
  { legs: 0, kind: 'whale', tags: [] },
  { legs: 2, kind: '' },
]

/** Two nodes of the document `doc/1`, one of `doc/2`, and one without a document. */
function animals(): TextNode[] {
  const [first, second] = ['doc/1', 'doc/2'].map((id_) =>
    new Document({ id_, text: 'whole' }).asRelatedNodeInfo(),
  )
  return vectors.map((embedding, index) => {
    const source = [first, first, second][index]
    const relationships = source === undefined ? {} : { [NodeRelationship.SOURCE]: source }
    const text = `text ${index}`
    return new TextNode({ id_: `node/${index}`, text, embedding, metadata: metadatas[index]!, relationships })
  })
}

describe('VicinalVectorStore', () => {
  const embedModel = new Letters()
  let service: TestService
  let store: VicinalVectorStore
  let made = 0
  const storeOf = (collection: string): VicinalVectorStore =>
    new VicinalVectorStore({ client: createHttpClient({ baseUrl: service.httpUrl }), collection, embedModel })

  before(async () => {
    service = await startTestService()
  })
  after(() => service?.[Symbol.asyncDispose]())
  beforeEach(() => {
    made += 1
    store = storeOf(`animals-${made}`)
  })

  const idsOf = async (changes: Partial<VectorStoreQuery>): Promise<string[]> =>
    (await store.query({ ...query, ...changes })).ids
  const matching = async (filters: MetadataFilter[], condition?: `${FilterCondition}`): Promise<string[]> =>
    (await idsOf({ filters: { filters, ...(condition && { condition }) } })).map((id) => id.slice(-1)).sort()

  it("finds the same nodes as LlamaIndex's own comparison, with the same similarities", async () => {
    assert.deepEqual(await store.add(animals()), ['node/0', 'node/1', 'node/2', 'node/3'])
    const [similarities, ids] = getTopKEmbeddings(query.queryEmbedding!, vectors, 3, [0, 1, 2, 3])
    const found = await store.query({ ...query, similarityTopK: 3 })
    assert.deepEqual(
      found.ids,
      ids.map((index) => `node/${index}`),
    )
    found.similarities.forEach((each, index) => {
      assert.ok(Math.abs(each - similarities[index]!) < 1e-6, `${each} is not ${similarities[index]}`)
    })
  })

  it('returns nodes as they were stored', async () => {
    const metadata = { a: { b: [{ c: 1 }, 'x'] }, at: new Date('2026-01-31T10:00:00Z') }
    const relationships = {
      [NodeRelationship.SOURCE]: new Document({ id_: 'd', text: '' }).asRelatedNodeInfo(),
    }
    const node = new TextNode({ text: 'a fox', embedding: [1, 0], metadata, relationships, startCharIdx: 3 })
    node.excludedEmbedMetadataKeys = ['a']
    await store.add([node])
    const [found] = (await store.query(query)).nodes!
    const { embedding: _, ...expected } = node.toMutableJSON()
    const { embedding: none, ...stored } = found!.toMutableJSON()
    assert.ok(found instanceof TextNode)
    assert.equal(none, undefined)
    assert.deepEqual(stored, expected)
    assert.equal(found.getContent(MetadataMode.NONE), 'a fox')
    assert.equal(found.sourceNode?.nodeId, 'd')
  })

  it('keeps metadata of kinds that attributes do not have', async () => {
    const metadata = { large: 'x'.repeat(40_000), tags: new Set(['a']), size: 2n ** 60n, 'loc.line': 7 }
    await store.add([new TextNode({ id_: 'kinds', text: 'a text', embedding: [1, 0], metadata })])
    const [found] = (await store.query(query)).nodes!
    const kept = { large: metadata.large, tags: ['a'], size: '1152921504606846976', loc: { line: 7 } }
    assert.deepEqual(found!.metadata, kept)
  })

  it('stores a node under a UUID made from its id, and replaces the node that has the id', async () => {
    await store.add(animals().slice(0, 1))
    await store.add([new TextNode({ id_: 'node/0', text: 'new', embedding: [1, 0] })])
    assert.equal((await store.client().get(uuidOf('node/0'))).payload.content, 'new')
    assert.equal(await store.client().count(), 1)
    const twice = ['x', 'y'].map((text) => new TextNode({ id_: 'same', text, embedding: [0, 1] }))
    assert.deepEqual(await store.add(twice), ['same', 'same'])
    assert.equal((await store.client().get(uuidOf('same'))).payload.content, 'y')
  })

  it('deletes only the nodes of a document', async () => {
    await store.add(animals())
    await store.delete('doc/1')
    await store.delete('missing')
    await store.delete('None')
    assert.deepEqual(await idsOf({}), ['node/2', 'node/3'])
  })

  it('has the operators of LlamaIndex', async () => {
    await store.add(animals())
    const cases: [MetadataFilter, string[]][] = [
      [{ key: 'legs', operator: '==', value: 2 }, ['1', '3']],
      [{ key: 'legs', operator: '!=', value: 2 }, ['0', '2']],
      [{ key: 'legs', operator: '>', value: 2 }, ['0']],
      [{ key: 'legs', operator: '>=', value: 2 }, ['0', '1', '3']],
      [{ key: 'legs', operator: '<', value: 2 }, ['2']],
      [{ key: 'legs', operator: '<=', value: 2 }, ['1', '2', '3']],
      [{ key: 'kind', operator: 'in', value: ['fox', 'whale'] }, ['0', '2']],
      [{ key: 'kind', operator: 'nin', value: ['fox', 'whale'] }, ['1', '3']],
      [{ key: 'tags', operator: 'any', value: ['red', 'blue'] }, ['0']],
      [{ key: 'tags', operator: 'all', value: ['fast', 'red'] }, ['0']],
      [{ key: 'tags', operator: 'contains', value: 'fast' }, ['0', '1']],
      [{ key: 'tags', operator: 'is_empty' }, ['2', '3']],
      [{ key: 'kind', operator: 'is_empty' }, ['3']],
      [{ key: 'place.zone', operator: '==', value: 2 }, ['1']],
      [{ key: 'document_id', operator: '==', value: 'doc/2' }, ['2']],
    ]
    for (const [filter, expected] of cases) {
      assert.deepEqual(await matching([filter]), expected, JSON.stringify(filter))
    }
  })

  it('combines filters with AND, which is the default, and with OR', async () => {
    await store.add(animals())
    const filters: MetadataFilter[] = [
      { key: 'legs', operator: '==', value: 2 },
      { key: 'kind', operator: '==', value: 'bird' },
    ]
    assert.deepEqual(await matching(filters), ['1'])
    assert.deepEqual(await matching(filters, 'or'), ['1', '3'])
    assert.deepEqual(await matching([]), ['0', '1', '2', '3'])
  })

  it('restricts a query to documents or nodes', async () => {
    await store.add(animals())
    assert.deepEqual(await idsOf({ docIds: ['doc/1'] }), ['node/1', 'node/0'])
    assert.deepEqual(await idsOf({ docIds: ['node/3', 'doc/2'] }), ['node/2', 'node/3'])
    assert.equal((await idsOf({ docIds: [] })).length, 4)
  })

  it('chooses nodes that differ from each other in the mode mmr', async () => {
    await store.add(animals())
    const mmr = { mode: VectorStoreQueryMode.MMR, similarityTopK: 2 }
    assert.deepEqual(await idsOf({ ...mmr, mmrThreshold: 1 }), ['node/1', 'node/0'])
    assert.deepEqual(await idsOf({ ...mmr, mmrThreshold: 0.2 }), ['node/1', 'node/3'])
  })

  it('refuses unsupported features with a clear message', async () => {
    await store.add(animals())
    const refused = { reason: 'invalid_argument' }
    await assert.rejects(idsOf({ mode: VectorStoreQueryMode.SVM }), { ...refused, message: /mode svm/ })
    await assert.rejects(idsOf({ mode: VectorStoreQueryMode.HYBRID }), { ...refused, message: /no queryStr/ })
    await assert.rejects(matching([{ key: 'kind', operator: 'text_match', value: 'f' }]), refused)
    await assert.rejects(matching([{ key: 'kind', operator: '==', value: ['fox'] }]), refused)
    await assert.rejects(matching([{ key: 'kind', operator: 'in' }]), refused)
    const { queryEmbedding: _, ...withoutVector } = query
    await assert.rejects(store.query(withoutVector), refused)
  })

  it('finds nodes by words, alone and together with a vector', async () => {
    const client = createHttpClient({ baseUrl: service.httpUrl })
    const both = new VicinalVectorStore({
      client,
      collection: 'by-words',
      embedModel,
      words: { paths: { content: 1 } },
    })
    const texts = ['anadama bread', 'rye flour for bread']
    await both.add(
      texts.map((text, index) => new TextNode({ text, id_: text, embedding: index === 0 ? [1, 0] : [0, 1] })),
    )
    const found = async (mode: VectorStoreQueryMode, alpha?: number): Promise<VectorStoreQueryResult> =>
      await both.query({
        queryStr: 'anadama bread',
        queryEmbedding: [0, 1],
        similarityTopK: 2,
        mode,
        ...(alpha !== undefined && { alpha }),
      })
    const { ids, similarities } = await found(VectorStoreQueryMode.SPARSE)
    assert.deepEqual(ids, texts)
    assert.equal(similarities[0], 1)
    assert.deepEqual((await found(VectorStoreQueryMode.HYBRID, 0.1)).ids, texts)
    assert.deepEqual((await found(VectorStoreQueryMode.HYBRID, 0.9)).ids, texts.toReversed())
    const boost = [{ filter: { content: { $match: 'anadama' } }, weight: 9 }]
    const nearest = { queryEmbedding: [0, 1], similarityTopK: 2, mode: VectorStoreQueryMode.DEFAULT }
    const shaped = await both.query(nearest, { boost })
    assert.deepEqual(shaped.ids, texts)
    assert.ok(shaped.similarities[0]! > shaped.similarities[1]!)
    const tuned = await both.query(nearest, { ef: 200, rerank: undefined })
    assert.deepEqual(tuned.similarities, [1, 0])
    const like = await client.collection('by-words').search({ words: 'anadama', limit: 1 })
    const byWords = { queryStr: 'anadama', similarityTopK: 1, mode: VectorStoreQueryMode.SPARSE }
    assert.deepEqual((await both.query(byWords, { like })).ids, [texts[1]])
    await client.collections.delete('by-words')
  })

  it('has the embedding model that it was created with, which an index reads', () => {
    assert.equal(store.embedModel, embedModel)
    assert.equal(store.storesText, true)
  })

  it('creates its collection on the first write, but not on a read', async () => {
    await assert.rejects(store.query(query), { reason: 'collection_not_found' })
    assert.deepEqual(await store.add([]), [])
    assert.deepEqual(await store.query(query), { nodes: [], similarities: [], ids: [] })
    assert.deepEqual(await idsOf({ mode: VectorStoreQueryMode.MMR }), [])
  })

  it('runs the example of its README', async () => {
    const { printed, expected } = await runReadmeExample(join(import.meta.dirname, '..'), service.httpUrl)
    assert.equal(printed, expected)
  })
})
