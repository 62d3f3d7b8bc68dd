import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { distanceMetrics } from '../base/point.ts'
import { Hits } from '../index/hits.ts'
import { type IndexQuery, noWork } from '../index/searcher.ts'
import { createRing, RecordSpace, recordBytes, recordsMax, sizeOf } from './search-ring.ts'

const ranges = [
  { ordinal: 0, from: 5, to: 4_000_000 },
  { ordinal: 7, from: 0, to: 1 },
]

const words = new Uint32Array(new SharedArrayBuffer(8))
const filters = new Map([[12, words]])

function query(index: number, dimension: number): IndexQuery {
  return {
    vector: Float32Array.from({ length: dimension }, (_, component) => index + component / 3),
    metric: distanceMetrics[index % distanceMetrics.length]!,
    k: 1 + index,
    ef: 100 + index,
    route: index % 2 === 0 ? undefined : { graph: index % 3, distanceKind: index, efMultiplier: 8 },
    matching: index % 3 === 0 ? { id: 12, version: 100 + index, words } : undefined,
    comparedMax: 1000 + index,
    codeScan: ([undefined, 'instead', 'after'] as const)[index % 3],
    work: index % 3 === 1 ? undefined : noWork(),
  }
}

describe('a record in the ring', () => {
  for (const dimension of [1, 2, 3, 512]) {
    for (const count of [1, 2, 16]) {
      it(`carries ${count} queries of ${dimension} dimensions to the other side, and their hits back`, () => {
        const queries = Array.from({ length: count }, (_, index) => query(index, dimension))
        const work = { index: 7, queries, ranges: ranges.slice(0, count % 3), cost: 614 }
        const hits = queries.map(({ k }, index) =>
          Array.from({ length: k - (index % 2) }, (_, place) => ({
            slot: 4_000_000_000 + place,
            sequence: 2 ** 50 + place,
            distance: Math.PI * (place + 1),
          })),
        )
        const ring = createRing(recordBytes(sizeOf(work)))
        const at = ring.submit(0, work)
        assert.equal(ring.recordAt(0), at)
        assert.deepEqual(ring.read(at, filters), work)
        const lists = ring.hits(at)
        for (const [list, each] of hits.entries()) lists.add(list, Hits.of([each]))
        ring.complete(at, lists)
        assert.equal(ring.completed, 1)
        assert.deepEqual(ring.hits(at).lists(), hits)
        assert.deepEqual(ring.read(at, filters), work)
      })
    }
  }

  it('returns the work done for its queries, added to that of other records', () => {
    const queries = [query(0, 3), query(1, 3), query(2, 3)]
    const ring = createRing(1000)
    const at = ring.submit(0, { index: 7, queries, ranges: [], cost: 150 })
    const [first, , third] = ring.read(at, filters).queries
    Object.assign(first!.work!, { compared: 100, measured: 10, microseconds: 6.6, hasGivenUp: true })
    Object.assign(third!.work!, { compared: 5, measured: 5 })
    ring.complete(at, ring.hits(at), [first!, { work: undefined }, third!])
    for (let piece = 0; piece < 2; piece += 1) ring.addWork(at, queries)
    assert.deepEqual(
      queries.map(({ work }) => work),
      [
        { compared: 200, measured: 20, microseconds: 14, hasGivenUp: true },
        undefined,
        { compared: 10, measured: 10, microseconds: 0, hasGivenUp: false },
      ],
    )
  })

  it('stays within the bytes of its size', () => {
    const work = { index: 7, queries: [query(3, 5), query(4, 5)], ranges, cost: 300 }
    const bytes = recordBytes(sizeOf(work))
    const ring = createRing(bytes)
    const next = ring.submit(bytes, { index: 7, queries: [query(9, 5)], ranges: [], cost: 150 })
    const before = ring.read(next, filters)
    const at = ring.submit(0, work)
    const lists = ring.hits(at)
    for (const [list, { k }] of work.queries.entries())
      lists.add(list, Hits.of([Array.from({ length: k }, () => ({ slot: 1, sequence: 2, distance: 3 }))]))
    ring.complete(at, lists)
    assert.deepEqual(ring.read(next, filters), before)
  })

  it('is found by its number after more records than the ring has places', () => {
    const ring = createRing(1000)
    for (let number = 0; number < 3 * recordsMax; number += 1) {
      const at = ring.submit(8 * number, { index: 7, queries: [query(0, 1)], ranges: [], cost: 150 })
      assert.equal(ring.recordAt(number), at)
    }
  })

  it('shows the other side that it is cancelled, or has failed', () => {
    const ring = createRing(1000)
    const at = ring.submit(0, { index: 7, queries: [query(0, 4)], ranges: [], cost: 150 })
    assert.equal(ring.isCancelled(at), false)
    ring.cancel(at)
    assert.equal(ring.isCancelled(at), true)
    assert.equal(ring.hasFailed(at), false)
    ring.complete(at, undefined)
    assert.equal(ring.hasFailed(at), true)
    const again = ring.submit(0, { index: 7, queries: [query(0, 4)], ranges: [], cost: 150 })
    assert.deepEqual([ring.isCancelled(again), ring.hasFailed(again)], [false, false])
  })
})

describe('space for records in a ring', () => {
  it('never hands out a byte twice, nor one beyond the end, whatever is taken and released', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constant('release' as const)))
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 100 }), (each, usual) => {
        const space = new RecordSpace(100, usual)
        const taken: { from: number; to: number }[] = []
        for (const step of each) {
          if (step === 'release') {
            if (taken.shift() !== undefined) space.release()
            continue
          }
          const from = space.take(step)
          if (from === undefined) continue
          const to = from + step
          assert.ok(from >= 0 && to <= 100)
          for (const other of taken) assert.ok(to <= other.from || from >= other.to)
          taken.push({ from, to })
        }
      }),
    )
  })

  it('offers all its bytes as one range whenever nothing is taken', () => {
    const space = new RecordSpace(100)
    for (const bytes of [30, 50, 100]) {
      assert.equal(space.take(bytes), 0)
      space.release()
    }
  })

  it('stays within its usual bytes while records fit there, and uses more for larger ones', () => {
    const space = new RecordSpace(100, 40)
    assert.deepEqual([space.take(15), space.take(15)], [0, 15])
    space.release()
    assert.equal(space.take(12), 0, 'not at 30, though there is room')
    space.release()
    space.release()
    assert.equal(space.take(90), 0)
    assert.equal(space.take(11), undefined)
    space.release()
    assert.deepEqual([space.take(30), space.take(30)], [0, 30])
  })

  it('refuses what does not fit until enough is released', () => {
    const space = new RecordSpace(100)
    assert.equal(space.take(60), 0)
    assert.equal(space.take(30), 60)
    assert.equal(space.take(20), undefined)
    space.release()
    assert.equal(space.take(60), 0)
    assert.equal(space.take(1), undefined)
    space.release()
    assert.equal(space.take(40), 60)
  })
})
