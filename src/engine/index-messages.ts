import type { AuditRequest } from '../index/audit.ts'
import type { Route } from '../index/graph.ts'
import type { CheckpointMeta } from '../index/graph-file.ts'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { StoredRows } from '../storage/store.ts'
import type { IdPages } from './id-table.ts'
import type { SharedRanges } from './shared-ranges.ts'

/**
 * What the main thread and the index threads say to each other: a segment as soon as it exists, then one task
 * at a time, each answered. Slots are local to their segment.
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

export interface TaskResults {
  /** Puts points into a segment, and their ids into `ids`: all that it can take of the slots, as the store numbers them. */
  fill: {
    task: {
      readonly ordinal: number
      readonly rows: StoredRows
      readonly slots: SharedRanges
      readonly ids: IdPages
    }
    result: FilledSlots
  }
  /** Links waiting slots. */
  link: { task: GraphPlace & { readonly slots: readonly number[] }; result: undefined }
  /** Chooses anew the lists of slots [from, to) that name leaving slots. */
  repair: { task: GraphPlace & { readonly from: number; readonly to: number }; result: undefined }
  /** Ends the stay of the leaving slots. */
  release: { task: GraphPlace; result: undefined }
  /** Makes every linked slot reachable; gives how many were not. */
  adopt: { task: GraphPlace; result: number }
  /** Writes the graph to a file, whole or not at all. */
  save: { task: GraphPlace & { readonly path: string; readonly meta: CheckpointMeta }; result: undefined }
  /** Reads the graph back; undefined when there is no file. */
  load: { task: GraphPlace & { readonly path: string }; result: LoadedGraph | undefined }
  /** Measures the routes of a metric against the exact scan, on stored points; undefined where `stop` has become 1. */
  audit: {
    task: AuditRequest & { readonly stop: Int32Array }
    result: readonly RouteRecall[] | undefined
  }
}

export interface FilledSlots {
  readonly points: number
  /** What is damaged, if anything is: the slots are of no use then. */
  readonly fault?: string
}

export interface LoadedGraph {
  readonly meta: CheckpointMeta
  /** Why the file is of no use; the graph is empty then. */
  readonly fault?: string
  readonly linked: number
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
export type ToIndexWorker = { readonly kind: 'segment'; readonly segment: SegmentHandle } | Task
export type FromIndexWorker =
  | { readonly kind: 'result'; readonly result: TaskResults[TaskKind]['result'] }
  | { readonly kind: 'fault'; readonly error: unknown }
