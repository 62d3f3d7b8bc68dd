import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { below, type HeldPoint, SearchedPointsFixture } from '../../test/support/searched-points.ts'
import { ByteBudget } from '../base/budgets.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { newId } from '../base/partitions.ts'
import { distanceMetrics, type SearchQuery } from '../base/point.ts'
import { Hits } from '../index/hits.ts'
import { bytesOfDetails } from './search-answers.ts'

const seed = 20_261_123
const dimension = 24
/** Wider than any walk, so that such a query is a scan. */
const scanEf = 5000
const include = { distance: true, payload: false, vector: false, version: false }

function numberAt({ payload }: HeldPoint, name: string): number {
  return payload.attributes!.get(name) as number
}

/** Creates points with a random number `lot` in [0, 1) and a number `place` that distinguishes them. */
function filled(
  count: number,
  options: ConstructorParameters<typeof SearchedPointsFixture>[1] = {},
): { points: SearchedPointsFixture; queries: Float32Array[]; random: () => number } {
  const random = seededRandom(seed)
  const vectors = clusteredVectors(random, count + 20, dimension)
  const queries = vectors.splice(count)
  const points = new SearchedPointsFixture(dimension, { segmentSlots: 700, ...options })
  for (const [place, vector] of vectors.entries()) points.insert(vector, { lot: random(), place })
  return { points, queries, random }
}

/** Asserts the same points in the same order, and the same distances except for rounding. */
function assertSame(
  { ids, distances }: SearchResults,
  expected: readonly (readonly { readonly id: string; readonly distance: number }[])[],
): void {
  assert.deepEqual(
    ids.strings(),
    expected.map((list) => list.map(({ id }) => id)),
  )
  for (const [at, { distance }] of expected.flat().entries()) {
    assert.ok(
      Math.abs(distances[at]! - distance) <= 1e-6 * Math.max(1, distance),
      `${distances[at]}, not ${distance}`,
    )
  }
}

describe(`a search of a collection, seed ${seed}`, () => {
  it('returns exactly the nearest points that match, whatever the metric and however many match', async () => {
    const { points, queries } = filled(2000)
    await using _ = points
    for (const share of [0, 0.003, 0.05, 0.4, 1]) {
      const filter = below('lot', share)
      const batch = distanceMetrics.flatMap((metric) =>
        queries.slice(0, 3).map((vector): SearchQuery => ({ vector, metric, limit: 10, ef: scanEf, filter })),
      )
      const matches = (point: HeldPoint): boolean => numberAt(point, 'lot') < share
      assertSame(
        await points.search(batch),
        batch.map((query) => points.expected(query, matches)),
      )
    }
  })

  it('answers queries with different filters in one batch, more of them than a thread keeps', async () => {
    const { points, queries } = filled(2000)
    await using _ = points
    const batch = Array.from({ length: 150 }, (_, at): SearchQuery => {
      const filter = at % 10 === 0 ? undefined : below('place', 20 + 13 * at)
      return {
        vector: queries[at % 20]!,
        metric: distanceMetrics[at % 4]!,
        limit: 1 + (at % 30),
        ef: scanEf,
        filter,
      }
    })
    for (let round = 0; round < 2; round += 1) {
      assertSame(
        await points.search(batch),
        batch.map((query, at) =>
          points.expected(query, (point) => at % 10 === 0 || numberAt(point, 'place') < 20 + 13 * at),
        ),
      )
    }
  })

  it('searches near a stored point and leaves that point out', async () => {
    const { points } = filled(1200)
    await using _ = points
    const ids = [...points.held.keys()]
    const batch = [0, 500, 1199].flatMap((at): SearchQuery[] => {
      const query = { vector: ids[at]!, metric: 'Cosine', limit: 5, ef: scanEf } as const
      return [query, { ...query, filter: below('lot', 0.3) }, { ...query, limit: 1000 }]
    })
    assertSame(
      await points.search(batch),
      batch.map((query, at) =>
        points.expected(query, (point) => at % 3 !== 1 || numberAt(point, 'lot') < 0.3),
      ),
    )
    await assert.rejects(
      points.search([{ vector: newId(), metric: 'Cosine', limit: 5, ef: 5 }]),
      (error: unknown) => error instanceof DatabaseError && error.reason === 'not_found',
    )
  })

  it('returns points up to and including the maximum distance', async () => {
    const { points, queries } = filled(1200)
    await using _ = points
    for (const metric of distanceMetrics) {
      const query = { vector: queries[0]!, metric, limit: 50, ef: scanEf }
      const { distances } = await points.search([query])
      const maxDistance = distances[20]!
      const cut = await points.search([{ ...query, maxDistance }])
      assert.deepEqual(
        [...cut.distances],
        [...distances].filter((distance) => distance <= maxDistance),
      )
    }
  })

  it('returns what include asks for of each point, and nothing else', async () => {
    const { points, queries } = filled(1200)
    await using _ = points
    const query = { vector: queries[0]!, metric: 'Euclidean', limit: 4, ef: 4 } as const
    const found = await points.search([
      query,
      { ...query, include },
      { ...query, include: { ...include, payload: true, vector: true, version: true } },
      { ...query, include: { ...include, attributes: ['place', 'nothing'] } },
    ])
    const held = found.ids.strings()[0]!.map((id) => points.held.get(id)!)
    assert.equal(found.details[0], undefined)
    assert.deepEqual(found.details[1], [{}, {}, {}, {}])
    assert.deepEqual(
      found.details[2],
      held.map(({ payload, vector, slot }) => ({ payload, vector, version: points.versionOf(slot) })),
    )
    assert.deepEqual(
      found.details[3]!.map(({ payload }) => payload!.attributes),
      held.map((point) => new Map([['place', numberAt(point, 'place')]])),
    )
    assert.deepEqual(found.profiles, [undefined, undefined, undefined, undefined])
  })

  it('refuses details that together are too large, and names the limit', async () => {
    const { points, queries } = filled(1200, { maxDetailBytes: 20_000 })
    await using _ = points
    const query = { vector: queries[0]!, metric: 'Euclidean', limit: 20, ef: 20 } as const
    const vectors = { ...include, vector: true }
    await points.search([{ ...query, include: vectors }])
    await assert.rejects(points.search(Array.from({ length: 10 }, () => ({ ...query, include: vectors }))), {
      message: /more than 20000 bytes.*MAX_BUFFERED_BYTES/,
    })
  })

  it('counts what it reads point by point, and stops at the first point for which there is no room', async () => {
    const { points, queries } = filled(1200)
    await using _ = points
    const query = { vector: queries[0]!, metric: 'Euclidean', limit: 20, ef: 20 } as const
    const all = { ...query, include: { ...include, vector: true, payload: true } }
    const budget = new ByteBudget({ maxBytes: 2 ** 20, what: 'answers', setting: 'MAX_BUFFERED_BYTES' })
    const room = budget.hold(0)
    const found = await points.search([all, query], { room })
    assert.equal(room.bytes, bytesOfDetails(found))
    room.release()
    // The call has been cancelled: reading for it would not count.
    await assert.rejects(points.search([all], { room }), { reason: 'cancelled' })
    await points.search([query], { room })
    let left = 10
    const tenPoints = {
      add(): void {
        if (left === 0) throw new Error('full')
        left -= 1
      },
    }
    await assert.rejects(points.search([all], { room: tenPoints }), { message: 'full' })
  })

  it('keeps no content that include does not ask for', async () => {
    const { points, queries } = filled(1200)
    await using _ = points
    const query = { vector: queries[0]!, metric: 'Euclidean', limit: 4, ef: 4 } as const
    for (const attributes of ['all', ['place']] as const) {
      const { details } = await points.search([{ ...query, include: { ...include, attributes } }])
      assert.deepEqual(
        details[0]!.map(({ payload }) => payload!.content),
        ['', '', '', ''],
      )
    }
  })

  it('finds nothing before the first point, and nothing when no point matches', async () => {
    await using points = new SearchedPointsFixture(dimension)
    const query = { vector: new Float32Array(dimension), metric: 'Euclidean', limit: 4, ef: 4 } as const
    const queries = [query, { ...query, filter: below('lot', 1), profile: true, include }]
    const found = await points.search(queries)
    assert.deepEqual(found.ids.strings(), [[], []])
    assert.deepEqual(found.details, [undefined, []])
    assert.equal(found.profiles[1]!.plan, 'empty')
  })

  it('reports how it was answered, if a profile is requested', async () => {
    const { points, queries } = filled(3000)
    await using _ = points
    await points.fixture.settled()
    const query = { vector: queries[0]!, metric: 'Euclidean', limit: 4, ef: 16, profile: true } as const
    const { profiles } = await points.search([
      query,
      { ...query, exact: true },
      { ...query, filter: below('lot', 0.5), exact: true },
      { ...query, filter: below('lot', 0) },
    ])
    assert.deepEqual(
      profiles.map((profile) => profile!.plan),
      ['graph', 'scan of all points', 'scan of matching points', 'empty'],
    )
    const [graph, all, matching] = profiles
    const half = [...points.held.values()].filter((point) => numberAt(point, 'lot') < 0.5).length
    assert.deepEqual([graph!.points, graph!.matching, matching!.matching], [3000, 3000, half])
    assert.deepEqual([all!.compared, all!.measured, matching!.measured], [3000, 3000, half])
    assert.ok(graph!.compared > graph!.measured && graph!.compared < 3000 && graph!.measured >= 4)
  })
})

describe(`points that change while a search runs, seed ${seed}`, () => {
  const kinds: Readonly<Record<string, { readonly journalLength?: number }>> = {
    'with all changes in the journal': {},
    'with more changes than the journal holds': { journalLength: 3 },
  }
  for (const [kind, options] of Object.entries(kinds)) {
    it(`are found as they are when it is answered, ${kind}`, async () => {
      const { points, queries, random } = filled(1500, options)
      await using _ = points
      const filter: Filter = below('lot', 0.5)
      const matches = (point: HeldPoint): boolean => numberAt(point, 'lot') < 0.5
      const changes: readonly ((id: string, near: Float32Array) => void)[] = [
        (id) => points.patch(id, { lot: 0.9, place: -1 }),
        (id) => points.remove(id),
        (id) => points.due.push(id),
        (id, near) =>
          points.move(
            id,
            near.map((value) => value + 1),
          ),
        (_, near) => points.insert(near.slice(), { lot: 0.1, place: -2 }),
        (_, near) => {
          const [other] = [...points.held.values()].filter((point) => !matches(point))
          points.patch(other!.id, { lot: 0.2, place: -3 })
          points.move(
            other!.id,
            near.map((value) => value - 0.1),
          )
        },
      ]
      for (let round = 0; round < 30; round += 1) {
        const vector = queries[round % queries.length]!
        const query = {
          vector,
          metric: distanceMetrics[round % 4]!,
          limit: 8,
          ef: scanEf,
          filter,
          include: { ...include, payload: true },
        }
        const before = points.expected(query, matches)
        const search = points.search([query])
        // Threads search from the next turns on. Changes made now are not in the bitmap that they use.
        for (const [at, change] of changes.entries()) {
          if (random() < 0.4) change(before[at]!.id, vector)
        }
        const found = await search
        assertSame(found, [points.expected(query, matches)])
        for (const { payload } of found.details[0]!)
          assert.ok((payload!.attributes!.get('lot') as number) < 0.5)
      }
    })
  }

  it('have the details as of the answer, even if reading them takes several turns', async () => {
    const { points, queries } = filled(1500)
    await using _ = points
    const filter = below('lot', 0.8)
    const matches = (point: HeldPoint): boolean => numberAt(point, 'lot') < 0.8
    const all = { ...include, payload: true, vector: true, version: true }
    for (let round = 0; round < 10; round += 1) {
      const query: SearchQuery = {
        vector: queries[round]!,
        metric: 'Cosine',
        limit: 900,
        ef: scanEf,
        filter,
        include: all,
      }
      let isAnswered = false
      const search = points.search([query]).then((found) => {
        isAnswered = true
        const now = points.expected(query, matches).map(({ id }) => points.held.get(id)!)
        const details = now.map(({ payload, vector, slot }) => {
          return { payload, vector, version: points.versionOf(slot) }
        })
        return { found, now, details }
      })
      // Some of the hits change in each turn, until the search can no longer see changes.
      for (let change = 0; change < 40 && !isAnswered; change += 1) {
        const hit = points.expected({ ...query, limit: 200 }, matches)[(change * 37) % 200]!
        points.patch(hit.id, { lot: change % 2 === 0 ? 0.9 : 0.3, place: -change })
        await new Promise((resolve) => setImmediate(resolve))
      }
      const { found, now, details } = await search
      assert.deepEqual(
        found.ids.strings()[0],
        now.map(({ id }) => id),
      )
      assert.deepEqual(found.details[0], details)
    }
  })

  it('are neither found twice nor missed when their vectors are replaced, even without a filter', async () => {
    const { points, queries, random } = filled(1500)
    await using _ = points
    for (let round = 0; round < 30; round += 1) {
      const vector = queries[round % queries.length]!
      const query: SearchQuery = { vector, metric: 'Euclidean', limit: 10, ef: scanEf }
      const before = points.expected(query)
      // The expected hits, as of the turn in which the search is answered.
      const search = points
        .search([query, { ...query, limit: 3 }])
        .then((found) => ({ found, now: [points.expected(query), points.expected({ ...query, limit: 3 })] }))
      const turns = Math.floor(random() * 3)
      for (let turn = 0; turn < turns; turn += 1) await new Promise((resolve) => setImmediate(resolve))
      for (const { id } of before.slice(0, 1 + (round % 5))) {
        points.move(
          id,
          vector.map((value) => value + random() - 0.5),
        )
      }
      const far = points.expected({ ...query, limit: 1500 }).at(-1)!
      if (round % 2 === 0) points.move(far.id, vector.slice())
      const { found, now } = await search
      assertSame(found, now)
    }
  })

  for (const [name, details] of Object.entries({ 'ids and distances': undefined, details: include })) {
    for (const count of [12, 600]) {
      it(`come wholly or not at all, with the next nearest for those that go, in a search for ${name}, ${count} changes`, async () => {
        const { points, queries } = filled(1500)
        await using _ = points
        const [vector] = queries as [Float32Array]
        const query: SearchQuery = { vector, metric: 'Euclidean', limit: 8, ef: scanEf, include: details }
        const { searches } = points.fixture
        const nearer = (by: number): Float32Array => vector.map((value) => value + by)
        let isFirst = true
        Object.assign(searches, {
          search: async (searched: Parameters<typeof searches.search>[0]) => {
            if (!isFirst) return searches.searchNow(searched)
            isFirst = false
            // The nearest is found and then removed; of two that come together, the search sees only the second.
            const [gone] = points.expected(query)
            const second = points.insert(nearer(0.02), { lot: 0, place: -1 })
            const hits = searches.searchNow(searched)
            points.insert(nearer(0.01), { lot: 0, place: -2 })
            points.patch(second, { lot: 0, place: -1 })
            points.remove(gone!.id)
            for (let at = 0; at < count; at += 1) points.insert(nearer(9 + at), { lot: 0, place: -3 })
            return hits
          },
        })
        const batch = [query, { ...query, vector: queries[1]! }]
        const found = await points.search(batch)
        assertSame(
          found,
          batch.map((each) => points.expected(each)),
        )
      })
    }
  }

  it('have their own distances, also if a thread has read the row of the point that was in the slot before', async () => {
    const { points, queries } = filled(1500)
    await using _ = points
    const [vector] = queries as [Float32Array]
    const query: SearchQuery = { vector, metric: 'Euclidean', limit: 8, ef: scanEf }
    const { searches } = points.fixture
    Object.assign(searches, {
      search: async (searched: Parameters<typeof searches.search>[0]) => {
        const hits = searches.searchNow(searched).list(0)
        points.remove(points.expected({ ...query, limit: 1500 })[700]!.id)
        const far = points.insert(
          vector.map((value) => value + 9),
          { lot: 0, place: -1 },
        )
        const { slot, sequence } = points.held.get(far)!
        return Hits.of([[{ slot, sequence, distance: 0 }, ...hits].slice(0, 8)])
      },
    })
    for (const filter of [undefined, below('lot', 2)]) {
      assertSame(await points.search([{ ...query, filter }]), [points.expected(query)])
    }
  })

  it('are searched near with the vectors that they have when the search is answered, or not found', async () => {
    const { points } = filled(1500)
    await using _ = points
    const [id, other] = [...points.held.keys()] as [string, string]
    // The point does not match, so it is not among the hits.
    points.patch(id, { lot: 0.9, place: 0 })
    const filter = below('lot', 0.5)
    const matches = (point: HeldPoint): boolean => numberAt(point, 'lot') < 0.5
    const query: SearchQuery = { vector: id, metric: 'Euclidean', limit: 8, ef: scanEf, filter }
    const { searches } = points.fixture
    let change: (() => void) | undefined = () => points.move(id, points.held.get(other)!.vector.slice())
    Object.assign(searches, {
      search: async (searched: Parameters<typeof searches.search>[0]) => {
        const hits = searches.searchNow(searched)
        change?.()
        change = undefined
        return hits
      },
    })
    assertSame(await points.search([query]), [points.expected(query, matches)])
    change = () => points.remove(id)
    await assert.rejects(points.search([query]), { message: `point ${id} to search near not found` })
  })

  it('do not disturb a search if they are far away', async () => {
    const { points, queries } = filled(1500)
    await using _ = points
    const [vector] = queries as [Float32Array]
    const query: SearchQuery = { vector, metric: 'Euclidean', limit: 8, ef: scanEf }
    const { searches } = points.fixture
    const { search } = searches
    let searched = 0
    Object.assign(searches, {
      search: async (...asked: Parameters<typeof searches.search>) => {
        searched += 1
        const hits = await search.apply(searches, asked)
        for (let at = 0; at < 1000; at += 1) {
          points.insert(
            vector.map((value) => value + 9),
            { lot: 0, place: -1 },
          )
        }
        points.remove(points.expected({ ...query, limit: 1500 })[400]!.id)
        return hits
      },
      hitAt: () => assert.fail('far points need not be compared'),
    })
    assertSame(await points.search([query]), [points.expected(query)])
    assert.equal(searched, 1)
  })

  it('do not disturb a search either if there are tens of thousands of them, unless there is a filter', async () => {
    const { points, queries } = filled(1500)
    await using _ = points
    const query: SearchQuery = { vector: queries[0]!, metric: 'Euclidean', limit: 8, ef: scanEf }
    const { searches } = points.fixture
    let searched = 0
    Object.assign(searches, {
      search: async (queried: Parameters<typeof searches.search>[0]) => {
        searched += 1
        if (searched > 2) return searches.searchNow(queried)
        for (let change = 0; change < 50_000; change += 1) points.attributes.journal.add(2000 + change)
        return searches.searchNow(queried)
      },
    })
    assertSame(await points.search([query]), [points.expected(query)])
    assert.equal(searched, 1)
    // With a filter, each would have to be measured.
    const filtered = { ...query, filter: below('lot', 2) }
    assertSame(await points.search([filtered]), [points.expected(filtered)])
    assert.equal(searched, 3)
  })

  it('can take away what a search near a point finds, again and again: the answer comes all the same', async () => {
    const { points, queries } = filled(1500)
    await using _ = points
    const query: SearchQuery = { vector: queries[0]!, metric: 'Euclidean', limit: 8, ef: scanEf }
    const { searches } = points.fixture
    let searched = 0
    Object.assign(searches, {
      search: async (queried: Parameters<typeof searches.search>[0]) => {
        searched += 1
        const hits = searches.searchNow(queried)
        points.remove(points.expected(query)[0]!.id)
        return hits
      },
    })
    assertSame(await points.search([query]), [points.expected(query)])
    assert.equal(searched, 3)
  })

  for (const filter of [below('lot', 0.1), undefined]) {
    it(`do not displace others if all points ${filter === undefined ? '' : 'that match '}are wanted`, async () => {
      const { points, queries } = filled(600)
      await using _ = points
      const matches = (point: HeldPoint): boolean => filter === undefined || numberAt(point, 'lot') < 0.1
      const [vector] = queries as [Float32Array]
      const query: SearchQuery = { vector, metric: 'Euclidean', limit: 1000, ef: scanEf, filter }
      const [gone, other] = [...points.held.values()].filter((point) => numberAt(point, 'lot') > 0.5)
      points.remove(gone!.id)
      const { searches } = points.fixture
      let isFirst = true
      Object.assign(searches, {
        search: async (searched: Parameters<typeof searches.search>[0]) => {
          if (!isFirst) return searches.searchNow(searched)
          isFirst = false
          const limit = points.expected(query, matches).length
          if (filter === undefined) points.insert(vector.slice(), { lot: 0, place: -1 })
          else points.patch(other!.id, { lot: 0, place: -1 })
          // Another search with the filter includes the point in the matches that both use.
          await points.search([query])
          // Threads keep as many as there were when they were asked.
          return searches.searchNow(searched.map((each) => ({ ...each, limit })))
        },
      })
      assertSame(await points.search([query]), [points.expected(query, matches)])
    })
  }
})
