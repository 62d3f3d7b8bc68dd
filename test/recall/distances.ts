import type { Metric } from '../../src/base/point.ts'

/** Number of requested neighbours. */
export const k = 10

interface Vectors {
  readonly points: readonly Float32Array[]
  readonly queries: readonly Float32Array[]
}

/** The distance of each query's k-th nearest point, from the results of an exact scan. */
export function nearestDistances(
  vectors: Vectors,
  metric: Metric,
  found: readonly (readonly number[])[],
): number[] {
  return distancesOf(vectors, metric, found).map((distances) => Math.max(...distances))
}

/**
 * Recall: the share of the found points that are no farther than the k-th nearest one. Which of several points at the
 * same distance is found makes no difference, as it makes none to the caller.
 */
export function shareWithin(
  vectors: Vectors,
  metric: Metric,
  found: readonly (readonly number[])[],
  nearest: readonly number[],
): number {
  let within = 0
  for (const [query, distances] of distancesOf(vectors, metric, found).entries()) {
    within += distances.filter((distance) => distance <= nearest[query]!).length
  }
  return within / (k * found.length)
}

function distancesOf(
  { points, queries }: Vectors,
  metric: Metric,
  found: readonly (readonly number[])[],
): number[][] {
  return found.map((numbers, query) => {
    if (new Set(numbers).size < numbers.length) throw new Error(`query ${query} found a point twice`)
    return numbers.map((number) => distances[metric](queries[query]!, points[number]!))
  })
}

/** Plain distances, independent of the product's code, so that the judge does not share its mistakes. */
const distances: Readonly<Record<Metric, (a: Float32Array, b: Float32Array) => number>> = {
  Euclidean: (a, b) => Math.sqrt(sum(a, (x, index) => (x - b[index]!) ** 2)),
  Manhattan: (a, b) => sum(a, (x, index) => Math.abs(x - b[index]!)),
  Hamming: (a, b) => sum(a, (x, index) => (x === b[index]! ? 0 : 1)),
  Cosine: (a, b) => {
    const lengths = Math.sqrt(sum(a, (x) => x * x) * sum(b, (x) => x * x))
    return lengths === 0 ? 1 : 1 - sum(a, (x, index) => x * b[index]!) / lengths
  },
}

function sum(vector: Float32Array, term: (value: number, index: number) => number): number {
  let total = 0
  for (let index = 0; index < vector.length; index += 1) total += term(vector[index]!, index)
  return total
}
