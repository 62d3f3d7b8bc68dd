import { buildingBytes, type GraphSet } from './graph-set.ts'

/**
 * Makes writers wait while more points wait to be linked than searches should scan. Main thread only.
 *
 * While a graph is rebuilt, after a start without a usable file for example, points that were stored long ago wait too.
 * They are no reason to refuse others: searches scan all of them anyway. One new point is then accepted for every two
 * that are linked, so the backlog shrinks however many points arrive.
 */
export class WriterRoom {
  readonly #graphs: GraphSet
  readonly #maxUnindexedBytes: number
  /** Whether writers need not wait any more. */
  #isFree = false
  /** How many points may wait while those of a backlog are being linked. */
  #backlogMax = 0
  #lastLink = 0
  #lastLook: number = performance.now()
  #waiting: (PromiseWithResolvers<boolean> & { since: number }) | undefined

  constructor(graphs: GraphSet, maxUnindexedBytes: number) {
    this.#graphs = graphs
    this.#maxUnindexedBytes = maxUnindexedBytes
  }

  get hasRoom(): boolean {
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
   * Undefined if more points may wait to be linked now. Otherwise resolves with true when there is room, or with false
   * when a writer has waited too long.
   */
  wait(): Promise<boolean> | undefined {
    if (this.hasRoom) return undefined
    this.#waiting ??= { ...Promise.withResolvers<boolean>(), since: performance.now() }
    return this.#waiting.promise
  }

  /** Call when points have been linked; `count` is the number of those that searches need no longer scan. */
  linked(count: number): void {
    this.#lastLink = performance.now()
    this.#backlogMax -= count / 2
  }

  /**
   * Lets waiting writers pass if there is room now. Call when slots left the link queues, or when the start of a graph
   * has ended.
   */
  recheck(): void {
    if (this.#waiting !== undefined && this.hasRoom) this.#endWaiting(true)
  }

  /**
   * Refuses writers that have waited too long, or for whom nothing is being linked. Call several times a second. After a
   * stall of the process, its timers run before it hears what has been linked, so only a part of the stall counts.
   */
  refuseLate(): void {
    const now = performance.now()
    const stalledMs = Math.max(0, now - this.#lastLook - lookMsMax)
    this.#lastLook = now
    if (this.#waiting === undefined) return
    this.#waiting.since = Math.min(now, this.#waiting.since + stalledMs)
    this.#lastLink = Math.min(now, this.#lastLink + stalledMs)
    // The check that ends the start of a graph is progress too.
    if (this.#graphs.isStarting) this.#lastLink = now
    const idleMs = now - Math.max(this.#lastLink, this.#waiting.since)
    if (idleMs > roomIdleMs || now - this.#waiting.since > roomWaitMs) this.#endWaiting(false)
  }

  /** Lets waiting and later writers pass. */
  letPass(): void {
    this.#isFree = true
    this.#endWaiting(true)
  }

  #endWaiting(hasRoom: boolean): void {
    this.#waiting?.resolve(hasRoom)
    this.#waiting = undefined
  }
}

/** A writer waits at most this long for room while points are being linked. */
const roomWaitMs = 20_000
/** A writer waits at most this long while no point is linked. */
const roomIdleMs = 3_000
/** Of the time between two looks for late writers, no more than this counts. */
const lookMsMax = 1_000
