import { findWordNet, unitRows } from '../../bench/shared/data/wordnet.ts'
import { distanceMetrics, type Metric } from '../../src/base/point.ts'
import { clusteredVectors } from './clusters.ts'
import { seededRandom } from './random.ts'

/** Points to store, queries that are not among them, and the minimum recall for each metric. */
export interface RecallSet {
  readonly points: readonly Float32Array[]
  readonly queries: readonly Float32Array[]
  readonly floors: Readonly<Record<Metric, number>>
}

export interface SetOptions {
  readonly seed: number
  /** Maximum number of points. */
  readonly points: number
  readonly queries: number
  /** Path of the whole WordNet set, see `bench/shared/data/wordnet.ts`; undefined: the demo's glosses. */
  readonly wordnet: string | undefined
}

const usualFloors = Object.fromEntries(distanceMetrics.map((metric) => [metric, 0.98])) as Record<
  Metric,
  number
>

/**
 * With the requested ef as it is and no second graph for Cosine, a graph reaches 0.909 for Euclidean and 0.805 for
 * Cosine on 115,791 glosses with lengths scaled like this, at ef 128.
 */
const scaledFloors = { ...usualFloors, Euclidean: 0.939, Manhattan: 0.939 }

/** Makes a set, by name. */
export const recallSets: Readonly<Record<string, (options: SetOptions) => RecallSet>> = {
  wordnet: (options) => ({ ...wordNetVectors(options), floors: usualFloors }),
  'wordnet-lengths': (options) => {
    const { points, queries } = wordNetVectors(options)
    const random = seededRandom(options.seed)
    const scale = (vector: Float32Array): Float32Array => scaled(vector, random)
    return { points: points.map(scale), queries: queries.map(scale), floors: scaledFloors }
  },
  'wordnet-copies': (options) => withCopies(wordNetVectors(options)),
  'clusters-8': clusters(8),
  'clusters-32': clusters(32),
  'clusters-128': clusters(128),
  'clusters-768': clusters(768),
  'clusters-1536': clusters(1536),
  'zeros-and-ones': clusters(256, (value) => (value > 0 ? 1 : 0)),
  'small-integers': clusters(96, (value) => Math.round(value / 4)),
}

/** A vector scaled to a log-uniform random length; the longest is fifty times the shortest. */
export function scaled(vector: Float32Array, random: () => number): Float32Array {
  const scale = Math.exp(random() * Math.log(50)) / Math.hypot(...vector)
  return vector.map((value) => value * scale)
}

function wordNetVectors(options: SetOptions): Pick<RecallSet, 'points' | 'queries'> {
  const { base, queries, dimension } = findWordNet(options.wordnet)
  const rows = (bytes: Int8Array, most: number): Float32Array[] => {
    const all = unitRows(bytes.subarray(0, most * dimension))
    return Array.from({ length: all.length / dimension }, (_, row) =>
      all.slice(row * dimension, (row + 1) * dimension),
    )
  }
  return { points: rows(base, options.points), queries: rows(queries, options.queries) }
}

/**
 * Every hundredth point has more copies than a node has links, and every other query is close to such a point. Its
 * nearest neighbours are copies of each other, and the search must still reach the points beyond them.
 */
function withCopies({ points, queries }: Pick<RecallSet, 'points' | 'queries'>): RecallSet {
  const copied = points.filter((_, number) => number % 100 === 0)
  const copies = Array.from({ length: copiesOfEach }, () => copied).flat()
  const near = queries.map((query, number) => {
    const point = copied[number % copied.length]!
    return number % 2 === 0 ? query : point.map((value, at) => (at % 16 === 0 ? query[at]! : value))
  })
  // The service measures recall on stored points, here mostly copies: for other vectors under Hamming that says little.
  return { points: [...points, ...copies], queries: near, floors: { ...usualFloors, Hamming: 0.95 } }
}

const copiesOfEach = 40

function clusters(
  dimension: number,
  change: (value: number) => number = (value) => value,
): (options: SetOptions) => RecallSet {
  return ({ seed, points, queries }) => {
    const vectors = clusteredVectors(seededRandom(seed), points + queries, dimension)
    const all = vectors.map((vector) => vector.map(change))
    return { points: all.slice(queries), queries: all.slice(0, queries), floors: usualFloors }
  }
}
