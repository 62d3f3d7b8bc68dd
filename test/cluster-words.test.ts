import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Filter } from '../src/base/filter.ts'
import type { SearchQuery } from '../src/base/point.ts'
import { Analyzer } from '../src/words/analyzer.ts'
import { BruteForceWords } from './support/brute-force-words.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { ShardedNodes } from './support/sharded-nodes.ts'

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
  it('refuses searches by words, and filters by them', async () => {
    await using all = await ShardedNodes.start({ nodes: 2, replicas: 1 })
    const [one, other] = all.nodes.map(({ up }) => up.node)
    await one!.collections.put('default', { ...plain, words })
    const points = Array.from({ length: 20 }, (_, index) => ({
      vector: Float32Array.of(index, 1, 0, 0),
      payload: { contentType: 'Text' as const, content: index % 2 === 0 ? 'even' : 'odd' },
    }))
    await one!.database.insert(points)
    await all.settled()
    for (const { database } of [one!, other!]) {
      await assert.rejects(database.search([wordsAlone]), {
        reason: 'not_ready',
        message: /this node has a part of the points, searches by words need all/,
      })
      assert.equal(await database.count(matching('even')), 10)
    }
  })
})

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
