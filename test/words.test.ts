import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { createHttpClient, type DetailedQuery, type Filter, type VectorClient } from '../src/client/index.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { Analyzer } from '../src/words/analyzer.ts'
import { describeBoth } from './support/both-transports.ts'
import { BruteForceWords } from './support/brute-force-words.ts'
import { ServerProcess, temporaryDirectory } from './support/process.ts'
import { randomVector, seededRandom } from './support/random.ts'
import { startTestService } from './support/service.ts'

/** Searches by words, alone and together with vectors, end to end. */

const dimension = 8
const count = 400
const seed = 54

describeBoth('searches by words', (transport) => {
  const random = seededRandom(seed)
  const text = (): string =>
    Array.from({ length: 3 + Math.floor(random() * 9) }, () => `word${Math.floor(80 * random() ** 2)}`).join(
      ' ',
    )
  const points = Array.from({ length: count }, (_, index) => ({
    id: randomUUID(),
    vector: randomVector(random, dimension, 'continuous'),
    payload: {
      contentType: 'Text' as const,
      content: text(),
      attributes: { title: text(), even: index % 2 === 0 },
    },
  }))
  const reference = new BruteForceWords(new Analyzer('english'), [1, 3])
  for (const [index, { payload }] of points.entries())
    reference.put(index, index, [[payload.content], [payload.attributes.title]])
  const vector = randomVector(random, dimension, 'continuous')
  const query = 'word3 word10 word42'

  before(async () => {
    const { client } = transport
    // Half of the points are there before the words are declared.
    await client.insertBatch(points.slice(0, count / 2))
    const { created, info } = await client.collections.put('default', {
      words: { language: 'english', paths: { content: 1, title: 3 } },
    })
    assert.equal(created, false)
    assert.deepEqual(info.words, { language: 'english', paths: { content: 1, title: 3 } })
    await client.insertBatch(points.slice(count / 2))
  })

  const ids = (hits: readonly { readonly slot: number }[]): string[] =>
    hits.map(({ slot }) => points[slot]!.id)

  it(`find the best points, seed ${seed}`, async () => {
    const { client } = transport
    const best = reference.search(query, 10)
    assert.deepEqual(await client.search({ words: query, limit: 10 }), ids(best))
    const include = { scores: true, highlight: true, attributes: ['even'] }
    const { hits } = await client.searchHits({ words: query, limit: 10, include })
    assert.deepEqual(
      hits.map(({ words }) => words),
      best.map(({ score }) => score),
    )
    assert.equal(hits[0]!.score, 1)
    for (const { highlight = [], id } of hits) {
      const { payload } = points.find((point) => point.id === id)!
      assert.ok(highlight.length > 0)
      for (const { path, parts } of highlight) {
        const whole = path === 'content' ? payload.content : payload.attributes.title
        assert.ok(whole.includes(parts.join('')))
        for (const found of parts.filter((_, index) => index % 2 === 1))
          assert.ok(query.includes(found), found)
      }
    }
  })

  it('score a point the same whatever the limit and the filter are', async () => {
    const { client } = transport
    const include = { scores: true }
    const all = await client.searchHits({ words: query, limit: 100, include })
    const some = await client.searchHits({ words: query, limit: 5, include, filter: { even: true } })
    const scores = new Map(all.hits.map(({ id, score }) => [id, score]))
    assert.equal(some.hits.length, 5)
    for (const { id, score } of some.hits) assert.equal(score, scores.get(id))
    assert.deepEqual(
      some.hits.map(({ id }) => id),
      ids(reference.search(query, 5, (slot) => slot % 2 === 0)),
    )
  })

  it('count words in some of the points if asked to', async () => {
    const { client } = transport
    const include = { scores: true }
    const shown = async (filter: Filter): Promise<unknown> => {
      const { hits } = await client.searchHits({ words: query, limit: 30, statistics: { filter }, include })
      return hits.map(({ id, words }) => ({ id, words }))
    }
    const expected = (isCounted?: (slot: number) => boolean): unknown =>
      reference
        .search(query, 30, undefined, isCounted)
        .map(({ slot, score }) => ({ id: points[slot]!.id, words: score }))
    assert.notDeepEqual(
      expected((slot) => slot % 2 === 0),
      expected(),
    )
    for (let repeated = 0; repeated < 2; repeated += 1)
      assert.deepEqual(
        await shown({ even: true }),
        expected((slot) => slot % 2 === 0),
      )
    // Some of the words are not in these points.
    const few = reference.matching('match', 'word3', 1)
    assert.deepEqual(
      await shown({ title: { $match: 'word3' } }),
      expected((slot) => few.includes(slot)),
    )
    assert.deepEqual(await shown({ even: 'nowhere' }), expected())
  })

  it('filter by words and phrases', async () => {
    const { client } = transport
    const sample = points[7]!.payload.content.split(' ').slice(1, 3).join(' ')
    for (const kind of ['match', 'phrase'] as const) {
      const filter = { content: { [`$${kind}`]: sample } }
      assert.equal(await client.count(filter), reference.matching(kind, sample, 0).length)
    }
    assert.deepEqual(
      await client.search({ words: query, limit: 10, filter: { title: { $match: 'word3' } } }),
      ids(reference.search(query, 10, (slot) => reference.matching('match', 'word3', 1).includes(slot))),
    )
  })

  it('join words and a vector, both scored for every candidate', async () => {
    const { client } = transport
    const near = points.map(({ vector: own }) => 2 - scalarDistance('Cosine', vector, own))
    const byWords = new Map(reference.search(query, count).map(({ slot, score }) => [slot, score]))
    const [bestNear, bestWords] = [Math.max(...near), Math.max(...byWords.values())]
    for (const balance of [0, 0.3, 0.5, 1]) {
      const found = await client.searchHits({
        vector,
        words: query,
        metric: 'Cosine',
        limit: 20,
        balance,
        exact: true,
        include: { scores: true, distance: true },
      })
      const expected = points
        .map(({ id }, slot) => ({
          id,
          score: (balance * near[slot]!) / bestNear + ((1 - balance) * (byWords.get(slot) ?? 0)) / bestWords,
        }))
        .sort((a, b) => b.score - a.score)
      for (const [rank, { id, score, distance }] of found.hits.entries()) {
        const slot = points.findIndex((point) => point.id === id)
        assert.ok(Math.abs(score! - expected[rank]!.score) < 1e-12, `${balance} ${rank}`)
        assert.equal(distance, scalarDistance('Cosine', vector, points[slot]!.vector))
      }
      assert.equal(found.hits.length, 20)
    }
  })

  it('show pages that repeat and lose nothing while points change', async () => {
    const { client } = transport
    const first = await client.searchHits({ words: query, limit: 400, include: { scores: true } })
    for (const target of [{}, { vector, metric: 'Cosine' as const }]) {
      const whole = await client.searchHits({
        ...target,
        words: query,
        limit: 1000,
        include: { scores: true },
      })
      const seen: string[] = []
      let cursor: string | undefined = ''
      while (cursor !== undefined) {
        const page = await client.searchHits({
          ...target,
          words: query,
          limit: 37,
          include: { scores: true },
          cursor,
        })
        seen.push(...page.hits.map(({ id }) => id))
        cursor = page.nextCursor
        // Points that would be first, and change what every word counts.
        const [id] = await client.insertBatch([
          { vector, payload: { contentType: 'Text', content: `${query} ${query}` } },
        ])
        await client.delete(id!)
      }
      assert.deepEqual(
        seen,
        whole.hits.map(({ id }) => id),
      )
    }
    assert.ok(first.hits.length > 37)
    const bad = { words: query, limit: 10 }
    await assert.rejects(client.search({ ...bad, cursor: 'x' }), { reason: 'invalid_argument' })
    await assert.rejects(client.search({ ...bad, cursor: `${'a'.repeat(16)}.10` }), {
      reason: 'cursor_expired',
    })
    const { nextCursor } = await client.searchHits({ ...bad, cursor: '', include: {} })
    const near = { ...bad, vector, metric: 'Cosine' as const, maxDistance: 1 }
    const ofNear = await client.searchHits({ ...near, cursor: '', include: {} })
    for (const other of [
      { ...bad, words: 'word1', cursor: nextCursor },
      { ...bad, filter: { even: true }, cursor: nextCursor },
      { ...near, cursor: nextCursor },
      { ...bad, cursor: ofNear.nextCursor },
      { ...near, metric: 'Euclidean' as const, cursor: ofNear.nextCursor },
      { ...near, maxDistance: 1.5, cursor: ofNear.nextCursor },
    ]) {
      await assert.rejects(client.search(other), {
        reason: 'invalid_argument',
        message: /^cursor is of another search: the same words, balance, metric, max_distance, filter and/,
      })
    }
  })

  it('tell their steps, and count in the metrics', async () => {
    const { client } = transport
    const steps = async (asked: object): Promise<readonly (readonly [string, number])[]> => {
      const query = { words: 'word1 word2', limit: 3, profile: true, ...asked } as DetailedQuery
      const { profile } = await client.searchHits(query)
      assert.ok(profile!.points > 0 && profile!.searchUs >= 0)
      return profile!.steps!.map(({ step, points }) => [step, points] as const)
    }
    const names = async (asked: object): Promise<string[]> => (await steps(asked)).map(([step]) => step)
    assert.deepEqual(await names({}), ['legs', 'fusion', 'page'])
    assert.equal((await steps({})).at(-1)![1], 3)
    const hybrid = { vector, metric: 'Cosine', filter: { even: true } }
    assert.deepEqual(await names(hybrid), ['filter', 'legs', 'fusion', 'page'])
    const shaped = { ...hybrid, boost: [{ filter: { even: true }, weight: 1 }], diversity: 0.1 }
    assert.deepEqual(await names(shaped), ['filter', 'legs', 'fusion', 'boost', 'diversity', 'page'])
    assert.deepEqual(await names({ cursor: '' }), ['legs', 'fusion', 'page'])
  })

  it('refuse what cannot be meant, and name it', async () => {
    const { client } = transport
    for (const [bad, message] of [
      [{ words: '-- !', limit: 1 }, /words has no word/],
      [{ words: 'x'.repeat(10_001), limit: 1 }, /words has 10001 characters, the maximum is 10000/],
      [{ words: 'x\ud800', limit: 1 }, /words has half of a surrogate pair/],
      [
        { words: 'x', limit: 1, filter: { content: { $match: 'x\udc00' } } },
        /match has half of a surrogate pair/,
      ],
      [{ words: 'x', limit: 1, balance: 0.5 }, /balance is given, it needs a vector/],
      [
        { vector, metric: 'Cosine', words: 'x', limit: 1, balance: 1.5 },
        /balance is 1.5, it must be a number/,
      ],
      [{ vector, metric: 'Cosine', limit: 1, balance: 0.5 }, /balance is given, it needs words/],
      [
        { vector, metric: 'Cosine', limit: 1, statistics: { filter: { even: true } } },
        /statistics is given, it needs words/,
      ],
      [{ words: 'x', limit: 1, statistics: {} as never }, /^statistics.filter is missing$/],
      [{ words: 'x', limit: 1, maxDistance: 1 }, /max_distance is given, it needs a vector/],
      [{ words: 'x', limit: 1, filter: { other: { $match: 'x' } } }, /needs words at other/],
      [
        { words: 'x', limit: 1, filter: { content: { $match: 'x'.repeat(10_001) } } },
        /content\S* has 10001 characters, the most that a filter searches for is 10000/,
      ],
      [
        { words: 'x', limit: 1, filter: { content: { $phrase: 'x '.repeat(1100) } } },
        /filter.content.\$phrase has 1100 words, the maximum is 1024/,
      ],
    ] as const) {
      await assert.rejects(client.search(bad), { reason: 'invalid_argument', message })
    }
    await client.collections.put('plain')
    await assert.rejects(
      client.collections.put('plain', { words: { paths: {} } }),
      /words.paths is missing or empty, it needs 1 to 16/,
    )
    await assert.rejects(
      client.collections.put('plain', { words: { language: 'klingon' as 'german', paths: { content: 1 } } }),
      /words.language is "klingon", it must be one of auto, none, english/,
    )
  })
})

describe('words of hostile texts', () => {
  it('stay bounded', { timeout: 60_000 }, async () => {
    await using service = await startTestService()
    const client = createHttpClient({ baseUrl: service.httpUrl })
    await client.collections.put('default', { words: { language: 'english', paths: { content: 1 } } })
    const texts = [
      'x'.repeat(1_000_000),
      Array.from({ length: 100_000 }, (_, index) => `w${index}`).join(' '),
      'e\u0301'.repeat(200_000),
      '\u200d\u200f\u0640'.repeat(100_000),
      '漢字'.repeat(50_000),
      'é a b '.repeat(50_000),
      'a_b '.repeat(50_000),
      '\u202eשלום\u202c '.repeat(20_000),
    ]
    const stored = await client.insertBatch(
      texts.map((content) => ({ vector: [1], payload: { contentType: 'Text', content } })),
    )
    assert.deepEqual(await client.search({ words: 'w99999', limit: 10 }), [stored[1]])
    assert.deepEqual(await client.search({ words: '漢字', limit: 1 }), [stored[4]])
    const { hits } = await client.searchHits({ words: 'w5', limit: 1, include: { highlight: true } })
    assert.ok(hits[0]!.highlight![0]!.parts.join('').length < 300)
    const beginnings = texts.map((text) => text.slice(0, 600))
    for (const [index, text] of beginnings.entries()) {
      const filter = { content: { $phrase: text } }
      const count = await client.count(filter)
      assert.ok(count === 1 || index === 3, `${index}: ${count}`)
      if (index !== 3) assert.ok((await client.search({ words: text, limit: 1 })).length === 1)
    }
    for (const id of stored) await client.delete(id)
  })
})

describe('words after a kill', () => {
  it('find exactly what was acknowledged', { timeout: 180_000 }, async () => {
    await using directory = await temporaryDirectory()
    const dataDir = join(directory.path, 'data')
    const stored = new Map<string, string>()
    const assertFound = async (client: VectorClient): Promise<void> => {
      for (const [id, word] of stored) {
        assert.deepEqual(await client.search({ words: word, limit: 5 }), [id])
        assert.equal(await client.count({ content: { $match: `common ${word}` } }), 1)
      }
    }
    for (let round = 0; round < 2; round += 1) {
      await using server = await ServerProcess.start(dataDir)
      const client = createHttpClient({ baseUrl: server.httpUrl })
      if (round === 0) await client.collections.put('default', { words: { paths: { content: 1 } } })
      await assertFound(client)
      for (let index = 0; index < 20; index += 1) {
        const word = `round${round}n${index}`
        const payload = { contentType: 'Text', content: `common ${word}` } as const
        stored.set(await client.insert({ vector: [round, index], payload }), word)
      }
      const [id] = [...stored.keys()].slice(-1)
      await client.delete(id!)
      stored.delete(id!)
      const [, changed] = [...stored.keys()].slice(-2)
      await client.patch(changed!, { content: `common renamed${round}` })
      stored.set(changed!, `renamed${round}`)
      assert.ok((await client.stats()).memoryBytes.words! > 0)
      await client.close()
    }
    await using again = await startTestService({ DATA_DIR: dataDir })
    await assertFound(createHttpClient({ baseUrl: again.httpUrl }))
  })
})
