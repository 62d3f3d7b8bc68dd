import type { SourceRecall } from '../index/audit.ts'
import { slotStates } from '../index/graph-state.ts'
import type { SearchedIndex } from '../index/index-view.ts'
import { type DistanceSource, distanceKindOf, graphDistanceMetrics } from '../index/routes.ts'
import { graphsPerSegment, type SegmentHandle, type SegmentLayout } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { GraphDistanceSource } from '../points/database.ts'
import type { GraphPlace } from './index-thread-pool.ts'

/**
 * The graphs of an index: which exist, their distance sources, and how far they lag behind the points. Main thread
 * only.
 */
export class GraphSet {
  readonly sources: GraphDistanceSources = new GraphDistanceSources()
  readonly #maxUnindexedBytes: number
  readonly #graphBytesMin: number
  #index: VectorIndex | undefined
  #isStale = false
  /** The number of points when the start of the first graph began. */
  #pointsAtStart: number | undefined

  /** @param bytesMin a collection whose rows take fewer bytes is always scanned; tests of small graphs use 0 */
  constructor(maxUnindexedBytes: number, bytesMin: number = graphBytesMin) {
    this.#maxUnindexedBytes = maxUnindexedBytes
    this.#graphBytesMin = bytesMin
  }

  /** Call once, before using anything but `isAttached`, `hasGraph` and `unindexed`. */
  attach(index: VectorIndex): void {
    this.#index = index
  }

  get isAttached(): boolean {
    return this.#index !== undefined
  }

  get index(): VectorIndex {
    return this.#index!
  }

  /**
   * Whether a graph read from disk still has slots of other points. Until it is repaired, nothing is linked and
   * searches are exact.
   */
  get isStale(): boolean {
    return this.#isStale
  }

  markStale(): void {
    this.#isStale = true
  }

  markRepaired(): void {
    this.#isStale = false
  }

  /** Whether the first graph is being started: it exists when its distance source has been chosen. */
  get isStarting(): boolean {
    return this.#pointsAtStart !== undefined
  }

  beginStart(): void {
    this.#pointsAtStart = this.index.liveCount
  }

  endStart(): void {
    this.#pointsAtStart = undefined
  }

  get hasGraph(): boolean {
    // Called for every inserted point, so it must be cheap.
    return this.sources.isActive(0) || this.sources.isActive(1)
  }

  /** Whether there are so many points that a walk through a graph is faster than a scan. */
  get isLarge(): boolean {
    return this.index.liveCount * this.index.layout.rowBytes >= this.#graphBytesMin
  }

  /** What each graph's distances are computed from, by the graph's metric. */
  get distanceSources(): Readonly<Record<string, GraphDistanceSource>> {
    return Object.fromEntries(
      graphDistanceMetrics.map((metric, graph) => [metric, this.sources.chosen[graph]]),
    )
  }

  /** Every possible graph of every segment. */
  get places(): readonly GraphPlace[] {
    const segments = this.#index?.segments ?? []
    return segments.flatMap(({ ordinal }) => graphDistanceMetrics.map((_, graph) => ({ ordinal, graph })))
  }

  /** The existing graphs of every segment. */
  get activePlaces(): readonly GraphPlace[] {
    return this.places.filter(({ graph }) => this.sources.isActive(graph))
  }

  /** Returns the kernels' number of the distance kind by which the links of a graph are selected. */
  linkDistanceKind({ graph }: GraphPlace): number {
    return this.sources.linkDistanceKind(graph, this.index.layout)
  }

  /** The number of points that searches scan because they are not in the graph yet. */
  get unindexed(): number {
    return this.#queueLength(0)
  }

  /** Like `unindexed`; while the first graph is being started, the number of points that came since that began. */
  get waitingForGraph(): number {
    if (this.#pointsAtStart === undefined) return this.unindexed
    return Math.max(0, this.index.liveCount - this.#pointsAtStart)
  }

  /** The longest link queue of any graph, in points. */
  get waiting(): number {
    return Math.max(
      ...this.sources.active.map((on, graph) => (on === undefined ? 0 : this.#queueLength(graph))),
    )
  }

  /**
   * Whether a graph can be searched. One whose queue is far beyond its limit is still being built: searches are faster
   * without it.
   */
  isCaughtUp(graph: number): boolean {
    const bytes = this.#queueLength(graph) * this.index.layout.rowBytes
    return this.sources.isActive(graph) && bytes <= Math.max(2 * this.#maxUnindexedBytes, buildingBytes)
  }

  /**
   * Whether so many points wait that the first graph is not used: after a start without a usable file, or while it
   * begins. Searches are exact until then.
   */
  get isRebuilding(): boolean {
    return this.isAttached && this.sources.isActive(0) && !this.isCaughtUp(0)
  }

  #queueLength(graph: number): number {
    const index = this.#index
    if (index === undefined) return 0
    return index.segments.reduce((sum, { ordinal }) => sum + index.linkQueue(ordinal, graph).length, 0)
  }

  /** Whether some graph still has a node in a slot. */
  isInGraph(slot: number): boolean {
    const { ordinal, local } = this.index.locate(slot)
    for (const graph of graphDistanceMetrics.keys()) {
      if (this.index.linkQueue(ordinal, graph).state.states[local] !== slotStates.absent) return true
    }
    return false
  }
}

/** Below this size, an exact scan takes no longer than a walk through a graph. */
export const graphBytesMin: number = 4 * 1024 * 1024
/** A longer queue means that a graph is being built: groups that were admitted together never add up to this much. */
export const buildingBytes: number = 32 * 1024 * 1024

/** The slots for a check of a graph's distance sources. */
interface SourceSample {
  readonly ordinal: number
  /** Local slots. */
  readonly queries: readonly number[]
  readonly others: readonly number[]
}

/**
 * What each graph's distances are computed from: codes if they distinguish the points, otherwise float32 rows if those
 * do. If neither does, the source is 'nothing' and there is no graph. A check decides this (audit.ts)
 * when a graph is started, and again each time the collection has grown to four times its size.
 */
class GraphDistanceSources {
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

  /** The number of points at the last check of each graph; 0 if there were too few for a check. */
  get checkedPoints(): readonly number[] {
    return this.#checkedAt
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
/** Components of all sampled points: computing the distances of a query to them takes some milliseconds. */
const componentsMax = 4_194_304
/** A distance source that finds a smaller share of the true nearest points is worth replacing by a slower one. */
const recallMin = 0.95
/** Below this share, a graph is no better than chance. */
const usableMin = 0.5

/** Explains to an operator why searches of an index have no route. */
export function whyNoRoute({ liveCount, layout }: SearchedIndex): string {
  if (liveCount * layout.rowBytes < graphBytesMin)
    return 'there are so few points that a graph would save no time'
  return 'no graph can be used for this metric now: it is being built or measured, or its recall is too low'
}
