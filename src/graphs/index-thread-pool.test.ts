import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { until } from '../../test/support/until.ts'
import { newId } from '../base/partitions.ts'
import { loadKernels } from '../kernels/wasm-module.ts'
import { IdTable } from '../points/id-table.ts'
import { RowFile } from '../storage/files/row-file.ts'
import { packRow, rowBytesOf } from '../storage/key-layout.ts'
import { shareRanges, stopRanges } from './engine-thread.ts'
import { type FilledSlots, IndexThread, IndexThreadPool, type Task } from './index-thread-pool.ts'

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

  it('get the points of one turn together', async () => {
    await withPool(async (pool) => {
      const random = seededRandom(seed)
      await using fixture = fixtureOn(pool, 32)
      for (const vector of clusteredVectors(random, 600, 32)) fixture.insert(vector)
      await fixture.settled()
      const { run } = IndexThread.prototype
      const linked: number[] = []
      IndexThread.prototype.run = function (this: IndexThread, index: number, task: Task) {
        if (task.kind === 'link') linked.push(task.slots.length)
        return run.call(this, index, task)
      } as typeof run
      try {
        for (const vector of clusteredVectors(random, 8, 32)) fixture.insert(vector)
        await fixture.settled()
        assert.equal(linked[0], 8)
      } finally {
        IndexThread.prototype.run = run
      }
    })
  })

  it('fill an index for a moment at a time, also while it is the only one: others may come meanwhile', async () => {
    await withPool(async (pool) => {
      await using fixture = fixtureOn(pool, 48)
      const { run } = IndexThread.prototype
      const isDone: boolean[] = []
      IndexThread.prototype.run = async function (this: IndexThread, index: number, task: Task) {
        if (task.kind !== 'fill') return await run.call(this, index, task)
        IndexThread.prototype.run = run
        // More slots than can be looked at in minutes.
        const slots = shareRanges(1_000_000, 2 ** 31 - 2, 1)
        const late = setTimeout(() => stopRanges(slots), 20_000)
        const filled = (await run.call(this, index, { ...task, slots })) as FilledSlots
        isDone.push(filled.isDone)
        clearTimeout(late)
        return await run.call(this, index, task)
      } as typeof run
      try {
        await fillFrom(fixture, clusteredVectors(seededRandom(seed), 3000, 48))
      } finally {
        IndexThread.prototype.run = run
      }
      assert.deepEqual(isDone, [false])
    })
  })

  it('disable only the graphs of the index on which a thread worked when it died', async () => {
    await withWorkers(async (pool, workers) => {
      const random = seededRandom(seed)
      await using faulty = fixtureOn(pool, 32)
      await using sound = fixtureOn(pool, 32)
      for (const fixture of [faulty, sound]) {
        for (const vector of clusteredVectors(random, 600, 32)) fixture.insert(vector)
        await fixture.settled()
      }
      // The thread waits for a lock, and the points of the other index wait for the thread.
      const [segment] = faulty.index.segments
      new Uint8Array(segment!.memory.buffer, segment!.layout.graphs[0]!.locks, 600).fill(1)
      faulty.insert(clusteredVectors(random, 1, 32)[0]!)
      // The thread gets its task after this turn.
      await turn()
      for (const vector of clusteredVectors(random, 300, 32)) sound.insert(vector)
      await workers[0]!.terminate()

      await until(() => faulty.indexer.route('Euclidean') === undefined)
      assert.match(faulty.takeErrors().join(), /an index thread ended/)
      assert.ok(sound.indexer.route('Euclidean') !== undefined)
      await until(() => sound.indexer.unindexed === 0)
      assert.ok(sound.indexer.route('Euclidean') !== undefined)
      assert.deepEqual(sound.faults(), [])
    })
  })

  it('are replaced: indexes can be filled and linked after the only thread has died', async () => {
    await withWorkers(async (pool, workers) => {
      const random = seededRandom(seed)
      await using before = fixtureOn(pool, 32)
      for (const vector of clusteredVectors(random, 600, 32)) before.insert(vector)
      await before.settled()
      await workers[0]!.terminate()

      await using after = fixtureOn(pool, 48)
      // More than the main thread reads itself.
      const vectors = clusteredVectors(random, 3000, 48)
      await fillFrom(after, vectors)
      assert.deepEqual(after.index.read(2999), vectors[2999])
      const late = after.insert(clusteredVectors(random, 1, 48)[0]!)
      assert.equal(late, 3000)
      await after.settled()
      assert.ok(after.indexer.route('Euclidean') !== undefined)

      before.insert(clusteredVectors(random, 1, 32)[0]!)
      await before.settled()
      assert.ok(before.indexer.route('Euclidean') !== undefined)
      for (const fixture of [before, after]) {
        assert.equal(fixture.indexer.unindexed, 0)
        assert.deepEqual(fixture.faults(), [])
      }
    })
  })
})

/** Like `withPool`, with the worker of its thread. */
async function withWorkers(
  work: (pool: IndexThreadPool, workers: readonly Worker[]) => Promise<void>,
): Promise<void> {
  const started: Worker[] = []
  const note = (worker: Worker): void => void started.push(worker)
  process.on('worker', note)
  try {
    await withPool((pool) => work(pool, started))
  } finally {
    process.off('worker', note)
  }
}

/** Fills an index with stored points, as the opening of a collection does. */
async function fillFrom({ index, indexer }: IndexFixture, vectors: readonly Float32Array[]): Promise<void> {
  const { dimension } = index
  const directory = mkdtempSync(join(tmpdir(), 'vicinal-threads-'))
  try {
    const path = join(directory, 'rows')
    const rowBytes = rowBytesOf(dimension)
    const rows = Buffer.alloc(vectors.length * rowBytes)
    for (const [slot, vector] of vectors.entries()) {
      packRow(rows, slot * rowBytes, { id: newId(), sequence: slot + 1, vector })
    }
    const file = RowFile.create(path, dimension)
    file.write(rows, Uint32Array.from(vectors.keys()))
    file.close()
    const slotCount = vectors.length
    const live = new Uint8Array(new SharedArrayBuffer(Math.ceil(slotCount / 8))).fill(0xff)
    index.extend(slotCount)
    const stored = { path, dimension, slotCount, sequence: slotCount, live }
    await indexer.fill(stored, new IdTable().pages(slotCount))
  } finally {
    rmSync(directory, { recursive: true })
  }
}
