/**
 * Vectors like embeddings, whose many components depend on few variables. Each vector is near one of several centres,
 * offset along a handful of directions that all vectors share, plus a little noise.
 */
export function clusteredVectors(
  random: () => number,
  count: number,
  dimension: number,
  options: ClusterOptions = {},
): Float32Array[] {
  const next = clusteredSource(random, dimension, options)
  return Array.from({ length: count }, next)
}

export interface ClusterOptions {
  readonly clusters?: number
  readonly latent?: number
}

/** Like `clusteredVectors`, one at a time: each call returns a new vector of the same clusters. */
export function clusteredSource(
  random: () => number,
  dimension: number,
  options: ClusterOptions = {},
): () => Float32Array {
  const { clusters = 40, latent = Math.min(12, dimension) } = options
  const direction = (): Float32Array => Float32Array.from({ length: dimension }, () => normal(random))
  const directions = Array.from({ length: latent }, direction)
  const centres = Array.from({ length: clusters }, () =>
    Array.from({ length: latent }, () => 2 * normal(random)),
  )
  return () => {
    const centre = centres[Math.floor(random() * clusters)]!
    const weights = centre.map((each) => each + normal(random))
    const vector = Float32Array.from({ length: dimension }, () => 0.1 * normal(random))
    for (const [index, weight] of weights.entries()) {
      const along = directions[index]!
      for (let at = 0; at < dimension; at += 1) vector[at]! += weight * along[at]!
    }
    return vector
  }
}

/** A normally distributed number, by the Box-Muller method. */
export function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}
