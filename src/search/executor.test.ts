import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { randomVector, seededRandom, type VectorKind, vectorKinds } from '../../test/support/random.ts'
import { rowLayout } from '../../test/support/row-files.ts'
import { until } from '../../test/support/until.ts'
import { DatabaseError } from '../base/errors.ts'
import { createLogger } from '../base/log.ts'
import { distanceMetrics, type VectorQuery } from '../base/point.ts'
import type { Hit } from '../index/hits.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { scalarDistance } from '../kernels/scalar.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { Board, placesMax } from './board.ts'
import { type ExecutorOptions, SearchExecutor } from './executor.ts'
import { IndexSearches, queryBudget } from './index-searches.ts'
import { PoolState } from './messages.ts'
import { Submitter } from './submitter.ts'

const seed = 42
const kernels = loadKernels()
const logger = createLogger({ level: 'silent', pretty: false })
const maxLimit = 1000
const indexOptions = {
  kernels,
  maxThreads: 4,
  maxLimit,
  m: 16,
  efConstruction: 100,
  segmentSlots: 700,
}
/** A file of rows that does not exist. */
const missingRows = rowLayout('/nowhere/rows', 8)

interface Model {
  readonly vector: Float32Array
  readonly sequence: number
}

/** Returns an index whose slots were filled, emptied and refilled, so that slot order is not insertion order. */
function filledIndex(
  count: number,
  dimension: number,
  kind: VectorKind,
): { index: VectorIndex; live: Map<number, Model> } {
  const random = seededRandom(seed)
  const index = new VectorIndex({ ...indexOptions, dimension })
  const live = new Map<number, Model>()
  let sequence = 0
  const place = (slot: number): void => {
    sequence += 1
    const vector = randomVector(random, dimension, kind)
    index.place(slot, vector, sequence)
    live.set(slot, { vector, sequence })
  }
  for (let slot = 0; slot < count; slot += 1) place(slot)
  for (let slot = 0; slot < count; slot += 3) {
    index.remove(slot)
    live.delete(slot)
    if (slot % 2 === 0) place(slot)
  }
  return { index, live }
}

/** Returns slots in the order that the definition of the distance produces. */
function expected(live: ReadonlyMap<number, Model>, { vector, metric, limit }: VectorQuery): number[] {
  return [...live]
    .map(([slot, point]) => ({
      slot,
      sequence: point.sequence,
      distance: scalarDistance(metric, vector, point.vector),
    }))
    .sort((a, b) => a.distance - b.distance || a.sequence - b.sequence)
    .slice(0, limit)
    .map(({ slot }) => slot)
}

function queriesOf(count: number, dimension: number, kind: VectorKind, limit: number): VectorQuery[] {
  const random = seededRandom(seed + 1)
  return Array.from({ length: count }, (_, index) => ({
    vector: randomVector(random, dimension, kind),
    metric: distanceMetrics[index % distanceMetrics.length]!,
    limit,
    ef: limit,
  }))
}

async function slotsOf(
  executor: Pick<IndexSearches, 'search'>,
  queries: readonly VectorQuery[],
): Promise<number[][]> {
  return (await executor.search(queries)).lists().map((hits) => hits.map(({ slot }) => slot))
}

function startThreads(options: Partial<ExecutorOptions>): SearchExecutor {
  return new SearchExecutor({
    kernels,
    threads: 2,
    readingThreads: 1,
    maxQueuedQueries: 10_000,
    maxLimit,
    inlineBytesMax: 0,
    logger,
    ...options,
  })
}

function startExecutor(index: VectorIndex, options: Partial<ExecutorOptions> = {}): StartedExecutor {
  const executor = startThreads(options)
  const searches = executor.attach(index)
  return {
    search: (queries, signal) => searches.search(queries, signal),
    get queuedQueries() {
      return executor.queuedQueries
    },
    close: () => executor.close(),
    [Symbol.asyncDispose]: () => executor.close(),
  }
}

/** An executor with one index. */
interface StartedExecutor extends AsyncDisposable {
  readonly search: IndexSearches['search']
  readonly queuedQueries: number
  close(): Promise<void>
}

describe('exact search', () => {
  for (const kind of vectorKinds) {
    for (const [where, inlineBytesMax] of [
      ['on the calling thread', 1e9],
      ['on worker threads', 0],
    ] as const) {
      it(`returns the order of the scalar reference over ${kind} vectors ${where}, in every metric, over several segments`, async () => {
        const { index, live } = filledIndex(2000, 24, kind)
        await using executor = startExecutor(index, { inlineBytesMax })
        const queries = queriesOf(12, 24, kind, 20)
        assert.deepEqual(
          await slotsOf(executor, queries),
          queries.map((query) => expected(live, query)),
        )
        const [single] = queries
        assert.deepEqual(await slotsOf(executor, [single!]), [expected(live, single!)])
      })
    }
  }

  it('returns every live slot when asked for more than there are', async () => {
    const { index, live } = filledIndex(900, 5, 'continuous')
    await using executor = startExecutor(index)
    const queries = queriesOf(2, 5, 'continuous', maxLimit)
    assert.deepEqual(
      await slotsOf(executor, queries),
      queries.map((query) => expected(live, query)),
    )
  })

  it('finds points placed after the threads have started, in segments that did not exist then', async () => {
    const { index } = filledIndex(100, 8, 'continuous')
    await using executor = startExecutor(index)
    const vector = Float32Array.from({ length: 8 }, (_, component) => component + 10)
    index.place(5000, vector, 1e6)
    const [slots] = await slotsOf(executor, [{ vector, metric: 'Euclidean', limit: 1, ef: 1 }])
    assert.deepEqual(slots, [5000])
  })

  it('never returns a slot that was removed before the search began', async () => {
    const { index, live } = filledIndex(2000, 8, 'continuous')
    await using executor = startExecutor(index)
    const removed = new Set<number>()
    for (const slot of [...live.keys()].slice(0, 200)) {
      index.remove(slot)
      removed.add(slot)
      const [slots] = await slotsOf(executor, [
        { vector: live.get(slot)!.vector, metric: 'Euclidean', limit: 10, ef: 10 },
      ])
      assert.ok(slots!.every((each) => !removed.has(each)))
    }
  })
})

describe('the queue of searches', () => {
  it('refuses searches when it is full, and accepts them again afterwards', async () => {
    const { index } = filledIndex(2000, 64, 'continuous')
    await using executor = startExecutor(index, { maxQueuedQueries: 10 })
    const refusal = await refusalBeside(
      () => [executor.search(queriesOf(10, 64, 'continuous', 5))],
      () => executor.search(queriesOf(1, 64, 'continuous', 5)),
    )
    assert.equal(refusal.reason, 'overloaded')
    assert.match(refusal.message, /10 queries are waiting, the maximum is 10: try again later/)
    assert.equal((await executor.search(queriesOf(1, 64, 'continuous', 5))).length, 1)
    assert.equal(executor.queuedQueries, 0)
  })

  it('drops waiting and running work whose caller has cancelled it', async () => {
    const { index } = filledIndex(2000, 64, 'continuous')
    await using executor = startExecutor(index)
    const controller = new AbortController()
    const search = executor.search(queriesOf(2000, 64, 'continuous', 5), controller.signal)
    controller.abort(new DatabaseError('deadline_exceeded', 'too late'))
    await assert.rejects(search, { reason: 'deadline_exceeded' })
    assert.equal(executor.queuedQueries, 0)
    await assert.rejects(executor.search(queriesOf(1, 64, 'continuous', 5), controller.signal))
  })

  it('lets a single search pass an earlier large batch', async () => {
    const { index } = filledIndex(2000, 64, 'continuous')
    await using executor = startExecutor(index)
    const ended: string[] = []
    const batch = executor.search(queriesOf(3000, 64, 'continuous', 5)).then(() => ended.push('batch'))
    const single = executor.search(queriesOf(1, 64, 'continuous', 5)).then(() => ended.push('single'))
    await Promise.all([batch, single])
    assert.deepEqual(ended, ['single', 'batch'])
  })

  it('returns to each of many concurrent searches and batches its own hits', async () => {
    const { index, live } = filledIndex(1500, 33, 'small integers')
    await using executor = startExecutor(index)
    const queries = queriesOf(60, 33, 'small integers', 12)
    const wanted = queries.map((query) => expected(live, query))
    const batches = Array.from({ length: 5 }, () => slotsOf(executor, queries))
    const singles = Array.from({ length: 300 }, async (_, at) => {
      const [slots] = await slotsOf(executor, [queries[at % queries.length]!])
      return slots
    })
    assert.deepEqual(
      await Promise.all(singles),
      singles.map((_, at) => wanted[at % wanted.length]),
    )
    for (const slots of await Promise.all(batches)) assert.deepEqual(slots, wanted)
  })

  it('ends each of many requests that are cancelled while running, and serves the others', async () => {
    const { index, live } = filledIndex(2000, 24, 'continuous')
    await using executor = startExecutor(index)
    const queries = queriesOf(40, 24, 'continuous', 5)
    const wanted = queries.map((query) => expected(live, query))
    const outcomes = await Promise.allSettled(
      Array.from({ length: 60 }, async (_, number) => {
        const controller = new AbortController()
        const search = executor.search(queries, controller.signal)
        if (number % 3 === 0) setTimeout(() => controller.abort(), number % 7)
        return (await search).lists().map((hits) => hits.map(({ slot }) => slot))
      }),
    )
    for (const [number, outcome] of outcomes.entries()) {
      if (outcome.status === 'fulfilled') assert.deepEqual(outcome.value, wanted)
      else {
        assert.equal(number % 3, 0)
        assert.equal(outcome.reason.reason, 'cancelled')
      }
    }
    assert.ok(outcomes.some(({ status }) => status === 'rejected'))
    assert.equal(executor.queuedQueries, 0)
  })

  it('answers several searches, one after another, before an earlier batch of 10,000', async () => {
    const { index } = filledIndex(2000, 64, 'continuous')
    await using executor = startExecutor(index, { maxQueuedQueries: 20_000 })
    let batchEnded = false
    const batch = executor.search(queriesOf(10_000, 64, 'continuous', 5)).then(() => {
      batchEnded = true
    })
    const single = queriesOf(1, 64, 'continuous', 5)
    for (let number = 0; number < 5; number += 1) {
      await executor.search(single)
      assert.equal(batchEnded, false, `search ${number} ended after the batch`)
    }
    await batch
  })

  it('finishes searches in progress before it closes, and refuses later ones', async () => {
    const { index } = filledIndex(2000, 64, 'continuous')
    const executor = startExecutor(index)
    const search = executor.search(queriesOf(50, 64, 'continuous', 5))
    const closing = executor.close()
    await assert.rejects(executor.search(queriesOf(1, 64, 'continuous', 5)), { reason: 'shutting_down' })
    assert.equal((await search).length, 50)
    await closing
  })
})

/**
 * Returns the error that refuses a search while others, which began in the same turn, are in progress. If this thread
 * is delayed, the search threads can finish the others before the search is requested. The whole attempt is then
 * repeated.
 */
async function refusalBeside(
  begin: () => readonly Promise<unknown>[],
  search: () => Promise<unknown>,
): Promise<DatabaseError> {
  for (;;) {
    const others = begin()
    const refusal = await search().then(
      () => undefined,
      (error: unknown) => error,
    )
    await Promise.all(others)
    if (refusal === undefined) continue
    assert.ok(refusal instanceof DatabaseError)
    return refusal
  }
}

describe('several indexes', () => {
  it('are searched by the same threads, each with its own answers', async () => {
    const filled = [5, 24, 64].map((dimension) => ({
      dimension,
      ...filledIndex(900, dimension, 'continuous'),
    }))
    await using executor = startThreads({ threads: 2, maxQueuedQueries: 10_000 })
    const searched = filled.map(({ dimension, index, live }) => {
      const queries = queriesOf(40, dimension, 'continuous', 10)
      return {
        searches: executor.attach(index),
        queries,
        wanted: queries.map((query) => expected(live, query)),
      }
    })
    const rounds = Array.from({ length: 3 }, () => searched).flat()
    const found = await Promise.all(rounds.map(({ searches, queries }) => slotsOf(searches, queries)))
    for (const [at, { wanted }] of rounds.entries()) assert.deepEqual(found[at], wanted)
  })

  it('take turns: one search passes thousands of earlier requests to another index', async () => {
    const [flooded, other] = [filledIndex(2000, 64, 'continuous'), filledIndex(2000, 64, 'continuous')]
    await using executor = startThreads({ threads: 1, maxQueuedQueries: 10_000 })
    const flood = executor.attach(flooded.index)
    const searches = executor.attach(other.index)
    const [query] = queriesOf(1, 64, 'continuous', 5)
    let answered = 0
    const all = Array.from({ length: 3000 }, () => flood.search([query!]).then(() => (answered += 1)))
    // Answers that came while the requests were made count only once this turn has ended.
    await new Promise((resolve) => setImmediate(resolve))
    for (let round = 0; round < 5; round += 1) {
      const before = answered
      assert.equal((await searches.search([query!])).length, 1)
      // A thread has room for this many pieces ahead; then the other index has its turn.
      assert.ok(answered - before <= 2 * placesMax, `waited for ${answered - before} searches`)
    }
    assert.ok(answered < 3000)
    await Promise.all(all)
  })

  it('leave room for each other in the queue; one alone may use all of it', async () => {
    const [first, second] = [filledIndex(2000, 64, 'continuous'), filledIndex(2000, 64, 'continuous')]
    await using executor = startThreads({ threads: 1, maxQueuedQueries: 20 })
    const flood = executor.attach(first.index)
    const other = executor.attach(second.index)
    const queries = (count: number): VectorQuery[] => queriesOf(count, 64, 'continuous', 5)
    const one = (): Promise<unknown> => flood.search(queries(1))
    const full = await refusalBeside(() => [flood.search(queries(20))], one)
    assert.match(full.message, /20 queries are waiting, the maximum is 20/)
    await Promise.all([flood.search(queries(20)), other.search(queries(1))])

    const begin = (): Promise<unknown>[] => [
      other.search(queries(3)),
      flood.search(queries(10)),
      flood.search(queries(5)),
    ]
    const shared = await refusalBeside(begin, one)
    assert.equal(shared.reason, 'overloaded')
    assert.match(
      shared.message,
      /15 queries are waiting in this collection, the maximum is 15 while others are used: try again later/,
    )
    await Promise.all([...begin(), other.search(queries(2))])
    assert.equal(executor.queuedQueries, 0)
  })

  it('can be closed: a thread drops one, and a replacement thread never receives it', async () => {
    const started: Worker[] = []
    const note = (worker: Worker): void => void started.push(worker)
    process.on('worker', note)
    const [first, second] = [filledIndex(2000, 64, 'continuous'), filledIndex(2000, 64, 'continuous')]
    await using executor = startThreads({ threads: 1, maxQueuedQueries: 10_000 })
    const gone = executor.attach(first.index)
    const searches = executor.attach(second.index)
    const queries = queriesOf(4, 64, 'continuous', 5)
    const under = gone.search(queriesOf(3000, 64, 'continuous', 5))
    const closing = gone.close()
    await assert.rejects(gone.search(queries), { reason: 'shutting_down' })
    assert.equal((await under).length, 3000)
    await closing
    await started[0]!.terminate()
    assert.deepEqual(
      await slotsOf(searches, queries),
      queries.map((query) => expected(second.live, query)),
    )
    assert.equal(started.length, 2)
    process.off('worker', note)
  })
})

describe('another thread with searches of its own', () => {
  const lane = 3

  /** Returns the searches of an index as another thread would submit them. */
  function searchesOf(executor: SearchExecutor, index: VectorIndex, isPrepared = true): IndexSearches {
    executor.attach(index)
    if (isPrepared) executor.prepare(index.id, [])
    const { board, pool, threads } = executor.addOwner(1)
    return new IndexSearches({
      index,
      kernels,
      lane,
      routeOf: () => undefined,
      threads,
      isShort: () => false,
      queries: queryBudget({ max: 20_000 }).share(),
      submitter: new Submitter({ board: new Board(board), pool: new PoolState(pool), threads, lane }),
      detach: async () => {},
    })
  }

  it('gets its hits, from all threads and itself', async () => {
    const { index, live } = filledIndex(2000, 24, 'continuous')
    await using executor = startThreads({})
    const searches = searchesOf(executor, index)
    const queries = queriesOf(400, 24, 'continuous', 5)
    const wanted = queries.map((query) => expected(live, query))
    // On a busy machine, this thread can do everything before another one runs. The test ends when one took a piece.
    const pieces = (): number => executor.completedPieces.reduce((sum, each) => sum + each)
    do assert.deepEqual(await slotsOf(searches, queries), wanted)
    while (pieces() === 0)
  })

  it('searches by itself what search threads do not know', async () => {
    const { index, live } = filledIndex(2000, 24, 'continuous')
    const other = filledIndex(2000, 24, 'continuous')
    await using executor = startThreads({})
    const known = executor.attach(other.index)
    const searches = searchesOf(executor, index, false)
    const queries = queriesOf(300, 24, 'continuous', 5)
    const wanted = queries.map((query) => expected(live, query))
    const [slots] = await Promise.all([slotsOf(searches, queries), slotsOf(known, queries)])
    assert.deepEqual(slots, wanted)
  })

  it('does other work between the pieces of a batch', async () => {
    const { index } = filledIndex(2000, 64, 'continuous')
    await using executor = startThreads({ threads: 1 })
    const searches = searchesOf(executor, index)
    let hasEnded = false
    const batch = searches.search(queriesOf(10_000, 64, 'continuous', 5)).then(() => (hasEnded = true))
    for (let turn = 0; turn < 20; turn += 1) {
      await nextTurn()
      assert.equal(hasEnded, false, `the batch ended in turn ${turn}`)
    }
    await batch
  })

  it('is told when a search thread has died, and is served by the next one', async () => {
    const started: Worker[] = []
    const note = (worker: Worker): void => void started.push(worker)
    process.on('worker', note)
    const { index, live } = filledIndex(2000, 64, 'continuous')
    await using executor = startThreads({ threads: 1 })
    const searches = searchesOf(executor, index)
    const queries = queriesOf(8, 64, 'continuous', 5)
    const wanted = queries.map((query) => expected(live, query))
    for (let round = 0; round < 5; round += 1) {
      const search = searches.search(queriesOf(3000, 64, 'continuous', 5))
      const [outcome] = await Promise.allSettled([search, nextTurn().then(() => started.at(-1)?.terminate())])
      if (outcome.status === 'rejected')
        assert.match(outcome.reason.message, /a search thread ended with code 1/)
      assert.deepEqual(await slotsOf(searches, queries), wanted)
    }
    process.off('worker', note)
  })

  it('is replaced with its board: what is left there is nobody’s any more', async () => {
    const { index, live } = filledIndex(2000, 24, 'continuous')
    await using executor = startThreads({ threads: 1 })
    const queries = queriesOf(500, 24, 'continuous', 5)
    const wanted = queries.map((query) => expected(live, query))
    const gone = searchesOf(executor, index).search(queriesOf(3000, 24, 'continuous', 5))
    assert.deepEqual(await slotsOf(searchesOf(executor, index), queries), wanted)
    assert.equal((await gone).length, 3000)
  })
})

describe('walks of a caller that is alone', () => {
  it('run on the calling thread, and others on search threads', async () => {
    const vectors = clusteredVectors(seededRandom(seed), 1500, 256)
    await using fixture = new IndexFixture(256)
    for (const vector of vectors) fixture.insert(vector)
    await until(() => fixture.indexer.route('Euclidean') !== undefined)
    await using executor = startThreads({ threads: 1, inlineBytesMax: undefined })
    const searches = executor.attach(fixture.index, (metric, ask) => fixture.indexer.route(metric, ask))
    const search = async (at: number): Promise<void> => {
      const query = { vector: vectors[at]!, metric: 'Euclidean', limit: 1, ef: 8 } as const
      const [[hit]] = (await searches.search([query])).lists() as [[Hit]]
      assert.deepEqual([...fixture.index.read(hit.slot)], [...vectors[at]!])
    }
    const searchAlone = async (count: number): Promise<void> => {
      for (let at = 0; at < count; at += 1) {
        await sleep(5)
        await search(at)
      }
    }
    const pieces = (): number => executor.completedPieces[0]!
    await searchAlone(50)
    const before = pieces()
    assert.ok(before > 0, 'at first, it is not known that nobody else searches')
    await searchAlone(20)
    assert.ok(pieces() - before <= 5)
    await Promise.all(Array.from({ length: 20 }, (_, at) => search(at)))
    await until(() => pieces() >= before + 19)
  })
})

describe('a search thread', () => {
  it('that ends fails the requests it worked on and no others, and is replaced', async () => {
    const started: Worker[] = []
    const note = (worker: Worker): void => void started.push(worker)
    process.on('worker', note)
    const { index, live } = filledIndex(2000, 64, 'continuous')
    await using executor = startThreads({ threads: 1 })
    const searches = executor.attach(index)
    const pieces = (): number => executor.completedPieces[0]!
    const queries = queriesOf(8, 64, 'continuous', 5)
    const wanted = queries.map((query) => expected(live, query))
    await searches.search(queries)

    for (let failed = false; !failed; ) {
      const before = pieces()
      let isOver = false
      const search = searches.search(queriesOf(3000, 64, 'continuous', 5)).finally(() => {
        isOver = true
      })
      // A thread that only wakes up has no work yet: on a busy machine, none of many attempts would fail.
      while (!isOver && pieces() === before) await nextTurn()
      // It may still end between two pieces. Then another thread goes on.
      const [outcome] = await Promise.allSettled([search, started.at(-1)!.terminate()])
      failed = outcome.status === 'rejected'
      if (failed) await assert.rejects(search, /a search thread ended with code 1/)
      assert.equal(executor.queuedQueries, 0)
      assert.deepEqual(await slotsOf(searches, queries), wanted)
    }
    assert.ok(started.length >= 2)
    process.off('worker', note)
  })

  it('that cannot search reports why, and continues', async () => {
    const index = new VectorIndex({ ...indexOptions, dimension: 8, rowFile: missingRows })
    for (let slot = 0; slot < 100; slot += 1) index.place(slot, new Float32Array(8), slot + 1)
    await using executor = startExecutor(index)
    const query = { vector: new Float32Array(8), metric: 'Euclidean', limit: 3, ef: 3 } as const
    for (let time = 0; time < 3; time += 1) {
      const outcomes = await Promise.allSettled([executor.search([query]), executor.search([query, query])])
      for (const outcome of outcomes) {
        assert.equal(outcome.status, 'rejected')
        assert.match(outcome.reason.message, /ENOENT/)
      }
    }
    assert.equal(executor.queuedQueries, 0)
  })
})
