import { distanceMetrics } from '../base/point.ts'
import { ROWS_KIND } from '../kernels/memory-format.ts'
import { efMax } from './segment.ts'

/**
 * Where a walk ends: once a candidate is farther than reach x the k-th distance (Al-Jazzazi et al., arXiv:2505.15636).
 *
 * The reach decides how far each query walks: a difficult one, with many candidates near its k-th, walks longer than an
 * easy one. That finds more for the same work than a pool of `ef` candidates, which is as long for both. How much work
 * a reach costs depends on the vectors, so index threads measure it, for each graph and distance kind: for some breadths
 * (ef / k), the reach at which walks compare as many slots as walks with a pool of `ef`. An `ef` so costs what it did, and
 * finds more. The pool of such a walk is only an upper bound, for queries far from all points.
 *
 * Until it is measured, and for walks with a filter, the pool is `ef` and the reach grows with the breadth. All distance
 * kinds but Manhattan grow as the square of a distance; so do the constants.
 */

/** The breadths at which the reach is measured; between them, it is interpolated over their logarithm. */
export const measuredBreadths: readonly number[] = [1, 4, 16, 64]

/** The number of measured reaches of a graph: for each distance kind, that of each breadth. */
export const reachCount: number = (ROWS_KIND + distanceMetrics.length) * measuredBreadths.length

/** The parameters of a walk that decide where it ends. */
export interface WalkEnd {
  /** The most entries of its pool. */
  readonly width: number
  readonly reach: number
}

/**
 * Returns where a walk ends.
 *
 * @param reaches the measured reaches of the graph
 */
export function walkEnd(reaches: Float32Array, distanceKind: number, ef: number, breadth: number): WalkEnd {
  const first = distanceKind * measuredBreadths.length
  if (reaches[first] === 0) return poolEnd(distanceKind, ef, breadth)
  const place = Math.min(Math.log2(Math.max(1, breadth)) / 2, measuredBreadths.length - 1)
  const low = Math.min(Math.floor(place), measuredBreadths.length - 2)
  const [from, to] = [reaches[first + low]!, reaches[first + low + 1]!]
  return reachEnd(ef, from + (to - from) * (place - low))
}

/** Returns the end of a walk whose length the reach decides. */
function reachEnd(ef: number, reach: number): WalkEnd {
  return { width: Math.min(efMax, Math.max(widthMin, widthFactor * ef)), reach }
}

/**
 * Returns the end of a walk with a pool of `ef`. The constants of its reach are the lowest that lost no recall on the
 * sets of docs/decisions/index.md.
 */
export function poolEnd(distanceKind: number, ef: number, breadth: number): WalkEnd {
  const squared = 1.06 + 0.08 * Math.log2(Math.max(1, breadth))
  const isManhattan = distanceKind === ROWS_KIND + distanceMetrics.indexOf('Manhattan')
  return { width: ef, reach: isManhattan ? Math.sqrt(squared) : squared }
}

/**
 * Measures the reaches of a distance kind.
 *
 * @param k the results of a query
 * @param comparedBy returns how many slots the walks of a sample compare
 */
export function measureReaches(
  distanceKind: number,
  k: number,
  comparedBy: (ef: number, end: WalkEnd) => number,
): number[] {
  return measuredBreadths.map((breadth) => {
    const ef = k * breadth
    const pool = poolEnd(distanceKind, ef, breadth)
    const wanted = comparedBy(ef, pool)
    let [low, high] = [1, pool.reach]
    for (let step = 0; step < bisections; step += 1) {
      const reach = (low + high) / 2
      if (comparedBy(ef, reachEnd(ef, reach)) > wanted) high = reach
      else low = reach
    }
    return low
  })
}

/** Pools of 4 and of 16 times `ef` have the same recall and speed on the sets of docs/decisions/index.md. */
const widthFactor = 4
const widthMin = 64

/** The reach is then known to a hundredth of what it exceeds 1 by. */
const bisections = 7
