import type { SourceRecall } from '../index/distance-source-check.ts'
import { type DistanceSource, distanceKindOf, graphDistanceMetrics } from '../index/routes.ts'
import { graphsPerSegment, type SegmentHandle, type SegmentLayout } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'

/** The slots for a check of a graph's distance sources. */
export interface SourceSample {
  readonly ordinal: number
  /** Local slots. */
  readonly queries: readonly number[]
  readonly others: readonly number[]
}

/** What a graph's distances are computed from, or why there is no graph. */
export type GraphDistanceSource = DistanceSource | 'nothing' | undefined

/**
 * What each graph's distances are computed from: codes if they distinguish the points, otherwise float32 rows if those
 * do. If neither does, the source is 'nothing' and there is no graph. A check decides this (distance-source-check.ts)
 * when a graph is started, and again each time the collection has grown to four times its size.
 */
export class GraphDistanceSources {
  readonly #chosen: GraphDistanceSource[] = Array.from({ length: graphsPerSegment }, () => undefined)
  /** The number of points at the last check of each graph; 0 if there were too few for a check. */
  readonly #checkedAt: number[] = Array.from({ length: graphsPerSegment }, () => 0)

  /** What each graph's distances are computed from; undefined for graphs that do not exist. */
  get active(): readonly (DistanceSource | undefined)[] {
    return this.#chosen.map((on) => (on === 'nothing' ? undefined : on))
  }

  /** The decision for each graph; undefined if there is none yet. */
  get chosen(): readonly GraphDistanceSource[] {
    return this.#chosen
  }

  isActive(graph: number): boolean {
    return this.#chosen[graph] !== undefined && this.#chosen[graph] !== 'nothing'
  }

  /** Returns the kernels' number of the distance kind by which an existing graph selects its links. */
  linkDistanceKind(graph: number, layout: SegmentLayout): number {
    return distanceKindOf(graphDistanceMetrics[graph]!, layout, this.active[graph])
  }

  /** Whether a graph's distance source should be checked, now that there are this many points. */
  isCheckDue(graph: number, points: number, layout: SegmentLayout): boolean {
    if (layout.rows === 0 || points < checkedMin) return false
    return points >= this.#checkedAt[graph]! * checkedGrowth
  }

  choose(graph: number, on: GraphDistanceSource, points: number): void {
    this.#chosen[graph] = on
    this.#checkedAt[graph] = points
  }
}

/**
 * Chooses a distance source by the recall of a check. Codes win if they are good enough, because they are faster to
 * read.
 */
export function bestSource({ codes = 0, rows = 0 }: SourceRecall): DistanceSource | 'nothing' {
  if (codes >= recallMin) return 'codes'
  // If rows are no better, codes that find some of the nearest points are still usable with a wider walk.
  if (rows < recallMin && rows <= codes && codes >= usableMin) return 'codes'
  return rows >= usableMin ? 'rows' : 'nothing'
}

/**
 * Chooses some slots as queries and more to choose neighbours from, evenly spread over the segment with the most slots.
 *
 * @returns undefined if too few slots are live
 */
export function sampleForCheck(
  index: VectorIndex,
  segments: readonly SegmentHandle[],
): SourceSample | undefined {
  const { capacity, paddedDimension } = index.layout
  const slotsOf = ({ firstSlot }: SegmentHandle): number => Math.min(capacity, index.slotCount - firstSlot)
  const [segment] = segments.toSorted((a, b) => slotsOf(b) - slotsOf(a))
  if (segment === undefined) return undefined
  const most = Math.max(othersMin, Math.min(othersMax, Math.floor(componentsMax / paddedDimension)))
  const step = Math.max(1, slotsOf(segment) / most)
  const others: number[] = []
  for (let at = 0; at < slotsOf(segment); at += step) {
    const local = Math.floor(at)
    if (index.isLive(segment.firstSlot + local)) others.push(local)
  }
  const queries = others.filter((_, at) => at % Math.ceil(others.length / queriesMax) === 0)
  return others.length < othersMin ? undefined : { ordinal: segment.ordinal, queries, others }
}

/** With fewer points, any graph is good enough. */
const checkedMin = 512
const checkedGrowth = 4
const queriesMax = 24
const othersMin = 128
const othersMax = 8192
/** Components of all sampled points: computing their distances takes at most a few hundred milliseconds. */
const componentsMax = 4_194_304
/** A distance source that finds a smaller share of the true nearest points is worth replacing by a slower one. */
const recallMin = 0.95
/** Below this share, a graph is no better than chance. */
const usableMin = 0.5
