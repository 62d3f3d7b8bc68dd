import { assert } from '../base/errors.ts'
import type { FileMoment } from '../base/files.ts'
import type { SourceCheck, SourceRecall } from '../index/audit.ts'
import type { SampleWalks, WalksDone } from '../index/graph.ts'
import type { ReachScan } from '../index/graph-check.ts'
import type { CheckpointMeta } from '../index/graph-file.ts'
import type { Route } from '../index/routes.ts'
import type { SearchedSome, SomeSearch } from '../index/searcher.ts'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { IdPages } from '../points/id-table.ts'
import type { StoredRows } from '../storage/store.ts'
import {
  EngineThread,
  type FaultMessage,
  type SharedRanges,
  ThreadGroup,
  type ThreadSetup,
} from './engine-thread.ts'

/** An indexer, which has tasks for index threads. */
export interface IndexThreadUser {
  /** Gives an idle thread a task; returns whether there was one. */
  occupy(thread: IndexThread): boolean
}

/**
 * The index threads of the process, which serve all indexes. Idle threads are given to the indexers in turn, task by
 * task. However much work one indexer has, the others wait for a few tasks only.
 *
 * A thread that dies is replaced, and its task is rejected. It leaves shared memory in an unknown state only where it
 * was working: each index has its own memory, and a thread writes to one only during a task for it. So the death
 * concerns the indexer of that task and no other.
 *
 * Main thread only.
 */
export class IndexThreadPool {
  readonly #group: ThreadGroup<IndexThread>
  /** The first user's turn is next. */
  #users: IndexThreadUser[] = []

  /** @param firstLane the lane of the first thread; the others follow */
  constructor(kernels: KernelModule, count: number, firstLane: number) {
    this.#group = new ThreadGroup(
      (lane, onEnd) => new IndexThread({ kernels, lane }, onEnd),
      () => this.dispatch(),
    )
    this.#group.start(count, firstLane)
  }

  get #threads(): readonly IndexThread[] {
    return this.#group.threads
  }

  /** The number of threads. */
  get size(): number {
    return this.#threads.length
  }

  /** The number of indexers that share the threads. */
  get users(): number {
    return this.#users.length
  }

  add(user: IndexThreadUser): void {
    this.#users.push(user)
  }

  /** Gives no more threads to this user. Idempotent. */
  remove(user: IndexThreadUser): void {
    this.#users = this.#users.filter((each) => each !== user)
  }

  attach(index: number, segment: SegmentHandle): void {
    this.#group.attach(index, segment)
  }

  /** Resolves when all threads have dropped an index, after their current tasks for it. */
  async detach(index: number): Promise<void> {
    await this.#group.detach(index)
  }

  /** Rejects the tasks that run for an index, and replaces their threads: a task may wait for a lock for ever. */
  stopTasks(index: number, reason: unknown): void {
    for (const thread of this.#threads) if (thread.index === index) thread.stop(reason)
  }

  /** Gives a task to every idle thread. */
  dispatch(): void {
    for (const thread of this.#threads) {
      if (!thread.isFree) continue
      const user = this.#users.find((each) => each.occupy(thread))
      if (user === undefined) return
      this.#users = [...this.#users.filter((each) => each !== user), user]
    }
  }

  /** Stops the threads, even in the middle of a task. */
  async close(): Promise<void> {
    await this.#group.close()
  }
}

interface RunningTask extends PromiseWithResolvers<unknown> {
  readonly index: number
}

/** The main thread's side of one index thread, which does one task at a time. */
export class IndexThread extends EngineThread<TaskMessage, ResultMessage | FaultMessage> {
  readonly #onEnd: (thread: IndexThread) => void
  #task: RunningTask | undefined
  #fault: unknown

  /** @param onEnd called when the thread has ended, after its task was rejected */
  constructor(setup: ThreadSetup, onEnd: (thread: IndexThread) => void) {
    // A start creates some garbage for each row that it reads. With young generations of 48 MiB, it would stay in memory.
    super(new URL('./index-worker', import.meta.url), setup, { maxYoungGenerationSizeMb: 6 })
    this.#onEnd = onEnd
  }

  protected override onMessage(message: ResultMessage | FaultMessage): void {
    const task = this.#task
    assert(task !== undefined || this.#fault !== undefined, 'an index thread answers a task')
    this.#task = undefined
    // A thread that is being stopped can still answer. Its task was rejected then.
    if (message.kind === 'result') task?.resolve(message.result)
    else task?.reject(message.error)
  }

  protected override onError(error: unknown): void {
    this.#end(error)
  }

  protected override onEnd(code: number): void {
    this.#end(new Error(`an index thread ended with code ${code}`))
    this.#onEnd(this)
  }

  /** Whether the thread can be given a task. */
  get isFree(): boolean {
    return this.#task === undefined && this.#fault === undefined
  }

  /** The index on which the thread works now. */
  get index(): number | undefined {
    return this.#task?.index
  }

  /** Runs a task on an attached index; rejects when it fails or the thread has died. */
  run<Kind extends TaskKind>(index: number, task: Task<Kind>): Promise<TaskResults[Kind]['result']> {
    if (this.#fault !== undefined) return Promise.reject(this.#fault)
    assert(this.#task === undefined, 'an index thread does one task at a time')
    this.beforeWork(index)
    this.#task = { index, ...Promise.withResolvers<unknown>() }
    this.post({ kind: 'task', index, task: task as Task })
    return this.#task.promise as Promise<TaskResults[Kind]['result']>
  }

  /** Rejects the current task, and ends the thread even in the middle of it. */
  stop(reason: unknown): void {
    this.#end(reason)
    void this.terminate()
  }

  #end(fault: unknown): void {
    this.#fault ??= fault
    this.#task?.reject(this.#fault)
    this.#task = undefined
  }
}

/** A graph of a segment. */
export interface GraphPlace {
  readonly ordinal: number
  readonly graph: number
}

/** A graph, with the distance kind by which its links are selected. */
interface MeasuredGraph extends GraphPlace {
  readonly distanceKind: number
}

/**
 * The tasks of index threads and their results. The main thread sends one task at a time, each of which is answered.
 * Slots are local to their segment.
 */
export interface TaskResults {
  /**
   * Puts stored points into a segment and their ids into `ids`. Takes ranges of slots, as the store numbers them, until
   * all are taken or some milliseconds have passed.
   */
  fill: {
    task: {
      readonly ordinal: number
      readonly rows: StoredRows
      readonly slots: SharedRanges
      readonly ids: IdPages
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
  /** Measures for some milliseconds how well each distance source distinguishes slots: see `checkSources`. */
  check: { task: GraphPlace & SourceCheck; result: readonly SourceRecall[] }
  /** Walks for one query after the other for some milliseconds, and returns what that cost. */
  walk: { task: MeasuredGraph & SampleWalks; result: WalksDone }
  /** Joins the pages of a segment for some milliseconds; parameters and result as for `joinPages`. */
  joinPages: {
    task: { readonly ordinal: number; readonly slots: number; readonly from: number }
    result: number | undefined
  }
  /** Writes the graph to a file atomically. */
  save: { task: GraphPlace & { readonly path: string; readonly meta: CheckpointMeta }; result: undefined }
  /** Reads the graph back; returns undefined when there is no file. */
  load: { task: GraphPlace & { readonly path: string }; result: LoadedGraph | undefined }
  /** Writes the slots of a segment to a file. */
  saveSlots: {
    task: {
      readonly ordinal: number
      readonly ids: IdPages
      readonly path: string
      readonly moment: FileMoment
    }
    result: undefined
  }
  /** Reads the slots of a segment back: see `loadSlots`. */
  loadSlots: {
    task: TaskResults['saveSlots']['task'] & { readonly rows: StoredRows }
    result: number | undefined
  }
  /** Searches for some milliseconds: see `searchSome`. Ends when `stop` is 1; its hits are then incomplete. */
  search: { task: SomeSearch & { readonly stop: Int32Array }; result: SearchedSome }
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
export interface TaskMessage {
  readonly kind: 'task'
  readonly index: number
  readonly task: Task
}

export interface ResultMessage {
  readonly kind: 'result'
  readonly result: TaskResults[TaskKind]['result']
}
