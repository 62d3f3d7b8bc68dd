import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { IndexFixture } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { GraphState, noLink } from '../index/graph-state.ts'

const seed = 20260105

describe(`every linked point, seed ${seed}`, () => {
  it('is reachable once changes have ended, without a request to repair', async () => {
    const random = seededRandom(seed)
    const vectors = clusteredVectors(random, 5000, 32)
    await using fixture = new IndexFixture(32, { indexThreads: 4, quietMs: 40 })
    for (const vector of vectors.splice(0, 2000)) fixture.insert(vector)
    while (fixture.indexer.unindexed === 2000) await sleep(1)
    while (vectors.length > 0) {
      for (const slot of [...fixture.points.keys()]) if (random() < 0.02) fixture.remove(slot)
      for (const vector of vectors.splice(0, 50)) fixture.insert(vector)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await untilSound(fixture)
    assert.equal(fixture.index.liveCount, fixture.points.size)
  })

  it('is reachable again after a start with a graph in which it was not, without any change', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'vicinal-reachability-'))
    try {
      const points = await cutOffAndSaved(directory)
      await using again = await IndexFixture.restarted(directory, points)
      assert.equal(again.indexer.unindexed, 0, 'the graph was read')
      await untilSound(again)
    } finally {
      rmSync(directory, { recursive: true })
    }
  })
})

/** Saves a graph in which at least three slots are unreachable. @returns its points */
async function cutOffAndSaved(directory: string): Promise<IndexFixture['kept']> {
  await using fixture = new IndexFixture(32, { directory, quietMs: 3_600_000 })
  for (const vector of clusteredVectors(seededRandom(seed), 2000, 32)) fixture.insert(vector)
  await fixture.settled()
  await fixture.indexer.repaired()
  assert.deepEqual(fixture.faults(), [])
  for (const slot of [500, 1000, 1500]) cutOff(fixture, slot)
  const faults = fixture.faults().join()
  const [count] = faults.match(/\d+(?= linked slots are unreachable)/) ?? []
  // Slots to which only these three led are unreachable too.
  assert.ok(Number(count) >= 3, faults)
  return fixture.kept
}

/** Resolves when the timer has completed all repairs. */
async function untilSound(fixture: IndexFixture): Promise<void> {
  const { indexer } = fixture
  while (indexer.isSettling || indexer.tombstones > 0 || fixture.faults().length > 0) await sleep(5)
}

/** Removes all links to a slot from the lists at level 0. */
function cutOff({ index }: IndexFixture, slot: number): void {
  const [segment] = index.segments
  const { links } = new GraphState(segment!, 0)
  const length = 2 * segment!.layout.m
  for (let from = 0; from < index.slotCount * length; from += length) {
    const list = links.subarray(from, from + length)
    const left = list.filter((each) => each !== slot && each !== noLink)
    list.fill(noLink)
    list.set(left)
  }
}
