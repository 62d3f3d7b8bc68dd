import type { Logger } from '../base/log.ts'
import type { Metric } from '../base/point.ts'
import { type AuditSearch, auditRoutes } from '../index/audit.ts'
import type { Hit } from '../index/hit.ts'
import { graphDistanceMetrics } from '../index/routes.ts'
import type { IndexQuery } from '../index/searcher.ts'
import type { Checkpoints } from './checkpoints.ts'
import { auditFilteredMetric } from './filtered-audits.ts'
import type { FilteredRecall } from './filtered-recall.ts'
import type { GraphBuilds } from './graph-builds.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { RouteRecall } from './index-messages.ts'
import type { Reachability } from './reachability.ts'
import { plansInWords, type RecallPlans } from './recall-plans.ts'
import type { SearchRoutes } from './search-routes.ts'
import type { WriterRoom } from './writer-room.ts'

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
  /** Whether no point has come or gone for a while. */
  readonly isQuiet: () => boolean
  /** Called when a metric has been measured and its plan decided. */
  readonly onMeasured?: ((metric: Metric) => void) | undefined
}

/** Measures the recall of the routes of each metric, when that is due, and has the plans decide by it. Main thread only. */
export class RecallAudits {
  readonly #options: RecallAuditsOptions
  #isRunning = false
  /** Set to 1 it ends the measuring that is under way. */
  #stopWord: Int32Array | undefined
  /** The measuring that is under way can wait. */
  #canWait = false
  /** Measuring gave way to points that came, and has not been taken up again. */
  #isPutOff = false

  constructor(options: RecallAuditsOptions) {
    this.#options = options
  }

  /** Whether recall is being measured, or will be once points have stopped coming. */
  get isPending(): boolean {
    return this.#isRunning || this.#isPutOff
  }

  /** Ends what nobody waits for, where writers would have to wait. */
  makeWay(): void {
    if (this.#canWait && !this.#options.room.hasRoom) this.stop()
  }

  /** Begins to measure, where there is something to measure and nothing is being measured. */
  startWhenDue(): void {
    const { graphs, scheduler, plans } = this.#options
    if (!graphs.sources.isActive(0) || this.#isRunning || scheduler.isClosing) return
    const { index, waiting } = graphs
    const due = [...plans.due(index.liveCount, waiting, this.#isCalm(waiting)), ...this.#dueFiltered(waiting)]
    if (due.length === 0) return
    if (graphs.sources.active.some((on, graph) => on !== undefined && !graphs.isCaughtUp(graph))) return
    void this.#audit()
  }

  /** Whether there is time to measure what nobody searches with: where points come again and again, when they have ended. */
  #isCalm(waiting: number): boolean {
    return waiting === 0 && (!this.#isPutOff || this.#options.isQuiet())
  }

  /** Metrics whose searches with filters are to be measured now: only while there is time. */
  #dueFiltered(waiting: number): readonly Metric[] {
    return this.#isCalm(waiting) ? this.#options.filtered.due : []
  }

  /** What was found of each route; undefined where it was broken off, as writers had to wait and nobody for the metric. */
  async #measure(
    metric: Metric,
    ready: readonly boolean[],
    waiting: number,
  ): Promise<readonly RouteRecall[] | undefined> {
    const { plans, room, graphs } = this.#options
    this.#canWait = !plans.isAsked(metric)
    if (this.#canWait && !room.hasRoom) return undefined
    const request = plans.request(graphs.index, metric, ready, waiting, graphs.sources.active)
    return this.#searching((search) => auditRoutes(graphs.index, request, search))
  }

  /** Measures searches with filters; false where it was broken off, as writers had to wait. */
  async #measureFiltered(metric: Metric, ready: readonly boolean[], waiting: number): Promise<boolean> {
    const { plans, graphs, routes, filtered, checkpoints } = this.#options
    const plain = routes.plans[metric].route
    // Searches are exact, with filters too.
    if (plain === undefined) return true
    this.#canWait = true
    const { index } = graphs
    const { slots, ef } = plans.request(index, metric, ready, waiting, graphs.sources.active)
    const hasChanged = await this.#searching((search) =>
      auditFilteredMetric({ index, filtered, metric, plain, slots, ef, search }),
    )
    // As a plan that has changed: the next start should find it.
    if (hasChanged) checkpoints.changed(1)
    return hasChanged !== undefined
  }

  /** Runs an audit, whose searches `stop` ends. */
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
      this.#canWait = false
    }
  }

  /** Ends the measuring that is under way. */
  stop(): void {
    if (this.#stopWord !== undefined) Atomics.store(this.#stopWord, 0, 1)
  }

  async #audit(): Promise<void> {
    const { graphs, scheduler, reachability, builds, plans, filtered, checkpoints, routes, logger } =
      this.#options
    this.#isRunning = true
    const { index } = graphs
    try {
      // Points that cannot be reached count against every route alike: no wider one finds them.
      await scheduler.runChore(() => reachability.reconnect())
      await builds.checkWhenDue()
      const { waiting } = graphs
      const measured = plans.now(index.liveCount - waiting)
      const isCalm = this.#isCalm(waiting)
      const due = plans.due(index.liveCount, waiting, isCalm)
      const hasDue = due.length + this.#dueFiltered(waiting).length > 0
      if (scheduler.hasFailed || scheduler.isClosing || !hasDue) return
      if (isCalm) this.#isPutOff = false
      const ready = graphDistanceMetrics.map((_, graph) => graphs.isCaughtUp(graph))
      if (!ready[0]) return
      // One by one: whoever searches under the first need not scan until the last is measured.
      for (const metric of due) {
        const found = await this.#measure(metric, ready, waiting)
        if (found === undefined) {
          this.#isPutOff = !scheduler.isClosing
          break
        }
        // The next start should find another way, though no point has changed.
        if (plans.decide(metric, found, measured)) checkpoints.changed(1)
        filtered.expire(metric)
        this.#options.onMeasured?.(metric)
      }
      for (const metric of this.#dueFiltered(waiting)) {
        if (!(await this.#measureFiltered(metric, ready, waiting))) {
          this.#isPutOff = !scheduler.isClosing
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
    // Points that were linked meanwhile may have made another measurement due.
    scheduler.dispatch()
  }
}
