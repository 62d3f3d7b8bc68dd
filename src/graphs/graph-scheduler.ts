import type { Logger } from '../base/log.ts'
import type { GraphSet } from './graph-set.ts'
import type {
  IndexThread,
  IndexThreadPool,
  IndexThreadUser,
  Task,
  TaskKind,
  TaskResults,
} from './index-thread-pool.ts'
import type { LinkBatches } from './link-batches.ts'

interface GraphSchedulerOptions {
  /** Shared with other indexes. */
  readonly threads: IndexThreadPool
  readonly graphs: GraphSet
  readonly links: LinkBatches
  readonly logger: Logger
  /** Called after every dispatch, when everything that can start now has started. */
  readonly onDispatch: () => void
  /** Called when the graphs can no longer be used. */
  readonly onFail: () => void
}

/** A task or job that has not started yet. */
interface Waiting<Argument extends unknown[]> {
  readonly start: (...argument: Argument) => Promise<void>
  readonly reject: (error: unknown) => void
}

/**
 * Hands out links and other tasks of one index to the index threads, alternating between the two.
 *
 * A chore is work on the graphs while points are being linked, such as a repair; chores run one after another. A job
 * needs exclusive use of the graphs: no links are made while one waits or runs, so it must be short. Chores consist of
 * jobs, and jobs of tasks.
 *
 * A fault ends the use of the graphs: what waits or runs is rejected, and so is whatever is scheduled from then on. Main
 * thread only.
 */
export class GraphScheduler implements IndexThreadUser {
  readonly #options: GraphSchedulerOptions
  /** Tasks that wait for a thread, other than links. */
  readonly #tasks: Waiting<[IndexThread]>[] = []
  /** Threads whose last task was not a link batch. They link next. */
  readonly #owesLinks = new Set<IndexThread>()
  readonly #chores: (() => Promise<void>)[] = []
  readonly #jobs: Waiting<[]>[] = []
  #chore: Promise<void> | undefined
  #job: Promise<void> | undefined
  /** The number of threads that are linking. */
  #linking = 0
  #hasFailed = false
  /** Why the graphs can no longer be used. */
  #fault: unknown
  #isClosing = false
  #isOccupyDue = false
  /** No more tasks are given to threads. */
  #hasEnded = false

  constructor(options: GraphSchedulerOptions) {
    this.#options = options
  }

  /** The number of threads. */
  get threadCount(): number {
    return this.#options.threads.size
  }

  get hasFailed(): boolean {
    return this.#hasFailed
  }

  /** Whether chores in progress should end soon. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Whether no chore waits or runs. */
  get isIdle(): boolean {
    return this.#chore === undefined && this.#chores.length === 0
  }

  /** Runs a task on the next free thread. Rejects when the task fails, its thread dies or the graphs have failed. */
  submit<Kind extends TaskKind>(task: Task<Kind>): Promise<TaskResults[Kind]['result']> {
    if (this.#hasFailed) return Promise.reject(this.#fault)
    return new Promise((resolve, reject) => {
      const start = (thread: IndexThread): Promise<void> =>
        thread
          .run(this.#options.graphs.index.id, task)
          .then(resolve, reject)
          .finally(() => this.dispatch())
      this.#tasks.push({ start, reject })
      this.dispatch()
    })
  }

  /** Runs a job with exclusive use of the graphs; resolves when it has ended. */
  runJob(job: () => Promise<void>): Promise<void> {
    if (this.#hasFailed) return Promise.reject(this.#fault)
    return new Promise((resolve, reject) => {
      this.#jobs.push({ start: () => job().then(resolve, reject), reject })
      this.dispatch()
    })
  }

  /** Runs a chore in its turn; resolves when it has ended. Never resolves if `beginToClose` drops the chore first. */
  runChore(chore: () => Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      this.addChore(() => chore().finally(resolve))
      this.dispatch()
    })
  }

  /** Adds a chore, which begins at the next dispatch. */
  addChore(chore: () => Promise<void>): void {
    this.#chores.push(chore)
  }

  /** Gives an idle thread a task. Links and other tasks alternate; no links while a job needs the graphs. */
  occupy(thread: IndexThread): boolean {
    if (this.#hasFailed) return false
    const wantsAlone = this.#job !== undefined || this.#jobs.length > 0
    const mayLink = !wantsAlone && !this.#options.graphs.isStale && !this.#isClosing
    if (mayLink && this.#owesLinks.delete(thread) && this.#linkNext(thread)) return true
    const task = this.#tasks.shift()
    if (task === undefined) return mayLink && this.#linkNext(thread)
    this.#owesLinks.add(thread)
    void task.start(thread)
    return true
  }

  /** @returns whether there was something to link */
  #linkNext(thread: IndexThread): boolean {
    const { graphs, links } = this.#options
    const batch = links.next()
    if (batch === undefined) return false
    const { place, slots } = batch
    this.#linking += 1
    thread
      .run(graphs.index.id, { kind: 'link', ...place, distanceKind: graphs.linkDistanceKind(place), slots })
      .then((count) => {
        this.#linking -= 1
        links.linked(batch, count)
        this.dispatch()
      }, this.fail)
    return true
  }

  /**
   * Gives tasks to idle threads after this turn of the event loop, in which more points may be inserted. Waking a thread
   * for one point costs more than the rest of the insert.
   */
  occupySoon(): void {
    if (this.#isOccupyDue) return
    this.#isOccupyDue = true
    setImmediate(() => {
      this.#isOccupyDue = false
      this.#options.threads.dispatch()
    })
  }

  /** Gives tasks to idle threads, and starts the job, the chore and the measurement that can start now. */
  dispatch(): void {
    this.#options.threads.dispatch()
    if (this.#hasFailed || this.#hasEnded) return
    if (this.#job === undefined && this.#linking === 0 && this.#jobs.length > 0) this.#startJob()
    if (this.#chore === undefined && this.#chores.length > 0) this.#startChore()
    this.#options.onDispatch()
  }

  #startChore(): void {
    this.#chore = this.#start(this.#chores.shift()!, () => {
      this.#chore = undefined
    })
  }

  #startJob(): void {
    this.#job = this.#start(this.#jobs.shift()!.start, () => {
      this.#job = undefined
    })
  }

  /** Runs in a later microtask: `#chore` or `#job` must be set before the work submits its first task. */
  async #start(work: () => Promise<void>, ended: () => void): Promise<void> {
    await Promise.resolve()
    try {
      await work()
    } catch (error) {
      this.fail(error)
    }
    ended()
    this.dispatch()
  }

  /** Resolves when no chore or job waits or runs, and no batch of links is in progress. */
  async whenIdle(): Promise<void> {
    const { links } = this.#options
    const isBusy = (): boolean =>
      !this.isIdle || this.#linking > 0 || links.hasBegun || this.#jobs.length > 0 || this.#job !== undefined
    while (!this.#hasFailed && !this.#hasEnded && isBusy()) {
      if (this.#isClosing) links.dropBegun()
      this.dispatch()
      await (this.#chore ?? this.#job ?? new Promise((resolve) => setTimeout(resolve, 5)))
    }
  }

  /** Drops the waiting chores, and starts no more links. */
  beginToClose(): void {
    this.#isClosing = true
    this.#chores.length = 0
  }

  /** Gives the threads no more tasks; resolves when none works on this index any more. */
  async end(): Promise<void> {
    const { threads, graphs } = this.#options
    this.#hasEnded = true
    threads.remove(this)
    if (graphs.isAttached) await threads.detach(graphs.index.id)
  }

  /** Ends the use of the graphs. A bound function. */
  readonly fail = (error: unknown): void => {
    if (this.#hasFailed) return
    this.#hasFailed = true
    this.#fault = error
    const { threads, graphs, onFail, logger } = this.#options
    for (const { reject } of [...this.#tasks.splice(0), ...this.#jobs.splice(0)]) reject(error)
    // Whoever failed may have held the lock of a node, for which other threads wait for ever. Also, slots are reused
    // from now on: a checkpoint in progress would pair the links of an old point with the number of the new one.
    if (graphs.isAttached) threads.stopTasks(graphs.index.id, error)
    onFail()
    // A thread that was stopped in the middle of its task, because the service could wait no longer, is no news.
    if (this.#hasEnded) return
    logger.error({ err: error }, 'the index failed: searches are exact scans until the next start')
  }
}
