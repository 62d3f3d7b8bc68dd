import { buildingBytes, type GraphSet } from './graph-set.ts'

/** Has writers wait while more points are to be linked than searches should scan. Main thread only. */
export class WriterRoom {
  readonly #graphs: GraphSet
  readonly #maxUnindexedBytes: number
  /** Writers need not wait any more. */
  #isFree = false
  #lastLink = 0
  #waiting: (PromiseWithResolvers<boolean> & { readonly since: number }) | undefined

  constructor(graphs: GraphSet, maxUnindexedBytes: number) {
    this.#graphs = graphs
    this.#maxUnindexedBytes = maxUnindexedBytes
  }

  get hasRoom(): boolean {
    if (!this.#graphs.isAttached || this.#isFree) return true
    // While a graph that was read from disk is being repaired, nothing is linked: as while one is being built.
    const most = this.#graphs.isStale ? buildingBytes : 0
    const bytes = this.#graphs.unindexed * this.#graphs.index.layout.rowBytes
    return bytes <= Math.max(this.#maxUnindexedBytes, most)
  }

  /**
   * Resolves with true when there is room for more points that wait to be linked, or with false where that takes too long for a
   * writer to wait; undefined when there is room now.
   */
  wait(): Promise<boolean> | undefined {
    if (this.hasRoom) return undefined
    this.#waiting ??= { ...Promise.withResolvers<boolean>(), since: performance.now() }
    return this.#waiting.promise
  }

  /** Points have been linked. */
  linked(): void {
    this.#lastLink = performance.now()
  }

  /** Slots left the link queues. */
  queuesShrank(): void {
    if (this.#waiting !== undefined && this.hasRoom) this.#endWaiting(true)
  }

  /** Writers that wait for longer, or while nothing is linked at all, are refused. */
  refuseLate(): void {
    if (this.#waiting === undefined) return
    const now = performance.now()
    const idleMs = now - Math.max(this.#lastLink, this.#waiting.since)
    if (idleMs > roomIdleMs || now - this.#waiting.since > roomWaitMs) this.#endWaiting(false)
  }

  /** Writers wait no more, neither those that do nor those that come. */
  letPass(): void {
    this.#isFree = true
    this.#endWaiting(true)
  }

  #endWaiting(hasRoom: boolean): void {
    this.#waiting?.resolve(hasRoom)
    this.#waiting = undefined
  }
}

/** A writer waits so long for room, if points are being linked meanwhile, and so long if none is. */
const roomWaitMs = 20_000
const roomIdleMs = 3_000
