import type { GraphAccess } from './graph.ts'
import { type DistanceSource, distanceKindOf, graphDistanceMetrics } from './routes.ts'
import type { SegmentHandle } from './segment.ts'

/** The share of the true nearest that each distance kind ranks among as many as a search would rerank. */
export type SourceRecall = Readonly<Partial<Record<DistanceSource, number>>>

/**
 * Checks whether distances between codes, and between float32 rows, tell the points of a segment apart. Where one component,
 * a few outliers or a common offset are thousands of times as large as all else, all codes are nearly equal, and a graph built
 * on them is no better than chance. Rows do not help where lengths are too large for float32 to square.
 *
 * For each query, the nearest of `others` are found by exact distance. The share of them that are among the `ranked` nearest
 * by a distance kind is the best recall that a graph with this distance kind can reach, however well it is linked.
 *
 * @param graph whose metric is checked
 * @param queries local slots whose rows are in memory, of `others`
 * @param others local slots to choose from
 */
export function checkSources(
  { layout }: SegmentHandle,
  access: GraphAccess,
  graph: number,
  queries: readonly number[],
  others: readonly number[],
): SourceRecall {
  const metric = graphDistanceMetrics[graph]!
  // Slots are encoded when they are linked, and most of these are not linked yet.
  access.encode(others)
  const recalls: Partial<Record<DistanceSource, number>> = {}
  const exact = queries.map((slot) =>
    Float64Array.from(others, (other) => access.exactDistance(slot, other, metric)),
  )
  for (const on of layout.codeBytes > 0 ? (['codes', 'rows'] as const) : (['rows'] as const)) {
    const distanceKind = distanceKindOf(metric, layout, on)
    const shares = queries.map((slot, at) =>
      shareOf(exact[at]!, access.distances(slot, others, distanceKind)),
    )
    recalls[on] = shares.reduce((sum, share) => sum + share, 0) / shares.length
  }
  return recalls
}

/** The share of the `nearest` by exact distance that are among the `ranked` first by a distance kind; equal distances are interchangeable. */
function shareOf(exact: Float64Array, measured: Float32Array): number {
  const wanted = Math.min(nearest, exact.length)
  const farthest = exact.toSorted()[wanted - 1]!
  // Ties are ordered by number, which is the order of insertion and independent of the distance.
  const first = [...measured.keys()].sort((a, b) => measured[a]! - measured[b]! || a - b).slice(0, ranked)
  const found = first.filter((at) => exact[at]! <= farthest).length
  return Math.min(found, wanted) / wanted
}

/** Includes the point itself. */
const nearest = 11
/** What a search for ten reranks at the default ef. */
const ranked = 42
