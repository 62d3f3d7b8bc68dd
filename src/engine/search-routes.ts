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

/** Which way searches take now: what was measured, as far as the graphs can be used. Main thread only. */
export class SearchRoutes {
  readonly #options: SearchRoutesOptions
  /** Queries that have asked for their way, now and when they were last counted. */
  #asked = 0
  #askedBefore = 0

  constructor(options: SearchRoutesOptions) {
    this.#options = options
  }

  /** The way that searches under a metric take now, or one with a filter; undefined for the exact scan. */
  route(metric: Metric, ask?: FilteredAsk): RouteInForce | undefined {
    const { plans, filtered } = this.#options
    this.#asked += 1
    const route = this.#usable(plans.routeFor(metric))
    if (ask !== undefined) return filtered.route(metric, ask, route)
    return route && { ...route, recall: plans.of(metric).recall }
  }

  /** By metric: which way searches take now, and what was measured of it last. */
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

  /** The recall of searches with filters, by metric and bin of selectivity. */
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

  /** @returns how many queries have asked for their way since the last call */
  countAsked(): number {
    const asked = this.#asked - this.#askedBefore
    this.#askedBefore = this.#asked
    return asked
  }

  /** A route, unless the graph cannot be used now. */
  #usable(route: Route | undefined): Route | undefined {
    const { scheduler, graphs } = this.#options
    // What a graph that was read from disk knows under other points leads walks astray until it has been repaired.
    if (route === undefined || scheduler.hasFailed || graphs.isStale || !graphs.isCaughtUp(route.graph))
      return undefined
    // A collection that has become small again.
    return graphs.isLarge ? route : undefined
  }
}
