import { distanceMetrics, type Metric } from '../base/point.ts'
import { CODES_COSINE, CODES_EUCLIDEAN, ROWS_KIND } from '../kernels/memory-format.ts'
import { efMax, type SegmentLayout } from './segment.ts'

/** How a query is searched: the graph, the distance kind, and the multiple of its ef. */
export interface Route {
  readonly graph: number
  /** The walk's distance kind; see `distanceKindOf`. */
  readonly distanceKind: number
  /** The beam is this many times as wide as ef. */
  readonly efMultiplier: number
}

/** What a graph's distances are computed from: the integer codes of the vectors, or the vectors themselves. */
export type DistanceSource = 'codes' | 'rows'

/**
 * Returns the distance kind that orders slots as a metric does. It uses codes if `distanceSource` requests them, the
 * segment has them and they can express the metric. Otherwise it uses the float32 rows.
 */
export function distanceKindOf(
  metric: Metric,
  { codeBytes, rows }: SegmentLayout,
  distanceSource: DistanceSource = 'codes',
): number {
  // Only codes are in memory, so metrics that they cannot express use the Euclidean order.
  if (rows === 0) return metric === 'Cosine' ? CODES_COSINE : CODES_EUCLIDEAN
  if (distanceSource === 'codes' && codeBytes > 0) {
    if (metric === 'Euclidean') return CODES_EUCLIDEAN
    if (metric === 'Cosine') return CODES_COSINE
  }
  return ROWS_KIND + distanceMetrics.indexOf(metric)
}

/** Whether a distance kind computes distances from codes. */
export function isOnCodes(distanceKind: number): boolean {
  return distanceKind < ROWS_KIND
}

/** The metric that each graph uses to select its links. */
export const graphDistanceMetrics: readonly Metric[] = ['Euclidean', 'Cosine']

/**
 * Returns the routes of a metric through the graphs that are ready, the cheapest first. The Euclidean graph serves
 * every metric; Cosine uses its own graph if there is one. A walk on rows takes about four times as long as one on
 * codes.
 *
 * @param distanceSources the distance source of each graph
 */
export function routesFor(
  metric: Metric,
  layout: SegmentLayout,
  ready: readonly boolean[],
  distanceSources: readonly (DistanceSource | undefined)[] = [],
): Route[] {
  const graph = metric === 'Cosine' && ready[1] ? 1 : 0
  if (!ready[graph]) return []
  const onRows = distanceKindOf(metric, layout, 'rows')
  const usual = distanceKindOf(metric, layout, distanceSources[graph])
  const routes = [usual, onRows].flatMap((distanceKind) =>
    efMultipliers.map((efMultiplier) => ({
      graph,
      distanceKind,
      efMultiplier,
      cost: efMultiplier * (isOnCodes(distanceKind) ? 1 : 4),
    })),
  )
  return routes
    .slice(0, usual === onRows ? efMultipliers.length : routes.length)
    .toSorted((a, b) => a.cost - b.cost)
    .map(({ cost, ...route }) => route)
}

/**
 * Whether a graph search with a beam of this breadth costs less than a scan of all points. A walk compares about twenty
 * vectors, at random addresses, for each place of its beam.
 */
export function isCheaperThanScan(breadth: number, points: number): boolean {
  return breadth * scanFactor <= points
}

const scanFactor = 4

export const efMultiplierMax = 16
const efMultipliers = [1, 2, 4, 8, efMultiplierMax]

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
export function reachEnd(ef: number, reach: number): WalkEnd {
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

/** Whether walks can order slots as a metric does. With rows on disk, only codes can. */
export function isExpressed(metric: Metric, { rows }: SegmentLayout): boolean {
  return rows !== 0 || graphDistanceMetrics.includes(metric)
}

/** Pools of 4 and of 16 times `ef` have the same recall and speed on the sets of docs/decisions/index.md. */
const widthFactor = 4
const widthMin = 64
