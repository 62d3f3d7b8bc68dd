import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import type { Metric } from '../base/point.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { type AuditRequest, type AuditSearch, auditRoutes, checkSources, meanRecall } from './audit.ts'
import { GraphAccess } from './graph.ts'
import { graphFaults } from './graph-check.ts'
import type { Hit } from './hits.ts'
import { routesFor } from './routes.ts'
import { type IndexQuery, rangesOf, Searcher } from './searcher.ts'
import { VectorIndex } from './vector-index.ts'

const seed = 20_261_122
const isLinux = process.platform === 'linux'

it(`an audit over rows on disk leaves no file open, seed ${seed}`, { skip: !isLinux }, async () => {
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-audit-'))
  try {
    const onDisk = join(directory, 'rows')
    await using fixture = new IndexFixture(32, { onDisk, searchThreads: 1, indexThreads: 1 })
    for (const vector of clusteredVectors(seededRandom(seed), 1000, 32)) fixture.insert(vector)
    await fixture.settled()
    assert.ok(fixture.indexer.route('Euclidean') !== undefined, 'recall was measured')
    // One of the fixture, one of this thread, and two of the index thread: for its scans and for its walks.
    assert.equal(descriptorsOf(onDisk), 4)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
})

it(`a check in parts sees points that replaced others meanwhile by their codes, too, seed ${seed}`, () => {
  const random = seededRandom(seed)
  const vectors = clusteredVectors(random, 1000, 32)
  const kernels = loadKernels()
  const index = new VectorIndex({
    dimension: 32,
    kernels,
    maxThreads: 1,
    maxLimit: 100,
    m: 16,
    efConstruction: 64,
  })
  const others = [...vectors.keys()].slice(0, 600)
  for (const slot of others) index.place(slot, vectors[slot]!, slot + 1)
  const [segment] = index.segments
  const access = new GraphAccess(segment!, kernels, 0, 0)
  const check = { graph: 0, queries: others.slice(0, 24), others }
  const [first, ...rest] = checkSources(segment!, access, { ...check, from: 0 }, () => true)
  assert.deepEqual(rest, [])
  assert.ok(first!.codes! >= 0.95 && first!.rows! >= 0.95)
  for (const slot of others.slice(200)) index.place(slot, vectors[slot + 400]!, slot + 1000)
  const { codes } = meanRecall(checkSources(segment!, access, { ...check, from: 1 }, () => false))
  assert.ok(codes! >= 0.95, `recall of codes: ${codes}`)
})

it(`an audit stops querying a route once the route is certainly unusable, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  const search = await searchOver(fixture)
  const { index } = fixture
  const asked = { Euclidean: 0, Hamming: 0 }
  const counting: AuditSearch = (queries) => {
    for (const { metric, hidden } of queries)
      if (hidden !== undefined) asked[metric as keyof typeof asked] += 1
    return search(queries)
  }
  const slots = Array.from({ length: 100 }, (_, place) => place * 10)
  const recallUnder = async (metric: Metric): Promise<number> => {
    const request = {
      slots,
      fewest: 100,
      k: 10,
      ef: 64,
      target: 0.98,
      floor: 0.97,
      metric,
      routes: routesFor(metric, index.layout, [true, false]).slice(0, 1),
    }
    const found = await auditRoutes(index, request, counting)
    return found![0]!.recall
  }
  const recalls = { Euclidean: await recallUnder('Euclidean'), Hamming: await recallUnder('Hamming') }
  assert.ok(recalls.Euclidean >= 0.98, `Euclidean ${recalls.Euclidean}`)
  assert.equal(asked.Euclidean, slots.length)
  assert.ok(recalls.Hamming < 0.97, `Hamming ${recalls.Hamming}`)
  assert.ok(asked.Hamming < slots.length / 2, `${asked.Hamming} walks under Hamming`)
})

it(`an audit runs more queries on a route whose recall is uncertain, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  const search = await searchOver(fixture)
  const { index } = fixture
  /** Audits with some answers cut to their first three hits; `isCut` selects these by the number of their query. */
  const audited = async (isCut: (query: number) => boolean): Promise<{ asked: number; recall: number }> => {
    let asked = 0
    const failing: AuditSearch = (queries) =>
      search(queries).map((hits, at) => {
        if (queries[at]!.hidden === undefined) return hits
        asked += 1
        return isCut(asked) ? hits.slice(0, 3) : hits
      })
    const found = await auditRoutes(index, longRequest(index), failing)
    return { asked, recall: found![0]!.recall }
  }
  const good = await audited(() => false)
  assert.equal(good.asked, 112, 'the first hundred, rounded up to whole parts')
  assert.ok(good.recall > 0.99)
  const poor = await audited((query) => (query > 112 ? query % 20 === 0 : query === 50))
  assert.ok(poor.asked > 112 && poor.recall < 0.98, `${poor.recall} of ${poor.asked}`)
  const near = await audited((query) => query % 200 === 2)
  assert.equal(near.asked, 400, 'all queries, because the recall is only slightly above the floor')
  assert.ok(near.recall > 0.98 && near.recall < 0.995, String(near.recall))
})

it(`an audit does not reject a route for two points that it misses by chance, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  const search = await searchOver(fixture)
  const { index } = fixture
  let asked = 0
  const missing: AuditSearch = (queries) =>
    search(queries).map((hits, at) => {
      const { route, hidden } = queries[at]!
      if (route === undefined || hidden !== undefined) return hits
      asked += 1
      return asked <= 2 ? [] : hits
    })
  const [found] = (await auditRoutes(index, longRequest(index), missing))!
  assert.equal(asked, 200, 'all points, because two misses are many among the first')
  assert.equal(found!.recall, 198 / 200)
})

it(`an audit does not count points as missed that were removed after the scan, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  const search = await searchOver(fixture)
  const { index } = fixture
  const removing: AuditSearch = (queries) => {
    const found = search(queries)
    if (queries[0]!.route === undefined)
      for (const [, , , hit] of found)
        if (hit !== undefined && index.isLive(hit.slot)) fixture.remove(hit.slot)
    return found
  }
  const [found] = (await auditRoutes(index, longRequest(index), removing))!
  assert.ok(found!.recall > 0.99, String(found!.recall))
})

it(`an aborted audit returns nothing and searches no more, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  const search = await searchOver(fixture)
  const { index } = fixture
  const request = {
    slots: [...Array(400).keys()],
    fewest: 100,
    k: 10,
    ef: 64,
    target: 1,
    floor: 0,
    metric: 'Euclidean' as const,
    routes: routesFor('Euclidean', index.layout, [true, false]),
  }
  for (const stoppedAfter of [0, 1, 2, 5]) {
    let searches = 0
    const stopping: AuditSearch = (queries) => {
      searches += 1
      return searches > stoppedAfter ? undefined : search(queries)
    }
    assert.equal(await auditRoutes(index, request, stopping), undefined)
    assert.equal(searches, stoppedAfter + 1)
  }
})

it('an audit of no points tries no route', async () => {
  await using fixture = new IndexFixture(32, { searchThreads: 1, indexThreads: 1 })
  const { index } = fixture
  assert.deepEqual(
    await auditRoutes(index, { ...longRequest(index), slots: [] }, () => assert.fail('there is no query')),
    [],
  )
})

it(`an audit needs no larger MAX_LIMIT than 1, seed ${seed}`, async () => {
  const kernels = loadKernels()
  for (const maxLimit of [1, 100, 1000]) {
    const index = new VectorIndex({
      dimension: 32,
      kernels,
      maxThreads: 1,
      maxLimit,
      m: 16,
      efConstruction: 100,
      segmentSlots: 1000,
    })
    for (const [slot, vector] of clusteredVectors(seededRandom(seed), 1000, 32).entries())
      index.place(slot, vector, slot + 1)
    const searcher = new Searcher(kernels, 0)
    index.onSegment((segment) => searcher.attach(segment))
    const graph = searcher.graph(0, 0)
    graph.link(Array(1000).keys())
    const found = await auditRoutes(index, longRequest(index), (queries) =>
      searcher.search(queries, rangesOf(index.segments, index.slotCount), () => false).lists(),
    )
    assert.ok(found![0]!.recall > 0.98, `MAX_LIMIT ${maxLimit}: ${found![0]!.recall}`)
    assert.deepEqual(graphFaults(index.segments[0]!, 0), [], `MAX_LIMIT ${maxLimit}`)
  }
})

/** Returns an audit of the first Euclidean route with up to 400 queries, of which the first 100 always run. */
function longRequest({ layout }: VectorIndex): AuditRequest {
  return {
    slots: Array.from({ length: 400 }, (_, place) => (place * 7) % 1000),
    fewest: 100,
    k: 10,
    ef: 128,
    target: 0.985,
    floor: 0.98,
    metric: 'Euclidean',
    routes: routesFor('Euclidean', layout, [true, false]).slice(0, 1),
  }
}

/** Inserts and links a thousand points. Returns a search over them. */
async function searchOver(
  fixture: IndexFixture,
): Promise<(queries: readonly IndexQuery[]) => readonly (readonly Hit[])[]> {
  for (const vector of clusteredVectors(seededRandom(seed), 1000, 32)) fixture.insert(vector)
  await fixture.settled()
  const searcher = new Searcher(loadKernels(), 0)
  const { index } = fixture
  index.onSegment((segment) => searcher.attach(segment))
  return (queries) => searcher.search(queries, rangesOf(index.segments, index.slotCount), () => false).lists()
}

function descriptorsOf(path: string): number {
  return readdirSync('/proc/self/fd').filter((name) => targetOf(name) === path).length
}

/** Returns undefined for the descriptor of the listing itself, which is closed by then. */
function targetOf(name: string): string | undefined {
  try {
    return readlinkSync(`/proc/self/fd/${name}`)
  } catch {
    return undefined
  }
}
