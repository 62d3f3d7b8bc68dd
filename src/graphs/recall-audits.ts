import type { Logger } from '../base/log.ts'
import type { Metric } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import {
  type AuditSearch,
  auditFiltered,
  auditRoutes,
  auditVector,
  type FilteredBatch,
  type FilteredGroup,
  randomBits,
} from '../index/audit.ts'
import type { Hit } from '../index/hit.ts'
import { graphDistanceMetrics, type Route } from '../index/routes.ts'
import type { IndexQuery } from '../index/searcher.ts'
import { queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { GraphBuilds } from './graph-builds.ts'
import type { Reachability } from './graph-repair.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { RouteRecall } from './index-messages.ts'
import type { WriterRoom } from './link-batches.ts'
import {
  type FilteredRecall,
  plansInWords,
  type RecallPlans,
  type SearchRoutes,
  type SelectivityBin,
  selectivityBins,
} from './recall-plans.ts'

export interface RecallAuditsOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly plans: RecallPlans
  readonly filtered: FilteredRecall
  readonly routes: SearchRoutes
  readonly room: WriterRoom
  readonly reachability: Reachability
  readonly checkpoints: Checkpoints
  readonly builds: GraphBuilds
  readonly logger: Logger
  /** Whether no points have been inserted or removed for a while. */
  readonly isQuiet: () => boolean
  /** Called after a metric was measured and its plan was chosen. */
  readonly onMeasured?: ((metric: Metric) => void) | undefined
}

/** Measures the recall of each metric's routes when due, and updates the plans. Main thread only. */
export class RecallAudits {
  readonly #options: RecallAuditsOptions
  #isRunning = false
  /** Ends the current measurement when set to 1. */
  #stopWord: Int32Array | undefined
  /** Whether the current measurement can be postponed. */
  #canBePostponed = false
  /** Whether a measurement was interrupted for new points and not resumed yet. */
  #isPostponed = false

  constructor(options: RecallAuditsOptions) {
    this.#options = options
  }

  /** Whether recall is being measured, or will be when no more points arrive. */
  get isPending(): boolean {
    return this.#isRunning || this.#isPostponed
  }

  /** Stops a measurement that no search waits for, if writers would otherwise have to wait. */
  yieldToWriters(): void {
    if (this.#canBePostponed && this.#options.room.isBehind) this.stop()
  }

  /** Starts to measure if a measurement is due and none is running. */
  startWhenDue(): void {
    const { graphs, scheduler, plans } = this.#options
    if (!graphs.sources.isActive(0) || this.#isRunning || scheduler.isClosing) return
    const { index, waiting } = graphs
    const due = [...plans.due(index.liveCount, waiting, this.#isCalm(waiting)), ...this.#dueFiltered(waiting)]
    if (due.length === 0) return
    if (graphs.sources.active.some((on, graph) => on !== undefined && !graphs.isCaughtUp(graph))) return
    void this.#audit()
  }

  /**
   * Whether there is time to measure metrics that no search uses. After an interruption, only when no more points
   * arrive.
   */
  #isCalm(waiting: number): boolean {
    return waiting === 0 && (!this.#isPostponed || this.#options.isQuiet())
  }

  /** The metrics whose searches with filters are to be measured now; empty unless there is time. */
  #dueFiltered(waiting: number): readonly Metric[] {
    return this.#isCalm(waiting) ? this.#options.filtered.due : []
  }

  /**
   * Returns the measured recall of each route; undefined if interrupted because writers had to wait and no search needs
   * the metric.
   */
  async #measure(metric: Metric, ready: readonly boolean[]): Promise<readonly RouteRecall[] | undefined> {
    const { plans, room, graphs } = this.#options
    this.#canBePostponed = !plans.isAsked(metric)
    if (this.#canBePostponed && room.isBehind) return undefined
    // The metrics before this one took seconds, and points were inserted and removed meanwhile.
    const request = plans.request(graphs.index, metric, ready, graphs.waiting, graphs.sources.active)
    return this.#searching((search) => auditRoutes(graphs.index, request, search))
  }

  /** Measures searches with filters; returns false if interrupted because writers had to wait. */
  async #measureFiltered(metric: Metric, ready: readonly boolean[]): Promise<boolean> {
    const { plans, graphs, routes, filtered, checkpoints } = this.#options
    const plain = routes.plans[metric].route
    // Searches are exact, including those with filters.
    if (plain === undefined) return true
    this.#canBePostponed = true
    const { index } = graphs
    const { slots, ef } = plans.request(index, metric, ready, graphs.waiting, graphs.sources.active)
    // No queries, no recall. When there are points again, the metric is measured again without filters, then with them.
    if (slots.length === 0) return true
    const hasChanged = await this.#searching((search) =>
      auditFilteredMetric({ index, filtered, metric, plain, slots, ef, search }),
    )
    // Like a changed plan: the next start should find it.
    if (hasChanged) checkpoints.changed(1)
    return hasChanged !== undefined
  }

  /** Runs an audit whose searches `stop` ends. */
  async #searching<Found>(audit: (search: AuditSearch) => Promise<Found>): Promise<Found> {
    const { graphs, scheduler } = this.#options
    const { slotCount } = graphs.index
    const stop = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
    this.#stopWord = stop
    const search = async (
      queries: readonly IndexQuery[],
    ): Promise<readonly (readonly Hit[])[] | undefined> => {
      const found = await scheduler.submit({ kind: 'search', queries, slotCount, stop })
      return stop[0] === 1 ? undefined : found
    }
    try {
      return await audit(search)
    } finally {
      this.#stopWord = undefined
      this.#canBePostponed = false
    }
  }

  /** Ends the current measurement. */
  stop(): void {
    if (this.#stopWord !== undefined) Atomics.store(this.#stopWord, 0, 1)
  }

  async #audit(): Promise<void> {
    const { graphs, scheduler, reachability, builds, plans, filtered, checkpoints, routes, logger } =
      this.#options
    this.#isRunning = true
    const { index } = graphs
    try {
      // Done first: unreachable points lower the recall of every route alike, because no wider route finds them.
      await scheduler.runChore(() => reachability.reconnect())
      await builds.checkWhenDue()
      const { waiting } = graphs
      const measured = plans.now(index.liveCount - waiting)
      const isCalm = this.#isCalm(waiting)
      const due = plans.due(index.liveCount, waiting, isCalm)
      const hasDue = due.length + this.#dueFiltered(waiting).length > 0
      if (scheduler.hasFailed || scheduler.isClosing || !hasDue) return
      if (isCalm) this.#isPostponed = false
      const ready = graphDistanceMetrics.map((_, graph) => graphs.isCaughtUp(graph))
      if (!ready[0]) return
      // One by one, so that searches with the first metric need not scan until the last metric is measured.
      for (const metric of due) {
        const found = await this.#measure(metric, ready)
        if (found === undefined) {
          this.#isPostponed = !scheduler.isClosing
          break
        }
        // The next start should find the changed route, even if no point has changed.
        if (plans.decide(metric, found, measured)) checkpoints.changed(1)
        filtered.expire(metric)
        this.#options.onMeasured?.(metric)
      }
      for (const metric of this.#dueFiltered(waiting)) {
        if (!(await this.#measureFiltered(metric, ready))) {
          this.#isPostponed = !scheduler.isClosing
          break
        }
        filtered.done(metric)
      }
      const found = plansInWords(routes.plans)
      logger.info({ plans: found, points: index.liveCount }, 'measured recall')
    } catch (error) {
      scheduler.fail(error)
    } finally {
      this.#isRunning = false
    }
    if (plans.isCosineGraphWanted && !scheduler.isClosing) builds.addCosineGraph()
    // Points linked meanwhile may have made another measurement due.
    scheduler.dispatch()
  }
}

export interface FilteredAudit {
  readonly index: VectorIndex
  readonly filtered: FilteredRecall
  readonly metric: Metric
  /** The route of searches without a filter. */
  readonly plain: Route
  /** A representative sample of slots; the queries are their vectors, or vectors near them. */
  readonly slots: readonly number[]
  /** The ef at which recall is measured. */
  readonly ef: number
  readonly search: AuditSearch
}

/**
 * Measures the filtered searches of a metric, bin by bin: on random sets of points, and on recent queries with their
 * own filters if there are enough of them.
 *
 * @returns whether a route has changed; undefined if the audit was aborted
 */
export async function auditFilteredMetric(audit: FilteredAudit): Promise<boolean | undefined> {
  const { filtered, metric, plain, search } = audit
  let hasChanged = false
  const ofScans: number[] = []
  for (const bin of selectivityBins) {
    const groups = [await randomGroup(audit, bin), ...recentGroups(audit, bin)]
    const found = await auditFiltered(groups, filtered.routes(plain), filtered.target, search)
    if (found === undefined) return undefined
    if (filtered.decide(metric, bin, found.tried)) hasChanged = true
    if (found.scanRecall !== undefined) ofScans.push(found.scanRecall)
  }
  // Scans by codes are used only if every bin was measured.
  if (ofScans.length === selectivityBins.length) filtered.decideScans(metric, Math.min(...ofScans))
  return hasChanged
}

async function randomGroup(
  { index, metric, slots, ef }: FilteredAudit,
  { halvings }: SelectivityBin,
): Promise<FilteredGroup> {
  const matching = await inTurns(randomBits(index.slotCount, halvings))
  const queries = slots.slice(0, queriesMax).map((_, place) => {
    return { vector: auditVector(index, slots, place), metric, k, ef, route: undefined, matching }
  })
  const batches: FilteredBatch[] = []
  for (let at = 0; at < queries.length; at += queriesPerScanMax) {
    batches.push(queries.slice(at, at + queriesPerScanMax))
  }
  return batches
}

/** Each query has its own filter, so each is searched for separately. */
function recentGroups({ filtered, metric, ef }: FilteredAudit, bin: SelectivityBin): FilteredGroup[] {
  const queries = filtered.recent(metric, bin, ef)
  return queries.length < recentMin ? [] : [queries.map((query) => [query])]
}

/** Scans of half of all points are most of the cost of an audit. */
const queriesMax = 64
const k = 10
/** The recall of fewer queries is not representative. */
const recentMin = 8
