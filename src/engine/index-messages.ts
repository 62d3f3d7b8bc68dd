import type { Route } from '../index/graph.ts'
import type { ReachScan } from '../index/graph-check.ts'
import type { CheckpointMeta } from '../index/graph-file.ts'
import type { Hit } from '../index/hit.ts'
import type { MeasureRecall } from '../index/measure-check.ts'
import type { IndexQuery } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { StoredRows } from '../storage/store.ts'
import type { IdPages } from './id-table.ts'
import type { SharedRanges } from './shared-ranges.ts'

/**
 * What the main thread and the index threads say to each other: a segment as soon as it exists, then one task
 * at a time, each answered, and when an index is closed, to drop it. Every thread serves every index: messages name
 * theirs by its id, which is unique in the process. Slots are local to their segment.
 */
export interface IndexWorkerSetup {
  readonly kernels: KernelModule
  /** The thread's own lane of scratch in every segment. */
  readonly lane: number
}

/** A graph of a segment. */
export interface GraphPlace {
  readonly ordinal: number
  readonly graph: number
}

/** ... with the measure that its links are chosen by. */
export interface MeasuredGraph extends GraphPlace {
  readonly measure: number
}

export interface TaskResults {
  /**
   * Puts points into a segment, and their ids into `ids`: all that it can take of the slots, as the store numbers them, or
   * what it can for some milliseconds.
   */
  fill: {
    task: {
      readonly ordinal: number
      readonly rows: StoredRows
      readonly slots: SharedRanges
      readonly ids: IdPages
      /** Ends after some milliseconds, as other indexes have something to do. */
      readonly isBounded: boolean
    }
    result: FilledSlots
  }
  /** Links waiting slots, for some milliseconds; gives how many of them were dealt with. */
  link: { task: MeasuredGraph & { readonly slots: readonly number[] }; result: number }
  /** Repairs the lists of slots [from, to) that name leaving slots, for some milliseconds; gives the slot to go on from. */
  repair: { task: MeasuredGraph & { readonly from: number; readonly to: number }; result: number }
  /** Ends the stay of the leaving slots. */
  release: { task: GraphPlace; result: undefined }
  /** Empties a graph. */
  reset: { task: GraphPlace; result: undefined }
  /** Looks for slots that cannot be reached, for some milliseconds; undefined while there is more to look at. */
  reach: { task: GraphPlace & { readonly scan: ReachScan }; result: readonly number[] | undefined }
  /** Gives slots that cannot be reached links, for some milliseconds; how many were dealt with and how many got one. */
  reconnect: {
    task: MeasuredGraph & { readonly slots: readonly number[]; readonly scan: ReachScan }
    result: { readonly seen: number; readonly linked: number }
  }
  /** How well each measure tells slots from others. */
  check: {
    task: GraphPlace & { readonly queries: readonly number[]; readonly others: readonly number[] }
    result: MeasureRecall
  }
  /** Writes the graph to a file, whole or not at all. */
  save: { task: GraphPlace & { readonly path: string; readonly meta: CheckpointMeta }; result: undefined }
  /** Reads the graph back; undefined when there is no file. */
  load: { task: GraphPlace & { readonly path: string }; result: LoadedGraph | undefined }
  /** Searches the slots below `slotCount`; what was found so far where `stop` has become 1. */
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
  /** What is damaged, if anything is: the slots are of no use then. */
  readonly fault?: string
}

export interface LoadedGraph {
  readonly meta: CheckpointMeta
  /** Why the file is of no use; the graph is empty then. */
  readonly fault?: string
  /** It is sound, but too many of its points are gone. */
  readonly isOutdated?: boolean
  readonly linked: number
  /** Slots that are to be repaired around before anything is linked. */
  readonly leaving: number
}

/** What a route was found to recall; the first that reaches the target ends the search. */
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
  /** The thread holds nothing of the index any more; how many it still serves. */
  | { readonly kind: 'detached'; readonly index: number; readonly left: number }
  | { readonly kind: 'result'; readonly result: TaskResults[TaskKind]['result'] }
  | { readonly kind: 'fault'; readonly error: unknown }
