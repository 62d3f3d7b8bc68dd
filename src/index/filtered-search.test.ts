import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { checkedKernels } from '../../test/support/checked-kernels.ts'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { writeRows } from '../../test/support/row-files.ts'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { ROWS_KIND } from '../kernels/memory-format.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import { GraphAccess } from './graph.ts'
import { startReachScan, unreachableSlots } from './graph-check.ts'
import type { Hit } from './hits.ts'
import { distanceKindOf, type Route } from './routes.ts'
import { type IndexQuery, noWork, rangesOf, Searcher } from './searcher.ts'
import type { CodeBits } from './segment.ts'
import type { SlotFilter } from './slot-filter.ts'
import { VectorIndex } from './vector-index.ts'

const seed = 20_261_122
const kernels = checkedKernels
const dimension = 40
const count = 6000
/** Not a multiple of 32: bits of the second segment begin within a word. */
const segmentSlots = 2890
const k = 10
const ef = 64
const comparedMax = Number.MAX_SAFE_INTEGER
/** The minimum that the planner lets a walk compare. A scan of a few hundred slots costs no more. */
const worthOfFew = 2000

const directory = mkdtempSync(join(tmpdir(), 'vicinal-filtered-'))
after(() => rmSync(directory, { recursive: true, force: true }))

interface Kind {
  readonly name: string
  readonly codeBits: CodeBits
  readonly onDisk: boolean
}

const kinds: readonly Kind[] = [
  { name: 'codes of 7 bits', codeBits: 7, onDisk: false },
  { name: 'codes of 4 bits', codeBits: 4, onDisk: false },
  { name: 'codes of 7 bits, rows on disk', codeBits: 7, onDisk: true },
  { name: 'codes of 4 bits, rows on disk', codeBits: 4, onDisk: true },
]

const random = seededRandom(seed)
const vectors = clusteredVectors(random, count + 40, dimension)
const queries = vectors.splice(count)
// Thirty copies of each of five vectors, spread over all segments.
for (let copy = 0; copy < 150; copy += 1) vectors[40 * copy] = vectors[1 + (copy % 5)]!

/** Builds three segments. Every 13th slot is removed, and the last hundred slots of each segment wait to be linked. */
function indexOf({ codeBits, onDisk, name }: Kind): { index: VectorIndex; searcher: Searcher } {
  const rows = vectors.map((vector, slot) => [slot, vector, slot + 1] as const)
  const index = new VectorIndex({
    kernels,
    dimension,
    maxThreads: 2,
    maxLimit: 1000,
    m: 12,
    efConstruction: 80,
    segmentSlots,
    codeBits,
    rowFile: onDisk ? writeRows(join(directory, name), dimension, rows) : undefined,
  })
  for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot + 1)
  const searcher = new Searcher(kernels, 1)
  index.onSegment((segment) => {
    const { slotCount } = index.linkQueue(segment.ordinal, 0).state
    const linked = slotCount - 100
    const thread = new GraphAccess(segment, kernels, 0, 0)
    thread.link(Array.from({ length: linked }, (_, slot) => slot))
    const scan = startReachScan(slotCount)
    const lost = unreachableSlots(segment, 0, scan)!
    thread.reconnect(lost, scan, thread.distanceKind, () => false)
    for (let slot = linked; slot < slotCount; slot += 1) index.linkQueue(segment.ordinal, 0).push(slot)
    searcher.attach(segment)
  })
  for (let slot = 5; slot < count; slot += 13) index.remove(slot)
  return { index, searcher }
}

let filters = 0

function filterOf(index: VectorIndex, matches: (slot: number) => boolean): SlotFilter {
  const words = new Uint32Array(new SharedArrayBuffer(4 * Math.ceil(count / 32)))
  let matching = 0
  for (let slot = 0; slot < count; slot += 1) {
    if (!index.isLive(slot) || !matches(slot)) continue
    words[slot >>> 5]! |= 1 << (slot & 31)
    matching += 1
  }
  filters += 1
  return { id: filters, version: 0, words, count: matching }
}

/** Returns the expected slots and distances, computed from the definition of the distance. */
function expected(
  filter: SlotFilter,
  vector: Float32Array,
  metric: Metric,
  most: number,
): [number, number][] {
  const found: [number, number][] = []
  for (const [slot, distance] of ranked(vector, metric)) {
    if (((filter.words[slot >>> 5]! >>> (slot & 31)) & 1) === 0) continue
    if (found.push([slot, distance]) === most) break
  }
  return found
}

/** All slots by distance. The tests of each kind of index ask for the same. */
function ranked(vector: Float32Array, metric: Metric): readonly (readonly [number, number])[] {
  const key = `${metric} ${vector.join()}`
  const known = rankings.get(key)
  if (known !== undefined) return known
  const all = vectors.map((stored, slot) => [slot, scalarDistance(metric, vector, stored)] as const)
  all.sort((a, b) => a[1] - b[1] || a[0] - b[0])
  rankings.set(key, all)
  return all
}

const rankings = new Map<string, readonly (readonly [number, number])[]>()

function routeOf(index: VectorIndex, metric: Metric): Route {
  return { graph: 0, distanceKind: distanceKindOf(metric, index.layout), efMultiplier: 1 }
}

/** The shares of slots that the tested filters match. */
const shares = [0.02, 0.1, 0.3, 0.7]

describe(`a search with a filter, seed ${seed}`, () => {
  for (const kind of kinds) {
    const { index, searcher } = indexOf(kind)
    const draw = seededRandom(seed + 1)
    const lots = Array.from({ length: count }, draw)
    const search = (query: Omit<IndexQuery, 'ef' | 'route'> & { readonly route?: Route }) =>
      searcher
        .search([{ ef, route: undefined, ...query }], rangesOf(index.segments, count), () => false)
        .list(0)

    it(`that scans returns exactly the nearest that match, ${kind.name}`, () => {
      for (const share of [0, 0.001, ...shares, 1]) {
        const filter = filterOf(index, (slot) => lots[slot]! < share)
        for (const metric of distanceMetrics) {
          for (const vector of queries.slice(0, 3)) {
            const found = search({ vector, metric, k, matching: filter })
            assertSame(found, expected(filter, vector, metric, k), `${share} of the slots, ${metric}`)
          }
        }
      }
    })

    it(`scans for several queries at once, ${kind.name}`, () => {
      const filter = filterOf(index, (slot) => lots[slot]! < 0.1)
      const batch = queries.slice(0, 7).map((vector, at) => {
        return { vector, metric: distanceMetrics[at % 4]!, k: 3 + at, ef, route: undefined, matching: filter }
      })
      const found = searcher.search(batch, rangesOf(index.segments, count), () => false).lists()
      for (const [at, { vector, metric, k }] of batch.entries()) {
        assertSame(found[at]!, expected(filter, vector, metric, k))
      }
    })

    it(`that walks recalls matches wherever they are, and never returns too few, ${kind.name}`, () => {
      const center = vectors[7]!
      const far = vectors
        .map((vector, slot) => ({ slot, distance: scalarDistance('Euclidean', center, vector) }))
        .sort((a, b) => a.distance - b.distance)
        .map(({ slot }) => slot)
      const rankOf = new Map(far.map((slot, rank) => [slot, rank / count]))
      const sides = {
        independent: (slot: number) => lots[slot]!,
        correlated: (slot: number) => rankOf.get(slot)!,
        'anti-correlated': (slot: number) => 1 - rankOf.get(slot)!,
      }
      for (const metric of ['Euclidean', 'Cosine', 'Manhattan'] as const) {
        for (const [side, of] of Object.entries(sides)) {
          for (const share of shares) {
            const filter = filterOf(index, (slot) => of(slot) < share)
            let recalled = 0
            let wanted = 0
            let givenUp = 0
            for (const at of queries.slice(0, 12)) {
              // Near the center, so that slots near the center are near the query.
              const vector = at.map((value, place) => center[place]! + 0.3 * value)
              const truth = expected(filter, vector, metric, k)
              const work = noWork()
              const found = search({
                vector,
                metric,
                k,
                matching: filter,
                route: routeOf(index, metric),
                comparedMax: side === 'anti-correlated' ? worthOfFew : comparedMax,
                work,
              })
              givenUp += Number(work.hasGivenUp)
              assert.equal(found.length, truth.length, `${metric}, ${side}, ${share}: never too few`)
              for (const { slot } of found) assert.ok(isSet(filter, slot))
              const last = truth.at(-1)![1] * (1 + 1e-9)
              wanted += truth.length
              recalled += found.filter(({ distance }) => distance <= last).length
            }
            const recall = recalled / wanted
            assert.ok(recall >= 0.95, `${metric}, ${side}, ${share}: ${recall}`)
            if (side === 'independent' && share > 0.05) assert.equal(givenUp, 0, 'the graph finds them')
            if (side === 'anti-correlated' && share < 0.05)
              assert.ok(givenUp >= 10, `most walks end early, ${givenUp} of 12`)
          }
        }
      }
    })

    it(`that scans by codes finds nearly all of the nearest, and never returns too few, ${kind.name}`, () => {
      for (const metric of distanceMetrics) {
        const route = routeOf(index, metric)
        if (route.distanceKind >= ROWS_KIND) continue
        let wanted = 0
        let recalled = 0
        for (const share of [0, 0.001, ...shares, 1]) {
          const filter = filterOf(index, (slot) => lots[slot]! < share)
          for (const vector of queries.slice(0, 8)) {
            const work = noWork()
            const truth = expected(filter, vector, metric, k)
            const found = search({ vector, metric, k, matching: filter, route, codeScan: 'instead', work })
            assert.equal(found.length, truth.length, `${metric}, ${share}: never too few`)
            for (const { slot } of found) assert.ok(isSet(filter, slot))
            assert.ok(work.compared <= filter.count && !work.hasGivenUp)
            assert.ok(filter.count < 1000 || work.measured < filter.count / 4, 'few are measured exactly')
            const last = (truth.at(-1)?.[1] ?? 0) * (1 + 1e-9)
            wanted += truth.length
            recalled += found.filter(({ distance }) => distance <= last).length
          }
        }
        assert.ok(recalled / wanted >= 0.97, `${metric}: ${recalled / wanted}`)
      }
    })

    it(`is cancelled in the middle of a scan by codes, ${kind.name}`, () => {
      const filter = filterOf(index, () => true)
      const query = { vector: queries[0]!, metric: 'Euclidean', k, ef, matching: filter } as const
      const route = routeOf(index, 'Euclidean')
      let checks = 0
      const isCancelled = (): boolean => {
        checks += 1
        return checks > 2
      }
      const scan = { ...query, route, codeScan: 'instead' } as const
      const found = searcher.search([scan], rangesOf(index.segments, count), isCancelled).list(0)
      assert.ok(
        found!.every(({ slot }) => slot < segmentSlots),
        'the hits are of the first segment only',
      )
      assert.ok(search({ ...query, route, codeScan: 'instead' }).length === k, 'and leaves nothing behind')
    })

    it(`scans by codes after it gives up a walk, if allowed, ${kind.name}`, () => {
      const filter = filterOf(index, (slot) => lots[slot]! < 0.3)
      const work = noWork()
      const query = { vector: queries[0]!, metric: 'Euclidean', k, matching: filter, work } as const
      const route = routeOf(index, 'Euclidean')
      const found = search({ ...query, route, comparedMax: 300, codeScan: 'after' })
      assert.ok(work.hasGivenUp)
      assert.equal(found.length, k)
      assert.ok(work.compared >= filter.count - 300 && work.measured < filter.count / 4)
    })

    it(`gives up a walk that costs more than a scan, and is then exact, ${kind.name}`, () => {
      const filter = filterOf(index, (slot) => lots[slot]! < 0.05)
      const work = noWork()
      const query = {
        vector: queries[0]!,
        metric: 'Euclidean',
        k,
        matching: filter,
        route: routeOf(index, 'Euclidean'),
        work,
      } as const
      const found = search({ ...query, comparedMax: 300 })
      assert.ok(work.hasGivenUp)
      assertSame(found, expected(filter, query.vector, 'Euclidean', k))
      assert.ok(
        work.compared >= filter.count && work.compared < filter.count + 2000,
        `${work.compared} compared`,
      )
      assert.ok(work.microseconds > 0)
    })

    it(`detects by its version that a bitmap has changed in place, ${kind.name}`, () => {
      const filter = filterOf(index, (slot) => lots[slot]! < 0.5)
      const query = { vector: queries[1]!, metric: 'Euclidean', k } as const
      const [first] = search({ ...query, matching: filter })
      filter.words[first!.slot >>> 5]! &= ~(1 << (first!.slot & 31))
      const later = { ...filter, version: 1 }
      assertSame(search({ ...query, matching: later }), expected(later, query.vector, 'Euclidean', k))
    })

    it(`does not affect later searches without a filter, ${kind.name}`, () => {
      const route = routeOf(index, 'Euclidean')
      const plain = { vector: queries[2]!, metric: 'Euclidean', k, route } as const
      const before = search(plain)
      search({ ...plain, matching: filterOf(index, (slot) => lots[slot]! < 0.1), comparedMax })
      assert.deepEqual(search(plain), before)
      assert.deepEqual(search({ ...plain, matching: filterOf(index, () => true), comparedMax }), before)
    })
  }
})

/** Asserts the same slots in the same order, and the same distances except for the rounding of sums. */
function assertSame(found: readonly Hit[], truth: readonly [number, number][], message?: string): void {
  assert.deepEqual(
    found.map(({ slot }) => slot),
    truth.map(([slot]) => slot),
    message,
  )
  for (const [rank, { distance }] of found.entries()) {
    const [, exact] = truth[rank]!
    assert.ok(Math.abs(distance - exact) <= 1e-9 * Math.max(1, exact), message)
  }
}

function isSet({ words }: SlotFilter, slot: number): boolean {
  return ((words[slot >>> 5]! >>> (slot & 31)) & 1) === 1
}
