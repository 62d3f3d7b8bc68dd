import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IdLists, type SearchResults } from '../../base/id-lists.ts'
import { PartitionSet } from '../../base/partitions.ts'
import type { Include, VectorQuery } from '../../base/point.ts'
import { MessageWriter } from '../../messages/writer.ts'
import { cursorAfter } from '../../points/insertion-order.ts'
import type { ReadAnswers, ReadKind } from './node-reads.ts'
import { decodeAnswer, decodeQuestion, encodeQuestion, writeAnswer } from './read-codec.ts'

const ids = ['00112233-4455-6677-8899-aabbccddeeff', 'ff112233-4455-6677-8899-aabbccddeeff'] as const
const head = { collection: 'docs', position: 2 ** 40, partitions: PartitionSet.of([3, 255]) }
const payload = { contentType: 'Image', content: 'ä', attributes: new Map([['a', 1]]) } as const
const flags = {
  distance: true,
  payload: false,
  vector: true,
  version: false,
  scores: false,
  highlight: false,
}
const includes: readonly Include[] = [
  { ...flags, attributes: 'all' },
  { ...flags, attributes: undefined },
  { ...flags, attributes: [] },
  { ...flags, attributes: ['a.b', '$x'] },
]

describe('questions between nodes', () => {
  it('have queries with all that they ask for', async () => {
    const query: VectorQuery = {
      vector: Float32Array.of(0.5, -1, 3),
      metric: 'Cosine',
      limit: 10,
      ef: 64,
      filter: { kind: 'condition', path: 'a', test: { op: 'prefix', text: 'x' } },
      exact: true,
      maxDistance: 0.25,
      include: undefined,
      profile: false,
    }
    const queries = [query, ...includes.map((include) => ({ ...query, include }))]
    const { kind, head: read, query: asked } = decodeQuestion(encodeQuestion(head, 'search', queries))
    assert.deepEqual(read, { ...head, partitions: new PartitionSet(Buffer.from(head.partitions.bytes)) })
    assert.equal(kind, 'search')
    assert.deepEqual(await asked(), queries)
  })

  it('have lists', async () => {
    for (const include of includes) {
      const query = { filter: undefined, limit: 7, cursor: undefined, include }
      const { kind, query: asked } = decodeQuestion(encodeQuestion(head, 'list', query))
      assert.equal(kind, 'list')
      assert.deepEqual(await asked(), query)
    }
  })
})

describe('answers between nodes', () => {
  it('are pages', async () => {
    const page = {
      points: [{ id: ids[0], payload, version: 7 }],
      orders: [5],
      nextCursor: cursorAfter(5),
      knownBelow: 65_536,
      visible: 300,
    }
    assert.deepEqual(await received('list', page, 300), page)
  })

  it('are results of several queries', async () => {
    const hit = { payload, vector: Float32Array.of(1, 2), version: 2 ** 50 }
    const plan = { plan: 'graph', reason: 'because' } as const
    const found: SearchResults = {
      ids: IdLists.of([[ids[0], ids[1]], [], [ids[1]]]),
      distances: Float64Array.of(0, 0.5, -1),
      sequences: Float64Array.of(1, 2, 2 ** 53 - 1),
      details: [[hit, { version: 0 }], [], undefined],
      profiles: [undefined, { ...plan, ...numbers }, undefined],
      plans: [plan, undefined, plan],
    }
    const read = await received('search', { before: 12, after: 13, found }, 13)
    assert.deepEqual([read.before, read.after], [12, 13])
    assert.deepEqual(read.found.ids.strings(), found.ids.strings())
    assert.deepEqual({ ...read.found, ids: undefined }, { ...found, ids: undefined })
  })
})

const numbers = {
  points: 1,
  matching: 2,
  compared: 3,
  measured: 4,
  ef: 5,
  efMultiplier: 6,
  filterUs: 7,
  queueUs: 8,
  searchUs: 9,
  recallEstimate: 0.5,
}

async function received<Kind extends ReadKind>(
  kind: Kind,
  answer: ReadAnswers[Kind],
  visible: number,
): Promise<ReadAnswers[Kind]> {
  const writer = new MessageWriter()
  await writeAnswer(writer, kind, answer, visible)
  return (await decodeAnswer(kind, writer.finish())).answer
}
