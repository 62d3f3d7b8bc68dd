import { graphBytesMin } from '../../src/graphs/graph-set.ts'
import { clusteredVectors, normal } from '../support/clusters.ts'
import { seededRandom } from '../support/random.ts'

/** Vectors that benchmarks lack: raw data that nobody has scaled, cleaned or inspected. */
export interface HardSet {
  readonly dimension: number
  /** Whether all distance sums are exact in float64, so that equal distances have equal bits. */
  readonly isWhole?: boolean
  readonly make: (random: () => number, count: number, dimension: number) => Float32Array[]
}

export const hardSets: Readonly<Record<string, HardSet>> = {
  /** The control set: vectors like embeddings. */
  ordinary: { dimension: 64, make: clusteredVectors },

  line: { dimension: 64, make: (random, count, dimension) => along(random, count, dimension, 0) },
  'line-off-origin': {
    dimension: 64,
    make: (random, count, dimension) => along(random, count, dimension, 100),
  },
  'line-in-order': {
    dimension: 64,
    make: (random, count, dimension) => inOrder(along(random, count, dimension, 0)),
  },
  lattice: { dimension: 64, isWhole: true, make: lattice },
  'zeros-and-ones': { dimension: 64, isWhole: true, make: each((random) => Math.floor(random() * 2)) },
  ternary: { dimension: 64, isWhole: true, make: each((random) => Math.floor(random() * 3) - 1) },
  bytes: { dimension: 64, isWhole: true, make: each((random) => Math.floor(random() * 256)) },
  'two-clusters': { dimension: 64, make: twoClusters },
  'many-clusters': { dimension: 64, make: manyClusters },
  outliers: {
    dimension: 64,
    make: changed(each(uniform), (vector, random) => scaled(vector, random() < 0.01 ? 1e6 : 1)),
  },
  'one-outlier': {
    dimension: 64,
    make: changed(each(uniform), (vector, _, index) => scaled(vector, index === 1 ? 1e6 : 1)),
  },
  'dominant-component': {
    dimension: 64,
    make: changed(each(uniform), (vector) => vector.map((value, at) => (at === 0 ? value * 1e6 : value))),
  },
  'constant-component': {
    dimension: 64,
    make: changed(each(uniform), (vector) => vector.map((value, at) => (at === 0 ? 1000 : value))),
  },
  spikes: {
    dimension: 64,
    make: changed(each(uniform), (vector, random) => {
      const spike = Math.floor(random() * vector.length)
      return vector.map((value, at) => (at === spike ? 1e4 : value))
    }),
  },
  'all-equal': { dimension: 64, make: each(() => 0.3) },
  'one-dimension': { dimension: 1, make: each(uniform) },
  'two-dimensions': { dimension: 2, make: each(uniform) },
  denormals: { dimension: 64, make: each((random) => uniform(random) * 1e-40) },
  'length-1e-38': { dimension: 64, make: changed(each(normal), (vector) => ofLength(vector, 1e-38)) },
  'length-5e37': { dimension: 64, make: changed(each(normal), (vector) => ofLength(vector, 5e37)) },
  'mixed-scales': {
    dimension: 64,
    make: changed(each(uniform), (vector) =>
      vector.map((value, at) => value * 10 ** (12 * (at / (vector.length - 1)) - 6)),
    ),
  },
  'powers-of-two': {
    dimension: 64,
    make: each((random) => Math.sign(random() - 0.5) * 2 ** Math.floor(random() * 40 - 20)),
  },
  'heavy-tails': {
    dimension: 64,
    make: changed(each(normal), (vector, random) => ofLength(vector, (1 - random()) ** -2)),
  },
  'narrow-cone': {
    dimension: 64,
    make: changed(each(normal), (vector, random) => {
      const length = 1 + 9 * random()
      return vector.map((value, at) => length * ((at === 0 ? 100 : 0) + value))
    }),
  },
  negative: { dimension: 64, make: each((random) => Math.log(1 - random()) - 0.01) },
  'huge-offset': { dimension: 64, make: each((random) => 10_000 + 0.02 * normal(random)) },
  'far-sphere': {
    dimension: 64,
    make: changed(each(normal), (vector) => ofLength(vector, 1).map((value) => value + 125)),
  },
  sparse: { dimension: 64, make: each((random) => (random() < 0.05 ? normal(random) : 0)) },
  'one-hot': {
    dimension: 64,
    isWhole: true,
    make: (random, count, dimension) =>
      Array.from({ length: count }, () => {
        const one = Math.floor(random() * dimension)
        return new Float32Array(dimension).map((_, at) => (at === one ? 1 : 0))
      }),
  },
  'half-zeros': {
    dimension: 64,
    make: changed(each(uniform), (vector, random) => scaled(vector, random() < 0.5 ? 0 : 1)),
  },
  repeated: { dimension: 64, make: (random, count, dimension) => copies(random, count, dimension, 0) },
  'near-repeated': {
    dimension: 64,
    make: (random, count, dimension) => copies(random, count, dimension, 1e-6),
  },
  drift: {
    dimension: 64,
    make: (random, count, dimension) => drift(random, count, dimension),
  },
  'curved-surface': { dimension: 64, make: curvedSurface },
  'odd-dimension': { dimension: 77, make: each(normal) },
  'wide-4096': { dimension: 4096, make: clusteredVectors },
  'wide-65535': { dimension: 65_535, make: clusteredVectors },
}

export interface HardVectors {
  readonly points: readonly Float32Array[]
  readonly queries: readonly Float32Array[]
  readonly isWhole: boolean
}

/**
 * Points and queries of a set. The requested number of points is adjusted so that there is a graph and memory suffices.
 * A quarter of the queries are stored points, a quarter are close to one, and the others are drawn like the points.
 */
export function hardVectors(
  name: string,
  options: {
    readonly points: number
    readonly queries: number
    readonly seed: number
    /** Overrides the set's dimension, which is essential for some sets. */
    readonly dimension?: number | undefined
    /** Whether few points have a graph. */
    readonly hasSmallGraphs?: boolean | undefined
  },
): HardVectors {
  const set = hardSets[name]
  if (set === undefined) throw new Error(`${name} is none of ${Object.keys(hardSets).join(', ')}`)
  const { make, isWhole = false } = set
  const dimension = options.dimension ?? set.dimension
  const random = seededRandom(options.seed)
  const rowBytes = Math.ceil(dimension / 16) * 64
  const fewest = options.hasSmallGraphs ? minimumPoints : Math.ceil((1.05 * graphBytesMin) / rowBytes)
  const most = Math.max(minimumPoints, Math.floor(pointBytesMax / rowBytes))
  const count = Math.min(Math.max(options.points, fewest), most)
  const asked = Math.max(8, Math.min(options.queries, Math.floor(comparedMax / (count * dimension))))
  const fresh = Math.ceil(asked / 2)
  const all = make(random, count + fresh, dimension)
  const step = Math.floor(all.length / fresh)
  const isFresh = (index: number): boolean => index % step === 0 && index / step < fresh
  const points = all.filter((_, index) => !isFresh(index))
  const near = Array.from({ length: asked - fresh }, (_, index) => {
    const point = points[Math.floor(random() * points.length)]!
    const other = points[Math.floor(random() * points.length)]!
    // Scale the change by the distance between points, not by their length, which is large far from the origin.
    const change = (value: number, at: number): number =>
      value + 0.02 * (random() - 0.5) * (other[at]! - value)
    return index % 2 === 0 ? point : point.map(change)
  })
  return { points, queries: [...all.filter((_, index) => isFresh(index)), ...near], isWhole }
}

/** Limits the number of points for very wide vectors. */
const pointBytesMax = 64 * 1024 * 1024
const minimumPoints = 256
/** Maximum number of components that exact answers to all queries compare, for one metric. */
const comparedMax = 400_000_000

type Make = HardSet['make']

function uniform(random: () => number): number {
  return 2 * random() - 1
}

/** Vectors whose components are drawn independently. */
function each(draw: (random: () => number) => number): Make {
  return (random, count, dimension) =>
    Array.from({ length: count }, () => {
      const vector = new Float32Array(dimension)
      for (let at = 0; at < dimension; at += 1) vector[at] = draw(random)
      return vector
    })
}

function changed(
  make: Make,
  change: (vector: Float32Array, random: () => number, index: number) => Float32Array,
): Make {
  return (random, count, dimension) =>
    make(random, count, dimension).map((vector, index) => change(vector, random, index))
}

function scaled(vector: Float32Array, factor: number): Float32Array {
  return vector.map((value) => value * factor)
}

function ofLength(vector: Float32Array, length: number): Float32Array {
  return scaled(vector, length / Math.hypot(...vector))
}

/** Points on one line at this distance from the origin. */
function along(random: () => number, count: number, dimension: number, offset: number): Float32Array[] {
  const [direction, away] = each(normal)(random, 2, dimension)
  const from = ofLength(away!, offset)
  return Array.from({ length: count }, () => {
    const place = uniform(random)
    return from.map((value, at) => value + place * direction![at]!)
  })
}

function inOrder(vectors: Float32Array[]): Float32Array[] {
  return vectors.sort((a, b) => a[0]! - b[0]!)
}

/** A complete four-dimensional grid. */
function lattice(random: () => number, count: number, dimension: number): Float32Array[] {
  const side = Math.ceil(count ** 0.25)
  const places = Array.from({ length: count }, (_, index) => index)
  shuffle(places, random)
  return places.map((place) =>
    new Float32Array(dimension).map((_, at) => (at < 4 ? Math.floor(place / side ** at) % side : 0)),
  )
}

function shuffle(list: number[], random: () => number): void {
  for (let at = list.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1))
    const kept = list[at]!
    list[at] = list[other]!
    list[other] = kept
  }
}

function twoClusters(random: () => number, count: number, dimension: number): Float32Array[] {
  return Array.from({ length: count }, () => {
    const side = random() < 0.5 ? -1e4 : 1e4
    return new Float32Array(dimension).map(() => side + normal(random))
  })
}

function manyClusters(random: () => number, count: number, dimension: number): Float32Array[] {
  const centres = each(uniform)(random, 500, dimension)
  return Array.from({ length: count }, () => {
    const centre = centres[Math.floor(random() * centres.length)]!
    return centre.map((value) => value + 0.001 * normal(random))
  })
}

/** About fifty copies of each of a few vectors, with this noise. */
function copies(random: () => number, count: number, dimension: number, noise: number): Float32Array[] {
  const few = each(uniform)(random, Math.ceil(count / 50), dimension)
  return Array.from({ length: count }, () => {
    const one = few[Math.floor(random() * few.length)]!
    return noise === 0 ? one : one.map((value) => value + noise * normal(random))
  })
}

/** A distribution that drifts: later points come from another region. */
function drift(random: () => number, count: number, dimension: number): Float32Array[] {
  const [direction] = each(normal)(random, 1, dimension)
  return Array.from({ length: count }, (_, index) =>
    direction!.map((value) => (20 * value * index) / count + normal(random)),
  )
}

/** sin(p W) with a two-dimensional p: a surface that folds back on itself. */
function curvedSurface(random: () => number, count: number, dimension: number): Float32Array[] {
  const [u, v] = each((next) => next())(random, 2, dimension)
  return Array.from({ length: count }, () => {
    const p = 3 * uniform(random)
    const q = 3 * uniform(random)
    return u!.map((value, at) => Math.sin(p * value + q * v![at]!))
  })
}
