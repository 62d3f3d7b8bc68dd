import { slotStates } from '../index/graph-state.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { type GraphDistanceSource, GraphDistanceSources } from './graph-distance-sources.ts'
import type { GraphPlace } from './index-messages.ts'

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
