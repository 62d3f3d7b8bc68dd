import type { GraphAccess } from './graph.ts'
import { type DistanceSource, distanceKindOf, graphDistanceMetrics } from './routes.ts'
import type { SegmentHandle } from './segment.ts'

/**
 * For each distance source: the share of the true nearest that are among the first slots, as many as a search reranks.
 */
export type SourceRecall = Readonly<Partial<Record<DistanceSource, number>>>

/**
 * Checks whether distances between codes, and between float32 rows, tell the points of a segment apart. If one
 * component, a few outliers or a common offset is thousands of times as large as everything else, all codes are nearly
 * equal. A graph built on them is then no better than chance. Rows do not help if lengths are too large for float32 to
 * square.
 *
 * For each query, the nearest of `others` are found by exact distance. The share of them that are among the `ranked`
 * nearest by a distance kind is the best recall that a graph with this kind can reach, however well it is linked.
 *
 * @param graph the graph whose metric is checked
 * @param queries local slots, a subset of `others`, whose rows are in memory
 * @param others local slots to search
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

/**
 * Returns the share of the `nearest` by exact distance that are among the first `ranked` by another distance. Slots at
 * equal exact distances are interchangeable.
 */
function shareOf(exact: Float64Array, measured: Float32Array): number {
  const wanted = Math.min(nearest, exact.length)
  const farthest = exact.toSorted()[wanted - 1]!
  // Ties are ordered by position, the order of insertion, which is independent of the distance.
  const first = [...measured.keys()].sort((a, b) => measured[a]! - measured[b]! || a - b).slice(0, ranked)
  const found = first.filter((at) => exact[at]! <= farthest).length
  return Math.min(found, wanted) / wanted
}

/** Ten neighbours and the point itself. */
const nearest = 11
/** The number of slots that a search for ten reranks at the default ef. */
const ranked = 42
