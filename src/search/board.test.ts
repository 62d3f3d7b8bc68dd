import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { distanceMetrics } from '../base/point.ts'
import { Hits } from '../index/hits.ts'
import { type IndexQuery, noWork } from '../index/searcher.ts'
import { Board, createBoard, placesMax, RecordSpace, recordBytes, sizeOf } from './board.ts'
import { PoolState } from './messages.ts'

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

describe('a record on the board', () => {
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
        const board = createBoard(recordBytes(sizeOf(work)))
        board.submit(0, 0, work)
        assert.deepEqual(board.read(0, filters), work)
        const lists = board.hits(0)
        for (const [list, each] of hits.entries()) lists.add(list, Hits.of([each]))
        board.complete(0, lists)
        assert.equal(board.stateOf(0), 'done')
        assert.deepEqual(board.hits(0).lists(), hits)
        assert.deepEqual(board.read(0, filters), work)
      })
    }
  }

  it('returns the work done for its queries, added to that of other records', () => {
    const queries = [query(0, 3), query(1, 3), query(2, 3)]
    const board = createBoard(1000)
    board.submit(9, 0, { index: 7, queries, ranges: [], cost: 150 })
    const [first, , third] = board.read(9, filters)!.queries
    Object.assign(first!.work!, { compared: 100, measured: 10, microseconds: 6.6, hasGivenUp: true })
    Object.assign(third!.work!, { compared: 5, measured: 5 })
    board.complete(9, board.hits(9), [first!, { work: undefined }, third!])
    for (let piece = 0; piece < 2; piece += 1) board.addWork(9, queries)
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
    const board = createBoard(bytes)
    board.submit(1, bytes, { index: 7, queries: [query(9, 5)], ranges: [], cost: 150 })
    const before = board.read(1, filters)
    board.submit(0, 0, work)
    const lists = board.hits(0)
    for (const [list, { k }] of work.queries.entries())
      lists.add(list, Hits.of([Array.from({ length: k }, () => ({ slot: 1, sequence: 2, distance: 3 }))]))
    board.complete(0, lists)
    assert.deepEqual(board.read(1, filters), before)
  })

  it('is not read by a thread that does not know one of its filters', () => {
    const board = createBoard(1000)
    board.submit(0, 0, { index: 7, queries: [query(1, 3), query(3, 3)], ranges: [], cost: 150 })
    assert.equal(board.read(0, new Map([[11, words]])), undefined)
    board.giveUp(0)
    assert.equal(board.stateOf(0), 'unknown')
  })
})

describe('the work on a board', () => {
  const work = (cost = 150): Parameters<ReturnType<typeof createBoard>['submit']>[2] => {
    return { index: 7, queries: [query(0, 4)], ranges: [], cost }
  }

  it('is taken once, the oldest first, whatever its place and however often places were used', () => {
    const board = createBoard(100_000)
    const other = new Board(board.buffer)
    for (let round = 0; round < 3; round += 1) {
      const places = Array.from({ length: placesMax }, (_, each) => (each * 37 + round) % placesMax)
      for (const place of places) board.submit(place, 512 * place, work())
      const taken = places.map((_, at) => (at % 2 === 0 ? board : other).take(1 + (at % 2)))
      assert.deepEqual(taken, places)
      assert.equal(board.take(1), undefined)
      for (const place of places) {
        assert.equal(board.stateOf(place), 'taken')
        board.complete(place, board.hits(place))
        assert.equal(board.stateOf(place), 'done')
        board.free(place)
        assert.equal(board.stateOf(place), 'free')
      }
    }
  })

  it('is left to others if it is too dear', () => {
    const board = createBoard(1000)
    board.submit(3, 0, work(5000))
    assert.equal(board.take(1, 4999), undefined)
    board.submit(2, 512, work(4999))
    assert.equal(board.take(1, 4999), 2)
    assert.equal(board.take(1), 3)
  })

  it('can be withdrawn until it is taken; then the other side is told that it is cancelled', () => {
    const board = createBoard(1000)
    for (const place of [0, 1]) board.submit(place, 512 * place, work())
    assert.equal(board.take(1), 0)
    assert.deepEqual([board.withdraw(0), board.withdraw(1)], [false, true])
    assert.equal(board.take(1), undefined)
    assert.equal(board.isCancelled(0), false)
    board.cancel(0)
    assert.equal(board.isCancelled(0), true)
    board.complete(0, board.hits(0))
    board.free(0)
    board.submit(0, 0, work())
    assert.deepEqual([board.isCancelled(0), board.stateOf(0), board.withdraw(1)], [false, 'open', false])
  })

  it('tells the owner why it failed, at any length', () => {
    const board = createBoard(1000)
    for (const message of ['the file is gone', 'x'.repeat(10_000), '']) {
      board.submit(5, 0, work())
      board.fail(board.take(1)!, new Error(message))
      assert.equal(board.stateOf(5), 'failed')
      assert.equal(board.errorOf(5).message.slice(0, 20), new Error(message).stack!.slice(0, 20))
      board.free(5)
    }
  })

  it('fails when its thread has died, and only then', () => {
    const board = createBoard(1000)
    for (let place = 0; place < 3; place += 1) board.submit(place, 512 * place, work())
    const [first, second] = [board.take(1)!, board.take(2)!]
    board.abandon(1, new Error('a thread ended'))
    assert.deepEqual(
      [first, second, 2].map((place) => board.stateOf(place)),
      ['failed', 'taken', 'open'],
    )
    assert.match(board.errorOf(first).message, /a thread ended/)
  })
})

describe('threads that take the work of one board', () => {
  it('share all of it, no piece is taken twice, and none waits while all of them sleep', async () => {
    const board = createBoard(100_000)
    const pool = new PoolState(PoolState.memory(3))
    const taken = new Int32Array(new SharedArrayBuffer(4 * placesMax))
    const workerData = { board: board.buffer, pool: pool.buffer, taken: taken.buffer, pieces: 20_000 }
    const workers = [1, 2, 3].map((lane) => {
      const url = new URL('../../test/support/board-worker.ts', import.meta.url)
      return new Worker(url, { workerData: { ...workerData, lane } })
    })
    let submitted = 0
    let collected = 0
    while (collected < workerData.pieces) {
      for (let place = 0; place < placesMax; place += 1) {
        const state = board.stateOf(place)
        if (state === 'done') {
          assert.equal(Atomics.exchange(taken, place, 0), 1)
          collected += 1
          board.free(place)
        } else if (state !== 'free' || submitted === workerData.pieces) continue
        if (submitted === workerData.pieces) continue
        board.submit(place, 512 * place, { index: 7, queries: [query(0, 4)], ranges: [], cost: 150 })
        submitted += 1
        pool.wakeOne()
      }
    }
    assert.equal(board.take(9), undefined)
    await Promise.all(workers.map((worker) => worker.terminate()))
  })
})

describe('space for records', () => {
  it('never hands out a byte twice, nor one beyond the end, whatever is taken and released', () => {
    const steps = fc.array(fc.oneof(fc.integer({ min: 1, max: 50 }), fc.record({ release: fc.nat() })))
    fc.assert(
      fc.property(steps, (each) => {
        const space = new RecordSpace(100)
        const taken: { from: number; to: number }[] = []
        for (const step of each) {
          if (typeof step !== 'number') {
            const [gone] = taken.splice(step.release % Math.max(1, taken.length), 1)
            if (gone !== undefined) space.release(gone.from)
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
      space.release(0)
    }
  })

  it('takes the first gap that is large enough, and refuses what does not fit until enough is released', () => {
    const space = new RecordSpace(100)
    assert.deepEqual([space.take(60), space.take(20), space.take(20)], [0, 60, 80])
    assert.equal(space.take(1), undefined)
    space.release(60)
    assert.equal(space.take(21), undefined)
    space.release(0)
    assert.deepEqual([space.take(30), space.take(60), space.take(50)], [0, undefined, 30])
  })
})
