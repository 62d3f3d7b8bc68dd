import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { checkedKernels } from '../../test/support/checked-kernels.ts'
import { clusteredVectors, normal } from '../../test/support/clusters.ts'
import { graphHash } from '../../test/support/graph-hash.ts'
import { newIndexDirectory } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { writeRows } from '../../test/support/row-files.ts'
import type { Metric } from '../base/point.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import { kernelVariants } from '../kernels/wasm-module.ts'
import type { ScanQuery } from './flat-scanner.ts'
import { GraphAccess, measureReaches } from './graph.ts'
import { graphFaults, startReachScan, unreachableSlots } from './graph-check.ts'
import { GraphState, noLink, slotStates } from './graph-state.ts'
import { distanceKindOf } from './routes.ts'
import { codeBitsChoices, laneAddress, type RowFileLayout } from './segment.ts'
import { VectorIndex } from './vector-index.ts'

const seed = 7

describe(`a graph built by one thread, seed ${seed}`, () => {
  for (const bits of codeBitsChoices) {
    for (const dimension of [24, 100, 512]) {
      it(`is the same in every build of the kernels, codes of ${bits} bits, ${dimension} dimensions`, () => {
        const first = graphHash({ variant: 'relaxed', isWide: false }, dimension, bits, seed)
        assert.equal(graphHash('checked', dimension, bits, seed), first, 'with checks of addresses')
        for (const variant of kernelVariants) {
          for (const isWide of [true, false]) {
            const hash = graphHash({ variant, isWide }, dimension, bits, seed)
            assert.equal(hash, first, `${variant}${isWide ? ', wide' : ''}`)
          }
        }
        const other = graphHash({ variant: 'relaxed', isWide: false }, dimension, bits, seed + 1)
        assert.notEqual(other, first, 'the hash distinguishes graphs')
      })
    }
  }
})

/** Builds a graph of these vectors, slot by slot. Returns it with a second thread's access to it. */
function graphOf(
  vectors: readonly Float32Array[],
  m = 16,
  rowFile?: RowFileLayout,
): { index: VectorIndex; thread: GraphAccess } {
  const kernels = checkedKernels
  const index = new VectorIndex({
    dimension: vectors[0]!.length,
    kernels,
    maxThreads: 2,
    maxLimit: 1000,
    m,
    efConstruction: 64,
    segmentSlots: 5000,
    rowFile,
  })
  for (const [slot, vector] of vectors.entries()) index.place(slot, vector, slot + 1)
  const [segment] = index.segments
  new GraphAccess(segment!, kernels, 0, 0).link(vectors.keys())
  return { index, thread: new GraphAccess(segment!, kernels, 1, 0) }
}

/** Returns the slots that a search finds, the nearest first. */
function slotsNear(thread: GraphAccess, vector: Float32Array, k: number, ef = 128): number[] {
  return thread
    .search({ vector, metric: 'Euclidean', k }, ef, thread.distanceKind)
    .list(0)
    .map(({ slot }) => slot)
}

/** Returns how many slots the walks for all queries compare, and how many of the nearest they find. */
function walksOf(
  thread: GraphAccess,
  queries: readonly Float32Array[],
  nearest: readonly (readonly number[])[],
  ef: number,
): { readonly compared: number; readonly found: number } {
  let [compared, found] = [0, 0]
  for (const [query, vector] of queries.entries()) {
    const slots = slotsNear(thread, vector, 10, ef)
    compared += thread.work.compared
    found += nearest[query]!.filter((slot) => slots.includes(slot)).length
  }
  return { compared, found }
}

/** Measures how far walks must reach, two walks at a time. */
async function measureOn(
  { segments: [segment] }: VectorIndex,
  thread: GraphAccess,
  {
    asked,
    distanceKind,
    hidden,
  }: { asked: readonly ScanQuery[]; distanceKind: number; hidden: readonly number[] },
): Promise<void> {
  await measureReaches({ segment: segment!, graph: 0, distanceKind }, asked[0]!, async (ef, end) => {
    let total = 0
    for (let at = 0; at < asked.length; at += 2) {
      let left = 1
      const two = { queries: asked.slice(at), hidden: hidden.slice(at), ef, end }
      const { walked, compared } = thread.walk(two, distanceKind, () => left-- === 0)
      assert.equal(walked, 2)
      total += compared
    }
    return total
  })
}

/** Returns the numbers of the nearest vectors, by a scan in JavaScript. */
function nearestByScan(vectors: readonly Float32Array[], vector: Float32Array, k: number): number[] {
  const distances = vectors.map((each) => scalarDistance('Euclidean', each, vector))
  return [...vectors.keys()].sort((one, other) => distances[one]! - distances[other]!).slice(0, k)
}

/** Returns a view of a slot's row in memory. */
function rowOf(index: VectorIndex, slot: number): Float32Array {
  const { memory, layout } = index.segments[0]!
  return new Float32Array(memory.buffer, layout.rows + slot * layout.rowBytes, layout.dimension)
}

describe(`a walk, seed ${seed}`, () => {
  const vectors = clusteredVectors(seededRandom(seed), 5000, 64)
  const queries = vectors.splice(4900)
  const { index, thread } = graphOf(vectors)
  const { layout, memory } = index.segments[0]!
  let walks = 0

  function search(vector: Float32Array, k: number, ef: number): number[] {
    walks += 1
    return slotsNear(thread, vector, k, ef)
  }

  /** Returns how many slots the last walk visited. A walk marks visited slots with its number. */
  function seen(): number {
    const at = laneAddress(layout, 1) + layout.lane.visited
    return new Uint8Array(memory.buffer, at, layout.capacity).filter((mark) => mark === walks).length
  }

  it('ends when no candidate is within reach of the nearest, and still finds the nearest', () => {
    for (const vector of queries.slice(0, 40)) {
      const all = search(vector, 400, 400)
      const most = seen()
      assert.deepEqual(search(vector, 4, 400), all.slice(0, 4))
      assert.ok(seen() < most * 0.8, `${seen()} seen for 4, ${most} for 400`)
    }
  })

  it('walks as far as its reach was measured to cost as much as a pool of ef', async () => {
    const { index: other, thread: measured } = graphOf(vectors)
    const sample = Array.from({ length: 24 }, (_, at) => at * 200)
    const asked = sample.map((slot) => ({ vector: vectors[slot]!, metric: 'Euclidean' as const, k: 10 }))
    const nearest = queries.map((vector) => nearestByScan(vectors, vector, 10))
    const walks = (ef: number): ReturnType<typeof walksOf> => walksOf(measured, queries, nearest, ef)
    const usual = [20, 40, 160].map(walks)
    await measureOn(other, measured, { asked, distanceKind: measured.distanceKind, hidden: sample })
    for (const [at, ef] of [20, 40, 160].entries()) {
      const { compared, found } = walks(ef)
      const before = usual[at]!
      assert.ok(Math.abs(compared / before.compared - 1) < 0.15, `ef ${ef}: ${compared}, ${before.compared}`)
      assert.ok(found > 0.99 * before.found, `ef ${ef}: ${found} found, ${before.found}`)
    }
    const { reaches } = new GraphState(other.segments[0]!, 0)
    const near = walks(160)
    reaches.set(reaches.map((reach) => 2 * reach - 1))
    assert.ok(walks(160).compared > 1.2 * near.compared, 'it walks farther')
  })

  it('ends as measured for the metric of its codes, whatever is measured later, with rows on disk', async () => {
    const path = join(newIndexDirectory(), 'rows')
    const rows = vectors.map((vector, slot) => [slot, vector, slot + 1] as const)
    const rowFile = writeRows(path, 64, rows)
    const { index: other, thread: measured } = graphOf(vectors, 16, rowFile)
    const sample = Array.from({ length: 24 }, (_, at) => at * 200)
    const { reaches } = new GraphState(other.segments[0]!, 0)
    const measure = async (metric: Metric): Promise<number[]> => {
      const asked = sample.map((slot) => ({ vector: vectors[slot]!, metric, k: 10 }))
      const distanceKind = distanceKindOf(metric, other.layout)
      await measureOn(other, measured, { asked, distanceKind, hidden: sample })
      return [...reaches]
    }
    const known = await measure('Euclidean')
    assert.ok(known[0]! > 0)
    for (const metric of ['Manhattan', 'Hamming'] as const)
      assert.deepEqual(await measure(metric), known, metric)
    measured.close()
    other.close()
  })

  it('continues past removed points that are nearer than all others', () => {
    let kept = 0
    for (const vector of queries.slice(40, 60)) {
      const near = search(vector, 300, 300)
      const gone = near.slice(0, 60)
      for (const slot of gone) index.remove(slot)
      const found = search(vector, 10, 64)
      kept += near.slice(60, 70).filter((slot) => found.includes(slot)).length
      for (const slot of gone) index.place(slot, vectors[slot]!, slot + 1)
    }
    assert.ok(kept >= 180, `${kept} of the 10 nearest remaining points of 20 queries`)
  })

  it('counts copies of a point as one point', () => {
    const originals = clusteredVectors(seededRandom(seed), 340, 64)
    const asked = originals.splice(300)
    const copied = Array.from({ length: 15 }, () => originals).flat()
    const { thread } = graphOf(copied)
    let found = 0
    for (const vector of asked) {
      const hits = thread.search({ vector, metric: 'Euclidean', k: 100 }, 100, thread.distanceKind).list(0)
      const near = originals
        .map((original, number) => ({
          number,
          distance: scalarDistance('Euclidean', original, vector),
        }))
        .sort((a, b) => a.distance - b.distance)
        .slice(0, 7)
        .map(({ number }) => number)
      found += hits.filter(({ slot }) => near.includes(slot % 300)).length
    }
    // A walk that gives each copy a place finds 3,940.
    assert.ok(found >= 0.99 * 100 * asked.length, `${found} of ${100 * asked.length}`)
  })

  it('gets past a vector that was stored many times before the others', () => {
    const random = seededRandom(seed)
    const vectorOf = (size: number): Float32Array =>
      Float32Array.from({ length: 64 }, () => size * normal(random))
    const plain = Array.from({ length: 1500 }, () => vectorOf(1))
    // Nearer to each point than most other points are, but rarely among its ten nearest.
    const middle = vectorOf(0.6)
    const copies = Array.from({ length: 3000 }, () => middle)
    const { thread } = graphOf([...copies, ...plain])
    let found = 0
    let wanted = 0
    for (let query = 0; query < 100; query += 1) {
      const vector = vectorOf(1)
      const near = plain
        .map((each, at) => ({
          slot: copies.length + at,
          distance: scalarDistance('Euclidean', each, vector),
        }))
        .sort((a, b) => a.distance - b.distance)
        .slice(0, 10)
        .filter(({ distance }) => distance < scalarDistance('Euclidean', middle, vector))
      const hits = thread.search({ vector, metric: 'Euclidean', k: 10 }, 64, thread.distanceKind).list(0)
      wanted += near.length
      found += near.filter(({ slot }) => hits.some((hit) => hit.slot === slot)).length
    }
    // 593 of 725 if copies are linked like other points, 141 if walks also reject most copies.
    assert.ok(found >= 0.95 * wanted, `${found} of ${wanted}`)
  })
})

describe(`the reranking of a walk's candidates, seed ${seed}`, () => {
  const random = seededRandom(seed)
  const vectors = clusteredVectors(random, 5000, 64)
  const queries = vectors.splice(4960)
  const { index, thread } = graphOf(vectors)

  it('ends when code distances leave no doubt', () => {
    let looked = 0
    for (const vector of queries) {
      const near = slotsNear(thread, vector, 42)
      // These slots are far by their codes and at distance 0 by their rows, so they are found only if rows are read.
      const beyond = near.slice(32)
      for (const slot of beyond) rowOf(index, slot).set(vector)
      looked += slotsNear(thread, vector, 10).filter((slot) => beyond.includes(slot)).length
      for (const slot of beyond) rowOf(index, slot).set(vectors[slot]!)
    }
    assert.ok(looked <= queries.length, `looked at ${looked} of ${10 * queries.length}`)
  })

  it('continues when code distances are inaccurate', () => {
    const farthest = scalarDistance(
      'Euclidean',
      queries[0]!,
      vectors[slotsNear(thread, queries[0]!, 42).at(-1)!]!,
    )
    const spread = Math.sqrt(farthest / 64) / 4
    const nearest = queries.map((vector) => slotsNear(thread, vector, 36))
    const noisy = vectors.map((vector) => vector.map((value) => value + spread * normal(random)))
    for (const [slot, vector] of noisy.entries()) rowOf(index, slot).set(vector)
    let found = 0
    let wanted = 0
    for (const [at, vector] of queries.entries()) {
      const hits = slotsNear(thread, vector, 10)
      const distanceOf = (slot: number): number => scalarDistance('Euclidean', vector, noisy[slot]!)
      const last = distanceOf(hits.at(-1)!)
      const near = nearest[at]!.filter((slot) => distanceOf(slot) <= last)
      wanted += near.length
      found += near.filter((slot) => hits.includes(slot)).length
    }
    for (const [slot, vector] of vectors.entries()) rowOf(index, slot).set(vector)
    assert.ok(found >= 0.99 * wanted, `${found} of ${wanted}`)
  })

  it('does not infer the accuracy of all codes from copies of the query', () => {
    const random = seededRandom(seed)
    const copies = queries.flatMap((vector) => Array.from({ length: 9 }, () => vector))
    const { index, thread } = graphOf([...copies, ...vectors.slice(0, 4000)])
    let right = 0
    for (const vector of queries) {
      const near = slotsNear(thread, vector, 40).filter((slot) => slot >= copies.length)
      const rows = near.map((slot) => {
        const row = rowOf(index, slot)
        const stored = row.slice()
        const stretch = Math.sqrt(Math.max(0.1, 1 + 0.2 * normal(random)))
        row.set(row.map((value, at) => vector[at]! + (value - vector[at]!) * stretch))
        return { row, stored }
      })
      const found = near.indexOf(slotsNear(thread, vector, 10)[9]!)
      const distances = rows.map(({ row }) => scalarDistance('Euclidean', vector, row))
      if (found === distances.indexOf(Math.min(...distances))) right += 1
      for (const { row, stored } of rows) row.set(stored)
    }
    assert.ok(right >= 0.9 * queries.length, `${right} of ${queries.length}`)
  })

  it('reranks some candidates regardless of the previous search', () => {
    const stored = vectors.slice(0, 4000)
    const { index, thread } = graphOf(stored)
    const vector = queries[0]!
    const near = slotsNear(thread, vector, 42).slice(0, 5)
    // Ten waiting slots that are nearer than all others by their codes.
    for (let number = 0; number < 10; number += 1) {
      const slot = stored.length + number
      index.place(
        slot,
        stored[near[0]!]!.map((value, at) => 0.1 * vector[at]! + 0.9 * value),
        slot + 1,
      )
      index.linkQueue(0, 0).push(slot)
    }
    for (const slot of near) rowOf(index, slot).set(vector)
    assert.deepEqual(
      slotsNear(thread, vector, 10).slice(0, 5),
      near.toSorted((a, b) => a - b),
    )
  })
})

it(`a search ignores a hidden slot, seed ${seed}`, () => {
  const vectors = clusteredVectors(seededRandom(seed), 2000, 64)
  const { thread } = graphOf(vectors)
  for (let slot = 0; slot < 200; slot += 1) {
    const query = { vector: vectors[slot]!, metric: 'Euclidean' as const, k: 10 }
    assert.equal(thread.search(query, 64, thread.distanceKind).slots[0], slot)
    const hits = thread.search(query, 64, thread.distanceKind, slot).list(0)
    assert.equal(hits.length, 10)
    assert.ok(hits.every((hit) => hit.slot !== slot))
  }
})

it(`one pass reconnects all points that removals have cut off, seed ${seed}`, () => {
  const random = seededRandom(seed)
  // All codes fall into two groups, so the graph is two chains, which removals cut in many places.
  const vectors = Array.from({ length: 4000 }, () =>
    Float32Array.from({ length: 64 }, (_, index) => (2 * random() - 1) * (index === 0 ? 1e6 : 1)),
  )
  const kernels = checkedKernels
  const { index } = graphOf(vectors)
  const segment = index.segments[0]!
  const state = new GraphState(segment, 0)
  const thread = new GraphAccess(segment, kernels, 1, 0)
  for (let slot = 0; slot < vectors.length; slot += 1) {
    if (random() > 0.9) continue
    index.remove(slot)
    state.states[slot] = slotStates.leaving
  }
  const whole = (): boolean => false
  assert.equal(thread.repair(0, vectors.length, thread.distanceKind, whole), vectors.length)
  thread.release()
  // Cuts the remaining graph in the middle, too.
  const linked = [...vectors.keys()].filter((slot) => state.states[slot] === slotStates.linked)
  const length = 2 * segment.layout.m
  for (const slot of linked.slice(50, 60)) state.links.fill(noLink, slot * length, (slot + 1) * length)

  const scan = startReachScan(vectors.length)
  const lost = unreachableSlots(segment, 0, scan)!
  assert.ok(lost.length > 50, `${lost.length} were cut off`)
  const done = thread.reconnect(lost, scan, thread.distanceKind, whole)
  assert.equal(done.seen, lost.length)
  assert.ok(done.linked < lost.length / 2, `${done.linked} links for ${lost.length} points`)
  assert.deepEqual(unreachableSlots(segment, 0, startReachScan(vectors.length)), [])
})

for (const m of [4, 5, 6, 7]) {
  it(`the lists of each level link to slots of that level, m ${m}, seed ${seed}`, () => {
    const random = seededRandom(seed)
    const { index } = graphOf(
      Array.from({ length: 4000 }, () => Float32Array.from({ length: 12 }, random)),
      m,
    )
    // Without repairs, some points of such a small m are unreachable.
    const faults = graphFaults(index.segments[0]!, 0).filter((fault) => !fault.includes('unreachable'))
    assert.deepEqual(faults, [])
  })
}

/** Returns vectors that follow no pattern. */
function scattered(random: () => number, count: number): Float32Array[] {
  return Array.from({ length: count }, () => Float32Array.from({ length: 8 }, random))
}

for (const removed of [10, 100]) {
  it(`points inserted after ${removed} points, which are all removed, are reachable, seed ${seed}`, () => {
    const m = 4
    const vectors = scattered(seededRandom(seed), removed + 2)
    const { index, thread } = graphOf(vectors.slice(0, removed), m)
    const segment = index.segments[0]!
    for (let slot = 0; slot < removed; slot += 1) index.remove(slot)
    const added = [removed, removed + 1]
    for (const slot of added) index.place(slot, vectors[slot]!, slot + 1)
    thread.link(added)

    const lost = unreachableSlots(segment, 0, startReachScan(vectors.length))!
    assert.deepEqual(
      added.filter((slot) => lost.includes(slot)),
      [],
    )
    const { links } = new GraphState(segment, 0)
    for (const slot of vectors.keys()) {
      const list = links.subarray(slot * 2 * m, (slot + 1) * 2 * m)
      const end = list.indexOf(noLink)
      if (end >= 0)
        assert.ok(
          list.subarray(end).every((each) => each === noLink),
          `list of ${slot}`,
        )
      assert.ok(!list.includes(slot), `${slot} links to itself`)
    }
  })
}

it(`a repair links to no slot that it removes, mixed if a new point is already there, seed ${seed}`, () => {
  const random = seededRandom(seed)
  const vectors = scattered(random, 2000)
  const { index, thread } = graphOf(vectors, 8)
  const segment = index.segments[0]!
  const { states } = new GraphState(segment, 0)
  // As after a start: the file of the graph is older than the points.
  for (const slot of vectors.keys()) if (random() < 0.8) states[slot] = slotStates.leaving
  assert.equal(
    thread.repair(0, vectors.length, thread.distanceKind, () => false),
    vectors.length,
  )
  thread.release()
  const faults = graphFaults(segment, 0).filter((fault) => !fault.includes('unreachable'))
  assert.deepEqual(faults, [])
})
