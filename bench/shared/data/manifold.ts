import { GaussianRandom } from './gaussian-random.ts'

/**
 * Clustered points on a curved low-dimensional surface in a high-dimensional space, similar to embeddings. With
 * independent random components, all distances would be nearly equal. No index performs well on such data, and no model
 * produces it.
 *
 *   cluster centre c ~ N(0, 1)^latent             one of `clusters`
 *   position       z = c + spread * N(0, 1)^latent
 *   surface        x = W2 tanh(W1 z + b)           W1: hidden x latent, W2: dimension x hidden, N(0, 1 / inputs)
 *   point          p = x + noise * |x| * N(0, 1 / dimension)^dimension, scaled to unit length
 *
 * A row depends only on the seed and its number, so the first n rows of a larger set equal the set of n rows.
 */
export interface Manifold {
  readonly dimension: number
  readonly latent: number
  readonly hidden: number
  readonly clusters: number
  readonly spread: number
  readonly noise: number
  readonly seed: number
}

/** Queries are the rows from this number on: from the same surface and clusters, but never among the base rows. */
export const firstQueryRow = 0x4000_0000

/** Fills `rows` with the rows numbered from `first`. */
export function fillManifold(manifold: Manifold, first: number, rows: Float32Array): void {
  const { dimension, latent, hidden, clusters, spread, noise, seed } = manifold
  const shape = new GaussianRandom(seed, -1)
  const inner = shape.fill(new Float64Array(hidden * latent), innerGain / Math.sqrt(latent))
  const bias = shape.fill(new Float64Array(hidden), 1)
  const outer = shape.fill(new Float64Array(dimension * hidden), 1 / Math.sqrt(hidden))
  const centres = shape.fill(new Float64Array(clusters * latent), 1)
  const position = new Float64Array(latent)
  const activation = new Float64Array(hidden)
  const point = new Float64Array(dimension)
  for (let row = 0; row * dimension < rows.length; row += 1) {
    const random = new GaussianRandom(seed, first + row)
    const centre = Math.floor(random.uniform() * clusters) * latent
    for (let index = 0; index < latent; index += 1) {
      position[index] = centres[centre + index]! + spread * random.next()
    }
    for (let index = 0; index < hidden; index += 1) {
      activation[index] = Math.tanh(dot(inner, index * latent, position) + bias[index]!)
    }
    for (let index = 0; index < dimension; index += 1) point[index] = dot(outer, index * hidden, activation)
    const jitter = (noise * length(point)) / Math.sqrt(dimension)
    for (let index = 0; index < dimension; index += 1) point[index]! += jitter * random.next()
    const scale = 1 / length(point)
    for (let index = 0; index < dimension; index += 1) rows[row * dimension + index] = point[index]! * scale
  }
}

/** Enough to bend the surface within a cluster, but not enough to fold it onto itself. */
const innerGain = 0.7

function dot(matrix: Float64Array, from: number, vector: Float64Array): number {
  let sum = 0
  for (let index = 0; index < vector.length; index += 1) sum += matrix[from + index]! * vector[index]!
  return sum
}

function length(vector: Float64Array): number {
  return Math.sqrt(dot(vector, 0, vector))
}
