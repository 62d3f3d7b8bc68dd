import { distanceMetrics, type Metric } from '../base/point.ts'
import type { Route } from '../index/routes.ts'
import {
  type BinRecall,
  type FilteredAsk,
  type FilteredRecall,
  type RouteInForce,
  selectivityBins,
} from './filtered-recall.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { MetricPlan, RecallPlans } from './recall-plans.ts'

export interface SearchRoutesOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly plans: RecallPlans
  readonly filtered: FilteredRecall
}

/** The routes that searches take now: the measured ones whose graphs can be used. Main thread only. */
export class SearchRoutes {
  readonly #options: SearchRoutesOptions
  /** Queries that have asked for their route. */
  #asked = 0
  /** The value of `#asked` when it was last read. */
  #askedBefore = 0

  constructor(options: SearchRoutesOptions) {
    this.#options = options
  }

  /**
   * Returns the current route of searches with a metric, or of a search with a filter; undefined for the exact scan.
   */
  route(metric: Metric, ask?: FilteredAsk): RouteInForce | undefined {
    const { plans, filtered } = this.#options
    this.#asked += 1
    const route = this.#usable(plans.routeFor(metric))
    if (ask !== undefined) return filtered.route(metric, ask, route)
    return route && { ...route, recall: plans.of(metric).recall }
  }

  /** By metric: the route that searches take now, and its last measured recall. */
  get plans(): Readonly<Record<Metric, MetricPlan>> {
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
    const { filtered } = this.#options
    return Object.entries(this.plans).flatMap(([name, { route }]) => {
      const metric = name as Metric
      return selectivityBins.map((bin) => {
        const recall = route === undefined ? 1 : filtered.recallOf(metric, bin)
        return { metric, bin: bin.name, recall }
      })
    })
  }

  /** @returns how many queries have asked for their route since the last call */
  countAsked(): number {
    const asked = this.#asked - this.#askedBefore
    this.#askedBefore = this.#asked
    return asked
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
}
