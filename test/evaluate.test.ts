import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, it } from 'node:test'
import { Analyzer } from '../src/words/analyzer.ts'
import { describeBoth } from './support/both-transports.ts'
import { BruteForceWords } from './support/brute-force-words.ts'
import { randomVector, seededRandom } from './support/random.ts'

/** Evaluations of searches by judgements, end to end. */

const dimension = 8
const seed = 55

describeBoth('searches with judgements', (transport) => {
  const random = seededRandom(seed)
  const text = (): string =>
    Array.from({ length: 3 + Math.floor(random() * 9) }, () => `word${Math.floor(80 * random() ** 2)}`).join(
      ' ',
    )
  const points = Array.from({ length: 200 }, () => ({
    id: randomUUID(),
    vector: randomVector(random, dimension, 'continuous'),
    payload: { contentType: 'Text' as const, content: text(), attributes: { title: text() } },
  }))
  const best3 = (weights: readonly number[], words: string): Record<string, number> => {
    const reference = new BruteForceWords(new Analyzer('english'), weights)
    for (const [index, { payload }] of points.entries())
      reference.put(index, index, [[payload.content], [payload.attributes.title]])
    return Object.fromEntries(
      reference.search(words, 3).map(({ slot }, rank) => [points[slot]!.id, 3 - rank]),
    )
  }
  const queries = ['word3 word10', 'word5 word42 word7', 'word1 word60', 'word11', 'word20 word2']

  before(async () => {
    const { client } = transport
    await client.insertBatch(points)
    await client.collections.put('default', {
      words: { language: 'english', paths: { content: 1, title: 3 } },
    })
  })

  it('are measured, with the best balance and weights', async () => {
    const { client } = transport
    const byWords = queries.map((words) => ({ words, relevant: best3([1, 3], words) }))
    const perfect = await client.evaluate({ judgements: byWords })
    assert.deepEqual([perfect.ndcg, perfect.recall, perfect.mrr, perfect.missing], [1, 1, 1, 0])
    assert.deepEqual(perfect.paths, { content: 1, title: 3 })
    assert.equal(perfect.balance, undefined)
    const judgements = byWords.map((judgement) => ({
      ...judgement,
      vector: randomVector(random, dimension, 'continuous'),
    }))
    const both = { judgements, metric: 'Cosine' as const, k: 5 }
    const swept = await client.evaluate({ ...both, balance: 0.9, sweep: ['balance', 'paths'] })
    assert.equal(swept.balance, 0.9)
    assert.ok(swept.ndcg < 0.9 && swept.low.ndcg <= swept.ndcg && swept.ndcg <= swept.high.ndcg)
    assert.equal(swept.curve.length, 21 + 4)
    assert.equal(swept.best!.ndcg, 1)
    assert.ok(swept.best!.balance! < 0.5)
    assert.deepEqual(swept.best!.paths, { content: 1, title: 3 })
    for (const [index, { words, vector, relevant }] of judgements.entries()) {
      const found = await client.search({ words, vector, metric: 'Cosine', limit: 5, balance: 0.9 })
      const gain = (ids: readonly string[]): number =>
        ids.reduce((sum, id, rank) => sum + (relevant[id] ?? 0) / Math.log2(rank + 2), 0)
      assert.ok(Math.abs(swept.queries[index]!.ndcg - gain(found) / gain(Object.keys(relevant))) < 1e-12)
    }
    const byContent = queries.map((words) => ({ words, relevant: best3([1, 0.75], words) }))
    const { best } = await client.evaluate({ judgements: byContent, sweep: ['paths'] })
    assert.deepEqual([best!.paths, best!.ndcg], [{ content: 1, title: 0.75 }, 1])
  })

  it('are measured with boosts and diversity, as searches have them', async () => {
    const { client } = transport
    const boosted = points.filter((_, index) => index % 40 === 0)
    const boost = [{ weight: 2, filter: { $id: { $in: boosted.map(({ id }) => id) } } }]
    const relevant = Object.fromEntries(boosted.map(({ id }) => [id, 1]))
    const judgements = queries.map((words) => ({
      words,
      vector: randomVector(random, dimension, 'continuous'),
      relevant,
    }))
    const asked = { judgements, metric: 'Cosine' as const, k: 5 }
    assert.ok((await client.evaluate(asked)).recall < 0.5)
    for (const shape of [{ boost }, { boost, diversity: 0.9 }, { diversity: 1 }]) {
      const swept = await client.evaluate({ ...asked, ...shape, balance: 0.3, sweep: ['balance'] })
      for (const [index, { words, vector }] of judgements.entries()) {
        for (const [balance, { recall }] of [
          [0.3, swept.queries[index]!],
          [swept.best!.balance, swept.best!.queries[index]!],
        ] as const) {
          const found = await client.search({ words, vector, metric: 'Cosine', limit: 5, balance, ...shape })
          assert.equal(recall, found.filter((id) => id in relevant).length / boosted.length)
        }
      }
    }
    assert.equal((await client.evaluate({ ...asked, boost })).recall, 1)
  })

  it('are cancelled with their call', async () => {
    const relevant = { [points[0]!.id]: 1 }
    const judgements = Array.from({ length: 1000 }, () => ({ words: 'word3 word10', relevant }))
    const { client } = transport
    const signal = AbortSignal.timeout(100)
    await assert.rejects(client.evaluate({ judgements, sweep: ['paths'] }, { signal }), {
      reason: 'cancelled',
    })
    // Other calls have their turn meanwhile.
    const slow = client.evaluate({ judgements })
    let searches = 0
    await Promise.race([
      slow,
      (async () => {
        for (; searches < 3; searches += 1) await client.search({ words: 'word1', limit: 1 })
      })(),
    ])
    assert.equal(searches, 3)
    assert.equal((await slow).queries.length, 1000)
  })

  it('are refused if they cannot be meant', async () => {
    const { client } = transport
    const { id } = points[0]!
    const one = { words: 'word1', relevant: { [id]: 1 } }
    for (const [bad, message] of [
      [{ judgements: [] }, /judgements is missing or empty, it needs 1 to 1000/],
      [{ judgements: Array.from({ length: 1001 }, () => one) }, /judgements has more than 1000 judgements/],
      [{ judgements: [one], k: 1001 }, /k is 1001, it must be a whole number from 1 to 1000/],
      [
        { judgements: [one], sweep: ['k' as 'ef'] },
        /sweep\[0\] is "k", it must be one of balance, ef, paths/,
      ],
      [{ judgements: [one, { words: '?', relevant: {} }] }, /judgements\[1\].words has no word/],
      [
        { judgements: [{ relevant: { [id]: 1 } }] },
        /judgements\[0\] has no query: it needs words, a vector or a text/,
      ],
      [{ judgements: [{ words: 'x', relevant: { x: 1 } }] }, /judgements\[0\].relevant.x "x" is not a UUID/],
      [
        { judgements: [{ words: 'x', relevant: { [id]: -1 } }] },
        /judgements\[0\].relevant.[0-9a-f-]+ is -1, it must be a number from 0 to 1000/,
      ],
      [{ judgements: [{ ...one, vector: [1] }], metric: 'Cosine' }, /judgements\[0\].*has 1 dimensions/],
      [
        { judgements: [{ words: 'x', relevant: { [id]: 0 } }] },
        /judgements\[0\].relevant has no point with a grade greater than 0/,
      ],
      [
        { judgements: [one], boost: [{ weight: 101, filter: {} }] },
        /^boost\[0\].weight is 101, it must be a number from -100 to 100/,
      ],
      [{ judgements: [one], diversity: 2 }, /^diversity is 2, it must be a number from 0 to 1/],
      [{ judgements: [one], rerank: 20 }, /^rerank is given, the service has no reranker/],
      [
        { judgements: [one], sweep: ['balance'] },
        /sweep\[0\] is balance, it needs a judgement with words and a vector or a text/,
      ],
    ] as const) {
      await assert.rejects(client.evaluate(bad), { reason: 'invalid_argument', message })
    }
  })
})
