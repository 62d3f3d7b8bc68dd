import type { Metric } from '../base/point.ts'
import type { Route } from '../index/graph.ts'
import type { SearchWork } from '../index/searcher.ts'
import { efMax } from '../index/segment.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { ROWS_MEASURE } from '../kernels/memory-format.ts'
import type { RouteInForce } from './filtered-recall.ts'

/** What the planner knows of a query with a filter. */
export interface FilteredQuery {
  readonly metric: Metric
  readonly ef: number
  readonly isExact: boolean
  readonly matching: SlotFilter
}

/** How a query with a filter is searched for. */
export interface FilterPlan {
  /** Undefined to scan the matching slots. */
  readonly route: Route | undefined
  /** A walk that has compared more slots is given up for the scan. */
  readonly comparedMax: number
  /** For an operator. */
  readonly reason: string
  /** Of the walk, as last measured. */
  readonly recall?: number | undefined
  /** Its cost tells nothing of walks among scattered points. */
  readonly isTrial?: boolean
}

/**
 * Decides how filtered queries are searched for: by a scan of the matching slots, or by a walk that passes through those that do not
 * match. It knows how many match, and learns what rows and comparisons cost here.
 *
 * A walk is never far from the better plan: it is given up once it has cost what the scan would. A filter whose walks were
 * given up, because its points are elsewhere than the queries, is scanned at once, with a walk now and then to see whether
 * that still holds.
 */
export class FilterPlanner {
  readonly #index: VectorIndex
  readonly #costs = new Map<string, number>()
  /** By filter whose last walk was given up: how many scans it gets before the next walk, and how many are left of them. */
  readonly #givenUp = new Map<number, { readonly scans: number; left: number }>()

  constructor(index: VectorIndex) {
    this.#index = index
  }

  /** @param route of filtered searches of this metric and share of points; undefined if none is good enough */
  plan(query: FilteredQuery, route: RouteInForce | undefined): FilterPlan {
    const { metric, ef, isExact, matching } = query
    const { count } = matching
    if (isExact) return scan('the query asks for exact results')
    if (metric === 'Hamming') return scan('under Hamming, walks with a filter find too little')
    if (route === undefined) return scan('no graph serves this metric and share of points now')
    const scanCost = count * this.#costOf(rowKey(metric), this.#usualRowCost)
    const comparison = this.#costOf(comparisonKey(route), this.#usualComparisonCost(route))
    const places = this.#placesOf(query, route)
    if (ef * route.widening > efMax || places > efMax)
      return scan('too few points match for a walk through the graph')
    const comparedPerPlace = this.#costOf(placeKey(route), usualComparedPerPlace)
    const walkCost = places * comparedPerPlace * comparison * this.#index.segments.length
    if (scanCost <= walkCost * (scanCost <= quickMicroseconds ? 2 : 1)) {
      return this.#triedPlan(route, matching, scanCost, comparison)
    }
    if (this.#isElsewhere(matching.id)) return scan('the matching points are far from where queries are')
    const comparedMax = Math.max(comparedMin, Math.ceil(scanCost / comparison))
    return {
      route,
      comparedMax,
      recall: route.recall,
      reason: `a walk costs less than comparing ${count} matching points`,
    }
  }

  /**
   * Among matching points a walk costs a small part of what it costs where they are scattered, and only walking tells: where the
   * scan takes long, a short walk is tried first.
   */
  #triedPlan(
    route: RouteInForce,
    { id, count }: SlotFilter,
    scanCost: number,
    comparison: number,
  ): FilterPlan {
    if (scanCost <= trialMicroseconds || this.#isElsewhere(id)) {
      return scan(`comparing ${count} matching points costs less than a walk through the graph`)
    }
    return {
      route,
      comparedMax: Math.max(comparedMin, Math.ceil(scanCost / comparison / trialShare)),
      recall: route.recall,
      reason: `a short walk shows whether the query is among the ${count} matching points; if not, all of them are compared`,
      isTrial: true,
    }
  }

  /** Learns from a search that was planned. */
  learn(query: FilteredQuery, { route, isTrial = false }: FilterPlan, work: SearchWork): void {
    const { metric, matching } = query
    const { compared, measured, microseconds, hasGivenUp } = work
    if (route === undefined) {
      if (measured >= learnMin) this.#update(rowKey(metric), microseconds / measured)
      return
    }
    this.#remember(matching.id, hasGivenUp)
    if (hasGivenUp || compared < learnMin) return
    this.#update(comparisonKey(route), microseconds / compared)
    if (isTrial) return
    this.#update(placeKey(route), compared / this.#placesOf(query, route) / this.#index.segments.length)
  }

  /** Places of the pool that hold as many matching slots as the beam is wide, if they are scattered among the others. */
  #placesOf({ ef, matching }: FilteredQuery, { widening }: Route): number {
    return (ef * widening * Math.max(this.#index.liveCount, 1)) / Math.max(matching.count, 1)
  }

  #isElsewhere(filter: number): boolean {
    const known = this.#givenUp.get(filter)
    if (known === undefined || known.left === 0) return false
    known.left -= 1
    return true
  }

  #remember(filter: number, hasGivenUp: boolean): void {
    const scans = Math.min(scansMax, 2 * (this.#givenUp.get(filter)?.scans ?? 1))
    this.#givenUp.delete(filter)
    if (!hasGivenUp) return
    this.#givenUp.set(filter, { scans, left: scans })
    if (this.#givenUp.size > rememberedMax) this.#givenUp.delete(this.#givenUp.keys().next().value!)
  }

  get #usualRowCost(): number {
    const { rows, rowBytes } = this.#index.layout
    return rows === 0 ? diskRowMicroseconds : 0.03 + rowBytes / bytesPerMicrosecond
  }

  #usualComparisonCost({ measure }: Route): number {
    return measure >= ROWS_MEASURE ? this.#usualRowCost : codeMicroseconds
  }

  #costOf(key: string, usual: number): number {
    return this.#costs.get(key) ?? usual
  }

  /** A moving average, in which no single measurement, such as of a thread that had lost its core, counts for much. */
  #update(key: string, cost: number): void {
    const known = this.#costs.get(key)
    const bounded = known === undefined ? cost : Math.min(Math.max(cost, known / 4), known * 4)
    this.#costs.set(key, known === undefined ? cost : known + (bounded - known) / 16)
  }
}

function scan(reason: string): FilterPlan {
  return { route: undefined, comparedMax: 0, reason }
}

function rowKey(metric: Metric): string {
  return `row ${metric}`
}

function comparisonKey({ graph, measure }: Route): string {
  return `comparison ${graph} ${measure}`
}

function placeKey({ graph, measure }: Route): string {
  return `place ${graph} ${measure}`
}

/** Microseconds for a comparison of codes of 512 components, until it is known. */
const codeMicroseconds = 0.05
/** Slots that a walk compares for a place of its pool, until it is known. */
const usualComparedPerPlace = 12
/** Of rows at any addresses. */
const bytesPerMicrosecond = 8000
const diskRowMicroseconds = 3

/** A scan that takes no longer is preferred to a walk of half its cost: its results are exact. */
const quickMicroseconds = 1000

/** A scan that takes no longer is not worth a trial. */
const trialMicroseconds = 400

/** The scan costs this many times as much as a trial may. */
const trialShare = 3

/** Of fewer, the time tells nothing. */
const learnMin = 1000

/** A walk is not given up before this. */
const comparedMin = 2000

/** With each walk that is given up, twice as many scans follow; at most so many. */
const scansMax = 64

const rememberedMax = 1024
