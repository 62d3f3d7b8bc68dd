import { distanceMetrics, type Metric } from '../base/point.ts'
import { CODES_COSINE, CODES_EUCLIDEAN, ROWS_KIND } from '../kernels/memory-format.ts'
import type { SegmentLayout } from './segment.ts'

/** How a query is searched: in which graph, by which distance kind, and with which multiple of its ef. */
export interface Route {
  readonly graph: number
  /** What the walk computes distances from, as `distanceKindOf` numbers it. */
  readonly distanceKind: number
  /** The beam is this many times ef. */
  readonly efMultiplier: number
}

/** What a graph's distances are computed from: integer codes of the vectors, or the vectors themselves. */
export type DistanceSource = 'codes' | 'rows'

/**
 * The distance kind that orders slots as a metric does: codes if `distanceSource` says so, there are codes and they can express the
 * metric; the float32 rows otherwise.
 */
export function distanceKindOf(
  metric: Metric,
  { codeBytes, rows }: SegmentLayout,
  distanceSource: DistanceSource = 'codes',
): number {
  // Only codes are in memory: metrics that they cannot express use their Euclidean order.
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

/** The metric by which each graph selects its links. */
export const graphDistanceMetrics: readonly Metric[] = ['Euclidean', 'Cosine']

/**
 * The routes of a metric's searches through the graphs that are ready, the cheapest first. The Euclidean graph serves every
 * metric; Cosine has its own where there is one. A walk on rows takes about four times as long as one on codes.
 *
 * @param distanceSources what each graph's distances are computed from
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
 * vectors for each place of its beam, at random addresses.
 */
export function isCheaperThanScan(breadth: number, points: number): boolean {
  return breadth * scanFactor <= points
}

const scanFactor = 4

export const efMultiplierMax = 16
const efMultipliers = [1, 2, 4, 8, efMultiplierMax]
