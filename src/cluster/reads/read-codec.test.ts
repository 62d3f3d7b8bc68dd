import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IdLists, type SearchResults } from '../../base/id-lists.ts'
import { PartitionSet } from '../../base/partitions.ts'
import type { Include, VectorQuery } from '../../base/point.ts'
import { atOnce } from '../../base/turns.ts'
import { ReadAnswerSchema } from '../../messages/generated/cluster_pb.js'
import { Encoded } from '../../messages/reader.ts'
import { MessageWriter } from '../../messages/writer.ts'
import { cursorAfter } from '../../points/insertion-order.ts'
import {
  decodeQuestion,
  encodeQuestion,
  listMessage,
  listQueryOf,
  pageOf,
  queriesOf,
  resultsOf,
  searchMessage,
  writePage,
  writeResults,
} from './read-codec.ts'

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
  it('have queries with all that they ask for', () => {
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
    const bytes = encodeQuestion(head, searchMessage(queries))
    const { ask, head: read } = decodeQuestion(bytes)
    assert.deepEqual(read, { ...head, partitions: new PartitionSet(Buffer.from(head.partitions.bytes)) })
    assert(ask.case === 'search')
    assert.deepEqual(atOnce(queriesOf(ask.value, bytes)), queries)
  })

  it('have lists', () => {
    for (const include of includes) {
      const query = { filter: undefined, limit: 7, cursor: undefined, include }
      const { ask } = decodeQuestion(encodeQuestion(head, listMessage(query)))
      assert(ask.case === 'list')
      assert.deepEqual(atOnce(listQueryOf(ask.value)), query)
    }
  })
})

describe('answers between nodes', () => {
  it('are pages', () => {
    const page = {
      points: [{ id: ids[0], payload, version: 7 }],
      orders: [5],
      nextCursor: cursorAfter(5),
      knownBelow: 65_536,
      visible: 300,
    }
    const answer = written((writer) => writePage(writer, page))
    assert(answer.case === 'list')
    assert.deepEqual(atOnce(pageOf(answer.value, 300)), page)
  })

  it('are results of several queries', () => {
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
    const answer = written((writer) => writeResults(writer, 12, found))
    assert(answer.case === 'search')
    const read = atOnce(resultsOf(answer.value))
    assert.equal(read.before, 12)
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

function written(write: (writer: MessageWriter) => Generator<undefined, void, void>) {
  const writer = new MessageWriter()
  atOnce(write(writer))
  return Encoded.of(ReadAnswerSchema, writer.finish()).read().answer
}
