import { distanceMetrics, type Metric } from '../base/point.ts'
import { CODES_COSINE, CODES_EUCLIDEAN, ROWS_KIND } from '../kernels/memory-format.ts'
import type { SegmentLayout } from './segment.ts'

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
