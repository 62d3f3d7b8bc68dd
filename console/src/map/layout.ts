/**
 * Places points in the plane from their nearest neighbours alone, with UMAP (McInnes, Healy, Melville 2018). UMAP
 * attracts neighbours and repels random other points.
 *
 * Departures from the paper:
 * 1. The exponent b of the curve is 1.
 * 2. The initial layout comes from a power iteration of two vectors instead of an eigensolver.
 * 3. The random numbers have a fixed seed, so that the same points produce the same picture.
 */

/** The numbers and distances of `k` neighbours of each point. Where a point has fewer, the number is -1. */
export interface Neighbours {
  readonly count: number
  readonly k: number
  readonly ids: Int32Array
  readonly distances: Float32Array
}

/** The pairs of neighbours, each once, with a weight from 0 to 1. */
export interface Pairs {
  readonly from: Int32Array
  readonly to: Int32Array
  readonly weight: Float32Array
}

/**
 * The parameter of the paper's curve 1 / (1 + a x^2b) with b = 1. This value corresponds to a minimum distance of about
 * 0.2 in the picture. With b = 1, the gradient needs no powers, which would take most of the time.
 */
const a = 1.26
const negatives = 5
const startRadius = 10
const powerSteps = 80
/** The paper's limit for one step. It keeps points from being thrown out of the picture. */
const stepMax = 4

export function pairsOf(neighbours: Neighbours): Pairs {
  const { count, k, ids } = neighbours
  const membership = membershipOf(neighbours)
  const from: number[] = []
  const to: number[] = []
  const weight: number[] = []
  for (let point = 0; point < count; point++) {
    for (let place = 0; place < k; place++) {
      const other = ids[point * k + place]!
      if (other < 0) continue
      const back = placeOf(neighbours, other, point)
      // If both name each other, the lower one adds the pair.
      if (back >= 0 && other < point) continue
      const mine = membership[point * k + place]!
      const theirs = back < 0 ? 0 : membership[back]!
      from.push(point)
      to.push(other)
      weight.push(mine + theirs - mine * theirs)
    }
  }
  return { from: Int32Array.from(from), to: Int32Array.from(to), weight: Float32Array.from(weight) }
}

/** The index of `other` in the list of `point`, or -1. */
function placeOf({ k, ids }: Neighbours, point: number, other: number): number {
  for (let place = point * k; place < (point + 1) * k; place++) if (ids[place] === other) return place
  return -1
}

/**
 * The membership of each neighbour, as in the paper: 1 for the nearest, and falling with distance so that the sum
 * depends only on the number of neighbours found.
 */
function membershipOf({ count, k, ids, distances }: Neighbours): Float32Array {
  const membership = new Float32Array(count * k)
  for (let point = 0; point < count; point++) {
    const start = point * k
    const nearest = nearestIn(start)
    // Count only the neighbours found: others may be outside the sample.
    const target = Math.log2(foundIn(start) + 1)
    const near = (place: number, sigma: number): number =>
      Math.exp(-Math.max(0, distances[place]! - nearest) / sigma)
    const sumFor = (sigma: number): number => {
      let sum = 0
      for (let place = start; place < start + k; place++) if (ids[place]! >= 0) sum += near(place, sigma)
      return sum
    }
    let low = 0
    let high = 1
    while (sumFor(high) < target && high < 1e12) high *= 2
    for (let step = 0; step < 40; step++) {
      const middle = (low + high) / 2
      if (sumFor(middle) < target) low = middle
      else high = middle
    }
    for (let place = start; place < start + k; place++) {
      if (ids[place]! >= 0) membership[place] = near(place, Math.max(high, 1e-12))
    }
  }
  return membership

  function foundIn(start: number): number {
    let found = 0
    for (let place = start; place < start + k; place++) if (ids[place]! >= 0) found++
    return found
  }

  function nearestIn(start: number): number {
    let least = Number.POSITIVE_INFINITY
    for (let place = start; place < start + k; place++)
      if (ids[place]! >= 0) least = Math.min(least, distances[place]!)
    return least
  }
}

/**
 * The initial positions: the two leading eigenvectors of the neighbour graph after the trivial one, plus some noise.
 */
export function startOf(count: number, pairs: Pairs, random: () => number): Float32Array {
  const degree = new Float64Array(count).fill(1e-9)
  for (let pair = 0; pair < pairs.from.length; pair++) {
    degree[pairs.from[pair]!]! += pairs.weight[pair]!
    degree[pairs.to[pair]!]! += pairs.weight[pair]!
  }
  const constant = normalized(degree.map(Math.sqrt))
  const found: Float64Array[] = [constant]
  for (let axis = 0; axis < 2; axis++) {
    let vector = normalized(Float64Array.from({ length: count }, () => random() - 0.5))
    for (let step = 0; step < powerSteps; step++) {
      vector = spread(vector, pairs, degree)
      for (const other of found) removePart(vector, other)
      vector = normalized(vector)
    }
    found.push(vector)
  }
  const positions = new Float32Array(count * 2)
  for (let axis = 0; axis < 2; axis++) {
    const vector = found[axis + 1]!
    const largest = vector.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12)
    for (let point = 0; point < count; point++) {
      positions[point * 2 + axis] = (vector[point]! / largest) * startRadius + (random() - 0.5)
    }
  }
  return positions
}

/** One step of the power iteration. A point keeps half of its value, so that all eigenvalues stay non-negative. */
function spread(
  vector: Float64Array,
  { from, to, weight }: Pairs,
  degree: Float64Array,
): Float64Array<ArrayBuffer> {
  const next = Float64Array.from(vector)
  for (let pair = 0; pair < from.length; pair++) {
    const one = from[pair]!
    const other = to[pair]!
    const share = weight[pair]! / Math.sqrt(degree[one]! * degree[other]!)
    next[one]! += share * vector[other]!
    next[other]! += share * vector[one]!
  }
  return next
}

function removePart(vector: Float64Array, other: Float64Array): void {
  let product = 0
  for (let index = 0; index < vector.length; index++) product += vector[index]! * other[index]!
  for (let index = 0; index < vector.length; index++) vector[index]! -= product * other[index]!
}

function normalized(vector: Float64Array): Float64Array<ArrayBuffer> {
  let squares = 0
  for (const value of vector) squares += value * value
  const length = Math.sqrt(squares) || 1
  return vector.map((value) => value / length)
}

/** Moves the points in place, epoch by epoch. Yields the completed share after each epoch. */
export function* arrange(positions: Float32Array, pairs: Pairs, random: () => number): Generator<number> {
  const epochs = positions.length / 2 > 10_000 ? 200 : 400
  const most = pairs.weight.reduce((largest, value) => Math.max(largest, value), 1e-12)
  // A pair is attracted in proportion to its weight: the heaviest in every epoch, others less often.
  const every = pairs.weight.map((value) => most / Math.max(value, most / epochs))
  const due = Float32Array.from(every)
  let state = Math.floor(random() * 0x1_0000_0000) | 1
  for (let epoch = 1; epoch <= epochs; epoch++) {
    state = moveOnce(positions, pairs, { epoch, every, due, rate: 1 - (epoch - 1) / epochs, state })
    yield epoch / epochs
  }
}

interface Epoch {
  readonly epoch: number
  /** By pair, the number of epochs between two attractions. */
  readonly every: Float32Array
  /** By pair, the epoch of its next attraction. */
  readonly due: Float32Array
  readonly rate: number
  /** The state of the random numbers. */
  readonly state: number
}

/**
 * Runs one epoch. Nearly all of the time is spent here, so the random numbers are generated inline.
 *
 * @returns the next state of the random numbers
 */
function moveOnce(
  positions: Float32Array,
  { from, to }: Pairs,
  { epoch, every, due, rate, state }: Epoch,
): number {
  const scale = positions.length / 2 / 0x1_0000_0000
  let bits = state
  for (let pair = 0; pair < from.length; pair++) {
    if (due[pair]! > epoch) continue
    due[pair]! += every[pair]!
    const one = from[pair]! * 2
    attract(positions, one, to[pair]! * 2, rate)
    for (let drawn = 0; drawn < negatives; drawn++) {
      bits ^= bits << 13
      bits ^= bits >>> 17
      bits ^= bits << 5
      repel(positions, one, 2 * (((bits >>> 0) * scale) | 0), rate)
    }
  }
  return bits
}

function attract(positions: Float32Array, one: number, other: number, rate: number): void {
  const x = positions[one]! - positions[other]!
  const y = positions[one + 1]! - positions[other + 1]!
  const force = (-2 * a) / (1 + a * (x * x + y * y))
  const stepX = limited(force * x) * rate
  const stepY = limited(force * y) * rate
  positions[one]! += stepX
  positions[one + 1]! += stepY
  positions[other]! -= stepX
  positions[other + 1]! -= stepY
}

function repel(positions: Float32Array, one: number, other: number, rate: number): void {
  if (one === other) return
  const x = positions[one]! - positions[other]!
  const y = positions[one + 1]! - positions[other + 1]!
  const square = x * x + y * y
  const force = 2 / ((0.001 + square) * (1 + a * square))
  positions[one]! += (square === 0 ? stepMax : limited(force * x)) * rate
  positions[one + 1]! += (square === 0 ? stepMax : limited(force * y)) * rate
}

function limited(step: number): number {
  return Math.max(-stepMax, Math.min(stepMax, step))
}

/** Marsaglia's xorshift32. @returns numbers from 0 to 1 */
export function randomFrom(seed: number): () => number {
  let state = seed | 0
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 0x1_0000_0000
  }
}
