import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { seededRandom } from '../../test/support/random.ts'
import { writeRows } from '../../test/support/row-files.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { distanceKindOf } from './routes.ts'
import { type IndexQuery, noWork, rangesOf, Searcher, searchByPieces } from './searcher.ts'
import { efMax, liveStates, SlotColumns } from './segment.ts'
import { newFilterId, type SlotBits } from './slot-filter.ts'
import { VectorIndex } from './vector-index.ts'

const seed = 20_261_123
const kernels = loadKernels()
const dimension = 4
const k = 10
/** So wide that codes, which are not exact, decide nothing about the points that a walk reaches. */
const ef = 400
const origin = new Float32Array(dimension)

const directory = mkdtempSync(join(tmpdir(), 'vicinal-searcher-'))
after(() => rmSync(directory, { recursive: true, force: true }))

type Place = 'in memory' | 'on disk' | 'on disk and never read'

/**
 * An index of two segments: the first has `near` points at growing distances from the origin, and the second has `far`
 * points that are all farther away.
 */
class TwoSegments {
  readonly index: VectorIndex
  readonly #searcher: Searcher = new Searcher(kernels, 0)
  readonly #far: number
  readonly #isUnread: boolean

  constructor(near: number, far: number, place: Place = 'in memory') {
    this.#far = far
    const random = seededRandom(seed)
    const vectors = Array.from({ length: near + far }, (_, slot) => {
      const least = slot < near ? slot / near : 10
      return Float32Array.from({ length: dimension }, () => least + random() / 10)
    })
    const rows = vectors.map((vector, slot) => [slot, vector, slot + 1] as const)
    const rowFile = writeRows(join(directory, `${near} ${far}`), dimension, rows)
    this.index = new VectorIndex({
      dimension,
      kernels,
      maxThreads: 1,
      maxLimit: 100,
      m: 8,
      efConstruction: 16,
      segmentSlots: near,
      rowFile: place === 'in memory' ? undefined : rowFile,
    })
    for (const [slot, vector] of vectors.entries()) this.index.place(slot, vector, slot + 1)
    this.index.onSegment((segment) => this.#searcher.attach(segment))
    assert.equal(this.index.segments.length, 2)
    this.#isUnread = place === 'on disk and never read'
  }

  /** Forgets that rows were read, as a start does that has read a file of slots. */
  #unread(): void {
    if (!this.#isUnread) return
    for (const segment of this.index.segments) {
      const { live } = new SlotColumns(segment)
      for (const [slot, state] of live.entries())
        if (state === liveStates.live) live[slot] = liveStates.unread
    }
  }

  /** Links all points of the second segment, and the first `near` points of the first one. */
  link(near: number): void {
    for (const [ordinal, count] of [near, this.#far].entries())
      this.#searcher.graph(ordinal, 0).link(Array.from({ length: count }, (_, slot) => slot))
  }

  removeNear(from: number, to: number): void {
    for (let slot = from; slot < to; slot += 1) this.index.remove(slot)
  }

  /** Returns the slots nearest to the origin, by a walk or an exact scan. */
  nearest(how: 'walk' | 'scan', options: Partial<IndexQuery> = {}): number[] {
    this.#unread()
    const { layout, segments, slotCount } = this.index
    const route = { graph: 0, distanceKind: distanceKindOf('Euclidean', layout), efMultiplier: 1 }
    const query = {
      vector: origin,
      metric: 'Euclidean' as const,
      k,
      ef,
      route: how === 'walk' ? route : undefined,
      ...options,
    }
    const hits = this.#searcher.search([query], rangesOf(segments, slotCount), () => false).list(0)
    return hits!.map(({ slot }) => slot)
  }

  [Symbol.dispose](): void {
    this.#searcher.close()
    this.index.close()
  }
}

/** Matches the point of every second slot. */
function halfOf(index: VectorIndex): SlotBits {
  const words = new Uint32Array(new SharedArrayBuffer(4 * Math.ceil(index.slotCount / 32)))
  for (let slot = 0; slot < index.slotCount; slot += 2)
    if (index.isLive(slot)) words[slot >>> 5]! |= 1 << (slot & 31)
  return { id: newFilterId(), version: 0, words }
}

describe(`a walk through two segments, seed ${seed}`, () => {
  it('returns the nearest points even if most of their segment was removed around the query', () => {
    const removed = efMax + 100
    using two = new TwoSegments(removed + 200, 100)
    two.link(removed + 200)
    two.removeNear(0, removed)
    const work = noWork()
    const found = two.nearest('walk', { work })
    assert.deepEqual(found, two.nearest('scan'))
    assert.ok(found.every((slot) => slot < removed + 200))
    assert.ok(work.hasGivenUp, 'the walk was lost among the removed points')
  })

  for (const place of ['in memory', 'on disk', 'on disk and never read'] as const) {
    it(`returns the nearest points of a segment where the walk reaches few, rows ${place}`, () => {
      using two = new TwoSegments(100, 100, place)
      two.link(5)
      const work = noWork()
      assert.deepEqual(two.nearest('walk', { work }), two.nearest('scan'))
      assert.ok(work.hasGivenUp)
      const matching = halfOf(two.index)
      assert.deepEqual(two.nearest('walk', { matching }), two.nearest('scan', { matching }))
    })

    it(`does not scan a segment of fewer than k points if it found them all, rows ${place}`, () => {
      using two = new TwoSegments(1000, 100, place)
      two.link(1000)
      two.removeNear(5, 1000)
      const work = noWork()
      assert.deepEqual(two.nearest('walk', { work }), two.nearest('scan'))
      const withoutFirst = two.nearest('walk', { hidden: 0, work })
      assert.deepEqual(
        withoutFirst,
        two.nearest('scan', { k: k + 1 }).filter((slot) => slot !== 0),
      )
      const matching = halfOf(two.index)
      assert.deepEqual(two.nearest('walk', { matching, work }), two.nearest('scan', { matching }))
      assert.ok(!work.hasGivenUp)
      assert.ok(work.measured < 500, `${work.measured} rows were read`)
    })
  }
})

it(`a search by pieces finds the same, a few long vectors or one walk a piece, seed ${seed}`, async () => {
  const [long, near, count] = [65_535, 25, 40]
  const random = seededRandom(seed)
  const sizes = { dimension: long, maxThreads: 1, maxLimit: 100, m: 8, efConstruction: 16 }
  const index = new VectorIndex({ ...sizes, kernels, segmentSlots: near })
  for (let slot = 0; slot < count; slot += 1)
    index.place(slot, Float32Array.from({ length: long }, random), slot + 1)
  const searcher = new Searcher(kernels, 0)
  index.onSegment((segment) => searcher.attach(segment))
  for (const [ordinal, slots] of [near, count - near].entries())
    searcher.graph(ordinal, 0).link(Array(slots).keys())
  const walk = { graph: 0, distanceKind: distanceKindOf('Euclidean', index.layout), efMultiplier: 1 }
  for (const route of [undefined, walk]) {
    const queries = Array.from({ length: 16 }, (_, slot): IndexQuery => {
      return { vector: index.read(2 * slot), metric: 'Euclidean', k, ef, route }
    })
    const never = (): boolean => false
    let pieces = 0
    const found = await searchByPieces(queries, count, (piece) => {
      pieces += 1
      return searcher.searchSome(piece, () => true, never)
    })
    assert.deepEqual(found, searcher.search(queries, rangesOf(index.segments, count), never).lists())
    assert.ok(pieces >= 10, `${pieces} pieces`)
  }
  index.close()
})
