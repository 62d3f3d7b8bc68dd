import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import type { Metric } from '../../../src/base/point.ts'
import { type DataSet, prepareSet } from './data-set.ts'
import { GroundTruth } from './ground-truth.ts'
import { readRows, writeRows } from './matrix-file.ts'

const cache = mkdtempSync(join(tmpdir(), 'vicinal-bench-'))
after(() => rmSync(cache, { recursive: true }))

const options = { cache, rows: 700, queries: 9, wordnet: undefined }
const k = 10

describe('the exact answers', () => {
  for (const metric of ['Euclidean', 'Cosine', 'Manhattan'] satisfies Metric[]) {
    it(`give recall 1 to the nearest points and 0 to the farthest, according to sorted distances: ${metric}`, async () => {
      const set = await prepareSet('manifold', options)
      const truth = await GroundTruth.of(set, metric)
      const order = sortedIds(set, metric)
      const nearest = Uint32Array.from(order.flatMap((ids) => ids.slice(0, k)))
      const farthest = Uint32Array.from(order.flatMap((ids) => ids.slice(-k)))
      assert.equal(truth.recall(nearest, k), 1)
      assert.equal(truth.recall(farthest, k), 0)
    })
  }

  it('accept any of several points at the same distance, but count no point twice', async () => {
    const base = Float32Array.of(...[0, 0], ...[1, 0], ...[0, 1], ...[5, 5])
    const set = tinySet(base, Float32Array.of(0, 0))
    const truth = await GroundTruth.of(set, 'Euclidean')
    assert.equal(truth.recall(Uint32Array.of(0, 1), 2), 1)
    assert.equal(truth.recall(Uint32Array.of(0, 2), 2), 1)
    assert.equal(truth.recall(Uint32Array.of(0, 0), 2), 0.5)
    assert.equal(truth.recall(Uint32Array.of(0, 3), 2), 0.5)
  })
})

describe('generated data', () => {
  it('has the same first rows for any number of rows', async () => {
    const few = await prepareSet('wide', { ...options, cache: join(cache, 'few'), rows: 50 })
    const many = await prepareSet('wide', { ...options, cache: join(cache, 'many'), rows: 120 })
    const { dimension } = few
    assert.deepEqual(readRows(few.basePath, 0, 50, dimension), readRows(many.basePath, 0, 50, dimension))
  })

  it('is continued if a file has too few rows', async () => {
    const options = { cache: join(cache, 'grown'), queries: 9, wordnet: undefined }
    await prepareSet('wide', { ...options, rows: 50 })
    const grown = await prepareSet('wide', { ...options, rows: 120 })
    const whole = await prepareSet('wide', { ...options, cache: join(cache, 'whole'), rows: 120 })
    const { dimension } = whole
    assert.deepEqual(readRows(grown.basePath, 0, 120, dimension), readRows(whole.basePath, 0, 120, dimension))
  })

  it('has rows of unit length, and does not contain the queries', async () => {
    const { basePath, queryPath, dimension, count } = await prepareSet('manifold', options)
    const rows = readRows(basePath, 0, count, dimension)
    for (let row = 0; row < count; row += 1) {
      const vector = rows.subarray(row * dimension, (row + 1) * dimension)
      assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-5)
    }
    const query = readRows(queryPath, 0, 1, dimension).join()
    const isIn = Array.from({ length: count }, (_, row) =>
      rows.subarray(row * dimension, (row + 1) * dimension),
    )
    assert.ok(!isIn.some((row) => row.join() === query))
  })
})

function sortedIds(set: DataSet, metric: Metric): number[][] {
  const { dimension, count, queryCount } = set
  const base = readRows(set.basePath, 0, count, dimension)
  const queries = readRows(set.queryPath, 0, queryCount, dimension)
  return Array.from({ length: queryCount }, (_, query) => {
    const vector = queries.subarray(query * dimension, (query + 1) * dimension)
    const far = Array.from({ length: count }, (_, row) =>
      distance(metric, vector, base.subarray(row * dimension, (row + 1) * dimension)),
    )
    return far.map((_, row) => row).sort((a, b) => far[a]! - far[b]!)
  })
}

function distance(metric: Metric, a: Float32Array, b: Float32Array): number {
  if (metric === 'Manhattan') return a.reduce((sum, each, index) => sum + Math.abs(each - b[index]!), 0)
  if (metric === 'Euclidean') return Math.hypot(...a.map((each, index) => each - b[index]!))
  const dot = a.reduce((sum, each, index) => sum + each * b[index]!, 0)
  return 1 - dot / Math.hypot(...a) / Math.hypot(...b)
}

function tinySet(base: Float32Array, queries: Float32Array): DataSet {
  const basePath = join(cache, 'tiny.base')
  const queryPath = join(cache, 'tiny.queries')
  writeRows(basePath, base)
  writeRows(queryPath, queries)
  const sizes = { dimension: 2, count: base.length / 2, queryCount: queries.length / 2 }
  return { name: 'tiny', description: 'by hand', folder: cache, basePath, queryPath, ...sizes }
}
