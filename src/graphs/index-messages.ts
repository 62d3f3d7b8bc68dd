import type { SourceRecall } from '../index/distance-source-check.ts'
import type { ReachScan } from '../index/graph-check.ts'
import type { CheckpointMeta } from '../index/graph-file.ts'
import type { Hit } from '../index/hit.ts'
import type { Route } from '../index/routes.ts'
import type { IndexQuery } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { IdPages } from '../points/id-table.ts'
import type { SharedRanges } from '../points/shared-ranges.ts'
import type { StoredRows } from '../storage/store.ts'

/**
 * The messages between the main thread and the index threads. The main thread sends each segment as soon as it exists,
 * then one task at a time, each of which is answered, and a request to drop an index when it is closed. Every thread
 * serves every index; messages identify theirs by its id, which is unique in the process. Slots are local to their
 * segment.
 */
export interface IndexWorkerSetup {
  readonly kernels: KernelModule
  /** The thread's lane of scratch memory in every segment. */
  readonly lane: number
}

/** A graph of a segment. */
export interface GraphPlace {
  readonly ordinal: number
  readonly graph: number
}

/** A graph, with the distance kind by which its links are selected. */
export interface MeasuredGraph extends GraphPlace {
  readonly distanceKind: number
}

export interface TaskResults {
  /**
   * Puts stored points into a segment and their ids into `ids`. Takes ranges of slots, as the store numbers them, until
   * all are taken or, if `isBounded`, some milliseconds have passed.
   */
  fill: {
    task: {
      readonly ordinal: number
      readonly rows: StoredRows
      readonly slots: SharedRanges
      readonly ids: IdPages
      /** Whether to stop after some milliseconds because other indexes have tasks too. */
      readonly isBounded: boolean
    }
    result: FilledSlots
  }
  /** Links waiting slots for some milliseconds; returns how many it processed. */
  link: { task: MeasuredGraph & { readonly slots: readonly number[] }; result: number }
  /**
   * Repairs the lists of slots [from, to) that contain leaving slots, for some milliseconds; returns the slot to
   * continue from.
   */
  repair: { task: MeasuredGraph & { readonly from: number; readonly to: number }; result: number }
  /** Makes the leaving slots absent. */
  release: { task: GraphPlace; result: undefined }
  /** Empties a graph. */
  reset: { task: GraphPlace; result: undefined }
  /** Scans for unreachable slots for some milliseconds; returns undefined while the scan is incomplete. */
  reach: { task: GraphPlace & { readonly scan: ReachScan }; result: readonly number[] | undefined }
  /** Reconnects unreachable slots for some milliseconds; returns how many it processed and how many got a link. */
  reconnect: {
    task: MeasuredGraph & { readonly slots: readonly number[]; readonly scan: ReachScan }
    result: { readonly seen: number; readonly linked: number }
  }
  /** Measures how well each distance source distinguishes slots. */
  check: {
    task: GraphPlace & { readonly queries: readonly number[]; readonly others: readonly number[] }
    result: SourceRecall
  }
  /** Writes the graph to a file atomically. */
  save: { task: GraphPlace & { readonly path: string; readonly meta: CheckpointMeta }; result: undefined }
  /** Reads the graph back; returns undefined when there is no file. */
  load: { task: GraphPlace & { readonly path: string }; result: LoadedGraph | undefined }
  /** Searches the slots below `slotCount`; returns the hits found so far once `stop` is 1. */
  search: {
    task: {
      readonly queries: readonly IndexQuery[]
      readonly slotCount: number
      readonly stop: Int32Array
    }
    result: readonly (readonly Hit[])[]
  }
}

export interface FilledSlots {
  readonly points: number
  /** Whether all slots have been taken. */
  readonly isDone: boolean
  /** The damage, if any; the slots are then unusable. */
  readonly fault?: string
}

export interface LoadedGraph {
  readonly meta: CheckpointMeta
  /** Why the file is unusable; the graph is then empty. */
  readonly fault?: string
  /** The file is undamaged, but too many of its points have been removed. */
  readonly isOutdated?: boolean
  readonly linked: number
  /** Leaving slots, which must be repaired out before anything is linked. */
  readonly leaving: number
}

/** The measured recall of a route. The first route that reaches the target ends the audit. */
export interface RouteRecall {
  readonly route: Route
  readonly recall: number
}

export type TaskKind = keyof TaskResults
export type Task<Kind extends TaskKind = TaskKind> = {
  readonly [Each in Kind]: { readonly kind: Each } & TaskResults[Each]['task']
}[Kind]
export type ToIndexWorker =
  | { readonly kind: 'segment'; readonly index: number; readonly segment: SegmentHandle }
  | { readonly kind: 'task'; readonly index: number; readonly task: Task }
  | { readonly kind: 'detach'; readonly index: number }
export type FromIndexWorker =
  /** The thread has dropped the index; `left` is the number of indexes that it still serves. */
  | { readonly kind: 'detached'; readonly index: number; readonly left: number }
  | { readonly kind: 'result'; readonly result: TaskResults[TaskKind]['result'] }
  | { readonly kind: 'fault'; readonly error: unknown }

/** The messages about indexes to a thread of either kind. */
export type IndexMessage =
  | { readonly kind: 'segment'; readonly index: number; readonly segment: SegmentHandle }
  | { readonly kind: 'detach'; readonly index: number }

/**
 * The main thread's record of the indexes that one thread has received. A thread receives an index when it first works
 * on it. Small collections, which are searched on the main thread, therefore cost the other threads nothing.
 */
export class ThreadIndexes {
  readonly #post: (message: IndexMessage) => void
  /** By index: the segments to send when the thread first works on it. */
  readonly #unsent = new Map<number, SegmentHandle[]>()
  /** By index: called when the thread has dropped it. */
  readonly #detaching = new Map<number, () => void>()
  #hasEnded = false

  constructor(post: (message: IndexMessage) => void) {
    this.#post = post
  }

  /** Call when a segment was added to an index. */
  attach(index: number, segment: SegmentHandle): void {
    const unsent = this.#unsent.get(index)
    if (unsent !== undefined) unsent.push(segment)
    else if (segment.ordinal === 0) this.#unsent.set(index, [segment])
    else this.#post({ kind: 'segment', index, segment })
  }

  /** Call before the thread gets work on an index. */
  beforeWork(index: number): void {
    const unsent = this.#unsent.get(index)
    if (unsent === undefined) return
    this.#unsent.delete(index)
    for (const segment of unsent) this.#post({ kind: 'segment', index, segment })
  }

  /** Resolves when the thread has dropped everything of an index, after its current work. */
  detach(index: number): Promise<void> {
    if (this.#unsent.delete(index) || this.#hasEnded) return Promise.resolve()
    return new Promise((resolve) => {
      this.#detaching.set(index, resolve)
      this.#post({ kind: 'detach', index })
    })
  }

  /** Call when the thread reports that it has dropped an index. */
  detached(index: number): void {
    this.#detaching.get(index)?.()
    this.#detaching.delete(index)
  }

  /** Call when the thread has ended; everything that it had received is gone. */
  end(): void {
    this.#hasEnded = true
    for (const index of [...this.#detaching.keys()]) this.detached(index)
  }
}
