import assert from 'node:assert/strict'
import { it } from 'node:test'
import { clusteredVectors, normal } from '../../test/support/clusters.ts'
import { IndexFixture, leastRecall } from '../../test/support/index-fixture.ts'
import { seededRandom } from '../../test/support/random.ts'
import { distanceMetrics } from '../base/point.ts'
import type { GraphDistanceSource } from '../points/database.ts'
import { bestSource, buildingBytes, graphBytesMin } from './graph-set.ts'

const seed = 20_261_122
const count = 2000
const dimension = 32

function vectorsOf(component: (index: number, random: () => number) => number): Float32Array[] {
  const random = seededRandom(seed)
  return Array.from({ length: count }, () =>
    Float32Array.from({ length: dimension }, (_, index) => component(index, random)),
  )
}

const sets: Readonly<
  Record<string, { readonly vectors: () => Float32Array[]; readonly on: GraphDistanceSource }>
> = {
  'clusters that codes tell apart': {
    vectors: () => clusteredVectors(seededRandom(seed), count, dimension),
    on: 'codes',
  },
  'an offset ten thousand times as large as the differences': {
    vectors: () => vectorsOf((_, random) => 1e4 + normal(random)),
    on: 'rows',
  },
  'squares beyond what float32 can hold': {
    vectors: () => vectorsOf((_, random) => normal(random) * 5e37),
    on: 'nothing',
  },
  'equal vectors, all equally near': { vectors: () => vectorsOf(() => 1), on: 'codes' },
}

for (const [name, { vectors, on }] of Object.entries(sets)) {
  it(`the distance source of a graph is ${on}: ${name}, seed ${seed}`, async () => {
    const points = vectors()
    const queries = points.splice(0, 50)
    await using fixture = new IndexFixture(dimension, { searchThreads: 1, indexThreads: 1 })
    for (const vector of points) fixture.insert(vector)
    await fixture.settled()
    assert.equal(fixture.indexer.distanceSources.Euclidean, on)
    for (const metric of distanceMetrics) {
      const recall = await fixture.recall(queries, metric)
      const plan = JSON.stringify(fixture.indexer.plans[metric])
      assert.ok(recall >= leastRecall(queries), `${metric}: ${recall}, ${plan}`)
    }
  })
}

it(`the distance source of a graph is chosen before any point is linked or coded, seed ${seed}`, async () => {
  await using fixture = new IndexFixture(dimension, {
    searchThreads: 1,
    indexThreads: 1,
    graphBytesMin: count * dimension * 4,
  })
  for (const vector of clusteredVectors(seededRandom(seed), count, dimension)) fixture.insert(vector)
  await fixture.settled()
  assert.equal(fixture.indexer.distanceSources.Euclidean, 'codes')
  assert.equal(fixture.indexer.route('Euclidean')?.distanceKind, 0, 'by codes')
})

it('writers wait until the first graph has been started if many points come meanwhile', async () => {
  const maxUnindexedBytes = 1024 * 1024
  await using fixture = new IndexFixture(1024, {
    searchThreads: 1,
    indexThreads: 1,
    graphBytesMin,
    maxUnindexedBytes,
  })
  const { index, indexer } = fixture
  const vector = new Float32Array(1024).fill(1)
  const { rowBytes } = index.layout
  const insertBytes = (bytes: number): void => {
    for (let time = 0; time * rowBytes < bytes; time += 1) fixture.insert(vector)
  }
  insertBytes(graphBytesMin)
  assert.equal(indexer.mayWrite(), undefined)
  insertBytes(buildingBytes + rowBytes)
  assert.equal(await indexer.mayWrite(), true)
  assert.equal(indexer.distanceSources.Euclidean, 'codes')
  // From then on they wait only for a share of the links, although far more points wait than usual.
  assert.ok(indexer.isRebuilding)
  assert.ok(indexer.unindexed * rowBytes > maxUnindexedBytes)
  assert.equal(indexer.mayWrite(), undefined)
})

it('codes are used if they are good enough, rows if they are better, and nothing if neither is usable', () => {
  assert.equal(bestSource({ codes: 0.99, rows: 1 }), 'codes')
  assert.equal(bestSource({ codes: 0.9, rows: 1 }), 'rows')
  assert.equal(bestSource({ codes: 0.7, rows: 0.6 }), 'codes')
  assert.equal(bestSource({ codes: 0.1, rows: 0.6 }), 'rows')
  assert.equal(bestSource({ codes: 0.1, rows: 0.2 }), 'nothing')
  assert.equal(bestSource({ rows: 1 }), 'rows', 'no codes')
})
