import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { Metric } from '../base/point.ts'
import type { Route } from '../index/graph.ts'
import { slotStates } from '../index/graph-state.ts'
import { graphsPerSegment } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { StoredRows } from '../storage/store.ts'
import type { IdPages } from './id-table.ts'
import type { GraphPlace, LoadedGraph, RouteRecall, Task, TaskKind, TaskResults } from './index-messages.ts'
import type { IndexThread } from './index-thread.ts'
import { type MetricPlan, RecallPlans } from './recall-plans.ts'
import { shareRanges, stopRanges } from './shared-ranges.ts'

export interface IndexerOptions {
  /** Nobody else's: the indexer stops them. */
  readonly threads: readonly IndexThread[]
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
 * Keeps the graphs of an index up with its points, on threads of its own.
 *
 *   inserted ──> link queue (searches scan it) ──> linked, by all threads at once ──┐
 *   removed ──> dead ──> enough of them: their links repaired, the slots freed      ├──> now and then: audit, checkpoint
 *                                                                                   ┘
 *
 * Repairs and checkpoints have the graphs to themselves: linking waits for them, searches do not. Which way a
 * metric's searches take is decided by measurement (audit.ts); until there is one, and whenever no graph is
 * good enough, they are exact scans.
 *
 * Main thread only. A fault in an index thread ends the use of the graphs, not the service: searches are exact
 * from then on, and the next start builds the graphs anew.
 */
export class Indexer {
  readonly #options: IndexerOptions
  readonly #threads: readonly IndexThread[]
  readonly #plans: RecallPlans
  /** Graphs that points are linked into. */
  readonly #active: boolean[] = Array.from({ length: graphsPerSegment }, () => false)
  /** Slots, over all segments, whose points are gone and whose nodes are not. */
  readonly #dead = new Set<number>()
  /** By segment: in how many queues a slot waits. */
  readonly #queued: Uint8Array[] = []
  readonly #urgent: (() => void)[] = []
  readonly #jobs: (() => Promise<void>)[] = []
  readonly #timer: NodeJS.Timeout
  readonly #quietMs: number
  #index: VectorIndex | undefined
  #job: Promise<void> | undefined
  #linking = 0
  #isAuditing = false
  /** Ends the measuring that is under way, where it can wait. */
  #stopAudit: (() => void) | undefined
  /** Measuring gave way to points that came, and has not been taken up again. */
  #isAuditPutOff = false
  #isRepairDue = false
  /** Slots that were linked or removed since the graphs were last written. */
  #unsaved = 0
  #lastChange = 0
  /** Queries that have asked for their way, now and when the timer came last. */
  #asked = 0
  #askedBefore = 0
  #isBroken = false
  #isClosing = false
  #room: PromiseWithResolvers<void> | undefined

  constructor(options: IndexerOptions) {
    this.#options = options
    this.#plans = new RecallPlans(options)
    if (options.directory !== undefined) mkdirSync(options.directory, { recursive: true, mode: 0o700 })
    this.#threads = options.threads
    this.#quietMs = options.quietMs ?? quietMs
    this.#timer = setInterval(() => this.#whenIdle(), this.#quietMs / 4).unref()
  }

  /** The index to keep, once; segments that it grows later are followed. */
  attach(index: VectorIndex): void {
    this.#index = index
    index.onSegment((segment) => {
      for (const thread of this.#threads) thread.attach(segment)
      this.#queued[segment.ordinal] = new Uint8Array(segment.layout.capacity)
    })
  }

  /**
   * Fills the index with the store's points, on all threads: before its graphs are read and anything is inserted.
   *
   * @param ids where the threads write the ids of live slots
   * @throws DatabaseError `internal` that names a damaged row; the reason of `signal` when that aborts
   */
  async fill(rows: StoredRows, ids: IdPages, signal?: AbortSignal): Promise<void> {
    const index = this.#index!
    const step = Math.max(1, Math.floor(fillBytes / index.layout.rowBytes))
    for (const { ordinal, firstSlot, layout } of index.segments) {
      signal?.throwIfAborted()
      const to = Math.min(rows.slotCount, firstSlot + layout.capacity)
      // Threads take slots from one another, not from the main thread, which is busy opening ports.
      const slots = shareRanges(firstSlot, to, step)
      const stop = (): void => stopRanges(slots)
      signal?.addEventListener('abort', stop, { once: true })
      const filled = await Promise.all(
        this.#threads.map(() => this.#submit({ kind: 'fill', ordinal, rows, slots, ids })),
      )
      signal?.removeEventListener('abort', stop)
      signal?.throwIfAborted()
      for (const { points, fault } of filled) {
        if (fault !== undefined) throw new DatabaseError('internal', fault)
        index.filled(points)
      }
    }
  }

  /** Reads the graphs that an earlier run kept, and queues the points that they do not have. */
  async load(): Promise<void> {
    const { directory, logger } = this.#options
    if (directory !== undefined) {
      const places = this.#places(() => true)
      const loaded = await Promise.all(places.map((place) => this.#loadGraph(place, directory)))
      for (const [at, { graph }] of places.entries()) if (loaded[at] !== undefined) this.#active[graph] = true
      for (const place of this.#activePlaces()) this.#enqueueUnlinked(place)
      const linked = this.#index!.liveCount - this.#waiting()
      for (const each of loaded) if (each !== undefined) this.#plans.restore(each.meta.routes, linked)
      // Only now: what this sets going looks at all graphs, and measures those that are there.
      if (loaded.some((each) => each !== undefined && each.leaving > 0)) this.#repairSoon()
    }
    if (this.#active.includes(true)) {
      logger.info({ unindexed: this.unindexed, plans: this.plans }, 'the index was read from disk')
    }
    this.#activateWhenDue()
    this.#dispatch()
  }

  /** Points that searches scan because they are not in the graph yet. */
  get unindexed(): number {
    return this.#queueLength(0)
  }

  get plans(): Readonly<Record<Metric, MetricPlan>> {
    return this.#plans.all
  }

  /** Slots whose points are gone and whose nodes still stand in a graph. */
  get tombstones(): number {
    return this.#dead.size
  }

  /** Whether a graph is being built or recall measured: the ways that searches take may change by that. */
  get isSettling(): boolean {
    return this.#isAuditing || this.#isAuditPutOff || this.#waiting() > 0
  }

  /** Resolves when no graph holds a removed point any more and every linked one can be reached. */
  async mended(): Promise<void> {
    do {
      this.#repairSoon()
      await this.#whenIdleAgain()
    } while (this.#dead.size > 0 && !this.#isBroken)
  }

  /** The way that searches under a metric take now; undefined for the exact scan. */
  route(metric: Metric): Route | undefined {
    this.#asked += 1
    const route = this.#plans.routeFor(metric, this.#index?.liveCount ?? 0)
    if (route === undefined || this.#isBroken || !this.#isCaughtUp(route.graph)) return undefined
    return route
  }

  /** Resolves when there is room for more points that wait to be linked; undefined when there is. */
  room(): Promise<void> | undefined {
    if (this.#hasRoom()) return undefined
    this.#room ??= Promise.withResolvers<void>()
    return this.#room.promise
  }

  /** A point has taken effect in a slot. */
  inserted(slot: number): void {
    this.#lastChange = performance.now()
    if (!this.#active.includes(true)) {
      this.#activateWhenDue()
    } else {
      for (const [graph, isActive] of this.#active.entries()) if (isActive) this.#enqueue(slot, graph)
    }
    if (this.#stopAudit !== undefined && !this.#hasRoom()) this.#stopAudit()
    this.#dispatch()
  }

  /** The point of a slot is gone. The slot is free at once, or when no graph leads to it any more. */
  removed(slot: number): void {
    this.#lastChange = performance.now()
    this.#unsaved += 1
    this.#dead.add(slot)
    if (this.#freeIfUnknown(slot)) return
    if (this.#dead.size >= Math.max(repairMin, this.#index!.liveCount * repairShare)) this.#repairSoon()
  }

  /** Takes removed points out of the graphs before their number asks for it. */
  freeSoon(): void {
    if (this.#dead.size > 0) this.#repairSoon()
  }

  /** Lets what runs end, keeps the graphs for the next start, and stops the threads. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearInterval(this.#timer)
    this.#room?.resolve()
    if (!this.#isBroken && this.#active.includes(true) && this.#unsaved > 0)
      this.#jobs.push(() => this.#save())
    await this.#whenIdleAgain()
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
  }

  /** Until no job waits or runs, and no link is under way. */
  async #whenIdleAgain(): Promise<void> {
    while (!this.#isBroken && (this.#linking > 0 || this.#jobs.length > 0 || this.#job !== undefined)) {
      this.#dispatch()
      await (this.#job ?? new Promise((resolve) => setTimeout(resolve, 5)))
    }
  }

  /** Bytes of points that may come at once: together with what waits already, searches scan them. */
  get comingBytesMax(): number {
    return this.#active.includes(true) ? this.#options.maxUnindexedBytes : Number.POSITIVE_INFINITY
  }

  #hasRoom(): boolean {
    if (this.#index === undefined || this.#isBroken || this.#isClosing) return true
    return this.unindexed * this.#index.layout.rowBytes <= this.#options.maxUnindexedBytes
  }

  /** A queue far past its bound is a graph that is being built: searches are better off without it. */
  #isCaughtUp(graph: number): boolean {
    const bytes = this.#queueLength(graph) * this.#index!.layout.rowBytes
    return this.#active[graph]! && bytes <= Math.max(2 * this.#options.maxUnindexedBytes, buildingBytes)
  }

  #queueLength(graph: number): number {
    const index = this.#index
    if (index === undefined) return 0
    return index.segments.reduce((sum, { ordinal }) => sum + index.linkQueue(ordinal, graph).length, 0)
  }

  /** Points that some graph does not have yet. */
  #waiting(): number {
    return Math.max(...this.#active.map((isActive, graph) => (isActive ? this.#queueLength(graph) : 0)))
  }

  #places(isWanted: (place: GraphPlace) => boolean): GraphPlace[] {
    const segments = this.#index?.segments ?? []
    return segments
      .flatMap(({ ordinal }) => this.#active.map((_, graph) => ({ ordinal, graph })))
      .filter(isWanted)
  }

  #activePlaces(): GraphPlace[] {
    return this.#places(({ graph }) => this.#active[graph]!)
  }

  #activateWhenDue(): void {
    const index = this.#index!
    const bytes = index.liveCount * index.layout.rowBytes
    if (this.#active[0] || bytes < (this.#options.graphBytesMin ?? graphBytesMin)) return
    this.#activate(0)
  }

  #activate(graph: number): void {
    this.#active[graph] = true
    for (const { ordinal } of this.#index!.segments) this.#enqueueUnlinked({ ordinal, graph })
  }

  #enqueue(slot: number, graph: number): void {
    const { ordinal, local } = this.#index!.locate(slot)
    const queue = this.#index!.linkQueue(ordinal, graph)
    if (queue.state.states[local] === slotStates.linked) return
    this.#queued[ordinal]![local]! += 1
    queue.push(local)
  }

  /** Gives every idle thread something to do: what is urgent first, links unless a job wants the graphs. */
  #dispatch(): void {
    if (this.#isBroken) return
    for (const thread of this.#threads) {
      if (thread.isBusy) continue
      const urgent = this.#urgent.shift()
      if (urgent !== undefined) urgent()
      else if (this.#job === undefined && this.#jobs.length === 0 && !this.#isClosing) this.#linkNext(thread)
    }
    if (this.#job === undefined && this.#linking === 0 && this.#jobs.length > 0) this.#startJob()
    this.#auditWhenDue()
  }

  #linkNext(thread: IndexThread): void {
    for (const { ordinal, graph } of this.#activePlaces()) {
      const queue = this.#index!.linkQueue(ordinal, graph)
      if (queue.waiting === 0) continue
      const { slots, done } = queue.take(slotsPerTask)
      this.#linking += 1
      thread.run({ kind: 'link', ordinal, graph, slots }).then(() => {
        this.#linking -= 1
        if (graph === 0) this.#plans.linked(slots.length)
        this.#left(ordinal, done())
        this.#dispatch()
      }, this.#breakDown)
      return
    }
  }

  /** Slots that left a queue: those removed meanwhile may be free now. */
  #left(ordinal: number, locals: readonly number[]): void {
    this.#unsaved += locals.length
    const queued = this.#queued[ordinal]!
    const first = ordinal * this.#index!.layout.capacity
    for (const local of locals) {
      queued[local]! -= 1
      if (this.#dead.has(first + local)) this.#freeIfUnknown(first + local)
    }
    if (this.#room !== undefined && this.#hasRoom()) {
      this.#room.resolve()
      this.#room = undefined
    }
  }

  /** Frees a dead slot that no graph knows and no queue holds. */
  #freeIfUnknown(slot: number): boolean {
    const { ordinal, local } = this.#index!.locate(slot)
    if (this.#queued[ordinal]![local]! > 0) return false
    for (const graph of this.#active.keys()) {
      if (this.#index!.linkQueue(ordinal, graph).state.states[local] !== slotStates.absent) return false
    }
    this.#dead.delete(slot)
    this.#options.onFree(slot)
    return true
  }

  /** Runs a task on the next thread that is free. */
  #submit<Kind extends TaskKind>(task: Task<Kind>): Promise<TaskResults[Kind]['result']> {
    return new Promise((resolve, reject) => {
      this.#urgent.push(() => {
        const thread = this.#threads.find(({ isBusy }) => !isBusy)!
        thread
          .run(task)
          .then(resolve, reject)
          .finally(() => this.#dispatch())
      })
      this.#dispatch()
    })
  }

  /** Resolves when a job has had its turn. */
  #runJob(job: () => Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      this.#jobs.push(() => job().finally(resolve))
      this.#dispatch()
    })
  }

  #startJob(): void {
    const job = this.#jobs.shift()!
    // In a later turn: `#job` has to stand before the job hands out its first task.
    this.#job = Promise.resolve()
      .then(job)
      .catch(this.#breakDown)
      .then(() => {
        this.#job = undefined
        this.#dispatch()
      })
  }

  #repairSoon(): void {
    if (this.#isRepairDue) return
    this.#isRepairDue = true
    this.#jobs.push(() => this.#repair())
    this.#dispatch()
  }

  /** Takes the dead slots, and those that a checkpoint knew under other points, out of the graphs. */
  async #repair(): Promise<void> {
    this.#isRepairDue = false
    const started = performance.now()
    const leaving = [...this.#dead].filter((slot) => this.#markLeaving(slot))
    await Promise.all(this.#activePlaces().map((place) => this.#repairGraph(place)))
    for (const slot of leaving) this.#freeIfUnknown(slot)
    await this.#adopt()
    this.#options.logger.debug(
      { slots: leaving.length, ms: Math.round(performance.now() - started) },
      'took removed points out of the graphs',
    )
  }

  /** Whether the slot leaves now: one that still waits to be linked has its turn first. */
  #markLeaving(slot: number): boolean {
    const { ordinal, local } = this.#index!.locate(slot)
    if (this.#queued[ordinal]![local]! > 0) return false
    for (const graph of this.#active.keys()) {
      const { states } = this.#index!.linkQueue(ordinal, graph).state
      if (states[local] === slotStates.linked) Atomics.store(states, local, slotStates.leaving)
    }
    return true
  }

  async #repairGraph(place: GraphPlace): Promise<void> {
    const { slotCount } = this.#index!.linkQueue(place.ordinal, place.graph).state
    const share = Math.ceil(slotCount / this.#threads.length)
    const ranges = this.#threads.map((_, index) => ({
      from: index * share,
      to: Math.min(slotCount, (index + 1) * share),
    }))
    await Promise.all(ranges.map((range) => this.#submit({ kind: 'repair', ...place, ...range })))
    await this.#submit({ kind: 'release', ...place })
  }

  /** Pruning can take the last link to a point away: gives every such point a link again. */
  async #adopt(): Promise<void> {
    for (const place of this.#activePlaces()) {
      const adopted = await this.#submit({ kind: 'adopt', ...place })
      if (adopted > 0) this.#options.logger.debug({ ...place, adopted }, 'linked points that no way led to')
    }
  }

  async #save(): Promise<void> {
    const { directory, logger, sequence } = this.#options
    const started = performance.now()
    this.#unsaved = 0
    const meta = { sequence: sequence(), routes: this.#plans.kept }
    await this.#adopt()
    for (const place of this.#activePlaces()) {
      if (directory === undefined) continue
      try {
        await this.#submit({ kind: 'save', ...place, path: graphPath(directory, place), meta })
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
    const loaded = await this.#submit({ kind: 'load', ...place, path })
    if (loaded?.fault === undefined) return loaded
    this.#options.logger.warn(
      { path, fault: loaded.fault },
      'the index on disk is of no use and is built anew',
    )
    return undefined
  }

  #enqueueUnlinked({ ordinal, graph }: GraphPlace): void {
    const { capacity } = this.#index!.layout
    const { states } = this.#index!.linkQueue(ordinal, graph).state
    const first = ordinal * capacity
    const end = Math.min(this.#index!.slotCount, first + capacity)
    for (let slot = first; slot < end; slot += 1) {
      // After a start that is every slot or nearly so: nothing else is looked at.
      if (states[slot - first] !== slotStates.linked && this.#index!.isLive(slot)) this.#enqueue(slot, graph)
    }
  }

  #auditWhenDue(): void {
    const index = this.#index
    if (index === undefined || !this.#active[0] || this.#isAuditing || this.#isClosing) return
    const waiting = this.#waiting()
    if (this.#plans.due(index.liveCount, waiting, this.#isCalm(waiting)).length === 0) return
    if (this.#active.some((isActive, graph) => isActive && !this.#isCaughtUp(graph))) return
    void this.#audit()
  }

  /** Whether there is time to measure what nobody searches with: where points come again and again, when they have ended. */
  #isCalm(waiting: number): boolean {
    return waiting === 0 && (!this.#isAuditPutOff || this.#isQuiet())
  }

  #isQuiet(): boolean {
    return performance.now() - this.#lastChange > this.#quietMs
  }

  /** What was found of each route; undefined where writers had to wait, and nobody for the metric. */
  async #measure(
    metric: Metric,
    ready: readonly boolean[],
    waiting: number,
  ): Promise<readonly RouteRecall[] | undefined> {
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    if (!this.#plans.isAsked(metric)) {
      if (!this.#hasRoom()) return undefined
      this.#stopAudit = () => Atomics.store(stop, 0, 1)
    }
    const request = this.#plans.request(this.#index!, metric, ready, waiting)
    try {
      return await this.#submit({ kind: 'audit', ...request, stop })
    } finally {
      this.#stopAudit = undefined
    }
  }

  async #audit(): Promise<void> {
    this.#isAuditing = true
    const index = this.#index!
    try {
      // Points that no way leads to count against every route alike: no wider one finds them, and they are mended soon.
      await this.#runJob(() => this.#adopt())
      const waiting = this.#waiting()
      const measured = { points: index.liveCount - waiting, linkedBefore: this.#plans.linkedEver }
      const isCalm = this.#isCalm(waiting)
      const due = this.#plans.due(index.liveCount, waiting, isCalm)
      if (this.#isBroken || this.#isClosing || due.length === 0) return
      if (isCalm) this.#isAuditPutOff = false
      const ready = this.#active.map((_, graph) => this.#isCaughtUp(graph))
      // One by one: whoever searches under the first need not scan until the last is measured.
      for (const metric of due) {
        const found = await this.#measure(metric, ready, waiting)
        if (found === undefined) {
          this.#isAuditPutOff = true
          break
        }
        // The next start should find another way, though no point has changed.
        if (this.#plans.decide(metric, found, measured)) this.#unsaved += 1
      }
      this.#options.logger.info({ plans: this.plans, points: index.liveCount }, 'measured recall')
    } catch (error) {
      this.#breakDown(error)
    } finally {
      this.#isAuditing = false
    }
    if (this.#plans.isCosineGraphWanted && !this.#active[1] && !this.#isClosing) this.#addCosineGraph()
  }

  #addCosineGraph(): void {
    this.#options.logger.info('vectors differ in length: Cosine gets a graph of its own')
    this.#activate(1)
    this.#plans.expire('Cosine')
    this.#dispatch()
  }

  #whenIdle(): void {
    const isBusy = this.#asked - this.#askedBefore > (busyQueriesPerSecond * this.#quietMs) / 4000
    this.#askedBefore = this.#asked
    if (this.#index === undefined || this.#isBroken || !this.#active.includes(true)) return
    const isQuiet = this.#isQuiet()
    if (this.#dead.size > 0 && isQuiet) this.#repairSoon()
    const isMuch = this.#unsaved > Math.max(saveMin, this.#index.liveCount * saveShare)
    // The file keeps the plans too: written while they are being made, it would not be written again with them.
    if (this.#unsaved > 0 && this.#jobs.length === 0 && (isMuch || (isQuiet && !this.isSettling))) {
      this.#jobs.push(() => this.#save())
    }
    if (isQuiet) this.#plans.expireWhenOld(performance.now(), isBusy)
    this.#dispatch()
  }

  readonly #breakDown = (error: unknown): void => {
    if (this.#isBroken || this.#isClosing) return
    this.#isBroken = true
    this.#room?.resolve()
    this.#options.logger.error(
      { err: error },
      'the index failed: searches are exact scans until the next start',
    )
  }
}

/** Below, an exact scan takes no longer than a walk through a graph. */
const graphBytesMin = 4 * 1024 * 1024
/** About 20 ms of linking: soon enough to make way for a repair, long enough for a message to cost nothing. */
const slotsPerTask = 32
/** Some milliseconds of filling. */
const fillBytes = 4 * 1024 * 1024
/** More than groups that were let in together come to. */
const buildingBytes = 32 * 1024 * 1024
const repairMin = 256
const repairShare = 0.01
const saveMin = 20_000
const saveShare = 0.1
const quietMs = 2_000
/** A few per cent of a core: measuring recall, which takes one for some seconds, does them no harm. */
const busyQueriesPerSecond = 100

function graphPath(directory: string, { ordinal, graph }: GraphPlace): string {
  return join(directory, `graph-${ordinal}-${graph}.bin`)
}
