import { damageIn } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import {
  type AuditRequest,
  type AuditSearch,
  auditFiltered,
  auditRoutes,
  auditVector,
  type FilteredBatch,
  type FilteredGroup,
  randomBits,
} from '../index/audit.ts'
import { measureReaches } from '../index/graph.ts'
import { graphDistanceMetrics, type Route } from '../index/routes.ts'
import { searchByPieces } from '../index/searcher.ts'
import { queriesPerScanMax } from '../index/segment.ts'
import type { BinRecall, MetricPlan } from '../points/database.ts'
import type { Checkpoints, GraphBuilds } from './graph-builds.ts'
import type { Reachability } from './graph-repair.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { Backpressure } from './link-batches.ts'
import {
  type FilteredAsk,
  plansInWords,
  type RecallPlans,
  type RouteInForce,
  type SelectivityBin,
  selectivityBins,
} from './recall-plans.ts'

interface RecallControlOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly plans: RecallPlans
  readonly backpressure: Backpressure
  readonly reachability: Reachability
  readonly checkpoints: Checkpoints
  readonly builds: GraphBuilds
  readonly logger: Logger
  /** Whether no points have been inserted or removed for a while. */
  readonly isQuiet: () => boolean
  /** Called after a metric was measured and its plan was chosen. */
  readonly onMeasured?: ((metric: Metric) => void) | undefined
}

/**
 * Holds the recall of searches through the graphs at the target. It measures the routes of each metric, and of searches
 * with filters, on the points and queries that there are (index/audit.ts), and tells searches which route to take now.
 * recall-plans.ts decides which one that is, and when to measure again.
 *
 *   dispatch ──> due? ──> reconnect, check distance sources ──> routes of each due metric ──> of its filters ──> again?
 *                                                                      │
 *                                          writers would have to wait, and no search needs the metric: postponed
 *
 * Main thread only.
 */
export class RecallControl {
  readonly #options: RecallControlOptions
  #isRunning = false
  #hasFoundDamage = false
  /** Ends the current measurement when set to 1. */
  #stopWord: Int32Array | undefined
  /** Whether the current measurement can be postponed. */
  #canBePostponed = false
  /** Whether a measurement was interrupted for new points and not resumed yet. */
  #isPostponed = false
  /** Queries that have asked for their route since `takeAsked`. */
  #asked = 0

  constructor(options: RecallControlOptions) {
    this.#options = options
  }

  /**
   * Returns the current route of searches with a metric, or of a search with a filter; undefined for the exact scan.
   */
  route(metric: Metric, ask?: FilteredAsk): RouteInForce | undefined {
    const { plans } = this.#options
    this.#asked += 1
    const route = this.#usable(plans.routeFor(metric))
    if (ask !== undefined) return plans.filteredRoute(metric, ask, route)
    return route && { ...route, recall: plans.of(metric).recall }
  }

  /** By metric: the route that searches take now, and its last measured recall. */
  get inForce(): Readonly<Record<Metric, MetricPlan>> {
    const { plans } = this.#options
    const inForce = (metric: Metric): MetricPlan => ({
      route: this.#usable(plans.routeInForce(metric)),
      recall: plans.of(metric).recall,
    })
    return Object.fromEntries(distanceMetrics.map((metric) => [metric, inForce(metric)])) as Record<
      Metric,
      MetricPlan
    >
  }

  /** The recall of searches with filters, by metric and selectivity bin. */
  get filteredRecalls(): BinRecall[] {
    const { inForce } = this
    return distanceMetrics.flatMap((metric) =>
      selectivityBins.map((bin) => {
        const isExact = inForce[metric].route === undefined
        const recall = isExact ? 1 : this.#options.plans.filteredRecallOf(metric, bin)
        return { metric, bin: bin.name, recall }
      }),
    )
  }

  /** Returns the route if its graph can be used now. */
  #usable(route: Route | undefined): Route | undefined {
    const { scheduler, graphs } = this.#options
    // A graph read from disk can have nodes of other points. They lead walks astray until the graph has been repaired.
    if (route === undefined || scheduler.hasFailed || graphs.isStale || !graphs.isCaughtUp(route.graph))
      return undefined
    // The collection may have become small again.
    return graphs.isLarge ? route : undefined
  }

  /** Whether recall is being measured, or will be when no more points arrive. */
  get isPending(): boolean {
    return this.#isRunning || this.#isPostponed
  }

  /** @returns how many queries have asked for their route since the last call */
  takeAsked(): number {
    const asked = this.#asked
    this.#asked = 0
    return asked
  }

  /** Stops a measurement that no search waits for, if writers would otherwise have to wait. */
  yieldToWriters(): void {
    if (this.#canBePostponed && this.#options.backpressure.isBehind) this.stop()
  }

  /** Ends the current measurement. */
  stop(): void {
    if (this.#stopWord !== undefined) Atomics.store(this.#stopWord, 0, 1)
  }

  /** Starts to measure if a measurement is due and none is running. */
  startWhenDue(): void {
    const { graphs, scheduler } = this.#options
    if (!graphs.sources.isActive(0) || this.#isRunning || this.#hasFoundDamage || scheduler.isClosing) return
    const { metrics, filtered } = this.#due(graphs.waiting)
    if (metrics.length + filtered.length === 0) return
    if (graphs.sources.active.some((on, graph) => on !== undefined && !graphs.isCaughtUp(graph))) return
    void this.#measureDue()
  }

  /**
   * Whether there is time to measure metrics that no search uses, and filters. After an interruption, only when no more
   * points arrive.
   */
  #isCalm(waiting: number): boolean {
    return waiting === 0 && (!this.#isPostponed || this.#options.isQuiet())
  }

  /** The metrics to measure now, and those whose searches with filters are to be measured. */
  #due(waiting: number): { readonly metrics: readonly Metric[]; readonly filtered: readonly Metric[] } {
    const { graphs, plans } = this.#options
    const isCalm = this.#isCalm(waiting)
    const metrics = plans.due(graphs.index.liveCount, waiting, isCalm)
    return { metrics, filtered: isCalm ? plans.dueFiltered : [] }
  }

  async #measureDue(): Promise<void> {
    const { graphs, scheduler, reachability, builds, plans, logger } = this.#options
    this.#isRunning = true
    const { index } = graphs
    try {
      // Done first: unreachable points lower the recall of every route alike, because no wider route finds them.
      await scheduler.runChore(() => reachability.reconnect())
      await builds.checkWhenDue()
      const { waiting } = graphs
      const on = plans.now(index.liveCount - waiting)
      const { metrics, filtered } = this.#due(waiting)
      if (scheduler.hasFailed || scheduler.isClosing || metrics.length + filtered.length === 0) return
      if (this.#isCalm(waiting)) this.#isPostponed = false
      const ready = graphDistanceMetrics.map((_, graph) => graphs.isCaughtUp(graph))
      if (!ready[0]) return
      // One by one, so that searches with the first metric need not scan until the last metric is measured.
      for (const metric of metrics) if (!(await this.#measure(metric, ready, on))) break
      for (const metric of this.#due(waiting).filtered)
        if (!(await this.#measureFiltered(metric, ready))) break
      logger.info({ plans: plansInWords(this.inForce), points: index.liveCount }, 'measured recall')
    } catch (error) {
      if (damageIn(error) === undefined) scheduler.fail(error)
      else this.#stopMeasuring(error)
    } finally {
      this.#isRunning = false
    }
    if (plans.isCosineGraphWanted && !scheduler.isClosing) builds.addCosineGraph()
    // Points linked meanwhile may have made another measurement due.
    scheduler.dispatch()
  }

  /** A damaged vector on disk fails the searches that read it. Others keep their routes, and the graphs theirs. */
  #stopMeasuring(err: unknown): void {
    this.#hasFoundDamage = true
    this.#isPostponed = false
    this.#options.logger.error({ err }, 'recall is not measured until the next start')
  }

  /**
   * Measures the routes of a metric and chooses one; returns false if interrupted because writers had to wait and no
   * search needs the metric.
   *
   * @param on the points of the measurement
   */
  async #measure(
    metric: Metric,
    ready: readonly boolean[],
    on: ReturnType<RecallPlans['now']>,
  ): Promise<boolean> {
    const { plans, backpressure, graphs, checkpoints, onMeasured } = this.#options
    this.#canBePostponed = !plans.isAsked(metric)
    if (this.#canBePostponed && backpressure.isBehind) return this.#postpone()
    // The metrics before this one took seconds, and points were inserted and removed meanwhile.
    const request = plans.request(graphs.index, metric, ready, graphs.waiting, graphs.sources.active)
    const found = await this.#searching(async (search, isStopped) => {
      await this.#measureReaches(request, isStopped)
      return auditRoutes(graphs.index, request, search)
    })
    if (found === undefined) return this.#postpone()
    // The next start should find the changed route, even if no point has changed.
    if (plans.decide(metric, found, on)) checkpoints.changed(1)
    onMeasured?.(metric)
    return true
  }

  /** Measures how far the walks of an audit's first route must reach, before the audit measures what they find. */
  async #measureReaches({ metric, routes, slots, k }: AuditRequest, isStopped: () => boolean): Promise<void> {
    const { graphs, scheduler } = this.#options
    const [route] = routes
    if (route === undefined || slots.length === 0) return
    const { graph, distanceKind } = route
    const hidden = slots.slice(0, reachQueries)
    const queries = hidden.map((slot) => ({ vector: graphs.index.read(slot), metric, k }))
    for (const segment of graphs.index.segments) {
      const { ordinal } = segment
      await measureReaches({ segment, graph, distanceKind }, { metric, k }, async (ef, end) => {
        let total = 0
        for (let at = 0; at < queries.length; ) {
          if (isStopped()) return undefined
          const rest = { queries: queries.slice(at), hidden: hidden.slice(at), ef, end }
          const { walked, compared } = await scheduler.submit({
            kind: 'walk',
            ordinal,
            graph,
            distanceKind,
            ...rest,
          })
          at += walked
          total += compared
        }
        return total
      })
    }
  }

  /**
   * Measures searches with filters, bin by bin: on random sets of points, and on recent queries with their own filters
   * if there are enough of them. Returns false if interrupted because writers had to wait.
   */
  async #measureFiltered(metric: Metric, ready: readonly boolean[]): Promise<boolean> {
    const { plans, graphs } = this.#options
    // As measured: searches that have become wider since are as much wider with filters.
    const plain = this.inForce[metric].route && plans.of(metric).route
    this.#canBePostponed = true
    const { slots, ef } = plans.request(graphs.index, metric, ready, graphs.waiting, graphs.sources.active)
    // Nothing to measure if searches are exact, or if there are no points. When there are points again, the metric is
    // measured again without filters, then with them.
    const isMeasured =
      plain === undefined ||
      slots.length === 0 ||
      (await this.#searching((search) => this.#measureBins(metric, plain, slots, ef, search)))
    if (!isMeasured) return this.#postpone()
    plans.doneFiltered(metric)
    return true
  }

  async #measureBins(
    metric: Metric,
    plain: Route,
    slots: readonly number[],
    ef: number,
    search: AuditSearch,
  ): Promise<boolean> {
    const { plans, checkpoints } = this.#options
    const ofScans: number[] = []
    for (const bin of selectivityBins) {
      const groups = [await this.#randomGroup(metric, slots, ef, bin), ...this.#recentGroups(metric, ef, bin)]
      const found = await auditFiltered(groups, plans.filteredRoutes(plain), plans.target, search)
      if (found === undefined) return false
      // Like a changed plan: the next start should find it.
      if (plans.decideFiltered(metric, bin, found.tried)) checkpoints.changed(1)
      if (found.scanRecall !== undefined) ofScans.push(found.scanRecall)
    }
    // Scans by codes are used only if every bin was measured.
    if (ofScans.length === selectivityBins.length) plans.decideScans(metric, Math.min(...ofScans))
    return true
  }

  #postpone(): false {
    this.#isPostponed = !this.#options.scheduler.isClosing
    return false
  }

  async #randomGroup(
    metric: Metric,
    slots: readonly number[],
    ef: number,
    { halvings }: SelectivityBin,
  ): Promise<FilteredGroup> {
    const { index } = this.#options.graphs
    const matching = await inTurns(randomBits(index.slotCount, halvings))
    const queries = slots.slice(0, filteredQueriesMax).map((_, place) => {
      return { vector: auditVector(index, slots, place), metric, k, ef, route: undefined, matching }
    })
    const batches: FilteredBatch[] = []
    for (let at = 0; at < queries.length; at += queriesPerScanMax) {
      batches.push(queries.slice(at, at + queriesPerScanMax))
    }
    return batches
  }

  /** Each query has its own filter, so each is searched for separately. */
  #recentGroups(metric: Metric, ef: number, bin: SelectivityBin): FilteredGroup[] {
    const queries = this.#options.plans.recent(metric, bin, ef)
    return queries.length < recentMin ? [] : [queries.map((query) => [query])]
  }

  /** Runs an audit whose searches `stop` ends. */
  async #searching<Found>(
    audit: (search: AuditSearch, isStopped: () => boolean) => Promise<Found>,
  ): Promise<Found> {
    const { graphs, scheduler } = this.#options
    const { slotCount } = graphs.index
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    const isStopped = (): boolean => stop[0] === 1
    this.#stopWord = stop
    try {
      const search: AuditSearch = (queries) =>
        searchByPieces(queries, slotCount, async (piece) => {
          const some = await scheduler.submit({ kind: 'search', ...piece, stop })
          return isStopped() ? undefined : some
        })
      return await audit(search, isStopped)
    } finally {
      this.#stopWord = undefined
      this.#canBePostponed = false
    }
  }
}

/** Scans of half of all points are most of the cost of an audit. */
const filteredQueriesMax = 64
const k = 10
/** The work of this many walks is added up. */
const reachQueries = 24
/** The recall of fewer queries is not representative. */
const recentMin = 8
