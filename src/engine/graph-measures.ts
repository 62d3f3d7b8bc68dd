import { graphMetrics, type MeasuredOn, measureOf } from '../index/graph.ts'
import type { MeasureRecall } from '../index/measure-check.ts'
import { graphsPerSegment, type SegmentHandle, type SegmentLayout } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'

/** What a check of a graph's measures asks an index thread. */
export interface MeasureSample {
  readonly ordinal: number
  /** Local slots. */
  readonly queries: readonly number[]
  readonly others: readonly number[]
}

/** What a graph's distances are measured on, or why there is no graph. */
export type GraphMeasure = MeasuredOn | 'nothing' | undefined

/**
 * What the distances of each graph are measured on: codes where they tell the points apart, float32 rows where codes do not, and
 * nothing, which means no graph, where neither does. Decided by measurement (measure-check.ts) when a graph is begun, and again when
 * the collection has grown to four times what it was.
 */
export class GraphMeasures {
  readonly #chosen: GraphMeasure[] = Array.from({ length: graphsPerSegment }, () => undefined)
  /** Points at the last check of each graph; 0 where it was not worth one. */
  readonly #checkedAt: number[] = Array.from({ length: graphsPerSegment }, () => 0)

  /** What each graph is measured on; undefined for graphs that there are not. */
  get active(): readonly (MeasuredOn | undefined)[] {
    return this.#chosen.map((on) => (on === 'nothing' ? undefined : on))
  }

  /** What was decided of each graph; undefined where nothing was yet. */
  get chosen(): readonly GraphMeasure[] {
    return this.#chosen
  }

  isActive(graph: number): boolean {
    return this.#chosen[graph] !== undefined && this.#chosen[graph] !== 'nothing'
  }

  /** The measure that the links of a graph that there is are chosen by, as the kernels number it. */
  linkMeasure(graph: number, layout: SegmentLayout): number {
    return measureOf(graphMetrics[graph]!, layout, this.active[graph])
  }

  /** Whether a graph's measure should be checked, now that there are so many points. */
  isCheckDue(graph: number, points: number, layout: SegmentLayout): boolean {
    if (layout.rows === 0 || points < checkedMin) return false
    return points >= this.#checkedAt[graph]! * checkedGrowth
  }

  choose(graph: number, on: GraphMeasure, points: number): void {
    this.#chosen[graph] = on
    this.#checkedAt[graph] = points
  }
}

/** What is good enough of what was found; codes where they are, as they are read sooner. */
export function bestMeasure({ codes = 0, rows = 0 }: MeasureRecall): MeasuredOn | 'nothing' {
  if (codes >= recallMin) return 'codes'
  // A graph by codes that find some of what is near still serves a wider walk, if rows do no better.
  if (rows < recallMin && rows <= codes && codes >= usableMin) return 'codes'
  return rows >= usableMin ? 'rows' : 'nothing'
}

/**
 * A few slots to ask for and more to choose from, evenly spread over the segment with the most slots.
 *
 * @returns undefined where too few are live
 */
export function sampleForCheck(
  index: VectorIndex,
  segments: readonly SegmentHandle[],
): MeasureSample | undefined {
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

/** Of fewer points any graph will do. */
const checkedMin = 512
const checkedGrowth = 4
const queriesMax = 24
const othersMin = 128
const othersMax = 8192
/** What the points to choose from have together: a few hundred milliseconds of measuring at the most. */
const componentsMax = 4_194_304
/** The share of the true nearest below which a measure is worth replacing by a slower one. */
const recallMin = 0.95
/** Below, a graph is a matter of chance. */
const usableMin = 0.5
