import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { type Metric, metrics } from '../base/point.ts'
import { auditRoutes } from '../index/audit.ts'
import { graphMetrics, type Route } from '../index/graph.ts'
import type { Hit } from '../index/hit.ts'
import type { IndexQuery } from '../index/searcher.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { StoredRows } from '../storage/store.ts'
import { DeadSlots } from './dead-slots.ts'
import { bestMeasure, type GraphMeasure, sampleForCheck } from './graph-measures.ts'
import { GraphRepair } from './graph-repair.ts'
import { GraphScheduler } from './graph-scheduler.ts'
import { GraphSet } from './graph-set.ts'
import type { IdPages } from './id-table.ts'
import type { GraphPlace, LoadedGraph, RouteRecall, TaskResults } from './index-messages.ts'
import type { IndexThreadPool } from './index-thread-pool.ts'
import { LinkBatches } from './link-batches.ts'
import { Reachability } from './reachability.ts'
import { type MetricPlan, plansInWords, RecallPlans } from './recall-plans.ts'
import { shareRanges, stopRanges } from './shared-ranges.ts'
import { WriterRoom } from './writer-room.ts'

export interface IndexerOptions {
  /** Shared with other indexers. */
  readonly threads: IndexThreadPool
  /** Where graphs are kept between starts; undefined to keep none. */
  readonly directory: string | undefined
  readonly maxUnindexedBytes: number
  readonly recallTarget: number
  /** The ef at which recall is measured. */
  readonly hnswEf: number
  /** Rows of fewer bytes are always scanned; for tests of small graphs, 0. */
  readonly graphBytesMin?: number | undefined
  /** Without a change for so long, removed points are taken out and graphs written; for tests, a few. */
  readonly quietMs?: number | undefined
  readonly logger: Logger
  /** Sequence number of the last change that took effect. */
  readonly sequence: () => number
  /** A slot whose point was removed is free for another. */
  readonly onFree: (slot: number) => void
}

/**
 * Keeps the graphs of an index up with its points, on threads that it shares with the indexers of other collections.
 *
 *   inserted ──> link queue (searches scan it) ──> linked, on several threads ──────┐
 *   removed ──> dead ──> enough of them: their links repaired, the slots freed      ├──> now and then: audit, checkpoint
 *                                                                                   ┘
 *
 * Every task of a thread takes some milliseconds, a checkpoint apart, and a thread takes links and other tasks by turns: so
 * nothing that has to be done to a graph, however long it takes, keeps points from being linked. What has to have the graph to
 * itself is short: to mark slots that leave, to free them, to write a checkpoint.
 *
 * Which way a metric's searches take is decided by measurement (audit.ts); until there is one, and whenever no graph is
 * good enough, they are exact scans.
 *
 * Main thread only. A fault in a task ends the use of these graphs, not the service: searches are exact from then on,
 * and the next start builds the graphs anew. A thread that dies does so to all collections.
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
  readonly #room: WriterRoom
  readonly #timer: NodeJS.Timeout
  readonly #quietMs: number
  /** Graphs whose measures are being checked. */
  readonly #checking = new Set<number>()
  #isAuditing = false
  /** Set to 1 it ends the measuring that is under way. */
  #auditStop: Int32Array | undefined
  /** The measuring that is under way can wait. */
  #canAuditWait = false
  /** Measuring gave way to points that came, and has not been taken up again. */
  #isAuditPutOff = false
  /** Slots that were linked or removed since the graphs were last written. */
  #unsaved = 0
  #lastChange = 0
  /** Queries that have asked for their way, now and when the timer came last. */
  #asked = 0
  #askedBefore = 0

  constructor(options: IndexerOptions) {
    this.#options = options
    this.#plans = new RecallPlans(options)
    this.#graphs = new GraphSet(options.maxUnindexedBytes, options.graphBytesMin)
    this.#links = new LinkBatches(this.#graphs, {
      onLinked: ({ graph }, count) => {
        this.#room.linked()
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
      onDispatch: () => this.#auditWhenDue(),
      onFail: () => this.#room.letPass(),
    })
    const parts = { graphs: this.#graphs, scheduler: this.#scheduler, logger: options.logger }
    this.#dead = new DeadSlots(this.#graphs, options.onFree)
    this.#reachability = new Reachability(parts)
    this.#repair = new GraphRepair({ ...parts, dead: this.#dead, reachability: this.#reachability })
    this.#room = new WriterRoom(this.#graphs, options.maxUnindexedBytes)
    if (options.directory !== undefined) mkdirSync(options.directory, { recursive: true, mode: 0o700 })
    this.#threads = options.threads
    this.#quietMs = options.quietMs ?? quietMs
    this.#timer = setInterval(() => this.#whenIdle(), this.#quietMs / 4).unref()
  }

  /** The index to keep, once; segments that it grows later are followed. */
  attach(index: VectorIndex): void {
    this.#graphs.attach(index)
    this.#threads.add(this.#scheduler)
    index.onSegment((segment) => {
      this.#threads.attach(index.id, segment)
      this.#links.addSegment(segment)
    })
  }

  /**
   * Fills the index with the store's points, on all threads: before its graphs are read and anything is inserted.
   *
   * @param ids where the threads write the ids of live slots
   * @throws DatabaseError `internal` that names a damaged row; the reason of `signal` when that aborts
   */
  async fill(rows: StoredRows, ids: IdPages, signal?: AbortSignal): Promise<void> {
    const index = this.#graphs.index
    const step = Math.max(1, Math.floor(fillBytes / index.layout.rowBytes))
    for (const { ordinal, firstSlot, layout } of index.segments) {
      signal?.throwIfAborted()
      const to = Math.min(rows.slotCount, firstSlot + layout.capacity)
      // Threads take slots from one another, not from the main thread, which is busy opening ports.
      const slots = shareRanges(firstSlot, to, step)
      const stop = (): void => stopRanges(slots)
      signal?.addEventListener('abort', stop, { once: true })
      try {
        await Promise.all(
          Array.from({ length: this.#scheduler.threadCount }, async () => {
            while (!(await this.#fillSome({ ordinal, rows, slots, ids })));
          }),
        )
      } finally {
        signal?.removeEventListener('abort', stop)
      }
      signal?.throwIfAborted()
    }
  }

  /** @returns whether all slots have been taken */
  async #fillSome(slots: Omit<TaskResults['fill']['task'], 'isBounded'>): Promise<boolean> {
    const isBounded = this.#scheduler.isShared
    const { points, isDone, fault } = await this.#scheduler.submit({ kind: 'fill', ...slots, isBounded })
    if (fault !== undefined) throw new DatabaseError('internal', fault)
    this.#graphs.index.filled(points)
    return isDone
  }

  /** Reads the graphs that an earlier run kept, and queues the points that they do not have. */
  async load(): Promise<void> {
    const { directory, logger } = this.#options
    if (directory !== undefined) {
      const { places } = this.#graphs
      const loaded = await Promise.all(places.map((place) => this.#loadGraph(place, directory)))
      for (const [at, { graph }] of places.entries()) {
        const each = loaded[at]
        if (each !== undefined)
          this.#graphs.measures.choose(graph, each.meta.measuredOn ?? 'codes', this.#graphs.index.liveCount)
      }
      for (const place of this.#graphs.activePlaces) this.#links.enqueueUnlinked(place)
      const linked = this.#graphs.index.liveCount - this.#graphs.waiting
      for (const each of loaded) if (each !== undefined) this.#plans.restore(each.meta.routes, linked)
      // Only now: what this sets going looks at all graphs, and measures those that are there.
      if (loaded.some((each) => each !== undefined && each.leaving > 0)) {
        this.#graphs.markStale()
        this.#repair.soon()
      }
    }
    if (this.#graphs.hasGraph) {
      const plans = plansInWords(this.plans)
      logger.info({ unindexed: this.unindexed, plans }, 'the index was read from disk')
    }
    await this.#activateWhenDue()
    this.#scheduler.dispatch()
  }

  /** Points that searches scan because they are not in the graph yet. */
  get unindexed(): number {
    return this.#graphs.unindexed
  }

  /** By metric: which way searches take now, and what was measured of it last. */
  get plans(): Readonly<Record<Metric, MetricPlan>> {
    const inForce = (metric: Metric): MetricPlan => ({
      route: this.#usable(this.#plans.routeInForce(metric)),
      recall: this.#plans.of(metric).recall,
    })
    return Object.fromEntries(metrics.map((metric) => [metric, inForce(metric)])) as Record<
      Metric,
      MetricPlan
    >
  }

  /** Slots whose points are gone and whose nodes still stand in a graph. */
  get tombstones(): number {
    return this.#dead.count
  }

  /** By the metric of each graph, what its distances are measured on. */
  get measuredOn(): Readonly<Record<string, GraphMeasure>> {
    return this.#graphs.measuredOn
  }

  /** Whether a graph is being built or recall measured: the ways that searches take may change by that. */
  get isSettling(): boolean {
    return (
      this.#graphs.isStale ||
      this.#isAuditing ||
      this.#isAuditPutOff ||
      this.#checking.size > 0 ||
      this.#graphs.waiting > 0
    )
  }

  /** Resolves when nothing waits, no graph holds a removed point any more and every linked one can be reached. */
  async repaired(): Promise<void> {
    do {
      this.#repair.soon()
      await this.#scheduler.whenIdle()
    } while (
      !this.#scheduler.hasFailed &&
      (this.tombstones > 0 || this.#graphs.waiting > 0 || !this.#reachability.isWhole)
    )
  }

  /** The way that searches under a metric take now; undefined for the exact scan. */
  route(metric: Metric): Route | undefined {
    this.#asked += 1
    return this.#usable(this.#plans.routeFor(metric))
  }

  /** A route, unless the graph cannot be used now. */
  #usable(route: Route | undefined): Route | undefined {
    // What a graph that was read from disk knows under other points leads walks astray until it has been repaired.
    if (
      route === undefined ||
      this.#scheduler.hasFailed ||
      this.#graphs.isStale ||
      !this.#graphs.isCaughtUp(route.graph)
    )
      return undefined
    // A collection that has become small again.
    return this.#graphs.isLarge ? route : undefined
  }

  /**
   * Resolves with true when there is room for more points that wait to be linked, or with false where that takes too long for a
   * writer to wait; undefined when there is room now.
   */
  room(): Promise<boolean> | undefined {
    return this.#room.wait()
  }

  /** Writers wait no more: the index is about to be closed. */
  letWritersPass(): void {
    this.#room.letPass()
  }

  /** A point has taken effect in a slot. */
  inserted(slot: number): void {
    this.#lastChange = performance.now()
    if (!this.#graphs.hasGraph) {
      void this.#activateWhenDue()
    } else {
      this.#links.enqueue(slot)
    }
    if (this.#canAuditWait && !this.#room.hasRoom) this.#stopAudit()
    this.#scheduler.dispatch()
  }

  /** The point of a slot is gone. The slot is free at once, or when no graph leads to it any more. */
  removed(slot: number): void {
    this.#lastChange = performance.now()
    this.#unsaved += 1
    this.#plans.removed(1)
    if (this.#links.isQueued(slot)) this.#dead.addQueued(slot)
    else if (this.#dead.add(slot) && this.#dead.areMany) this.#repair.soon()
  }

  /** Takes removed points out of the graphs before their number asks for it. */
  freeSoon(): void {
    if (this.#dead.inGraphs.size > 0) this.#repair.soon()
  }

  /**
   * Lets what runs end, keeps the graphs for the next start, and has the threads drop the index.
   *
   * @param timeoutMs after which a thread may still be at a task: the next start may read an older checkpoint, then
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

  /** The same without keeping anything; resolves when no thread is at a task of this index any more. */
  async discard(): Promise<void> {
    this.#beginToEnd()
    await this.#scheduler.end()
  }

  #beginToEnd(): void {
    this.#scheduler.beginToClose()
    clearInterval(this.#timer)
    this.letWritersPass()
    this.#stopAudit()
  }

  async #finish(): Promise<void> {
    await this.#scheduler.whenIdle()
    if (
      this.#scheduler.hasFailed ||
      this.#scheduler.hasEnded ||
      !this.#graphs.hasGraph ||
      this.#unsaved === 0
    )
      return
    await this.#scheduler.runJob(() => this.#saveAll())
  }

  /** Bytes of points that may come at once: together with what waits already, searches scan them. */
  get comingBytesMax(): number {
    return this.#graphs.hasGraph ? this.#options.maxUnindexedBytes : Number.POSITIVE_INFINITY
  }

  /** Resolves when the graph has been begun, where it is due. */
  async #activateWhenDue(): Promise<void> {
    if (this.#graphs.measures.isActive(0) || !this.#graphs.isLarge) return
    await this.#activate(0)
  }

  /** Begins a graph, unless its metric is one that nothing in memory can measure here. */
  async #activate(graph: number): Promise<void> {
    if (this.#checking.has(graph)) return
    const { liveCount, layout } = this.#graphs.index
    if (this.#graphs.measures.isCheckDue(graph, liveCount, layout)) await this.#check(graph)
    else if (this.#graphs.measures.chosen[graph] === undefined) this.#begin(graph, 'codes', 0)
  }

  #begin(graph: number, on: GraphMeasure, points: number): void {
    this.#graphs.measures.choose(graph, on, points)
    if (!this.#graphs.measures.isActive(graph)) return
    for (const { ordinal } of this.#graphs.index.segments) this.#links.enqueueUnlinked({ ordinal, graph })
    this.#plans.expire(graphMetrics[graph]!)
    this.#scheduler.dispatch()
  }

  /** Finds what a graph's distances are to be measured on; a graph that there is, and was measured on something else, is built anew. */
  async #check(graph: number): Promise<void> {
    const index = this.#graphs.index
    const points = index.liveCount
    const sample = sampleForCheck(index, index.segments)
    if (sample === undefined) {
      // Hardly a live slot among many: the next check has more to go by.
      if (this.#graphs.measures.chosen[graph] === undefined) this.#begin(graph, 'codes', 0)
      return
    }
    this.#checking.add(graph)
    try {
      const recall = await this.#scheduler.submit({ kind: 'check', graph, ...sample })
      const before = this.#graphs.measures.chosen[graph]
      const best = bestMeasure(recall)
      // A graph on rows finds what one on codes would.
      const on = before === 'rows' && best === 'codes' ? before : best
      const metric = graphMetrics[graph]
      this.#options.logger.info({ metric, points, on, recall }, onWords[on])
      if (this.#graphs.measures.isActive(graph) && on === before)
        this.#graphs.measures.choose(graph, on, points)
      else {
        if (this.#graphs.measures.isActive(graph))
          await this.#scheduler.runChore(() => this.#dropGraph(graph))
        this.#begin(graph, on, points)
        this.#unsaved += 1
      }
    } catch (error) {
      this.#scheduler.fail(error)
    } finally {
      this.#checking.delete(graph)
      this.#scheduler.dispatch()
    }
  }

  /** Empties a graph; searches do not use it any more. */
  async #dropGraph(graph: number): Promise<void> {
    await this.#scheduler.runJob(async () => {
      const places = this.#graphs.activePlaces.filter((place) => place.graph === graph)
      this.#graphs.measures.choose(graph, undefined, 0)
      for (const metric of metrics)
        if (this.#plans.of(metric).route?.graph === graph) this.#plans.forget(metric)
      for (const place of places) {
        await this.#scheduler.submit({ kind: 'reset', ...place })
        this.#links.clear(place)
      }
      for (const slot of [...this.#dead.inGraphs]) this.#dead.freeIfUnknown(slot)
    })
  }

  /** Slots that left the queues: those removed meanwhile may be free now. */
  #left(count: number, slots: readonly number[]): void {
    this.#unsaved += count
    for (const slot of slots) if (this.#dead.leftQueues(slot) && this.#dead.areMany) this.#repair.soon()
    this.#room.queuesShrank()
  }

  async #save(): Promise<void> {
    await this.#reachability.reconnect()
    if (!this.#scheduler.isClosing) await this.#scheduler.runJob(() => this.#saveAll())
  }

  async #saveAll(): Promise<void> {
    const { directory, logger, sequence } = this.#options
    const started = performance.now()
    this.#unsaved = 0
    const meta = { sequence: sequence(), routes: this.#plans.kept }
    for (const place of this.#graphs.activePlaces) {
      if (directory === undefined) continue
      const measuredOn = this.#graphs.measures.active[place.graph]
      const path = graphPath(directory, place)
      try {
        await this.#scheduler.submit({ kind: 'save', ...place, path, meta: { ...meta, measuredOn } })
      } catch (error) {
        // The graph is a cache: without it the next start takes longer, nothing is lost.
        logger.warn({ err: error, ...place }, 'the index could not be written to disk')
      }
    }
    logger.debug({ ms: Math.round(performance.now() - started) }, 'the index was written to disk')
  }

  /** Undefined when there is nothing to read, or nothing of use. */
  async #loadGraph(place: GraphPlace, directory: string): Promise<LoadedGraph | undefined> {
    const path = graphPath(directory, place)
    const loaded = await this.#scheduler.submit({ kind: 'load', ...place, path })
    if (loaded?.fault === undefined) return loaded
    const level = loaded.isOutdated ? 'info' : 'warn'
    this.#options.logger[level](
      { path, reason: loaded.fault },
      'the index on disk is unusable; rebuilding it',
    )
    return undefined
  }

  #auditWhenDue(): void {
    if (!this.#graphs.measures.isActive(0) || this.#isAuditing || this.#scheduler.isClosing) return
    const { index } = this.#graphs
    const waiting = this.#graphs.waiting
    if (this.#plans.due(index.liveCount, waiting, this.#isCalm(waiting)).length === 0) return
    if (this.#graphs.measures.active.some((on, graph) => on !== undefined && !this.#graphs.isCaughtUp(graph)))
      return
    void this.#audit()
  }

  /** Whether there is time to measure what nobody searches with: where points come again and again, when they have ended. */
  #isCalm(waiting: number): boolean {
    return waiting === 0 && (!this.#isAuditPutOff || this.#isQuiet())
  }

  #isQuiet(): boolean {
    return performance.now() - this.#lastChange > this.#quietMs
  }

  /** What was found of each route; undefined where it was broken off, as writers had to wait and nobody for the metric. */
  async #measure(
    metric: Metric,
    ready: readonly boolean[],
    waiting: number,
  ): Promise<readonly RouteRecall[] | undefined> {
    this.#canAuditWait = !this.#plans.isAsked(metric)
    if (this.#canAuditWait && !this.#room.hasRoom) return undefined
    const index = this.#graphs.index
    const { slotCount } = index
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    this.#auditStop = stop
    const search = async (
      queries: readonly IndexQuery[],
    ): Promise<readonly (readonly Hit[])[] | undefined> => {
      const found = await this.#scheduler.submit({ kind: 'search', queries, slotCount, stop })
      return stop[0] === 1 ? undefined : found
    }
    const request = this.#plans.request(index, metric, ready, waiting, this.#graphs.measures.active)
    try {
      return await auditRoutes(index, request, search)
    } finally {
      this.#auditStop = undefined
      this.#canAuditWait = false
    }
  }

  #stopAudit(): void {
    if (this.#auditStop !== undefined) Atomics.store(this.#auditStop, 0, 1)
  }

  async #audit(): Promise<void> {
    this.#isAuditing = true
    const index = this.#graphs.index
    try {
      // Points that cannot be reached count against every route alike: no wider one finds them.
      await this.#scheduler.runChore(() => this.#reachability.reconnect())
      await this.#checkWhenDue()
      const waiting = this.#graphs.waiting
      const measured = this.#plans.now(index.liveCount - waiting)
      const isCalm = this.#isCalm(waiting)
      const due = this.#plans.due(index.liveCount, waiting, isCalm)
      if (this.#scheduler.hasFailed || this.#scheduler.isClosing || due.length === 0) return
      if (isCalm) this.#isAuditPutOff = false
      const ready = graphMetrics.map((_, graph) => this.#graphs.isCaughtUp(graph))
      if (!ready[0]) return
      // One by one: whoever searches under the first need not scan until the last is measured.
      for (const metric of due) {
        const found = await this.#measure(metric, ready, waiting)
        if (found === undefined) {
          this.#isAuditPutOff = !this.#scheduler.isClosing
          break
        }
        // The next start should find another way, though no point has changed.
        if (this.#plans.decide(metric, found, measured)) this.#unsaved += 1
      }
      const plans = plansInWords(this.plans)
      this.#options.logger.info({ plans, points: index.liveCount }, 'measured recall')
    } catch (error) {
      this.#scheduler.fail(error)
    } finally {
      this.#isAuditing = false
    }
    if (this.#plans.isCosineGraphWanted && !this.#scheduler.isClosing) this.#addCosineGraph()
    // Points that were linked meanwhile may have made another measurement due.
    this.#scheduler.dispatch()
  }

  /** Graphs whose measures were chosen when there were far fewer points. */
  async #checkWhenDue(): Promise<void> {
    const { liveCount, layout } = this.#graphs.index
    for (const graph of graphMetrics.keys()) {
      const isDue =
        this.#graphs.measures.isActive(graph) && this.#graphs.measures.isCheckDue(graph, liveCount, layout)
      if (isDue && !this.#checking.has(graph)) await this.#check(graph)
    }
  }

  #addCosineGraph(): void {
    if (this.#graphs.measures.isActive(1) || this.#checking.has(1)) return
    const { liveCount, layout } = this.#graphs.index
    if (
      this.#graphs.measures.chosen[1] !== undefined &&
      !this.#graphs.measures.isCheckDue(1, liveCount, layout)
    )
      return
    this.#options.logger.info('vectors differ in length: Cosine gets a graph of its own')
    void this.#activate(1)
  }

  #whenIdle(): void {
    const isBusy = this.#asked - this.#askedBefore > (busyQueriesPerSecond * this.#quietMs) / 4000
    this.#askedBefore = this.#asked
    this.#room.refuseLate()
    if (!this.#graphs.isAttached || this.#scheduler.hasFailed || !this.#graphs.hasGraph) return
    const isQuiet = this.#isQuiet()
    if (this.#dead.inGraphs.size > 0 && isQuiet) this.#repair.soon()
    const isMuch = this.#unsaved > Math.max(saveMin, this.#graphs.index.liveCount * saveShare)
    // The file keeps the plans too: written while they are being made, it would not be written again with them.
    if (this.#unsaved > 0 && this.#scheduler.isIdle && (isMuch || (isQuiet && !this.isSettling))) {
      this.#scheduler.addChore(() => this.#save())
    }
    if (isQuiet) this.#plans.expireWhenOld(performance.now(), isBusy)
    this.#scheduler.dispatch()
  }
}

const onWords = {
  codes: 'the graph is measured on codes, which tell the points apart',
  rows: 'the graph is measured on the vectors themselves: codes do not tell the points apart',
  nothing: 'no graph: neither codes nor float32 distances tell the points apart, searches are exact',
} as const

const closeMs = 10_000
/** Some milliseconds of filling. */
const fillBytes = 4 * 1024 * 1024
const saveMin = 20_000
const saveShare = 0.1
const quietMs = 2_000
/** A few per cent of a core: measuring recall, which takes one for some seconds, does them no harm. */
const busyQueriesPerSecond = 100

function graphPath(directory: string, { ordinal, graph }: GraphPlace): string {
  return join(directory, `graph-${ordinal}-${graph}.bin`)
}
