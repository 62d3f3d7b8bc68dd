import { assert } from '../base/errors.ts'
import { slotStates } from '../index/graph-state.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import { buildingBytes, type GraphSet } from './graph-set.ts'
import type { GraphPlace } from './index-thread-pool.ts'

/** Slots handed out together to be linked. After an interruption, only those that are not linked yet. */
interface LinkBatch {
  readonly place: GraphPlace
  readonly slots: readonly number[]
  /** Removes the batch from its queue, and returns the slots that left it. */
  readonly done: () => number[]
}

interface LinkEvents {
  /** Called when a number of slots of a batch have been linked. */
  readonly onLinked: (place: GraphPlace, count: number) => void
  /** Called when a number of slots left a queue; `slots` are those that wait in no other. */
  readonly onLeft: (count: number, slots: readonly number[]) => void
}

/**
 * The link queues of all graphs: the slots that wait in them, and the batches that threads take from them. Main thread
 * only.
 */
export class LinkBatches {
  readonly #graphs: GraphSet
  readonly #events: LinkEvents
  /**
   * By segment and slot: the number of queues in which the slot waits. As long as the highest slot that ever waited
   * needs: a segment can have millions of slots, and a small collection never queues any.
   */
  readonly #queued: Uint8Array[] = []
  /** Batches that a thread began but did not finish. */
  #begun: LinkBatch[] = []
  #isClosed = false

  constructor(graphs: GraphSet, events: LinkEvents) {
    this.#graphs = graphs
    this.#events = events
  }

  /**
   * Queues nothing from now on. What waits stays: walks that have already begun find these points by the queues.
   */
  close(): void {
    this.#isClosed = true
  }

  /** Queues a slot for every existing graph. */
  enqueue(slot: number): void {
    const { sources } = this.#graphs
    for (const graph of graphDistanceMetrics.keys()) if (sources.isActive(graph)) this.#enqueue(slot, graph)
  }

  #enqueue(slot: number, graph: number): void {
    if (this.#isClosed) return
    const { ordinal, local } = this.#graphs.index.locate(slot)
    const queue = this.#graphs.index.linkQueue(ordinal, graph)
    if (queue.state.states[local] === slotStates.linked) return
    this.#queuedUpTo(ordinal, local)[local]! += 1
    queue.push(local)
  }

  /** Returns the counts of a segment, long enough for this slot. */
  #queuedUpTo(ordinal: number, local: number): Uint8Array {
    const queued = this.#queued[ordinal] ?? new Uint8Array(0)
    if (local < queued.length) return queued
    const { capacity } = this.#graphs.index.layout
    const grown = new Uint8Array(Math.min(capacity, Math.max(2 * queued.length, local + 1, countsMin)))
    grown.set(queued)
    this.#queued[ordinal] = grown
    return grown
  }

  /** Queues the live slots of a segment that its graph lacks. */
  enqueueUnlinked({ ordinal, graph }: GraphPlace): void {
    const { index } = this.#graphs
    const { capacity } = index.layout
    const { states } = index.linkQueue(ordinal, graph).state
    const first = ordinal * capacity
    const end = Math.min(index.slotCount, first + capacity)
    for (let slot = first; slot < end; slot += 1) {
      // After a start, this is nearly every slot, so only the state is checked first.
      if (states[slot - first] !== slotStates.linked && index.isLive(slot)) this.#enqueue(slot, graph)
    }
  }

  /** Whether a slot waits in any queue. */
  isQueued(slot: number): boolean {
    const { ordinal, local } = this.#graphs.index.locate(slot)
    return (this.#queued[ordinal]?.[local] ?? 0) > 0
  }

  /** Returns the batch to link next; undefined when nothing waits. */
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

  /** Call when the first `count` slots of a batch have been linked; the others are handed out again. */
  linked(batch: LinkBatch, count: number): void {
    const { place, slots, done } = batch
    assert(count >= 0 && count <= slots.length, 'no more slots are linked than were handed out')
    this.#events.onLinked(place, count)
    if (count < slots.length) this.#begun.push({ ...batch, slots: slots.slice(count) })
    else this.#left(place.ordinal, done())
  }

  /** Whether an unfinished batch waits for a thread. */
  get hasBegun(): boolean {
    return this.#begun.length > 0
  }

  /** Drops unfinished batches, so that their slots are not linked. */
  dropBegun(): void {
    this.#begun = []
  }

  /** Empties the queue of a graph. Call only while no thread links. */
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
      assert(queued[local]! > 0, 'a slot leaves a queue that has it')
      queued[local]! -= 1
      if (queued[local] === 0) slots.push(first + local)
    }
    this.#events.onLeft(locals.length, slots)
  }
}

/** A page of memory, so that the first thousands of slots need no copies. */
const countsMin = 4096

/** About 20 ms of linking at a typical speed. */
const slotsPerTask = 32

/**
 * Makes writers wait while more points wait to be linked than searches should scan. Main thread only.
 *
 * While a graph is rebuilt, after a start without a usable file for example, points that were stored long ago wait too.
 * They are no reason to refuse others: searches scan all of them anyway. One new point is then accepted for every two
 * that are linked, so the backlog shrinks however many points arrive.
 */
export class Backpressure {
  readonly #graphs: GraphSet
  readonly #maxUnindexedBytes: number
  /** Whether writers need not wait any more. */
  #isFree = false
  /** How many points may wait while those of a backlog are being linked. */
  #backlogMax = 0
  #lastLook: number = performance.now()
  #waiting: (PromiseWithResolvers<boolean> & { since: number }) | undefined

  constructor(graphs: GraphSet, maxUnindexedBytes: number) {
    this.#graphs = graphs
    this.#maxUnindexedBytes = maxUnindexedBytes
  }

  get isOpen(): boolean {
    return !this.isBehind || this.#graphs.waitingForGraph <= this.#backlogMax
  }

  /** Whether more points wait than usual. */
  get isBehind(): boolean {
    if (!this.#graphs.isAttached || this.#isFree) return false
    const { isStale, isStarting, waitingForGraph, index } = this.#graphs
    // Nothing is linked while a graph is being started, or repaired after it was read from disk. As many points may wait
    // as while a graph is being built.
    const most = isStale || isStarting ? buildingBytes : 0
    const bytes = waitingForGraph * index.layout.rowBytes
    return bytes > Math.max(this.#maxUnindexedBytes, most)
  }

  /** Call when points have been queued that were stored before. */
  expectBacklog(): void {
    const { unindexed, index } = this.#graphs
    this.#backlogMax = unindexed + this.#maxUnindexedBytes / index.layout.rowBytes
  }

  /**
   * Undefined if more points may wait to be linked now. Otherwise resolves with true when writers may go on, or with false
   * when a writer has waited too long.
   */
  wait(): Promise<boolean> | undefined {
    if (this.isOpen) return undefined
    this.#waiting ??= { ...Promise.withResolvers<boolean>(), since: performance.now() }
    return this.#waiting.promise
  }

  /** Call when points have been linked; `count` is the number of those that searches need no longer scan. */
  linked(count: number): void {
    this.#backlogMax -= count / 2
  }

  /**
   * Lets waiting writers pass if few enough points wait now. Call when slots left the link queues, or when the start of a graph
   * has ended.
   */
  recheck(): void {
    if (this.#waiting !== undefined && this.isOpen) this.#endWaiting(true)
  }

  /**
   * Refuses writers that have waited too long. Call several times a second. After a stall of the process, its timers run
   * before it hears what has been linked, so only a part of the stall counts.
   */
  refuseLate(): void {
    const now = performance.now()
    const stalledMs = Math.max(0, now - this.#lastLook - lookMsMax)
    this.#lastLook = now
    if (this.#waiting === undefined) return
    this.#waiting.since = Math.min(now, this.#waiting.since + stalledMs)
    if (now - this.#waiting.since > roomWaitMs) this.#endWaiting(false)
  }

  /** Lets waiting and later writers pass. */
  letPass(): void {
    this.#isFree = true
    this.#endWaiting(true)
  }

  #endWaiting(isOpen: boolean): void {
    this.#waiting?.resolve(isOpen)
    this.#waiting = undefined
  }
}

/**
 * A writer waits at most this long, also while nothing is linked: where other programs keep all cores busy, index threads,
 * whose priority is lower, may get to link a batch only every few seconds.
 */
const roomWaitMs = 20_000
/** Of the time between two looks for late writers, no more than this counts. */
const lookMsMax = 1_000
