import type { GraphSet } from './graph-set.ts'

/** Slots whose points were removed and that are not free for others yet. Main thread only. */
export class DeadSlots {
  readonly #graphs: GraphSet
  readonly #onFree: (slot: number) => void
  /** Slots, over all segments, whose nodes are still in a graph. */
  readonly #inGraphs = new Set<number>()
  /** Slots that still have to have their turn in a link queue. */
  readonly #inQueues = new Set<number>()

  /** @param onFree a slot is free for another point */
  constructor(graphs: GraphSet, onFree: (slot: number) => void) {
    this.#graphs = graphs
    this.#onFree = onFree
  }

  get count(): number {
    return this.#inGraphs.size + this.#inQueues.size
  }

  /** Those that a repair would free. */
  get inGraphs(): ReadonlySet<number> {
    return this.#inGraphs
  }

  /** Whether there are so many that they should be taken out of the graphs. */
  get areMany(): boolean {
    return this.#inGraphs.size >= Math.max(repairMin, this.#graphs.index.liveCount * repairShare)
  }

  /** A slot that waits in a queue is dead: it is dealt with when it leaves. */
  addQueued(slot: number): void {
    this.#inQueues.add(slot)
  }

  /** A slot is dead; freed at once where no graph has a node in it. @returns whether a repair has to free it */
  add(slot: number): boolean {
    this.#inGraphs.add(slot)
    return !this.freeIfUnknown(slot)
  }

  /** A slot left the last queue that it waited in. @returns whether it is dead, and a repair has to free it */
  leftQueues(slot: number): boolean {
    return this.#inQueues.delete(slot) && this.add(slot)
  }

  /** Frees a dead slot that no graph has a node in any more. @returns whether it did */
  freeIfUnknown(slot: number): boolean {
    if (!this.#inGraphs.has(slot) || this.#graphs.isInGraph(slot)) return false
    this.#inGraphs.delete(slot)
    this.#onFree(slot)
    return true
  }
}

const repairMin = 256
const repairShare = 0.01
