import { type GraphThread, graphMetrics, type MeasuredOn, measureOf } from './graph.ts'
import type { SegmentHandle } from './segment.ts'

/** Of the true nearest, the share that each measure puts among as many as a search would measure exactly. */
export type MeasureRecall = Readonly<Partial<Record<MeasuredOn, number>>>

/**
 * Whether distances by codes, and by float32 rows, tell the points of a segment apart: where one component, a few outliers or a
 * common offset are thousands of times as large as all else, codes of them are all but equal, and a graph over them is no
 * more than chance. Lengths beyond what float32 can square leave nothing to choose by in rows either.
 *
 * For each asked-for slot the nearest of `others` are found by the distance as it is defined; the share of them that are among the
 * `ranked` nearest by a measure is what a graph can find at best with it, however well it is linked.
 *
 * @param graph whose metric is checked
 * @param asked local slots whose rows are in memory, of `others`
 * @param others local slots to choose from
 */
export function checkMeasures(
  { layout }: SegmentHandle,
  thread: GraphThread,
  graph: number,
  asked: readonly number[],
  others: readonly number[],
): MeasureRecall {
  const metric = graphMetrics[graph]!
  // Codes are made when a slot is linked, and most of these are not yet.
  thread.encode(others)
  const recalls: Partial<Record<MeasuredOn, number>> = {}
  const exact = asked.map((slot) =>
    Float64Array.from(others, (other) => thread.exactDistance(slot, other, metric)),
  )
  for (const on of layout.codeBytes > 0 ? (['codes', 'rows'] as const) : (['rows'] as const)) {
    const measure = measureOf(metric, layout, on)
    const shares = asked.map((slot, at) => shareOf(exact[at]!, thread.distances(slot, others, measure)))
    recalls[on] = shares.reduce((sum, share) => sum + share, 0) / shares.length
  }
  return recalls
}

/** Of the `nearest` by exact distance, as many as are among the `ranked` first by the measured one; which of equals is as good. */
function shareOf(exact: Float64Array, measured: Float32Array): number {
  const wanted = Math.min(nearest, exact.length)
  const farthest = exact.toSorted()[wanted - 1]!
  // Ties in no order that has to do with the distance: by number, that of their insertion.
  const first = [...measured.keys()].sort((a, b) => measured[a]! - measured[b]! || a - b).slice(0, ranked)
  const found = first.filter((at) => exact[at]! <= farthest).length
  return Math.min(found, wanted) / wanted
}

/** With the point itself. */
const nearest = 11
/** What a search for ten measures exactly at the default ef. */
const ranked = 42
