import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import {
  type Boost,
  createHttpClient,
  type DetailedQuery,
  GeoPoint,
  type Hit,
  type Query,
} from '../src/client/index.ts'
import { scalarDistance } from '../src/kernels/scalar.ts'
import { describeBoth, type Transport } from './support/both-transports.ts'
import { type EmbeddingServer, failure, startEmbeddingServer } from './support/embedding-server.ts'
import { fixedSeeds, randomVector, seededRandom } from './support/random.ts'
import { startTestService } from './support/service.ts'

/** Searches whose answers are boosted, diverse, grouped or reranked, against brute forces over an ordinary answer. */

const dimension = 8
const count = 600
const nowMs = Date.now()
const dayMs = 86_400_000

function pointsOf(seed: number) {
  const random = seededRandom(seed)
  const below = (limit: number): number => Math.floor(random() * limit)
  const places = Array.from({ length: 40 }, (_, group) => new GeoPoint(group, 20 - group))
  return Array.from({ length: count }, (_, index) => {
    const group = Math.floor(40 * random() ** 3)
    // Some have no value at the path of groups, several values, or a value of another type.
    const docs = [group, `doc ${group}`, [group], places[group], [group, group + 1], undefined]
    const doc = docs[below(10) > 6 ? below(6) : 0]
    return {
      id: randomUUID() as string,
      vector: randomVector(random, dimension, 'continuous'),
      payload: {
        contentType: below(8) === 0 ? ('Image' as const) : ('Text' as const),
        content: Array.from({ length: 3 + below(9) }, () => `word${Math.floor(40 * random() ** 2)}`).join(
          ' ',
        ),
        attributes: {
          ...(doc === undefined ? {} : { meta: { doc } }),
          pinned: below(9) === 0,
          part: below(3),
          ...(below(4) === 0 ? {} : { at: new Date(nowMs - Math.floor(60 * dayMs * random())) }),
        },
      },
      index,
    }
  })
}
type Stored = ReturnType<typeof pointsOf>[number]

/** The only value at the path of groups. */
function groupOf({ payload }: Stored): string | number | GeoPoint | undefined {
  const { doc } = (payload.attributes as { meta?: { doc?: unknown } }).meta ?? {}
  if (Array.isArray(doc)) return doc.length === 1 ? doc[0] : undefined
  return doc as string | number | GeoPoint | undefined
}

async function fill({ client }: Transport, points: readonly Stored[]): Promise<void> {
  await client.collections.put('default', { words: { language: 'english', paths: { content: 1 } } })
  await client.insertBatch(points.map(({ id, vector, payload }) => ({ id, vector, payload })))
}

/** All hits of a search by vector, words or both, the best first. */
async function ranking(
  { client }: Transport,
  target: Partial<Query>,
  filter?: Query['filter'],
): Promise<readonly Hit[]> {
  const query = { ...target, limit: count, exact: true, include: { scores: true }, filter }
  return (await client.searchHits(query as DetailedQuery)).hits
}

const seed = 541
const points = pointsOf(seed)
const byId = new Map<string, Stored>(points.map((point) => [point.id, point]))

describeBoth(`shaped searches, seed ${seed}`, (transport) => {
  const vector = randomVector(seededRandom(9), dimension, 'continuous')
  const targets = {
    vector: { vector, metric: 'Euclidean' },
    words: { words: 'word1 word7 word30' },
    both: { vector, metric: 'Cosine', words: 'word1 word7 word30', balance: 0.4 },
  } as const satisfies Record<string, Partial<Query>>

  const boost: Boost[] = [
    { recent: { path: 'at', halfLife: '14d' }, weight: 0.2 },
    { filter: { pinned: true }, weight: 0.3 },
    { filter: { part: 1 }, weight: -0.1 },
  ]

  before(() => fill(transport, points))

  it('look at as many candidates as they need, however few callers may ask for', async () => {
    await using service = await startTestService({ MAX_LIMIT: '20' })
    const client = createHttpClient({ baseUrl: service.httpUrl })
    await fill({ client, service }, points)
    for (const target of Object.values(targets)) {
      const query = { ...target, limit: 20, boost, exact: true }
      assert.deepEqual(await client.search(query), await transport.client.search(query))
    }
  })

  it('score a vector by how near it is, relative to the nearest of all points', async () => {
    const all = await ranking(transport, targets.vector)
    const near = points.map((each) => 1 / (1 + Math.sqrt(scalarDistance('Euclidean', vector, each.vector))))
    const best = Math.max(...near)
    for (const { id, score } of all) assert.ok(Math.abs(score! - near[byId.get(id)!.index]! / best) < 1e-9)
    assert.equal(all.length, count)
    const scores = new Map(all.map(({ id, score }) => [id, score]))
    const some = await ranking(transport, targets.vector, { pinned: true })
    for (const { id, score } of some) assert.equal(score, scores.get(id))
  })

  for (const [name, target] of Object.entries(targets)) {
    it(`boost what matches and what is recent: by ${name}`, async () => {
      const { client } = transport
      const plain = await ranking(transport, target)
      const { hits } = await client.searchHits({
        ...target,
        limit: 50,
        boost,
        exact: true,
        include: { scores: true },
      })
      const expected = plain
        .map(({ id, score }) => {
          const { pinned, part, at } = byId.get(id)!.payload.attributes
          const recent = at === undefined ? 0 : 0.5 ** ((nowMs - at.getTime()) / (14 * dayMs))
          return {
            id,
            score: (score! + 0.2 * recent + 0.3 * Number(pinned) + 0.1 * Number(part !== 1)) / 1.6,
          }
        })
        .sort((a, b) => b.score - a.score)
      for (const [rank, { score, id }] of hits.entries()) {
        assert.ok(
          Math.abs(score! - expected[rank]!.score) < 1e-3,
          `${rank}: ${score} ${expected[rank]!.score}`,
        )
        assert.ok(Math.abs(score! - expected.find((each) => each.id === id)!.score) < 1e-3)
        assert.ok(score! >= 0 && score! <= 1)
      }
      assert.equal(hits.length, 50)
      const [first] = (
        await client.searchHits({ ...target, limit: 1, boost, exact: true, include: { scores: true } })
      ).hits
      assert.equal(first!.id, hits[0]!.id)
    })

    it(`show hits that are unlike each other first: by ${name}`, async () => {
      const { client } = transport
      const diversity = 0.6
      const pool = (await ranking(transport, target)).slice(0, 200)
      const metric = 'metric' in target ? target.metric : 'Cosine'
      const like = (a: string, b: string): number => {
        const distance = scalarDistance(metric, byId.get(a)!.vector, byId.get(b)!.vector)
        return metric === 'Cosine' ? (2 - distance) / 2 : 1 / (1 + Math.sqrt(distance))
      }
      const picked: string[] = []
      while (picked.length < 12) {
        const gains = pool
          .filter(({ id }) => !picked.includes(id))
          .map(({ id, score }) => ({
            id,
            gain: (1 - diversity) * score! - diversity * Math.max(0, ...picked.map((each) => like(each, id))),
          }))
        picked.push(gains.reduce((a, b) => (b.gain > a.gain ? b : a)).id)
      }
      assert.deepEqual(await client.search({ ...target, limit: 12, diversity, exact: true }), picked)
      assert.deepEqual(
        await client.search({ ...target, limit: 5, diversity, exact: true }),
        picked.slice(0, 5),
      )
      assert.notDeepEqual(await client.search({ ...target, limit: 12, diversity: 0, exact: true }), picked)
    })

    for (const each of fixedSeeds(1, 5000)) {
      it(`fill the best groups, or find all that they have: by ${name}, from seed ${each}`, async () => {
        const { client } = transport
        const random = seededRandom(each)
        const below = (limit: number): number => Math.floor(random() * limit)
        const filters = [undefined, { part: 0 }, { part: { $in: [1, 2] }, pinned: false }, { pinned: true }]
        const orders = await Promise.all(filters.map((filter) => ranking(transport, target, filter)))
        for (let round = 0; round < 60; round += 1) {
          const at = below(filters.length)
          const [limit, size] = [1 + below(round % 9 === 0 ? 60 : 9), 1 + below(8)]
          const groups = new Map<unknown, string[]>()
          for (const { id } of orders[at]!) {
            const value = groupOf(byId.get(id)!)
            if (value === undefined) continue
            const members = groups.get(value) ?? []
            if (groups.size === limit && !groups.has(value)) continue
            groups.set(value, members)
            if (members.length < size) members.push(id)
          }
          const groupBy = { path: 'meta.doc', size }
          const query = { ...target, limit, filter: filters[at], groupBy, exact: true, include: {} }
          const found = await client.searchHits(query)
          assert.deepEqual(
            (found.groups ?? []).map(({ value, hits }) => [value, hits.map(({ id }) => id)]),
            [...groups],
            `round ${round}`,
          )
          assert.deepEqual(
            found.hits,
            (found.groups ?? []).flatMap(({ hits }) => hits),
          )
        }
      })
    }
  }

  it('search near examples, and away from others', async () => {
    const { client } = transport
    const [a, b, c] = points as [Stored, Stored, Stored]
    const unit = ({ vector: own }: { readonly vector: Float32Array }): number[] => {
      const length = Math.hypot(...own)
      return Array.from(own, (value) => value / length)
    }
    const mean = (...all: number[][]): number[] =>
      all[0]!.map((_, at) => all.reduce((sum, each) => sum + each[at]!, 0) / all.length)
    const without = (ids: readonly string[], found: readonly string[]): string[] =>
      found.filter((id) => !ids.includes(id))
    const like = mean(unit(a), unit(b))
    const plain = { metric: 'Cosine', limit: 30, exact: true } as const
    assert.deepEqual(
      (await client.search({ ...plain, like: [a.id, b.id] })).slice(0, 20),
      without([a.id, b.id], await client.search({ ...plain, vector: like })).slice(0, 20),
    )
    const away = mean(unit(a), unit(b), unit({ vector })).map((value, at) => 2 * value - unit(c)[at]!)
    const found = await client.search({ ...plain, vector, like: [a.id, b.id], unlike: [c.id] })
    assert.equal(found.length, 30)
    assert.deepEqual(
      found.slice(0, 20),
      without([a.id, b.id, c.id], await client.search({ ...plain, vector: away })).slice(0, 20),
    )
    const both = await client.searchHits({
      ...plain,
      like: [a.id],
      words: 'word1',
      include: { scores: true },
    })
    assert.ok(both.hits.every(({ id, score }) => id !== a.id && score! <= 1))
    await assert.rejects(client.search({ ...plain, like: [randomUUID()] }), {
      reason: 'not_found',
      message: /of like not found/,
    })
  })

  it('tell their steps in a profile, and are the same in a batch', async () => {
    const { client } = transport
    const query = {
      ...targets.vector,
      limit: 3,
      boost: [{ filter: { pinned: true }, weight: 0.1 }],
      like: [points[0]!.id],
      diversity: 0.1,
      groupBy: { path: 'meta.doc', size: 2 },
      include: { scores: true, payload: true },
      profile: true,
    }
    const { profile, hits, groups } = await client.searchHits(query)
    assert.deepEqual(
      profile!.steps!.map(({ step }) => step),
      ['examples', 'search', 'boost', 'diversity', 'groups', 'page'],
    )
    assert.equal(groups!.length, 3)
    assert.equal(hits[0]!.payload!.content, byId.get(hits[0]!.id)!.payload.content)
    const plain = { ...targets.vector, limit: 2, include: { distance: true } }
    const batch = await client.searchHitsBatch([plain, query, plain])
    assert.deepEqual(batch[1]!.hits, hits)
    assert.deepEqual(batch[1]!.groups, groups)
    assert.deepEqual(batch[0], batch[2])
    assert.deepEqual(batch[0]!.hits, (await client.searchHits(plain)).hits)
  })

  it('refuse what cannot be meant, and name it', async () => {
    const { client } = transport
    const near = { vector, metric: 'Cosine', limit: 5 } as const
    const id = points[0]!.id
    for (const [bad, message] of [
      [
        { ...near, boost: [{ filter: {}, weight: 101 }] },
        /boost\[0\].weight is 101, it must be a number from -100 to 100/,
      ],
      [{ ...near, boost: Array(17).fill({ filter: {}, weight: 1 }) }, /boost has more than 16 items/],
      [
        { ...near, boost: [{ recent: { path: 'at', halfLife: '2 weeks' }, weight: 1 }] },
        /boost\[0\].recent.half_life is "2 weeks", it must be a positive number and one of s, m, h, d and w/,
      ],
      [
        { ...near, boost: [{ recent: { path: '', halfLife: '2w' }, weight: 1 }] },
        /boost\[0\].recent.path is missing/,
      ],
      [{ ...near, like: Array(101).fill(id) }, /like has more than 100 ids/],
      [{ metric: 'Cosine', limit: 1, unlike: [id] }, /unlike is given, it needs something to search near/],
      [
        { metric: 'Hamming', limit: 1, like: [id] },
        /like is given, with it similarity must be .*, not Hamming/,
      ],
      [{ ...near, diversity: 1.5 }, /diversity is 1.5, it must be a number from 0 to 1/],
      [
        { ...near, groupBy: { path: 'a', size: 101 } },
        /group_by.size is 101, it must be a whole number from 1 to 100/,
      ],
      [{ ...near, groupBy: { path: '$x', size: 1 } }, /group_by.path has a name that begins with "\$"/],
      [
        { ...near, limit: 1001, groupBy: { path: 'a' } },
        /limit is 1001, with group_by it must be at most 1000/,
      ],
      [
        { ...near, limit: 1000, groupBy: { path: 'a', size: 20 } },
        /group_by.size is 20, for 1000 groups that is 20000 points, the maximum is 16384/,
      ],
      [{ ...near, words: 'x', rerank: 10 }, /rerank is given, the service has no reranker: set RERANK_URL/],
      [{ ...near, onError: 'skip' }, /on_error is given, it needs rerank/],
      ...Object.entries({
        boost: [{ filter: {}, weight: 1 }],
        like: [id],
        unlike: [id],
        diversity: 0.5,
        groupBy: { path: 'a' },
        rerank: 10,
      }).map(([field, value]) => [
        { ...near, words: 'word1', cursor: '', [field]: value },
        new RegExp(
          `^cursor and ${field === 'groupBy' ? 'group_by' : field} are both given: a shaped answer has one page$`,
        ),
      ]),
    ] as [Query, RegExp][]) {
      await assert.rejects(client.search(bad), { reason: 'invalid_argument', message })
    }
  })
})

describe('with a reranking endpoint', () => {
  let endpoint: EmbeddingServer
  before(async () => {
    endpoint = await startEmbeddingServer()
  })
  after(() => endpoint[Symbol.asyncDispose]())

  describeBoth(
    'searches',
    (transport) => {
      /** The shorter a text is, the better. */
      const byLength = (texts: readonly string[]) => ({
        body: {
          results: texts
            .map((text, index) => ({ index, relevance_score: 1 / text.length }))
            .sort((a, b) => b.relevance_score - a.relevance_score),
        },
      })

      before(async () => {
        await fill(transport, points.slice(0, 200))
        endpoint.respond = ({ texts }) => byLength(texts)
      })

      it('have the order that it finds for the best', async () => {
        const { client } = transport
        const target = { words: 'word1 word2' }
        const plain = await client.searchHits({ ...target, limit: 30, include: { payload: true } })
        const texts = plain.hits.filter(({ payload }) => payload!.contentType === 'Text')
        endpoint.requests.length = 0
        const { hits } = await client.searchHits({
          ...target,
          limit: 10,
          rerank: 30,
          include: { scores: true, payload: true },
        })
        const [request] = endpoint.requests
        assert.equal(endpoint.requests.length, 1)
        assert.equal(request!.path, '/v1/rerank')
        assert.equal(request!.authorization, 'Bearer rk-secret')
        assert.deepEqual([request!.model, request!.query], ['short', 'word1 word2'])
        assert.deepEqual(
          request!.texts,
          texts.map(({ payload }) => payload!.content),
        )
        const expected = texts.toSorted((a, b) => a.payload!.content!.length - b.payload!.content!.length)
        assert.deepEqual(
          hits.map(({ id, rerank, score }) => [id, rerank, score]),
          expected
            .slice(0, 10)
            .map(({ id, payload }) => [id, 1 / payload!.content!.length, 1 / payload!.content!.length]),
        )
      })

      it('have it in a named collection, too', async () => {
        const { client } = transport
        await client.collections.put('notes', { words: { language: 'english', paths: { content: 1 } } })
        const notes = client.collection('notes')
        const [long, short] = await notes.insertBatch(
          ['word1 word1 and more', 'word1'].map((content) => ({
            vector: [1],
            payload: { contentType: 'Text' as const, content },
          })),
        )
        assert.deepEqual(await notes.search({ words: 'word1', limit: 2, rerank: 2 }), [short, long])
      })

      it('fail with it, or skip it', async () => {
        const { client } = transport
        const query = { words: 'word1', limit: 5, rerank: 20 }
        const plain = await client.search({ words: 'word1', limit: 5 })
        for (const [answer, fault] of [
          [failure(503, 'loading'), /failed \(503\): look at its log: loading/],
          [failure(401, 'no rk-secret'), /refuses the key \(401\): check RERANK_API_KEY$/],
          [failure(404, 'no'), /has no reranking by short \(404\): check RERANK_URL and RERANK_MODEL/],
          [{ body: '<html>' }, /it is not JSON: check RERANK_URL/],
          [{ body: { data: [] } }, /it has no list `results`/],
          [{ body: { results: [{ index: 0, relevance_score: 1 }] } }, /it has 1 results for \d+ documents/],
        ] as const) {
          endpoint.respond = () => answer
          await assert.rejects(client.search(query), { reason: 'rerank_unavailable', message: fault })
          assert.deepEqual(await client.search({ ...query, onError: 'skip' }), plain)
        }
        endpoint.respond = ({ texts }) => ({
          body: { results: texts.map((_, index) => ({ index, relevance_score: index === 3 ? 7 : -index })) },
        })
        const { hits } = await client.searchHits({ ...query, include: { scores: true } })
        assert.deepEqual([hits[0]!.rerank, hits[0]!.score, hits[2]!.rerank, hits[2]!.score], [7, 1, -1, 0])
      })

      it('leave out what was deleted meanwhile', async () => {
        const { client } = transport
        const [first, second] = await client.search({ words: 'word1', limit: 2 })
        endpoint.respond = async ({ texts }) => {
          await client.delete(first!)
          return { body: { results: texts.map((_, index) => ({ index, relevance_score: -index })) } }
        }
        const found = await client.search({ words: 'word1', limit: 2, rerank: 10 })
        assert.equal(found.length, 2)
        assert.ok(!found.includes(first!) && found.includes(second!))
      })

      it('refuse to rerank without a text, or fewer than they show', async () => {
        const { client } = transport
        const vector = points[0]!.vector
        const near = { vector, metric: 'Cosine', limit: 5 } as const
        for (const [bad, message] of [
          [{ ...near, rerank: 10 }, /rerank is given, it needs words or text to compare points with/],
          [{ words: 'x', limit: 5, rerank: 4 }, /rerank is 4, it must be a whole number from 5 to 1000/],
          [
            { words: 'x', limit: 5, rerank: 1001 },
            /rerank is 1001, it must be a whole number from 1 to 1000/,
          ],
        ] as const) {
          await assert.rejects(client.search(bad), { reason: 'invalid_argument', message })
        }
      })
    },
    () => ({
      RERANK_URL: endpoint.url,
      RERANK_MODEL: 'short',
      RERANK_API_KEY: 'rk-secret',
    }),
  )

  describeBoth(
    'a deadline',
    (transport) => {
      it('ends the search, or the wait', async () => {
        const { client } = transport
        await fill(transport, points.slice(0, 20))
        endpoint.respond = () => undefined
        const query = { words: 'word1', limit: 5, rerank: 20 }
        await assert.rejects(client.search(query), {
          reason: 'rerank_unavailable',
          message: /^the reranking endpoint .* has not answered within 50 ms$/,
        })
        const skipped = await client.search({ ...query, onError: 'skip' })
        assert.deepEqual(skipped, await client.search({ words: 'word1', limit: 5 }))
      })
    },
    () => ({ RERANK_URL: endpoint.url, RERANK_MODEL: 'short', rerankTimeoutMs: 50 }),
  )
})
