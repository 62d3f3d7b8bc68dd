import type { Metric } from '../base/point.ts'

/**
 * The distances in plain TypeScript. This is their definition, and the reference for the WebAssembly kernels.
 * All arithmetic is float64 over the float32 components. Both vectors have the same length.
 */

/** Returns the distance by a metric; lower is nearer. Euclidean distances are squared, which keeps their order. */
export function scalarDistance(metric: Metric, a: Float32Array, b: Float32Array): number {
  if (metric === 'Cosine') return cosine(a, b)
  let sum = 0
  for (let index = 0; index < a.length; index += 1) {
    const difference = a[index]! - b[index]!
    if (metric === 'Euclidean') sum += difference * difference
    else if (metric === 'Manhattan') sum += Math.abs(difference)
    else if (a[index] !== b[index]) sum += 1
  }
  return sum
}

/**
 * Returns the distances of a vector to some rows, with the bits of `scalarDistance`. In a sum, each addition waits for
 * the one before: the sums of four rows side by side take half as long as one after another.
 */
export function scalarDistances(
  metric: Metric,
  a: Float32Array,
  rows: readonly Float32Array[],
): Float64Array {
  const distances = new Float64Array(rows.length)
  const norm = metric === 'Cosine' ? scalarSquaredNorm(a) : 0
  let at = 0
  for (; metric === 'Cosine' && at + 4 <= rows.length; at += 4) fourCosines(a, norm, rows, at, distances)
  for (; at < rows.length; at += 1) distances[at] = scalarDistance(metric, a, rows[at]!)
  return distances
}

function fourCosines(
  a: Float32Array,
  aa: number,
  rows: readonly Float32Array[],
  at: number,
  distances: Float64Array,
): void {
  const [b, c, d, e] = [rows[at]!, rows[at + 1]!, rows[at + 2]!, rows[at + 3]!]
  let [bb, cc, dd, ee] = [0, 0, 0, 0]
  let [ab, ac, ad, ae] = [0, 0, 0, 0]
  for (let index = 0; index < a.length; index += 1) {
    const one = a[index]!
    const ofB = b[index]!
    const ofC = c[index]!
    const ofD = d[index]!
    const ofE = e[index]!
    bb += ofB * ofB
    cc += ofC * ofC
    dd += ofD * ofD
    ee += ofE * ofE
    ab += one * ofB
    ac += one * ofC
    ad += one * ofD
    ae += one * ofE
  }
  distances[at] = cosineOf(aa, bb, ab)
  distances[at + 1] = cosineOf(aa, cc, ac)
  distances[at + 2] = cosineOf(aa, dd, ad)
  distances[at + 3] = cosineOf(aa, ee, ae)
}

/** Returns the sum of the squared components. */
export function scalarSquaredNorm(a: Float32Array): number {
  return dot(a, a)
}

/**
 * Returns 1 - cos(a, b); 1 if either is the zero vector. One root of the product keeps parallel integer vectors exact.
 */
function cosine(a: Float32Array, b: Float32Array): number {
  let [aa, bb, ab] = [0, 0, 0]
  for (let index = 0; index < a.length; index += 1) {
    const one = a[index]!
    const other = b[index]!
    aa += one * one
    bb += other * other
    ab += one * other
  }
  return cosineOf(aa, bb, ab)
}

function cosineOf(aa: number, bb: number, ab: number): number {
  const normProduct = aa * bb
  return normProduct === 0 ? 1 : 1 - ab / Math.sqrt(normProduct)
}

/** The integer codes of a vector, as assembly/codes.ts writes them, component by component. */
interface ScalarCodes {
  readonly scale: number
  readonly codes: readonly number[]
}

/** Encodes a vector by its own scale, in -levels..levels. If the scale has no finite inverse, all codes are zero. */
export function scalarCodes(vector: Float32Array, levels: number): ScalarCodes {
  const most = Math.fround(vector.reduce((greatest, value) => Math.max(greatest, Math.abs(value)), 0))
  const inverse = Math.fround(levels / most)
  if (most === 0 || inverse === Number.POSITIVE_INFINITY) return { scale: 0, codes: [...vector].map(() => 0) }
  const codes = [...vector].map((value) => roundToEven(Math.fround(value * inverse)))
  return { scale: Math.fround(most / levels), codes }
}

/** Returns four-bit codes in -7..7. Components of 1 / `clipping` of the greatest or more are clipped to the code 7. */
export function scalarNibbles(vector: Float32Array, clipping: number): number[] {
  const most = Math.fround(vector.reduce((greatest, value) => Math.max(greatest, Math.abs(value)), 0))
  const factor = Math.fround(Math.fround(7 / most) * clipping)
  if (most === 0 || factor === Number.POSITIVE_INFINITY) return [...vector].map(() => 0)
  return [...vector].map((value) => Math.max(-7, Math.min(7, roundToEven(Math.fround(value * factor)))) + 0)
}

function roundToEven(value: number): number {
  const below = Math.floor(value)
  const rest = value - below
  if (rest !== 0.5) return Math.round(value) + 0
  return below % 2 === 0 ? below : below + 1
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0
  for (let index = 0; index < a.length; index += 1) sum += a[index]! * b[index]!
  return sum
}
