/**
 * Vectors as embeddings are: many components that follow from few. Each lies near one of several centres, off
 * it along a handful of directions that all vectors share, with a little noise on top.
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

/** The same one by one: each call gives another vector of the same clusters. */
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

/** By Box and Muller. */
export function normal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
}
