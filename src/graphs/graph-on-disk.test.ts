import assert from 'node:assert/strict'
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { clusteredVectors, normal } from '../../test/support/clusters.ts'
import { IndexFixture, leastRecall, newIndexDirectory } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { recallSets } from '../../test/support/recall-sets.ts'
import { until } from '../../test/support/until.ts'
import { distanceMetrics } from '../base/point.ts'

const seed = 20260101

describe(`a graph on disk, seed ${seed}`, () => {
  interface Stopped {
    readonly directory: string
    readonly points: Map<number, readonly [Float32Array, number]>
  }

  /** Indexes that were built and closed, by their number of points. */
  const built = new Map<number, Promise<Stopped>>()

  /** A copy of what a built index leaves for the next start. */
  async function stopped(count = 3000): Promise<Stopped> {
    const stopping = built.get(count) ?? build(count)
    built.set(count, stopping)
    const { directory, points } = await stopping
    const copy = newIndexDirectory()
    cpSync(directory, copy, { recursive: true })
    return { directory: copy, points: new Map(points) }
  }

  async function build(count: number): Promise<Stopped> {
    const directory = newIndexDirectory()
    const fixture = new IndexFixture(64, { directory })
    for (const vector of clusteredVectors(seededRandom(seed), count, 64)) fixture.insert(vector)
    await fixture.settled()
    await fixture.close()
    return { directory, points: fixture.kept }
  }

  const graphFile = (directory: string): string => join(directory, readdirSync(directory)[0]!)

  it('is read, not built, and serves immediately', async () => {
    const { directory, points } = await stopped()
    await using fixture = await IndexFixture.restarted(directory, points)
    assert.equal(fixture.indexer.unindexed, 0)
    assert.ok(fixture.indexer.route('Euclidean') !== undefined)
    assert.ok(!fixture.indexer.isSettling, 'nothing is measured again')
    assert.deepEqual(fixture.faults(), [])
    const queries = [...fixture.points.values()].slice(0, 100)
    for (const metric of ['Euclidean', 'Manhattan', 'Cosine'] as const) {
      assert.ok((await fixture.recall(queries, metric)) >= leastRecall(queries))
    }
  })

  it('that was written while the service ran keeps the measurements', async () => {
    const directory = newIndexDirectory()
    await using fixture = new IndexFixture(64, { directory, quietMs: 4 })
    for (const vector of clusteredVectors(seededRandom(seed), 3000, 64)) fixture.insert(vector)
    while (!readdirSync(directory).some((name) => name.endsWith('.bin'))) await sleep(2)
    // As after a kill: no shutdown writes the graph again.
    const left = newIndexDirectory()
    cpSync(directory, left, { recursive: true })
    await using again = await IndexFixture.restarted(left, fixture.kept)
    for (const metric of distanceMetrics) {
      assert.ok(again.indexer.plans[metric].recall !== undefined, metric)
      assert.deepEqual(again.indexer.plans[metric], fixture.indexer.plans[metric], metric)
    }
  })

  it('serves Cosine by its own graph again, even if a repair is needed first', async () => {
    const { points: vectors } = recallSets['wordnet-lengths']!({
      seed,
      points: 2000,
      queries: 1,
      wordnet: undefined,
    })
    const directory = newIndexDirectory()
    const fixture = new IndexFixture(vectors[0]!.length, { directory })
    for (const vector of vectors) fixture.insert(vector)
    await fixture.settled()
    assert.equal(fixture.indexer.route('Cosine')?.graph, 1)
    const points = fixture.kept
    await fixture.close()
    for (let slot = 0; slot < 100; slot += 1) points.delete(slot)
    await using again = await IndexFixture.restarted(directory, points)
    await again.settled()
    assert.equal(again.indexer.route('Cosine')?.graph, 1)
  })

  it('is gone when no source of distances tells the points apart any more', async () => {
    const random = seededRandom(seed)
    const directory = newIndexDirectory()
    const fixture = new IndexFixture(8, { directory, quietMs: 4 })
    for (const vector of clusteredVectors(random, 600, 8)) fixture.insert(vector)
    await fixture.settled()
    assert.ok(fixture.indexer.distanceSources.Euclidean !== undefined)
    while (!readdirSync(directory).some((name) => name.endsWith('.bin'))) await sleep(2)
    // Squares beyond what float32 can hold.
    for (let count = 0; count < 5400; count += 1)
      fixture.insert(Float32Array.from({ length: 8 }, () => normal(random) * 5e37))
    await until(() => fixture.indexer.distanceSources.Euclidean === 'nothing')
    await fixture.settled()
    await fixture.close()
    assert.deepEqual(readdirSync(directory), [])
    await using again = await IndexFixture.restarted(directory, fixture.kept)
    await again.settled()
    assert.equal(again.indexer.distanceSources.Euclidean, 'nothing')
  })

  it('has its source of distances checked when there are four times as many points as at the last check', async () => {
    const directory = newIndexDirectory()
    const vectors = clusteredVectors(seededRandom(seed), 2500, 32)
    const insert = (fixture: IndexFixture, count: number): void => {
      for (const vector of vectors.splice(0, count)) fixture.insert(vector)
    }
    const checksOf = ({ log }: IndexFixture): number =>
      log.filter((line) => line.includes('the graph uses')).length
    const fixture = new IndexFixture(32, { directory })
    insert(fixture, 600)
    await fixture.settled()
    await fixture.close()
    let points = fixture.kept
    for (const [added, checks] of [
      [1000, 0],
      [900, 1],
    ] as const) {
      await using again = await IndexFixture.restarted(directory, points)
      insert(again, added)
      await again.settled()
      await until(() => checksOf(again) === checks)
      await again.close()
      points = again.kept
    }
  })

  it('catches up with changes since it was written', async () => {
    const { directory, points } = await stopped()
    const fresh = clusteredVectors(seededRandom(seed + 1), 500, 64)
    for (let slot = 0; slot < 900; slot += 3) points.delete(slot)
    for (let slot = 0; slot < 450; slot += 3) points.set(slot, [fresh.pop()!, 4000 + slot])
    for (let slot = 3000; slot < 3200; slot += 1) points.set(slot, [fresh.pop()!, 5000 + slot])
    await using fixture = await IndexFixture.restarted(directory, points)
    assert.ok(fixture.indexer.unindexed <= 350, `${fixture.indexer.unindexed} points are linked again`)
    for (const slot of [0, 3, 3000, 3100]) {
      const [found] = await fixture.search([points.get(slot)![0]], 'Euclidean')
      assert.equal(found![0]!.slot, slot)
    }
    await fixture.settled()
    await fixture.indexer.repaired()
    assert.deepEqual(fixture.faults(), [])
    const queries = [...fixture.points.values()].slice(0, 200)
    assert.ok((await fixture.recall(queries, 'Euclidean')) >= leastRecall(queries))
  })

  it('most of whose points were removed is rebuilt, and searches are exact until then', async () => {
    const { directory, points } = await stopped()
    const left = new Map([...points].filter((_, at) => at % 3 === 0))
    await using fixture = await IndexFixture.restarted(directory, left)
    assert.equal(fixture.indexer.unindexed, left.size)
    const queries = [...left.values()].slice(0, 100).map(([vector]) => vector)
    // Searches run in this turn, because the graph may be ready as soon as the first one has ended.
    const recalls = await Promise.all(distanceMetrics.map((metric) => fixture.recall(queries, metric)))
    assert.deepEqual(
      recalls,
      distanceMetrics.map(() => 1),
    )
    await fixture.settled()
    await fixture.indexer.repaired()
    assert.deepEqual(fixture.faults(), [])
    for (const metric of distanceMetrics)
      assert.ok((await fixture.recall(queries, metric)) >= leastRecall(queries), metric)
  })

  it('that was being built when the service stopped is continued', async () => {
    const { directory, points } = await stopped()
    rmSync(graphFile(directory))
    const interrupted = await IndexFixture.restarted(directory, points)
    while (interrupted.indexer.unindexed > 2000) await sleep(2)
    await interrupted.close()
    await using fixture = await IndexFixture.restarted(directory, points)
    assert.ok(fixture.indexer.unindexed <= 2000, `${fixture.indexer.unindexed} points are to be linked`)
  })

  it('that is damaged, truncated or missing is rebuilt', async () => {
    const { directory, points } = await stopped(1000)
    const path = graphFile(directory)
    const whole = readFileSync(path)
    const damages: Readonly<Record<string, () => void>> = {
      'a bit flipped in the links': () => writeFileSync(path, flipped(whole, whole.length >> 1)),
      'cut in half': () => truncateSync(path, whole.length >> 1),
      'no file': () => rmSync(path),
    }
    for (const [name, damage] of Object.entries(damages)) {
      writeFileSync(path, whole)
      damage()
      await using fixture = await IndexFixture.restarted(directory, points)
      assert.ok(fixture.indexer.unindexed > 0, `${name}: nothing in the file is used`)
      await fixture.settled()
      await fixture.indexer.repaired()
      assert.deepEqual(fixture.faults(), [], name)
      const queries = [...fixture.points.values()].slice(0, 50)
      assert.ok((await fixture.recall(queries, 'Euclidean')) >= leastRecall(queries), name)
    }
  })
})

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at]! ^= 0x10
  return copy
}
