import type { Metric } from '../../../src/base/point.ts'

/** `depth` entries per query, ascending by distance. Euclidean distances are squared. */
export interface NearestLists {
  readonly ids: Uint32Array
  readonly distances: Float64Array
}

type Distance = (a: Float32Array, at: number, b: Float32Array, bt: number, n: number) => number

/** Distances in plain JavaScript with 64-bit sums. They share no code with the measured libraries. */
export const distanceOf: Readonly<Record<Metric, Distance>> = { Euclidean, Cosine, Manhattan, Hamming }

/** Inserts a row into the sorted list of the `depth` nearest that begins at `start`, if it is nearer than the last. */
export function insertNear(
  ids: Uint32Array,
  distances: Float64Array,
  start: number,
  depth: number,
  id: number,
  far: number,
): void {
  let place = start + depth - 1
  if (!(far < distances[place]!)) return
  for (; place > start && distances[place - 1]! > far; place -= 1) {
    ids[place] = ids[place - 1]!
    distances[place] = distances[place - 1]!
  }
  ids[place] = id
  distances[place] = far
}

/** Uses four sums, because additions to a single sum would have to wait for each other. */
function Euclidean(a: Float32Array, at: number, b: Float32Array, bt: number, n: number): number {
  let s0 = 0
  let s1 = 0
  let s2 = 0
  let s3 = 0
  let i = 0
  for (; i + 3 < n; i += 4) {
    const d0 = a[at + i]! - b[bt + i]!
    const d1 = a[at + i + 1]! - b[bt + i + 1]!
    const d2 = a[at + i + 2]! - b[bt + i + 2]!
    const d3 = a[at + i + 3]! - b[bt + i + 3]!
    s0 += d0 * d0
    s1 += d1 * d1
    s2 += d2 * d2
    s3 += d3 * d3
  }
  for (; i < n; i += 1) s0 += (a[at + i]! - b[bt + i]!) ** 2
  return s0 + s1 + s2 + s3
}

function Cosine(a: Float32Array, at: number, b: Float32Array, bt: number, n: number): number {
  let ab = 0
  let aa = 0
  let bb = 0
  for (let i = 0; i < n; i += 1) {
    const x = a[at + i]!
    const y = b[bt + i]!
    ab += x * y
    aa += x * x
    bb += y * y
  }
  return aa === 0 || bb === 0 ? 1 : 1 - ab / Math.sqrt(aa * bb)
}

function Manhattan(a: Float32Array, at: number, b: Float32Array, bt: number, n: number): number {
  let sum = 0
  for (let i = 0; i < n; i += 1) sum += Math.abs(a[at + i]! - b[bt + i]!)
  return sum
}

function Hamming(a: Float32Array, at: number, b: Float32Array, bt: number, n: number): number {
  let differing = 0
  for (let i = 0; i < n; i += 1) differing += a[at + i] === b[bt + i] ? 0 : 1
  return differing
}
