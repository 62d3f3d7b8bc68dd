import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { IndexFixture, leastRecall, newIndexDirectory } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { type RecallSet, recallSets } from '../../test/support/recall-sets.ts'
import { distanceMetrics } from '../base/point.ts'

const seed = 20260101

/**
 * Returns the number of points to build from. Wide vectors are fewer, because generating them takes most of the time.
 */
function pointsOf(name: string): number {
  return { 'clusters-768': 1000, 'clusters-1536': 700 }[name] ?? 1700
}

describe(`the required recall for each metric, seed ${seed}`, () => {
  for (const [name, make] of Object.entries(recallSets)) {
    it(`is reached after a build, changes and a restart: ${name}`, async () => {
      const random = seededRandom(seed)
      const set = make({ seed, points: pointsOf(name), queries: 80, wordnet: undefined })
      const directory = newIndexDirectory()
      const late = set.points.slice(-200)
      let points: ReadonlyMap<number, readonly [Float32Array, number]>
      {
        await using fixture = new IndexFixture(late[0]!.length, { directory })
        for (const vector of set.points.slice(0, -200)) fixture.insert(vector)
        await fixture.settled()
        assert.deepEqual(fixture.faults(), [], 'built')
        await assertRecall(fixture, set, 'built')
        // With so few glosses of such lengths, a search may need as many comparisons as a scan; it then scans.
        const isGraphEnough = name !== 'wordnet-lengths'
        for (const metric of isGraphEnough ? (['Euclidean', 'Cosine'] as const) : []) {
          const how = `${metric} uses a graph: ${fixture.log.join('')}`
          assert.ok(fixture.indexer.route(metric) !== undefined, how)
        }

        for (const slot of [...fixture.points.keys()]) if (random() < 0.1) fixture.remove(slot)
        for (const vector of late) fixture.insert(vector)
        await fixture.settled()
        await fixture.indexer.repaired()
        await assertRecall(fixture, set, 'changed')
        assert.deepEqual(fixture.faults(), [])
        points = fixture.kept
      }
      await using fixture = await IndexFixture.restarted(directory, points)
      assert.equal(fixture.indexer.unindexed, 0)
      await assertRecall(fixture, set, 'restarted')
    })
  }
})

async function assertRecall(
  fixture: IndexFixture,
  { queries, floors }: RecallSet,
  when: string,
): Promise<void> {
  for (const metric of distanceMetrics) {
    const recall = await fixture.recall(queries, metric)
    const plan = JSON.stringify(fixture.indexer.plans[metric])
    assert.ok(recall >= leastRecall(queries, floors[metric]), `${when}: ${metric} recalls ${recall}, ${plan}`)
  }
}
