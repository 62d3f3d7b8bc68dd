import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from '../base/errors.ts'
import type { FileMoment } from '../base/files.ts'
import type { Logger } from '../base/log.ts'
import type { Metric } from '../base/point.ts'
import { GraphState } from '../index/graph-state.ts'
import { adviseHugePages, canUseHugePages, isLarge } from '../index/huge-pages.ts'
import { pageBytes, pagesFor } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { BinRecall, GraphDistanceSource, MetricPlan } from '../points/database.ts'
import { type IdPages, writePagedId } from '../points/id-table.ts'
import { readRows } from '../storage/files/row-file.ts'
import type { StoredRows } from '../storage/store.ts'
import { shareRanges, stopRanges } from './engine-thread.ts'
import { Checkpoints, GraphBuilds } from './graph-builds.ts'
import { DeadSlots, GraphRepair, Reachability } from './graph-repair.ts'
import { GraphScheduler } from './graph-scheduler.ts'
import { GraphSet } from './graph-set.ts'
import type { IndexThreadPool, TaskResults } from './index-thread-pool.ts'
import { Backpressure, LinkBatches } from './link-batches.ts'
import { RecallControl } from './recall-control.ts'
import { type FilteredAsk, plansInWords, RecallPlans, type RouteInForce } from './recall-plans.ts'
import { SlotFiles } from './slot-files.ts'

export interface IndexerOptions {
  /** Shared with other indexers. */
  readonly threads: IndexThreadPool
  /** The directory where graphs are saved; undefined to save none. */
  readonly directory: string | undefined
  readonly maxUnindexedBytes: number
  readonly recallTarget: number
  /** The ef at which recall is measured. */
  readonly hnswEf: number
  /** A collection whose rows take fewer bytes is always scanned; tests of small graphs use 0. */
  readonly graphBytesMin?: number | undefined
  /**
   * After this time without a change, removed points are taken out of the graphs and graphs are written; tests use a
   * few milliseconds.
   */
  readonly quietMs?: number | undefined
  readonly logger: Logger
  /** The moment of the points in memory; undefined while memory and store differ. */
  readonly moment: () => FileMoment | undefined
  /** Where the ids of slots are. */
  readonly ids: () => IdPages
  /** Called when the slot of a removed point can be reused. */
  readonly onFree: (slot: number) => void
  /** Called after the recall of a metric was measured and its plan was chosen; for tests. */
  readonly onMeasured?: ((metric: Metric) => void) | undefined
}

/**
 * Keeps the graphs of an index up to date with its points, on threads shared with the indexers of other collections.
 *
 *   inserted ──> link queue (searches scan it) ──> linked, on several threads ──────┐
 *   removed ──> dead ──> enough of them: their links repaired, the slots freed      ├──> now and then: audit, checkpoint
 *                                                                                   ┘
 *
 * Every task of a thread takes some milliseconds, except for a checkpoint. A thread alternates between links and other
 * tasks, so other work on a graph, however long it takes, never stops points from being linked. Only short jobs need
 * exclusive use of the graph: marking slots as leaving, freeing them, writing a checkpoint.
 *
 * Measurement decides the route of each metric's searches (audit.ts). Until a metric is measured, and whenever no graph
 * is good enough, searches are exact scans.
 *
 * Main thread only. A fault in a task, or the death of its thread, ends the use of these graphs, not the service:
 * searches are exact from then on, slots are freed as soon as their points are removed, and the next start rebuilds the
 * graphs. Other collections keep their graphs.
 */
export class Indexer {
  readonly #options: IndexerOptions
  readonly #threads: IndexThreadPool
  readonly #plans: RecallPlans
  readonly #graphs: GraphSet
  readonly #links: LinkBatches
  readonly #scheduler: GraphScheduler
  readonly #dead: DeadSlots
  readonly #reachability: Reachability
  readonly #repair: GraphRepair
  readonly #backpressure: Backpressure
  readonly #checkpoints: Checkpoints
  readonly #slotFiles: SlotFiles
  readonly #builds: GraphBuilds
  readonly #recall: RecallControl
  readonly #timer: NodeJS.Timeout
  readonly #quietMs: number
  #lastChange = 0

  constructor(options: IndexerOptions) {
    this.#options = options
    this.#plans = new RecallPlans(options)
    this.#graphs = new GraphSet(options.maxUnindexedBytes, options.graphBytesMin)
    this.#links = new LinkBatches(this.#graphs, {
      onLinked: ({ graph }, count) => {
        this.#backpressure.linked(graph === 0 ? count : 0)
        this.#reachability.changed()
        if (graph === 0) this.#plans.linked(count)
      },
      onLeft: (count, slots) => this.#left(count, slots),
    })
    this.#scheduler = new GraphScheduler({
      threads: options.threads,
      graphs: this.#graphs,
      links: this.#links,
      logger: options.logger,
      onDispatch: () => this.#recall.startWhenDue(),
      onFail: () => {
        this.#backpressure.letPass()
        this.#links.close()
        this.#dead.freeAll()
      },
    })
    const parts = { graphs: this.#graphs, scheduler: this.#scheduler, logger: options.logger }
    this.#dead = new DeadSlots(this.#graphs, options.onFree)
    this.#reachability = new Reachability(parts)
    this.#repair = new GraphRepair({ ...parts, dead: this.#dead, reachability: this.#reachability })
    this.#backpressure = new Backpressure(this.#graphs, options.maxUnindexedBytes)
    const shared = {
      ...parts,
      plans: this.#plans,
      reachability: this.#reachability,
    }
    const { directory, moment, ids } = options
    this.#checkpoints = new Checkpoints({ ...shared, directory })
    this.#slotFiles = new SlotFiles({ ...parts, directory, moment, ids })
    const kept = { ...shared, checkpoints: this.#checkpoints }
    this.#builds = new GraphBuilds({
      ...kept,
      links: this.#links,
      dead: this.#dead,
      backpressure: this.#backpressure,
    })
    this.#recall = new RecallControl({
      ...kept,
      backpressure: this.#backpressure,
      builds: this.#builds,
      isQuiet: () => this.#isQuiet(),
      onMeasured: options.onMeasured,
    })
    this.#threads = options.threads
    this.#quietMs = options.quietMs ?? quietMs
    this.#timer = setInterval(() => this.#whenIdle(), this.#quietMs / 4).unref()
  }

  /** Attaches the index to maintain. Call once; segments that the index adds later are attached automatically. */
  attach(index: VectorIndex): void {
    this.#graphs.attach(index)
    this.#threads.add(this.#scheduler)
    index.onSegment((segment) => this.#threads.attach(index.id, segment))
  }

  /**
   * Fills the index with the store's points, from saved slots or on all threads, unless there are few points. Call it
   * before `load` and before anything is inserted.
   *
   * @param ids where the threads write the ids of live slots
   * @throws DatabaseError `internal` that names a damaged row; the reason of `signal` when it aborts
   */
  async fill(rows: StoredRows, ids: IdPages, signal?: AbortSignal): Promise<void> {
    const { index } = this.#graphs
    const isSmall = rows.slotCount * index.layout.rowBytes <= fillHereBytes
    if (isSmall && !this.#checkpoints.haveFiles) fillHere(index, rows, ids)
    else if (!(await this.#slotFiles.load(rows, ids)))
      await fillIndex({ graphs: this.#graphs, scheduler: this.#scheduler, rows, ids }, signal)
  }

  /** Reads the saved graphs of an earlier run, and queues the points that they lack. */
  async load(): Promise<void> {
    const loaded = await this.#checkpoints.load()
    for (const place of this.#graphs.activePlaces) this.#links.enqueueUnlinked(place)
    this.#backpressure.expectBacklog()
    const linked = this.#graphs.index.liveCount - this.#graphs.waiting
    for (const { meta } of loaded) {
      this.#plans.restore(meta.plans, linked)
    }
    // Started only now, because a repair looks at all graphs, and recall is measured on all that exist.
    if (loaded.some(({ leaving }) => leaving > 0)) {
      this.#graphs.markStale()
      this.#repair.soon()
    }
    if (this.#graphs.hasGraph) {
      const plans = plansInWords(this.plans)
      this.#options.logger.info({ unindexed: this.unindexed, plans }, 'the index was read from disk')
    }
    await this.#builds.beginWhenDue()
    if (canUseHugePages()) this.#scheduler.addChore(() => this.#useHugePages())
    this.#scheduler.dispatch()
  }

  async #useHugePages(): Promise<void> {
    for (const segment of this.#graphs.index.segments) {
      const { slotCount: slots } = new GraphState(segment, 0)
      if (!isLarge(pagesFor(segment.layout, slots) * pageBytes, segment.layout)) continue
      adviseHugePages(segment)
      for (let from: number | undefined = 0; from !== undefined && !this.#scheduler.isClosing; ) {
        from = await this.#scheduler.submit({ kind: 'joinPages', ordinal: segment.ordinal, slots, from })
      }
    }
  }

  /** The number of points that searches scan because they are not in the graph yet. */
  get unindexed(): number {
    return this.#graphs.unindexed
  }

  /** By metric: the route that searches take now, and its last measured recall. */
  get plans(): Readonly<Record<Metric, MetricPlan>> {
    return this.#recall.inForce
  }

  /** The number of slots whose points were removed and that are still in a graph or a link queue. */
  get tombstones(): number {
    return this.#dead.count
  }

  /** What each graph's distances are computed from, by the graph's metric. */
  get distanceSources(): Readonly<Record<string, GraphDistanceSource>> {
    return this.#graphs.distanceSources
  }

  /** Whether a graph is being built or recall is being measured: the routes of searches may change as a result. */
  get isSettling(): boolean {
    return (
      this.#graphs.isStale || this.#recall.isPending || this.#builds.isChecking || this.#graphs.waiting > 0
    )
  }

  get isRebuilding(): boolean {
    return this.#graphs.isRebuilding
  }

  /** Resolves when no points wait, no graph contains removed points, and every linked point is reachable. */
  async repaired(): Promise<void> {
    do {
      this.#repair.soon()
      await this.#scheduler.whenIdle()
    } while (
      !this.#scheduler.hasFailed &&
      (this.tombstones > 0 || this.#graphs.waiting > 0 || !this.#reachability.isWhole)
    )
  }

  /**
   * Returns the current route of searches with a metric, or of a search with a filter; undefined for the exact scan.
   */
  route(metric: Metric, ask?: FilteredAsk): RouteInForce | undefined {
    return this.#recall.route(metric, ask)
  }

  /** The recall of searches with filters, by metric and selectivity bin. */
  get filteredRecalls(): readonly BinRecall[] {
    return this.#recall.filteredRecalls
  }

  /**
   * Undefined if more points may wait to be linked now. Otherwise resolves with true when writers may go on, or with false
   * when a writer has waited too long.
   */
  mayWrite(): Promise<boolean> | undefined {
    return this.#backpressure.wait()
  }

  /** Lets waiting and later writers pass, because the index is about to be closed. */
  letWritersPass(): void {
    this.#backpressure.letPass()
  }

  /** Call when a point has taken effect in a slot. */
  inserted(slot: number): void {
    this.#lastChange = performance.now()
    this.#slotFiles.changed()
    if (this.#scheduler.hasFailed) return
    if (!this.#graphs.hasGraph) {
      void this.#builds.beginWhenDue()
      return
    }
    this.#links.enqueue(slot)
    this.#recall.yieldToWriters()
    // Whatever else the point makes due starts when it has been linked.
    this.#scheduler.occupySoon()
  }

  /**
   * Call when the point of a slot was removed. The slot is freed immediately, or when no graph leads to it any more. If
   * the graphs have failed, nothing uses them: walks that began earlier check what they find (search-answers.ts).
   */
  removed(slot: number): void {
    this.#lastChange = performance.now()
    this.#slotFiles.changed()
    this.#checkpoints.changed(1)
    this.#plans.removed(1)
    if (this.#scheduler.hasFailed) this.#options.onFree(slot)
    else if (this.#links.isQueued(slot)) this.#dead.addQueued(slot)
    else if (this.#dead.add(slot) && this.#dead.areMany) this.#repair.soon()
  }

  /** Repairs the graphs before there are many removed points in them. */
  freeSoon(): void {
    if (this.#dead.inGraphs.size > 0) this.#repair.soon()
  }

  /**
   * Waits for running tasks, saves the graphs for the next start, and makes the threads drop the index.
   *
   * @param timeoutMs after this time, a thread may still be busy; the next start may then read an older checkpoint
   */
  async close(timeoutMs: number = closeMs): Promise<void> {
    this.#beginToEnd()
    const time = new AbortController()
    const isLate = sleep(timeoutMs, true, { signal: time.signal, ref: false }).catch(() => false)
    if (await Promise.race([this.#finish().then(() => false), isLate])) {
      this.#options.logger.warn(
        { timeoutMs },
        'index threads were stopped before the index was written to disk',
      )
    }
    await Promise.race([this.#scheduler.end(), isLate])
    time.abort()
  }

  /** Like `close`, but saves nothing; resolves when no thread works on this index any more. */
  async discard(): Promise<void> {
    this.#beginToEnd()
    await this.#scheduler.end()
  }

  #beginToEnd(): void {
    this.#scheduler.beginToClose()
    clearInterval(this.#timer)
    this.letWritersPass()
    this.#recall.stop()
  }

  async #finish(): Promise<void> {
    await this.#scheduler.whenIdle()
    await this.#checkpoints.saveLast()
    await this.#slotFiles.saveLast()
  }

  /** The most bytes of points that may be inserted together, because searches scan them with those already waiting. */
  get comingBytesMax(): number {
    return this.#graphs.hasGraph ? this.#options.maxUnindexedBytes : Number.POSITIVE_INFINITY
  }

  /** Handles slots that left the queues: those removed meanwhile may be free now. */
  #left(count: number, slots: readonly number[]): void {
    this.#checkpoints.changed(count)
    for (const slot of slots) if (this.#dead.leftQueues(slot) && this.#dead.areMany) this.#repair.soon()
    this.#backpressure.recheck()
  }

  #isQuiet(): boolean {
    return performance.now() - this.#lastChange > this.#quietMs
  }

  #whenIdle(): void {
    const isBusy = this.#recall.takeAsked() > (busyQueriesPerSecond * this.#quietMs) / 4000
    this.#backpressure.refuseLate()
    if (!this.#graphs.isAttached || this.#scheduler.hasFailed || !this.#graphs.hasGraph) return
    const isQuiet = this.#isQuiet()
    if (this.#dead.inGraphs.size > 0 && isQuiet) this.#repair.soon()
    const isCalm = isQuiet && !this.isSettling
    this.#checkpoints.saveWhenDue(isCalm)
    this.#slotFiles.saveWhenDue(isCalm)
    if (isQuiet) this.#reachability.reconnectWhenIdle()
    if (isQuiet) this.#plans.expireWhenOld(performance.now(), isBusy)
    this.#scheduler.dispatch()
  }
}

const closeMs = 10_000
const quietMs = 2_000
/**
 * A few per cent of a core: recall measurements, which take one core for some seconds, do not slow such searches down.
 */
const busyQueriesPerSecond = 100

interface FillOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly rows: StoredRows
  /** Where the threads write the ids of live slots. */
  readonly ids: IdPages
}

/**
 * Fills an index with a store's points, on all index threads.
 *
 * @throws DatabaseError `internal` that names a damaged row; the reason of `signal` when it aborts
 */
async function fillIndex({ graphs, scheduler, rows, ids }: FillOptions, signal?: AbortSignal): Promise<void> {
  const { index } = graphs
  const step = Math.max(1, Math.floor(fillBytes / index.layout.rowBytes))
  for (const { ordinal, firstSlot, layout } of index.segments) {
    signal?.throwIfAborted()
    const to = Math.min(rows.slotCount, firstSlot + layout.capacity)
    // Threads take ranges of slots from shared memory, not from the main thread, which is busy opening ports.
    const slots = shareRanges(firstSlot, to, step)
    const stop = (): void => stopRanges(slots)
    signal?.addEventListener('abort', stop, { once: true })
    try {
      await Promise.all(
        Array.from({ length: scheduler.threadCount }, async () => {
          while (!(await fillSome(graphs, scheduler, { ordinal, rows, slots, ids })));
        }),
      )
    } finally {
      signal?.removeEventListener('abort', stop)
    }
    signal?.throwIfAborted()
  }
}

/** @returns whether all slots have been taken */
async function fillSome(
  graphs: GraphSet,
  scheduler: GraphScheduler,
  slots: TaskResults['fill']['task'],
): Promise<boolean> {
  const { points, isDone, fault } = await scheduler.submit({ kind: 'fill', ...slots })
  if (fault !== undefined) throw new DatabaseError('internal', fault)
  graphs.index.filled(points)
  return isDone
}

/**
 * Fills an index on the calling thread. For a few points this is faster than sending them to threads, and no other
 * thread has to attach the index. It makes no codes, so graphs that are read from disk need `fillIndex`.
 *
 * @throws DatabaseError `internal` that names a damaged row
 */
function fillHere(index: VectorIndex, rows: StoredRows, ids: IdPages): void {
  readRows(rows, 0, rows.slotCount, ({ slot, id, sequence, vector }) => {
    writePagedId(ids, slot, id)
    index.place(slot, vector, sequence)
  })
}

/** A millisecond or two of reading. */
const fillHereBytes: number = 512 * 1024

/** A few milliseconds of filling. */
const fillBytes = 4 * 1024 * 1024
