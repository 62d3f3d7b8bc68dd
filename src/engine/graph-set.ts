import { slotStates } from '../index/graph-state.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { type GraphDistanceSource, GraphDistanceSources } from './graph-distance-sources.ts'
import type { GraphPlace } from './index-messages.ts'

/** The graphs of an index: which there are, what they are measured on and how far they are behind the points. Main thread only. */
export class GraphSet {
  readonly sources: GraphDistanceSources = new GraphDistanceSources()
  readonly #maxUnindexedBytes: number
  readonly #graphBytesMin: number
  #index: VectorIndex | undefined
  #isStale = false

  /** @param bytesMin rows of fewer bytes are always scanned; for tests of small graphs, 0 */
  constructor(maxUnindexedBytes: number, bytesMin: number = graphBytesMin) {
    this.#maxUnindexedBytes = maxUnindexedBytes
    this.#graphBytesMin = bytesMin
  }

  /** Once, before anything else is asked but `isAttached`, `hasGraph` and `unindexed`. */
  attach(index: VectorIndex): void {
    this.#index = index
  }

  get isAttached(): boolean {
    return this.#index !== undefined
  }

  get index(): VectorIndex {
    return this.#index!
  }

  /** A graph that was read from disk has slots of other points: until it is repaired nothing is linked, and searches are exact. */
  get isStale(): boolean {
    return this.#isStale
  }

  markStale(): void {
    this.#isStale = true
  }

  markRepaired(): void {
    this.#isStale = false
  }

  get hasGraph(): boolean {
    // Asked for each point that is inserted.
    return this.sources.isActive(0) || this.sources.isActive(1)
  }

  /** Whether the points are so many that a walk through a graph takes less time than a scan. */
  get isLarge(): boolean {
    return this.index.liveCount * this.index.layout.rowBytes >= this.#graphBytesMin
  }

  /** By the metric of each graph, what its distances are measured on. */
  get distanceSources(): Readonly<Record<string, GraphDistanceSource>> {
    return Object.fromEntries(
      graphDistanceMetrics.map((metric, graph) => [metric, this.sources.chosen[graph]]),
    )
  }

  /** Every graph that an index can have, of every segment. */
  get places(): readonly GraphPlace[] {
    const segments = this.#index?.segments ?? []
    return segments.flatMap(({ ordinal }) => graphDistanceMetrics.map((_, graph) => ({ ordinal, graph })))
  }

  /** The graphs that there are, of every segment. */
  get activePlaces(): readonly GraphPlace[] {
    return this.places.filter(({ graph }) => this.sources.isActive(graph))
  }

  /** The distance kind that the links of a graph are chosen by, as the kernels number it. */
  linkDistanceKind({ graph }: GraphPlace): number {
    return this.sources.linkDistanceKind(graph, this.index.layout)
  }

  /** Points that searches scan because they are not in the graph yet. */
  get unindexed(): number {
    return this.#queueLength(0)
  }

  /** Points that some graph does not have yet. */
  get waiting(): number {
    return Math.max(
      ...this.sources.active.map((on, graph) => (on === undefined ? 0 : this.#queueLength(graph))),
    )
  }

  /** A queue far past its limit is a graph that is being built: searches are better off without it. */
  isCaughtUp(graph: number): boolean {
    const bytes = this.#queueLength(graph) * this.index.layout.rowBytes
    return this.sources.isActive(graph) && bytes <= Math.max(2 * this.#maxUnindexedBytes, buildingBytes)
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

/** Below, an exact scan takes no longer than a walk through a graph. */
export const graphBytesMin: number = 4 * 1024 * 1024
/** More waits than this while a graph is being built: more than groups that were let in together come to. */
export const buildingBytes: number = 32 * 1024 * 1024
