import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { clusteredVectors } from '../../test/support/clusters.ts'
import { seededRandom } from '../../test/support/random.ts'
import { readRows } from '../src/data/matrix-file.ts'

export interface Data {
  readonly description: string
  readonly rows: readonly Float32Array[]
  /** Not among the rows. */
  readonly queries: readonly Float32Array[]
}

const dimension = 512
const queryCount = 1000
const seed = 20_261_121

/** WordNet's vectors where `npm run bench:index` has prepared them, else generated ones of the same shape. */
export function dataOf(count: number): Data {
  const folder = join(import.meta.dirname, '../.cache/wordnet-115791')
  const [base, queries] = [join(folder, 'base.f32'), join(folder, 'queries.f32')]
  if (existsSync(base) && existsSync(queries)) {
    const most = Math.floor(statSync(base).size / dimension / 4)
    const rows = cut(readRows(base, 0, Math.min(count, most), dimension))
    const description = `WordNet, ${rows.length} x ${dimension}`
    return { description, rows, queries: cut(readRows(queries, 0, queryCount, dimension)) }
  }
  const all = clusteredVectors(seededRandom(seed), count + queryCount, dimension)
  const description = `clusters, ${count} x ${dimension}, seed ${seed}`
  return { description, rows: all.slice(0, count), queries: all.slice(count) }
}

function cut(matrix: Float32Array): Float32Array[] {
  return Array.from({ length: matrix.length / dimension }, (_, row) =>
    matrix.slice(row * dimension, (row + 1) * dimension),
  )
}

/** Row numbers of the k nearest, by comparing with every row. */
export function exactNearest(rows: readonly Float32Array[], query: Float32Array, k: number): number[] {
  const distances = rows.map((row, number) => ({ number, distance: squaredDistance(row, query) }))
  distances.sort((a, b) => a.distance - b.distance || a.number - b.number)
  return distances.slice(0, k).map(({ number }) => number)
}

function squaredDistance(a: Float32Array, b: Float32Array): number {
  let sum = 0
  for (let at = 0; at < a.length; at += 1) sum += (a[at]! - b[at]!) ** 2
  return sum
}
