import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { temporaryDirectory } from '../../test/support/process.ts'
import { seededRandom } from '../../test/support/random.ts'
import type { Metric } from '../base/point.ts'
import { noWork } from '../index/searcher.ts'
import { efMax } from '../index/segment.ts'
import { newFilterId, type SlotFilter } from '../index/slot-filter.ts'
import type { BinRecall } from '../points/database.ts'
import type { RouteRecall } from './index-thread-pool.ts'
import { type FilteredAsk, RecallPlans, selectivityBins } from './recall-plans.ts'

const seed = 20_261_124
const plain = { graph: 0, distanceKind: 0, efMultiplier: 2 }
const options = { recallTarget: 0.98, hnswEf: 64 }
const filter: SlotFilter = { id: 1, version: 0, words: new Uint32Array(new SharedArrayBuffer(4)), count: 1 }

/** The metric was measured again without filters. */
function measuredAgain(plans: RecallPlans, metric: Metric): void {
  plans.decide(metric, [{ route: plain, recall: 1 }], plans.now(6000))
}

function ask(share: number): FilteredAsk {
  return { vector: new Float32Array([share, 1]), k: 10, matching: filter, share }
}

describe('the route of searches with filters', () => {
  it('is wider than without a filter until measured, and then the one measured for such filters', () => {
    const recall = new RecallPlans(options)
    assert.deepEqual(recall.dueFiltered, [])
    for (const share of [0.01, 0.2, 0.9])
      assert.equal(recall.filteredRoute('Cosine', ask(share), plain)!.efMultiplier, 4)
    assert.deepEqual(recall.dueFiltered, ['Cosine'])
    const [few, some, many] = selectivityBins
    const routes = recall.filteredRoutes(plain)
    assert.deepEqual(
      routes.map(({ efMultiplier }) => efMultiplier),
      [2, 4, 8, 16],
    )
    recall.decideFiltered(
      'Cosine',
      few!,
      routes.map((route) => ({ route, recall: 0.9 })),
    )
    recall.decideFiltered('Cosine', some!, [
      { route: routes[0]!, recall: 0.97 },
      { route: routes[1]!, recall: 0.99 },
    ])
    recall.decideFiltered('Cosine', many!, [{ route: routes[0]!, recall: 1 }])
    recall.doneFiltered('Cosine')
    assert.equal(recall.filteredRoute('Cosine', ask(0.01), plain), undefined, 'no route was good enough')
    assert.deepEqual(recall.filteredRoute('Cosine', ask(0.2), plain), {
      ...plain,
      efMultiplier: 4,
      recall: 0.99,
      scanRecall: undefined,
    })
    assert.deepEqual(recall.filteredRoute('Cosine', ask(0.9), plain), {
      ...plain,
      efMultiplier: 2,
      recall: 1,
      scanRecall: undefined,
    })
    assert.equal(
      recall.filteredRoute('Cosine', ask(0.9), { ...plain, efMultiplier: 8 })!.efMultiplier,
      8,
      'never narrower than without a filter',
    )
    assert.deepEqual(
      selectivityBins.map((bin) => recall.filteredRecallOf('Cosine', bin)),
      [1, 0.99, 1],
    )
    assert.equal(recall.filteredRecallOf('Euclidean', few!), undefined)
  })

  it('is for scans by codes if they find enough, even if walks do not', () => {
    const recall = new RecallPlans(options)
    const [few] = selectivityBins
    recall.decideFiltered('Cosine', few!, [{ route: plain, recall: 0.9 }])
    recall.decideScans('Cosine', 0.97)
    assert.equal(recall.filteredRoute('Cosine', ask(0.01), plain), undefined, 'neither finds enough')
    assert.equal(recall.filteredRoute('Cosine', ask(0.9), plain)!.scanRecall, undefined)
    recall.decideScans('Cosine', 0.99)
    assert.deepEqual(recall.filteredRoute('Cosine', ask(0.01), plain), {
      ...plain,
      scanRecall: 0.99,
      isForScans: true,
    })
    assert.equal(recall.filteredRoute('Cosine', ask(0.9), plain)!.scanRecall, 0.99)
    assert.equal(
      recall.filteredRoute('Euclidean', ask(0.9), plain)!.scanRecall,
      undefined,
      'only for that metric',
    )
    assert.equal(recall.filteredRecallOf('Cosine', few!), 0.99, 'the recall of its scans')
  })

  it('is measured again when the graph has changed, and only if a search needs it', () => {
    const recall = new RecallPlans(options)
    recall.filteredRoute('Cosine', ask(0.5), plain)
    recall.decideFiltered('Cosine', selectivityBins[2]!, [{ route: plain, recall: 1 }])
    recall.doneFiltered('Cosine')
    recall.filteredRoute('Cosine', ask(0.5), plain)
    assert.deepEqual(recall.dueFiltered, [])
    measuredAgain(recall, 'Cosine')
    assert.deepEqual(recall.dueFiltered, ['Cosine'])
    recall.doneFiltered('Cosine')
    measuredAgain(recall, 'Cosine')
    assert.deepEqual(recall.dueFiltered, [], 'no search since')
    assert.equal(
      recall.filteredRoute('Cosine', ask(0.5), undefined),
      undefined,
      'an exact search needs no route',
    )
    assert.deepEqual(recall.dueFiltered, [])
  })

  it('is trusted for as long as the route of other searches, and then as much wider', () => {
    const recall = new RecallPlans(options)
    measuredAgain(recall, 'Cosine')
    const [few, some] = selectivityBins
    for (const [bin, efMultiplier] of [
      [few!, 16],
      [some!, 8],
    ] as const)
      recall.decideFiltered('Cosine', bin, [{ route: { ...plain, efMultiplier }, recall: 1 }])
    const widthAt = (share: number): number | undefined =>
      recall.filteredRoute('Cosine', ask(share), recall.routeFor('Cosine'))?.efMultiplier
    assert.deepEqual([0.05, 0.2].map(widthAt), [16, 8])
    recall.linked(2001)
    assert.deepEqual([0.05, 0.2].map(widthAt), [undefined, 16], 'exact where no walk is wide enough')
    recall.decideScans('Cosine', 1)
    const route = recall.filteredRoute('Cosine', ask(0.05), recall.routeFor('Cosine'))
    assert.equal(route?.isForScans, true, 'codes are scanned where their scans find enough')
  })

  it('is the one that an earlier run measured, and measured again if the settings differ', () => {
    const earlier = new RecallPlans(options)
    const [few, some, many] = selectivityBins
    const tried = (efMultiplier: number, recall: number): RouteRecall[] => [
      { route: { ...plain, efMultiplier }, recall },
    ]
    assert.equal(earlier.decideFiltered('Cosine', few!, tried(16, 0.9)), true)
    assert.equal(earlier.decideFiltered('Cosine', some!, tried(4, 0.99)), true)
    assert.equal(earlier.decideFiltered('Cosine', some!, tried(4, 0.98)), false, 'the same route')
    assert.equal(earlier.decideFiltered('Hamming', many!, tried(2, 1)), true)
    earlier.decideScans('Cosine', 0.985)
    const restored = (by = options): RecallPlans => {
      const recall = new RecallPlans(by)
      recall.restore(JSON.parse(JSON.stringify(earlier.kept)), 0)
      const scanRecall = by.recallTarget > 0.985 ? undefined : 0.985
      assert.equal(recall.filteredRoute('Cosine', ask(0.01), plain)?.isForScans, scanRecall && true)
      assert.deepEqual(recall.filteredRoute('Cosine', ask(0.2), plain), {
        ...plain,
        efMultiplier: 4,
        recall: 0.98,
        scanRecall,
      })
      assert.equal(recall.filteredRoute('Cosine', ask(0.9), plain)!.efMultiplier, 4, 'never measured')
      assert.equal(recall.filteredRecallOf('Hamming', many!), 1)
      return recall
    }
    assert.deepEqual(restored().dueFiltered, [])
    assert.deepEqual(restored().kept, earlier.kept)
    assert.deepEqual(restored({ ...options, hnswEf: 65 }).dueFiltered, ['Cosine'])
    assert.deepEqual(restored({ ...options, recallTarget: 0.99 }).dueFiltered, ['Cosine'])
    measuredAgain(earlier, 'Cosine')
    assert.deepEqual(restored().dueFiltered, ['Cosine'], 'was due to be measured again')
  })

  it('is measured on a bounded number of the last queries', () => {
    const recall = new RecallPlans(options)
    for (let query = 0; query < 1000; query += 1)
      recall.filteredRoute('Cosine', ask(0.3 + query / 2000), plain)
    const recent = recall.recent('Cosine', selectivityBins[2]!, 64)
    assert.equal(recent.length, 16)
    assert.ok(recent.at(-1)!.vector[0]! > 0.75, 'the last queries')
    assert.deepEqual(recall.recent('Euclidean', selectivityBins[2]!, 64), [])
  })

  it('is not measured on queries for more points than walks and scans by codes can find', () => {
    const recall = new RecallPlans(options)
    for (const k of [efMax + 1, efMax]) recall.filteredRoute('Cosine', { ...ask(0.5), k }, plain)
    const recent = recall.recent('Cosine', selectivityBins[2]!, 64)
    assert.deepEqual(
      recent.map(({ k }) => k),
      [efMax],
    )
  })
})

describe(`searches with filters over a graph, seed ${seed}`, () => {
  for (const segmentSlots of [undefined, 1700]) {
    it(`are measured and reach the recall target, ${segmentSlots === undefined ? 'one segment' : 'several'}`, async () => {
      await using directory = await temporaryDirectory()
      const random = seededRandom(seed)
      const vectors = clusteredVectors(random, 5040, 64)
      const queries = vectors.splice(5000)
      await using fixture = new IndexFixture(64, {
        directory: directory.path,
        quietMs: 40,
        ...(segmentSlots !== undefined && { segmentSlots }),
      })
      for (const vector of vectors) fixture.insert(vector)
      await fixture.settled()
      for (let slot = 0; slot < 5000; slot += 17) fixture.remove(slot)
      const { index, indexer, searches } = fixture
      const queryOf = (
        vector: Float32Array,
        share: number,
      ): Parameters<typeof searches.search>[0][number] => {
        const words = new Uint32Array(new SharedArrayBuffer(4 * Math.ceil(index.slotCount / 32)))
        let count = 0
        for (let slot = 0; slot < index.slotCount; slot += 1) {
          if (!index.isLive(slot) || random() >= share) continue
          words[slot >>> 5]! |= 1 << (slot & 31)
          count += 1
        }
        const matching = { id: newFilterId(), version: 0, words, count }
        return {
          vector,
          metric: 'Euclidean',
          limit: 10,
          ef: 32,
          matching,
          report: { work: noWork(), elapsedUs: 0 },
        }
      }
      const measured = (): BinRecall[] =>
        indexer.filteredRecalls.filter(({ metric }) => metric === 'Euclidean')
      while (measured().some(({ recall }) => recall === undefined)) {
        await searches.search([queryOf(queries[0]!, 0.5)])
        await sleep(20)
      }
      for (const { bin, recall } of measured()) assert.ok(recall! >= 0.98, `${recall} at ${bin}`)
      for (const share of [0.15, 0.5, 0.9]) {
        const batch = queries.map((vector) => queryOf(vector, share))
        const truth = await searches.search(batch.map((query) => ({ ...query, exact: true })))
        const found = await searches.search(batch)
        let near = 0
        for (let list = 0; list < batch.length; list += 1) {
          assert.equal(found.lengthOf(list), 10)
          const last = truth.list(list)[9]!.distance
          near += found.list(list).filter(({ distance }) => distance <= last).length
        }
        assert.ok(near >= 0.96 * 10 * batch.length, `${near / 10 / batch.length} at ${share}`)
      }
      if (segmentSlots !== undefined) return
      const before = measured()
      const { kept } = fixture
      await fixture[Symbol.asyncDispose]()
      await using again = await IndexFixture.restarted(directory.path, kept)
      const restored = again.indexer.filteredRecalls.filter(({ metric }) => metric === 'Euclidean')
      assert.deepEqual(restored, before)
    })
  }
})
