import { slotStates } from '../index/graph-state.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { SegmentHandle } from '../index/segment.ts'
import type { GraphSet } from './graph-set.ts'
import type { GraphPlace } from './index-messages.ts'

/** Links that are handed out together, as far as they are not made yet. */
export interface LinkBatch {
  readonly place: GraphPlace
  readonly slots: readonly number[]
  /** Takes the batch out of its queue, and returns the slots that left it. */
  readonly done: () => number[]
}

export interface LinkEvents {
  /** So many slots of a batch have been linked. */
  readonly onLinked: (place: GraphPlace, count: number) => void
  /** So many slots left a queue, and these wait in no other. */
  readonly onLeft: (count: number, slots: readonly number[]) => void
}

/** The link queues of all graphs: what waits in them, and the batches that threads take from them. Main thread only. */
export class LinkBatches {
  readonly #graphs: GraphSet
  readonly #events: LinkEvents
  /** By segment: in how many queues a slot waits. */
  readonly #queued: Uint8Array[] = []
  /** Batches whose thread stopped before the end. */
  #begun: LinkBatch[] = []

  constructor(graphs: GraphSet, events: LinkEvents) {
    this.#graphs = graphs
    this.#events = events
  }

  addSegment({ ordinal, layout }: SegmentHandle): void {
    this.#queued[ordinal] = new Uint8Array(layout.capacity)
  }

  /** A slot is to be linked into every graph that there is. */
  enqueue(slot: number): void {
    const { sources } = this.#graphs
    for (const graph of graphDistanceMetrics.keys()) if (sources.isActive(graph)) this.#enqueue(slot, graph)
  }

  #enqueue(slot: number, graph: number): void {
    const { ordinal, local } = this.#graphs.index.locate(slot)
    const queue = this.#graphs.index.linkQueue(ordinal, graph)
    if (queue.state.states[local] === slotStates.linked) return
    this.#queued[ordinal]![local]! += 1
    queue.push(local)
  }

  /** Live slots of a segment that its graph does not have yet are to be linked. */
  enqueueUnlinked({ ordinal, graph }: GraphPlace): void {
    const { index } = this.#graphs
    const { capacity } = index.layout
    const { states } = index.linkQueue(ordinal, graph).state
    const first = ordinal * capacity
    const end = Math.min(index.slotCount, first + capacity)
    for (let slot = first; slot < end; slot += 1) {
      // After a start that is every slot or nearly so: nothing else is looked at.
      if (states[slot - first] !== slotStates.linked && index.isLive(slot)) this.#enqueue(slot, graph)
    }
  }

  /** Whether a slot waits in some queue. */
  isQueued(slot: number): boolean {
    const { ordinal, local } = this.#graphs.index.locate(slot)
    return this.#queued[ordinal]![local]! > 0
  }

  /** What a thread is to link next; undefined when nothing waits. */
  next(): LinkBatch | undefined {
    return this.#begun.shift() ?? this.#take()
  }

  #take(): LinkBatch | undefined {
    for (const place of this.#graphs.activePlaces) {
      const queue = this.#graphs.index.linkQueue(place.ordinal, place.graph)
      if (queue.waiting > 0) return { place, ...queue.take(slotsPerTask) }
    }
    return undefined
  }

  /** The first `count` slots of a batch have been linked; the others are handed out again. */
  linked(batch: LinkBatch, count: number): void {
    const { place, slots, done } = batch
    this.#events.onLinked(place, count)
    if (count < slots.length) this.#begun.push({ ...batch, slots: slots.slice(count) })
    else this.#left(place.ordinal, done())
  }

  /** Whether a batch was begun that no thread is at. */
  get hasBegun(): boolean {
    return this.#begun.length > 0
  }

  /** What was begun is not linked to the end. */
  dropBegun(): void {
    this.#begun = []
  }

  /** Nothing is to be linked into a graph any more; while no thread links. */
  clear({ ordinal, graph }: GraphPlace): void {
    const waiting = this.#graphs.index.linkQueue(ordinal, graph).clear()
    this.#begun = this.#begun.filter((batch) => batch.place.graph !== graph)
    this.#left(ordinal, waiting)
  }

  #left(ordinal: number, locals: readonly number[]): void {
    const queued = this.#queued[ordinal]!
    const first = ordinal * this.#graphs.index.layout.capacity
    const slots: number[] = []
    for (const local of locals) {
      queued[local]! -= 1
      if (queued[local] === 0) slots.push(first + local)
    }
    this.#events.onLeft(locals.length, slots)
  }
}

/** About 20 ms of linking, where it is neither slow nor quick. */
const slotsPerTask = 32
