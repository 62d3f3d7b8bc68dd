import type { GraphSet } from './graph-set.ts'

/** Slots whose points were removed and that cannot be reused yet. Main thread only. */
export class DeadSlots {
  readonly #graphs: GraphSet
  readonly #onFree: (slot: number) => void
  /** Slots, over all segments, whose nodes are still in a graph. */
  readonly #inGraphs = new Set<number>()
  /** Dead slots that still wait in a link queue. */
  readonly #inQueues = new Set<number>()

  /** @param onFree called when a slot can be reused */
  constructor(graphs: GraphSet, onFree: (slot: number) => void) {
    this.#graphs = graphs
    this.#onFree = onFree
  }

  get count(): number {
    return this.#inGraphs.size + this.#inQueues.size
  }

  /** The dead slots that a repair would free. */
  get inGraphs(): ReadonlySet<number> {
    return this.#inGraphs
  }

  /** Whether there are so many dead slots that the graphs should be repaired. */
  get areMany(): boolean {
    return this.#inGraphs.size >= Math.max(repairMin, this.#graphs.index.liveCount * repairShare)
  }

  /** Records that a slot in a link queue is dead; it is handled when it leaves the queue. */
  addQueued(slot: number): void {
    this.#inQueues.add(slot)
  }

  /**
   * Records a dead slot, and frees it immediately if no graph has a node in it. @returns whether a repair has to free
   * it
   */
  add(slot: number): boolean {
    this.#inGraphs.add(slot)
    return !this.freeIfUnknown(slot)
  }

  /** Call when a slot has left its last link queue. @returns whether it is dead and a repair has to free it */
  leftQueues(slot: number): boolean {
    return this.#inQueues.delete(slot) && this.add(slot)
  }

  /** Frees all dead slots. Call when nothing uses the graphs any more. */
  freeAll(): void {
    const slots = [...this.#inGraphs, ...this.#inQueues]
    this.#inGraphs.clear()
    this.#inQueues.clear()
    for (const slot of slots) this.#onFree(slot)
  }

  /** Frees a dead slot if no graph has a node in it any more. @returns whether it was freed */
  freeIfUnknown(slot: number): boolean {
    if (!this.#inGraphs.has(slot) || this.#graphs.isInGraph(slot)) return false
    this.#inGraphs.delete(slot)
    this.#onFree(slot)
    return true
  }
}

const repairMin = 256
const repairShare = 0.01
