import { distanceOf } from '../../shared/data/exact-lists.ts'
import { GaussianRandom } from '../../shared/data/gaussian-random.ts'

export interface KMeansOptions {
  readonly dimension: number
  readonly clusters: number
  /** The number of rows from which the centres are computed. */
  readonly sample: number
  readonly rounds: number
  readonly seed: number
}

/**
 * Computes the concatenated cluster centres of the rows with Lloyd's algorithm on a sample. The initial centres are
 * rows of the sample. A cluster that loses all its rows keeps its centre.
 */
export function kMeans(rows: Float32Array, options: KMeansOptions): Float32Array {
  const { dimension, clusters, rounds, seed } = options
  const count = rows.length / dimension
  const sample = sampleOf(count, Math.min(count, options.sample), seed)
  const centres = new Float32Array(clusters * dimension)
  for (let cluster = 0; cluster < clusters; cluster += 1) {
    const row = sample[cluster % sample.length]!
    centres.set(rows.subarray(row * dimension, (row + 1) * dimension), cluster * dimension)
  }
  for (let round = 0; round < rounds; round += 1) {
    const sums = new Float64Array(centres.length)
    const sizes = new Uint32Array(clusters)
    for (const row of sample) {
      const cluster = nearestCentre(rows, row, centres, dimension)
      sizes[cluster]! += 1
      for (let index = 0; index < dimension; index += 1) {
        sums[cluster * dimension + index]! += rows[row * dimension + index]!
      }
    }
    for (let index = 0; index < centres.length; index += 1) {
      const size = sizes[Math.floor(index / dimension)]!
      if (size > 0) centres[index] = sums[index]! / size
    }
  }
  return centres
}

/** The cluster with the centre nearest to a row. */
export function nearestCentre(
  rows: Float32Array,
  row: number,
  centres: Float32Array,
  dimension: number,
): number {
  let nearest = 0
  let least = Number.POSITIVE_INFINITY
  for (let cluster = 0; cluster * dimension < centres.length; cluster += 1) {
    const far = distanceOf.Euclidean(rows, row * dimension, centres, cluster * dimension, dimension)
    if (far >= least) continue
    least = far
    nearest = cluster
  }
  return nearest
}

/** All clusters by their distance to a row, nearest first. */
export function centresByDistance(
  rows: Float32Array,
  row: number,
  centres: Float32Array,
  dimension: number,
): number[] {
  const distances = Array.from({ length: centres.length / dimension }, (_, cluster) =>
    distanceOf.Euclidean(rows, row * dimension, centres, cluster * dimension, dimension),
  )
  return distances.map((_, cluster) => cluster).sort((a, b) => distances[a]! - distances[b]! || a - b)
}

/** A random sample of rows without repetition, in random order. */
function sampleOf(count: number, size: number, seed: number): Uint32Array {
  return permutation(count, new GaussianRandom(seed)).subarray(0, size)
}

/** The numbers below `count` in random order. */
export function permutation(count: number, random: GaussianRandom): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, index) => index)
  for (let last = count - 1; last > 0; last -= 1) {
    const other = Math.floor(random.uniform() * (last + 1))
    const moved = order[last]!
    order[last] = order[other]!
    order[other] = moved
  }
  return order
}
