import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { IndexThreadPool } from './index-thread-pool.ts'

const seed = 20_261_123
const searchThreads = 1

async function withPool(work: (pool: IndexThreadPool) => Promise<void>): Promise<void> {
  const pool = new IndexThreadPool(loadKernels(), 1, 1 + searchThreads)
  try {
    await work(pool)
  } finally {
    await pool.close()
  }
}

function fixtureOn(threads: IndexThreadPool, dimension: number): IndexFixture {
  return new IndexFixture(dimension, { threads, searchThreads })
}

describe(`index threads that indexers share, seed ${seed}`, () => {
  it('link the points of one indexer while the graph of another is being built', async () => {
    await withPool(async (pool) => {
      const random = seededRandom(seed)
      await using large = fixtureOn(pool, 32)
      await using small = fixtureOn(pool, 48)
      for (const vector of clusteredVectors(random, 8000, 32)) large.insert(vector)
      for (const vector of clusteredVectors(random, 200, 48)) small.insert(vector)
      const before = large.indexer.unindexed
      assert.ok(before > 7000)
      while (small.indexer.unindexed > 0) await sleep(1)
      // Task by task: seven tasks of links here, about as many for the other index, and the measurements of both.
      assert.ok(large.indexer.unindexed > before / 2, `${large.indexer.unindexed} of ${before} still wait`)
      assert.deepEqual(small.faults(), [])
    })
  })

  it('keep working for the others when an indexer is closed or discarded during its build', async () => {
    await withPool(async (pool) => {
      const random = seededRandom(seed)
      await using staying = fixtureOn(pool, 32)
      const leaving = [fixtureOn(pool, 24), fixtureOn(pool, 40)]
      for (const fixture of leaving) {
        for (const vector of clusteredVectors(random, 3000, fixture.index.dimension)) fixture.insert(vector)
      }
      for (const vector of clusteredVectors(random, 1500, 32)) staying.insert(vector)
      assert.equal(pool.users, 3)
      await leaving[0]!.indexer.close()
      await leaving[1]!.indexer.discard()
      assert.equal(pool.users, 1)
      await staying.settled()
      assert.equal(staying.indexer.unindexed, 0)
      assert.deepEqual(staying.faults(), [])
      for (const fixture of leaving) {
        assert.ok(fixture.indexer.unindexed > 0, 'its build did not finish')
        await fixture.close()
      }
    })
  })

  it('disable only the graphs of the index whose task has failed', async () => {
    await withPool(async (pool) => {
      const random = seededRandom(seed)
      await using sound = fixtureOn(pool, 32)
      await using faulty = new IndexFixture(32, { threads: pool, searchThreads })
      for (const vector of clusteredVectors(random, 600, 32)) sound.insert(vector)
      for (const vector of clusteredVectors(random, 600, 32)) faulty.insert(vector)
      await faulty.settled()
      await sound.settled()
      assert.ok(faulty.indexer.route('Euclidean') !== undefined)
      // The thread no longer knows the index, so its next task fails.
      await pool.detach(faulty.index.id)
      faulty.insert(clusteredVectors(random, 1, 32)[0]!)
      while (faulty.indexer.route('Euclidean') !== undefined) await sleep(1)
      assert.match(faulty.takeErrors().join(), /the index failed/)
      for (const vector of clusteredVectors(random, 300, 32)) sound.insert(vector)
      while (sound.indexer.unindexed > 0) await sleep(1)
      assert.ok(sound.indexer.route('Euclidean') !== undefined)
    })
  })

  it('disable all graphs when one of the threads dies', async () => {
    const started: Worker[] = []
    const note = (worker: Worker): void => void started.push(worker)
    process.on('worker', note)
    await withPool(async (pool) => {
      const random = seededRandom(seed)
      await using first = fixtureOn(pool, 32)
      await using second = fixtureOn(pool, 32)
      for (const fixture of [first, second]) {
        for (const vector of clusteredVectors(random, 600, 32)) fixture.insert(vector)
      }
      await first.settled()
      await second.settled()
      assert.ok([first, second].every(({ indexer }) => indexer.route('Euclidean') !== undefined))
      await started[0]!.terminate()
      for (const fixture of [first, second]) {
        while (fixture.indexer.route('Euclidean') !== undefined) await sleep(1)
        assert.match(fixture.takeErrors().join(), /an index thread ended/)
      }
    })
    process.off('worker', note)
  })
})
