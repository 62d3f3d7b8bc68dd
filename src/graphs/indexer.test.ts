import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture, leastRecall, newIndexDirectory } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { until } from '../../test/support/until.ts'
import { distanceMetrics, type Metric } from '../base/point.ts'

const seed = 20260101

describe(`the graph, seed ${seed}`, () => {
  for (const dimension of [12, 128]) {
    it(`reaches the same recall with its rows on disk, ${dimension} dimensions`, async () => {
      const random = seededRandom(seed)
      const vectors = clusteredVectors(random, 4100, dimension)
      const queries = vectors.splice(4000)
      await using fixture = new IndexFixture(dimension, {
        onDisk: join(newIndexDirectory(), 'rows'),
        segmentSlots: 3000,
      })
      for (const vector of vectors) fixture.insert(vector)
      await fixture.settled()
      for (const metric of distanceMetrics) {
        const recall = await fixture.recall(queries, metric)
        assert.ok(
          recall >= leastRecall(queries),
          `${metric} recalls ${recall}, ${JSON.stringify(fixture.indexer.plans[metric])}`,
        )
      }
      assert.ok(fixture.indexer.route('Euclidean') !== undefined)
      const late = clusteredVectors(random, 50, dimension)
      for (const vector of late) {
        const slot = fixture.insert(vector)
        const [found] = await fixture.search([vector], 'Euclidean')
        assert.equal(found![0]!.slot, slot, 'found immediately')
        assert.deepEqual(fixture.index.read(slot), vector)
      }
      await fixture.indexer.repaired()
      assert.deepEqual(fixture.faults(), [])
    })
  }

  describe('over 3,000 points', () => {
    let fixture: IndexFixture
    let others: readonly Float32Array[]

    before(async () => {
      const vectors = clusteredVectors(seededRandom(seed), 3400, 64)
      others = vectors.splice(3000)
      fixture = new IndexFixture(64)
      for (const vector of vectors) fixture.insert(vector)
      await fixture.settled()
    })
    after(() => fixture.close())

    /** The slots of removed points are free, and recall is measured again if many points have changed. */
    const settledAgain = async (): Promise<void> => {
      await fixture.indexer.repaired()
      await fixture.settled()
    }

    it('finds more with a larger ef, up to all of the nearest', async () => {
      const queries = others.slice(0, 100)
      const recalls: number[] = []
      for (const width of [10, 40, 160, 640]) recalls.push(await fixture.recall(queries, 'Euclidean', width))
      assert.ok(
        recalls.every((recall, index) => index === 0 || recall >= recalls[index - 1]! - 0.002),
        String(recalls),
      )
      assert.ok(recalls[0]! < 0.999, `the narrowest search is not the exact one: ${recalls}`)
      assert.ok(recalls.at(-1)! >= 0.999, String(recalls))
    })

    it('finds nearly every stored point by its own vector, even with metrics that no graph can serve', async () => {
      const asked = [...fixture.points].filter((_, index) => index % 10 === 0)
      const queries = asked.map(([, vector]) => vector)
      for (const metric of distanceMetrics) {
        const found = await fixture.search(queries, metric)
        const missed = asked.filter(([slot], query) => found[query]![0]!.slot !== slot)
        // The recall target allows 6 of 300 to be missed on average, and with chance more than 15 once in a thousand
        // runs. A route that cannot serve its metric would miss most.
        assert.ok(
          missed.length <= 15,
          `${missed.length} missed, ${metric}, ${JSON.stringify(fixture.indexer.plans[metric])}`,
        )
      }
    })

    it('finds a point immediately, linked or not, and never a removed one', async () => {
      let passedBy = 0
      for (const vector of others.slice(0, 400)) {
        const slot = fixture.insert(vector)
        const [found] = await fixture.search([vector], 'Euclidean')
        // A narrow walk may miss a linked point, once in many thousand searches. A wide one finds it.
        if (found![0]!.slot !== slot) {
          passedBy += 1
          const [wide] = await fixture.search([vector], 'Euclidean', 400)
          assert.equal(wide![0]!.slot, slot)
        }
        fixture.remove(slot)
        const [left] = await fixture.search([vector], 'Euclidean')
        assert.ok(left!.every((hit) => hit.slot !== slot || fixture.index.sequenceOf(slot) !== hit.sequence))
      }
      assert.ok(passedBy <= 2, `${passedBy} points were not found immediately`)
    })

    it('finds the nearest remaining points after all points around the query were removed', async () => {
      await settledAgain()
      const recalls: number[] = []
      const gone: Float32Array[] = []
      // A third of the points may be gone before the graph needs a new measurement, which takes longest here. So half
      // as many again are removed around each query as a walk keeps candidates, and walks are narrow.
      const width = 40
      for (const query of others.slice(0, 12)) {
        const wide = { vector: query, metric: 'Euclidean', limit: 1.5 * width, ef: 1_000_000 } as const
        const [near] = (await fixture.searches.search([wide])).lists()
        gone.push(...near!.map(({ slot }) => fixture.points.get(slot)!))
        for (const { slot } of near!) fixture.remove(slot)
        assert.notEqual(fixture.indexer.route('Euclidean'), undefined, 'not an exact scan')
        recalls.push(await fixture.recall([query], 'Euclidean', width))
      }
      for (const vector of gone) fixture.insert(vector)
      // One walk may go astray and miss half. Without a way out of the removed points, every search finds none.
      const mean = recalls.reduce((sum, recall) => sum + recall, 0) / recalls.length
      assert.ok(mean >= 0.9, String(recalls))
    })

    it('is not searched by a measurement after a third of its points were removed', async () => {
      const queries = others.slice(0, 100)
      await settledAgain()
      assert.notEqual(fixture.indexer.route('Euclidean'), undefined)
      for (const slot of [...fixture.points.keys()].slice(0, 1020)) fixture.remove(slot)
      assert.equal(fixture.indexer.route('Euclidean'), undefined, 'exact')
      assert.equal(await fixture.recall(queries, 'Euclidean'), 1)
      await settledAgain()
      assert.notEqual(fixture.indexer.route('Euclidean'), undefined, 'measured again')
      assert.ok((await fixture.recall(queries, 'Euclidean')) >= leastRecall(queries))
    })
  })

  it('keeps using the graph if many points are equal: all of them are equally near', async () => {
    const vectors = clusteredVectors(seededRandom(seed), 3000, 64)
    await using fixture = new IndexFixture(64)
    for (const vector of vectors) fixture.insert(vector)
    for (let copy = 0; copy < 30; copy += 1)
      for (const vector of vectors.slice(0, 100)) fixture.insert(vector)
    await fixture.settled()
    const { route, recall } = fixture.indexer.plans.Euclidean
    assert.equal(route?.efMultiplier, 1, `recall ${recall}`)
  })

  it('leads to every copy of a vector that is stored thousands of times, while copies are removed and inserted', async () => {
    const random = seededRandom(seed)
    const vectors = clusteredVectors(random, 2000, 64)
    await using fixture = new IndexFixture(64)
    for (const vector of vectors) fixture.insert(vector)
    let copies = [0]
    for (const share of [0, 0.3, 0.5, 0.9]) {
      const [first, ...others] = copies
      // The first copy, to which the others were linked, is removed in every round but one.
      const gone = share === 0 ? [] : [first!, ...others.filter(() => random() < share)]
      for (const slot of gone) fixture.remove(slot)
      copies = copies.filter((slot) => !gone.includes(slot))
      for (let copy = 0; copy < 2000; copy += 1) copies.push(fixture.insert(vectors[0]!))
      await fixture.settled()
      await fixture.indexer.repaired()
      assert.deepEqual(fixture.faults(), [])
      const [near] = await fixture.search([vectors[0]!], 'Euclidean')
      assert.ok(near!.length === 10 && near!.every(({ distance }) => distance === 0))
      assert.ok((await fixture.recall(vectors.slice(1, 200), 'Euclidean')) >= 0.99)
    }
  })

  it('first measures the metric of actual searches, and uses it immediately', async () => {
    const vectors = clusteredVectors(seededRandom(seed), 1200, 64)
    const stages: string[] = []
    await using fixture = new IndexFixture(64, {
      onMeasured: () => {
        const { plans } = fixture.indexer
        stages.push(distanceMetrics.filter((metric) => plans[metric].route !== undefined).join(' '))
      },
    })
    for (const vector of vectors) fixture.insert(vector)
    // Not awaited: search threads can take longer to start than all of the measurements.
    const searching = fixture.search([vectors[0]!], 'Cosine')
    await fixture.settled()
    await searching
    assert.equal(stages[0], 'Cosine', `${stages}`)
  })

  it('postpones measuring metrics that no search uses when writers would have to wait', async () => {
    const vectors = clusteredVectors(seededRandom(seed), 1300, 64)
    const measured: Metric[] = []
    const late = vectors.splice(1200)
    await using fixture = new IndexFixture(64, {
      quietMs: 3_600_000,
      maxUnindexedBytes: 20_000,
      // Before another metric is measured, more points arrive than may wait, and a search.
      onMeasured: (metric) => {
        if (measured.push(metric) > 1) return
        for (const vector of late) fixture.insert(vector)
        fixture.indexer.route('Cosine')
      },
    })
    for (const vector of vectors) fixture.insert(vector)
    const { indexer } = fixture
    await until(() => measured.length >= 2 && indexer.unindexed === 0)
    assert.deepEqual(measured, ['Euclidean', 'Cosine'], 'no other metric while points arrive')
    assert.ok(indexer.isSettling)
  })

  it('measures the postponed metrics when no more points arrive', async () => {
    const vectors = clusteredVectors(seededRandom(seed), 1200, 64)
    await using fixture = new IndexFixture(64, { quietMs: 100, maxUnindexedBytes: 20_000 })
    for (const vector of vectors) {
      fixture.insert(vector)
      if (fixture.indexer.unindexed > 100) await sleep(1)
    }
    await fixture.settled()
    for (const metric of distanceMetrics)
      assert.ok(fixture.indexer.plans[metric].recall !== undefined, metric)
  })

  it('learns nothing about a metric whose measurement begins after all points were removed', async () => {
    const measured: Metric[] = []
    await using fixture = new IndexFixture(16, {
      onMeasured: (metric) => {
        measured.push(metric)
        for (const slot of [...fixture.points.keys()]) fixture.remove(slot)
      },
    })
    for (const vector of clusteredVectors(seededRandom(seed), 500, 16)) fixture.insert(vector)
    await fixture.settled()
    const [first, ...others] = measured
    assert.notEqual(fixture.indexer.plans[first!].recall, undefined)
    assert.equal(others.length, distanceMetrics.length - 1)
    for (const metric of others)
      assert.deepEqual(fixture.indexer.plans[metric], { route: undefined, recall: undefined }, metric)
  })

  it('serves points in several segments', async () => {
    const random = seededRandom(seed)
    const vectors = clusteredVectors(random, 3050, 48)
    const queries = vectors.splice(3000)
    await using fixture = new IndexFixture(48, { segmentSlots: 1100 })
    for (const vector of vectors) fixture.insert(vector)
    await fixture.settled()
    assert.equal(fixture.index.segments.length, 3)
    assert.ok((await fixture.recall(queries, 'Euclidean')) >= leastRecall(queries))
    await fixture.indexer.repaired()
    assert.deepEqual(fixture.faults(), [])
  })

  it('keeps its recall, its slots and its links through many rounds of removing and inserting', async () => {
    const random = seededRandom(seed)
    const vectors = clusteredVectors(random, 1000 + 30 * 40 + 400, 64)
    const queries = vectors.splice(-400)
    await using fixture = new IndexFixture(64)
    for (const vector of vectors.splice(0, 1000)) fixture.insert(vector)
    await fixture.settled()
    for (let round = 0; round < 30; round += 1) {
      const slots = [...fixture.points.keys()]
      for (let each = 0; each < 40; each += 1) {
        const [slot] = slots.splice(Math.floor(random() * slots.length), 1)
        fixture.remove(slot!)
      }
      for (let each = 0; each < 40; each += 1) fixture.insert(vectors.pop()!)
      await fixture.settled()
    }
    await fixture.indexer.repaired()
    assert.equal(fixture.index.liveCount, 1000)
    assert.ok(fixture.index.slotCount < 1000 + 700, `${fixture.index.slotCount} slots for 1000 points`)
    assert.equal(fixture.indexer.tombstones, 0)
    assert.deepEqual(fixture.faults(), [])

    await using fresh = new IndexFixture(64)
    for (const vector of fixture.points.values()) fresh.insert(vector)
    await fresh.settled()
    // The audits may have chosen different multipliers; the walks compared here are equally wide.
    const recallOf = (graph: IndexFixture, width: number): Promise<number> =>
      graph.recall(queries, 'Euclidean', width / graph.indexer.route('Euclidean')!.efMultiplier)
    for (const width of [20, 60]) {
      const churned = await recallOf(fixture, width)
      const built = await recallOf(fresh, width)
      assert.ok(churned >= built - 0.02, `width ${width}: ${churned} after churn, ${built} in a new graph`)
    }
  })
})

describe(`many threads, seed ${seed}`, () => {
  it('search, link and repair concurrently: nothing is lost, duplicated or found after its removal', async () => {
    const random = seededRandom(seed)
    const vectors = clusteredVectors(random, 4800, 48)
    await using fixture = new IndexFixture(48, { searchThreads: 3, indexThreads: 4 })
    const removed = new Set<number>()
    const searches: Promise<void>[] = []
    const look = async (queries: readonly Float32Array[]): Promise<void> => {
      const before = new Set(removed)
      for (const hits of await fixture.search(queries, 'Euclidean')) {
        const live = hits.filter((hit) => fixture.index.sequenceOf(hit.slot) === hit.sequence)
        assert.deepEqual(
          live.filter(({ sequence }) => before.has(sequence)),
          [],
          'found after its removal',
        )
        assert.equal(new Set(hits.map(({ slot }) => slot)).size, hits.length, 'found twice')
      }
    }
    for (const vector of vectors.splice(0, 3000)) fixture.insert(vector)
    for (let round = 0; round < 60; round += 1) {
      const slots = [...fixture.points.keys()]
      searches.push(look(slots.slice(round, round + 8).map((slot) => fixture.points.get(slot)!)))
      for (let each = 0; each < 25; each += 1) {
        const slot = slots[Math.floor(random() * slots.length)]!
        if (!fixture.points.has(slot)) continue
        removed.add(fixture.index.sequenceOf(slot))
        fixture.remove(slot)
      }
      for (let each = 0; each < 30; each += 1) fixture.insert(vectors.pop()!)
      if (round % 10 === 9) await Promise.all(searches.splice(0))
    }
    await fixture.settled()
    await fixture.indexer.repaired()
    assert.deepEqual(fixture.faults(), [])
    assert.equal(fixture.index.liveCount, fixture.points.size)
    // A narrow walk may miss a point, once in a million searches. A wide one finds every reachable point.
    const passedBy: number[] = []
    const points = [...fixture.points]
    while (points.length > 0) {
      const batch = points.splice(-200)
      const found = await fixture.search(
        batch.map(([, vector]) => vector),
        'Euclidean',
      )
      for (const [at, [slot, vector]] of batch.entries()) {
        if (found[at]![0]!.slot === slot) continue
        passedBy.push(slot)
        const [wide] = await fixture.search([vector], 'Euclidean', 1500)
        assert.equal(wide![0]!.slot, slot)
      }
    }
    assert.ok(
      passedBy.length <= 4,
      `of ${fixture.points.size} points, ${passedBy.length} do not find themselves`,
    )
    const queries = [...fixture.points.values()].slice(0, 300)
    assert.ok((await fixture.recall(queries, 'Euclidean')) >= leastRecall(queries))
  })
})
