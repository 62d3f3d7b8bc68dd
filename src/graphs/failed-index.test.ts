import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as laterTurn } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { until } from '../../test/support/until.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { GraphScheduler } from './graph-scheduler.ts'
import { GraphSet } from './graph-set.ts'
import { IndexThreadPool } from './index-thread-pool.ts'
import { LinkBatches } from './link-batches.ts'

const seed = 20_261_126
const dimension = 32
const searchThreads = 1
/** Only the tests decide when a repair begins. */
const quietMs = 3_600_000

async function withPool(count: number, work: (pool: IndexThreadPool) => Promise<void>): Promise<void> {
  const pool = new IndexThreadPool(loadKernels(), count, 1 + searchThreads)
  try {
    await work(pool)
  } finally {
    await pool.close()
  }
}

/** Returns an index whose graph is complete, and vectors that it does not have. */
async function built(threads: IndexThreadPool): Promise<{ fixture: IndexFixture; others: Float32Array[] }> {
  const others = clusteredVectors(seededRandom(seed), 800, dimension)
  const fixture = new IndexFixture(dimension, { threads, searchThreads, quietMs })
  for (const vector of others.splice(0, 600)) fixture.insert(vector)
  await fixture.settled()
  assert.ok(fixture.indexer.route('Euclidean') !== undefined)
  return { fixture, others }
}

/** Makes the next task of an index fail: no thread knows the index any more. */
async function beginToFail(pool: IndexThreadPool, { index }: IndexFixture): Promise<void> {
  await pool.detach(index.id)
}

async function failed(fixture: IndexFixture): Promise<void> {
  const errors: string[] = []
  await until(() => errors.push(...fixture.takeErrors()) > 0, 'the graphs have failed')
  assert.match(errors.join(), /the index failed/)
}

describe(`an index whose graphs have failed, seed ${seed}`, () => {
  it('frees the slots of all removed points, and serves those that take their place', async () => {
    await withPool(1, async (pool) => {
      const { fixture, others } = await built(pool)
      await using _ = fixture
      const { index, indexer, free, points } = fixture
      const removed = [3, 5, 8, 13, 21]
      for (const slot of removed) fixture.remove(slot)
      await beginToFail(pool, fixture)
      const queued = fixture.insert(others.pop()!)
      fixture.remove(queued)
      assert.deepEqual([indexer.tombstones, free], [6, []], 'they wait for the graph and for the queue')

      await failed(fixture)
      assert.equal(indexer.tombstones, 0)
      assert.deepEqual(inOrder(free), [...removed, queued])

      const { slotCount } = index
      for (const vector of others) {
        const slot = fixture.insert(vector)
        const [found] = await fixture.search([vector], 'Euclidean')
        assert.deepEqual([found![0]!.slot, found![0]!.distance], [slot, 0])
        fixture.remove([...points.keys()][0]!)
      }
      assert.equal(index.slotCount, slotCount, 'every change uses a slot that another one has freed')
      assert.equal(new Set([...free, ...points.keys()]).size, slotCount)
      assert.equal(free.length + points.size, slotCount, 'each slot is freed once')
    })
  })

  it('frees each slot once if they fail during a repair', async () => {
    await withPool(1, async (pool) => {
      const { fixture } = await built(pool)
      await using _ = fixture
      const removed = Array.from({ length: 20 }, (_, at) => 7 * at)
      for (const slot of removed) fixture.remove(slot)
      await beginToFail(pool, fixture)
      fixture.indexer.freeSoon()
      await failed(fixture)
      await fixture.indexer.repaired()
      await laterTurn()
      assert.deepEqual(inOrder(fixture.free), removed)
    })
  })

  it('rejects the tasks and jobs that wait, and later ones', async () => {
    await withPool(1, async (threads) => {
      await using fixture = new IndexFixture(dimension, { threads, searchThreads })
      const graphs = new GraphSet(0)
      graphs.attach(fixture.index)
      const links = new LinkBatches(graphs, { onLinked() {}, onLeft() {} })
      const logger = pino({ level: 'silent' })
      // The pool does not know it, so nothing begins.
      const scheduler = new GraphScheduler({ threads, graphs, links, logger, onDispatch() {}, onFail() {} })
      const submit = (): Promise<undefined> => scheduler.submit({ kind: 'reset', ordinal: 0, graph: 0 })
      const ended = Promise.allSettled([submit(), scheduler.runJob(submit), scheduler.runJob(submit)])
      await laterTurn()

      const fault = new Error('a fault')
      scheduler.fail(fault)
      const rejection = { status: 'rejected', reason: fault }
      assert.deepEqual(await Promise.race([ended, laterTurn()]), [rejection, rejection, rejection])
      const later = Promise.allSettled([submit(), scheduler.runJob(submit)])
      assert.deepEqual(await Promise.race([later, laterTurn()]), [rejection, rejection])
    })
  })

  for (const when of ['before', 'after'] as const) {
    it(`ends although a thread that held locks died, if that was ${when} its end was requested`, async () => {
      const started: Worker[] = []
      const note = (worker: Worker): void => void started.push(worker)
      process.on('worker', note)
      await withPool(2, async (pool) => {
        const { fixture, others } = await built(pool)
        await using _ = fixture
        const [segment] = fixture.index.segments
        const locks = new Uint8Array(segment!.memory.buffer, segment!.layout.graphs[0]!.locks, 600)
        locks.fill(1)
        // One for each thread, which then waits for a lock.
        for (const vector of others.splice(0, 2)) fixture.insert(vector)
        let hasEnded = false
        const end = (): void => void fixture.indexer.discard().then(() => (hasEnded = true))
        try {
          if (when === 'after') end()
          await started[0]!.terminate()
          if (when === 'before') await failed(fixture)
          if (when === 'before') end()
          await until(() => hasEnded)
        } finally {
          locks.fill(0)
        }

        const { fixture: next } = await built(pool)
        await next.close()
      })
      process.off('worker', note)
    })
  }
})

function inOrder(slots: readonly number[]): number[] {
  return [...slots].sort((a, b) => a - b)
}
