import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { AnswerShape, ShapedQuery } from '../src/api/answer-shape.ts'
import type { ApiContext, Call } from '../src/api/call.ts'
import { searchShaped } from '../src/api/shaped-search.ts'
import type { WordSettings } from '../src/base/collection.ts'
import { DatabaseError } from '../src/base/errors.ts'
import type { Filter } from '../src/base/filter.ts'
import type { SearchResults } from '../src/base/id-lists.ts'
import type { SearchQuery } from '../src/base/point.ts'
import type { Database } from '../src/points/database.ts'
import { Analyzer } from '../src/words/analyzer.ts'
import { BruteForceWords } from './support/brute-force-words.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'
import { until } from './support/until.ts'

/** Words in a cluster. */

const seed = 7
const words = { language: 'english', paths: [{ path: 'content', weight: 1 }] } as const
const plain = { hnsw: {} }

describe('a cluster whose nodes have all points', () => {
  it(`searches by words with the same bits on every node, seed ${seed}`, async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 2 })
    const [one, other] = all.nodes.map(({ up }) => up.node)
    const random = seededRandom(seed)
    const text = (): string =>
      Array.from({ length: 1 + Math.floor(random() * 8) }, () => `w${Math.floor(40 * random() ** 2)}`).join(
        ' ',
      )
    const contents = Array.from({ length: 200 }, text)
    const insert = async (from: number, to: number, node = one!): Promise<readonly string[]> => {
      const points = contents.slice(from, to).map((content) => ({
        vector: randomVector(random, 4, 'continuous'),
        payload: { contentType: 'Text' as const, content },
      }))
      return (await node.database.insert(points)).ids as readonly string[]
    }
    const ids = [...(await insert(0, 100))]
    await one!.collections.put('default', { ...plain, words })
    ids.push(...(await insert(100, 200, other!)))
    await one!.database.remove(ids[5]!)
    await other!.database.patch(ids[6]!, { content: 'w1 w2 w3' })
    contents[6] = 'w1 w2 w3'
    await all.settled()
    const reference = new BruteForceWords(new Analyzer('english'), [1])
    for (const [slot, content] of contents.entries()) if (slot !== 5) reference.put(slot, slot, [[content]])
    const vector = randomVector(random, 4, 'continuous')
    for (const query of ['w1 w30', 'w2 w3 w39', 'w17']) {
      const best = reference.search(query, 10)
      const asked = (balance: number, near: Float32Array): SearchQuery => ({
        vector: near,
        metric: 'Cosine',
        limit: 10,
        ef: 100,
        include: { distance: true, payload: false, vector: false, version: false, scores: true },
        words: { text: query, balance },
      })
      const answers = await Promise.all(
        [one!, other!].map(async ({ database }) => {
          const alone = await database.search([asked(0, new Float32Array(0))])
          const both = await database.search([asked(0.4, vector)])
          return { alone, hybrid: [both.ids.strings(), both.details, [...both.distances]] }
        }),
      )
      for (const { alone } of answers) {
        assert.deepEqual(
          alone.details[0]!.map((each) => each.words),
          best.map(({ score }) => score),
        )
      }
      assert.deepEqual(answers[1]!.hybrid, answers[0]!.hybrid)
      assert.deepEqual(answers[1]!.alone.ids.strings(), answers[0]!.alone.ids.strings())
    }
    assert.equal(await other!.database.count(matching('w17')), reference.matching('match', 'w17', 0).length)
    assert.deepEqual(other!.collections.get('default').words, words)
    await other!.collections.put('default', { ...plain, words: null })
    await all.settled()
    assert.equal(one!.collections.get('default').words, undefined)
    await assert.rejects(one!.database.search([wordsAlone]), { reason: 'invalid_argument' })
  })

  it('refuses changes that depend on words', async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 2 })
    const { database, collections } = all.nodes[0]!.up.node
    await collections.put('default', { ...plain, words })
    const point = { vector: new Float32Array(4), payload: { contentType: 'Text' as const, content: 'w1' } }
    const [id] = (await database.insert([point])).ids as readonly string[]
    const filter: Filter = { kind: 'not', of: { kind: 'any', of: [matching('w1')] } }
    const message = /filter has \$match or \$phrase: in a cluster, changes cannot depend on words/
    const refused = { reason: 'invalid_argument', message }
    const change = { filter, change: 'delete', dryRun: false } as const
    await assert.rejects(database.changeByFilter(change), refused)
    await assert.rejects(database.put(id!, point, { kind: 'filter', filter }), refused)
    await assert.rejects(database.patch(id!, { content: 'x' }, { kind: 'filter', filter }), refused)
  })
})

describe('a cluster whose nodes have a part of the points each', () => {
  it(`searches by words with the bits of one node, seed ${seed}`, async () => {
    await using all = await ShardedNodes.start({ nodes: 3, replicas: 2, hasWhole: true })
    const nodes = all.nodes.map(({ up }) => up.node)
    const whole = all.whole.up.node
    const random = seededRandom(seed)
    const below = (limit: number): number => Math.floor(random() * limit)
    const text = (): string => Array.from({ length: 1 + below(8) }, () => commonWord(random)).join(' ')
    await nodes[0]!.collections.put('default', { ...plain, words: mixed })
    const ids: string[] = []
    const insert = async (count: number): Promise<void> => {
      const points = Array.from({ length: count }, () => ({
        vector: randomVector(random, 4, 'continuous'),
        payload: {
          contentType: 'Text' as const,
          content: text(),
          attributes: new Map<string, string | number>([
            ['title', text()],
            ['tenant', below(3)],
            ['group', `g${below(20)}`],
          ]),
        },
      }))
      ids.push(...((await nodes[below(3)]!.database.insert(points)).ids as readonly string[]))
    }
    const compareAll = async (): Promise<void> => {
      await indexed(all)
      for (let round = 0; round < 12; round += 1) {
        const query = randomQuery(random, ids)
        const expected = await seen(whole.database, query)
        for (const { database } of nodes)
          assert.deepEqual(await seen(database, query), expected, JSON.stringify(query))
      }
      for (const vector of [new Float32Array(0), randomVector(random, 4, 'continuous')]) {
        const profiled = { ...randomQuery(random, ids), vector, profile: true }
        const expected = await profileOf(whole.database, profiled)
        assert.deepEqual(await profileOf(nodes[below(3)]!.database, profiled), expected)
      }
      const query = randomQuery(random, ids)
      const asked = { ...query, vector: randomVector(random, 4, 'continuous'), limit: 7 }
      const expected = await pagesOf(whole.database, asked)
      assert.deepEqual(await pagesOf(nodes[below(3)]!.database, asked), expected)
    }
    await insert(150)
    await compareAll()
    for (let change = 0; change < 60; change += 1) {
      const { database } = nodes[below(3)]!
      const [id] = ids.splice(below(ids.length), 1) as [string]
      if (change % 3 === 0) await database.remove(id)
      else {
        ids.push(id)
        const vector = change % 3 === 1 ? randomVector(random, 4, 'continuous') : undefined
        await database.patch(id, { content: text(), ...(vector && { vector }) })
      }
    }
    await insert(60)
    await compareAll()
    for (const shape of shapesNear(ids)) {
      const { limit: _, filter, ...query } = randomQuery(random, ids)
      const asked = { ...query, filter, vector: shape.vector, limit: 6, shape: shape.shape }
      const expected = await shaped(whole.database, asked)
      for (const { database } of nodes)
        assert.deepEqual(await shaped(database, asked), expected, JSON.stringify(asked))
    }
  })

  it('waits until all nodes have indexed words that are declared anew, and refuses where there are none', async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 1 })
    const { database, collections } = all.nodes[0]!.up.node
    await assert.rejects(database.search([wordsAlone]), { reason: 'invalid_argument' })
    await collections.put('default', { ...plain, words })
    const payload = { contentType: 'Text' as const, content: 'w1 w2' }
    await database.insert(Array.from({ length: 20 }, () => ({ vector: new Float32Array(4), payload })))
    await collections.put('default', { ...plain, words: mixed })
    await indexed(all)
    for (const { up } of all.nodes)
      assert.equal((await up.node.database.search([wordsAlone])).ids.lengthOf(0), 10)
  })
})

/** Until then, each node searches the words that were declared before. */
async function indexed(all: ShardedNodes): Promise<void> {
  await all.settled()
  await until(() => all.nodes.every(({ up }) => up.node.database.stats.wordsWaiting === 0))
}

/** Several languages, none of which all nodes have the same share of. */
const mixed: WordSettings = {
  language: 'auto',
  paths: [
    { path: 'content', weight: 1 },
    { path: 'title', weight: 2 },
  ],
}
const vocabulary = [
  ...'the houses of a runner and his running dogs were painted with colours'.split(' '),
  ...'die Häuser der Läufer und seine laufenden Hunde waren bunt bemalt'.split(' '),
  ...'les maisons du coureur et ses chiens courants étaient peintes'.split(' '),
]

function commonWord(random: () => number): string {
  return vocabulary[Math.floor(vocabulary.length * random() ** 2)]!
}

function randomQuery(random: () => number, ids: readonly string[]): SearchQuery {
  const below = (limit: number): number => Math.floor(random() * limit)
  const vectors = [new Float32Array(0), randomVector(random, 4, 'continuous'), ids[below(ids.length)]!]
  const text = Array.from({ length: 1 + below(4) }, () => commonWord(random)).join(' ')
  const tenant: Filter = { kind: 'condition', path: 'tenant', test: { op: 'range', bounds: { gte: 1 } } }
  const both: Filter = { kind: 'all', of: [tenant, matching('dogs')] }
  const filters = [undefined, tenant, matching('houses'), both]
  const filter = filters[below(4)]
  return {
    vector: vectors[below(3)]!,
    metric: (['Cosine', 'Euclidean', 'Manhattan'] as const)[below(3)]!,
    limit: 1 + below(30),
    ef: 1000,
    filter,
    ...(filter === tenant && below(2) === 0 && { keyFilter: tenant }),
    include: { distance: true, payload: true, vector: true, version: true, scores: true, highlight: true },
    words: {
      text,
      balance: random(),
      ...(below(4) === 0 && { weights: [2, 1] }),
      ...(below(3) === 0 && { population: filters[1 + below(3)] }),
    },
  }
}

/** Every way to shape an answer. */
function shapesNear(ids: readonly string[]): { shape: AnswerShape; vector: Float32Array }[] {
  const none = { boosts: [], like: [], unlike: [], diversity: 0, groupBy: undefined, rerank: undefined }
  const even: Filter = { kind: 'condition', path: 'tenant', test: { op: 'in', values: [0, 2] } }
  const boosts = [
    { filter: even, weight: 0.3 },
    { filter: matching('dogs'), weight: -0.2 },
  ]
  const shapes: AnswerShape[] = [
    { ...none, boosts },
    { ...none, like: ids.slice(0, 2), unlike: ids.slice(2, 3) },
    { ...none, diversity: 0.4 },
    { ...none, groupBy: { path: 'group', size: 2 } },
    { ...none, rerank: { count: 20, text: 'houses', skips: false } },
    { ...none, boosts, diversity: 0.2, groupBy: { path: 'group', size: 3 } },
  ]
  const vector = Float32Array.of(0.5, -1, 2, 0.1)
  return shapes.flatMap((shape) =>
    [vector, new Float32Array(0)].map((each) => ({ shape, vector: shape.like.length > 0 ? vector : each })),
  )
}

async function shaped(database: Database, query: ShapedQuery): Promise<unknown> {
  const rerank = async (_: string, documents: readonly string[]): Promise<readonly number[]> =>
    documents.map((text) => (text.length % 17) / 17)
  const limits = { maxLimit: 1000 }
  const context = { database, limits, reranker: { rerank } } as unknown as ApiContext
  const { groups, ...results } = await searchShaped(context, query, { fields: {} } as Call)
  return [shown(results), groups]
}

/** What a search answers, with all bits. */
async function seen(database: Database, query: SearchQuery): Promise<unknown> {
  try {
    return shown(await database.search([query]))
  } catch (error) {
    // The key must not see the point to search near.
    assert(error instanceof DatabaseError && error.reason === 'not_found')
    return error.message
  }
}

function shown({ ids, distances, details }: SearchResults): unknown {
  return [ids.strings()[0], [...distances], JSON.parse(JSON.stringify(details[0]))]
}

/** What the profile of a search says of points. */
async function profileOf(database: Database, query: SearchQuery): Promise<unknown> {
  const [profile] = (await database.search([query])).profiles
  const { points, matching, steps } = profile!
  return { points, matching, steps: steps!.map(({ step, points: left }) => [step, left]) }
}

async function pagesOf(database: Database, query: SearchQuery): Promise<unknown[]> {
  const pages: unknown[] = []
  let cursor: string | undefined = ''
  while (cursor !== undefined) {
    const results: SearchResults = await database.search([{ ...query, cursor }])
    pages.push(shown(results))
    cursor = results.nextCursors?.[0]
  }
  return pages
}

function matching(text: string): Filter {
  return { kind: 'condition', path: 'content', test: { op: 'match', text } }
}

const wordsAlone: SearchQuery = {
  vector: new Float32Array(0),
  metric: 'Cosine',
  limit: 10,
  ef: 10,
  words: { text: 'w1', balance: 0 },
}
