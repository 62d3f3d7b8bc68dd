import type { Metric } from '../base/point.ts'
import { isOnCodes, type Route } from '../index/routes.ts'
import type { CodeScanUse, SearchWork } from '../index/searcher.ts'
import { efMax, filteredPoolMax } from '../index/segment.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { RouteInForce } from './filtered-recall.ts'
import { LearnedCosts, type Step } from './learned-costs.ts'
import { whyNoRoute } from './no-route.ts'
import { WalkMemory } from './walk-memory.ts'

/** What the planner knows of a query with a filter. */
export interface FilteredQuery {
  readonly metric: Metric
  readonly ef: number
  readonly isExact: boolean
  readonly matching: SlotFilter
}

/** How a query with a filter is searched for. */
export interface FilterPlan {
  /** Undefined to scan the rows of the matching slots. */
  readonly route: Route | undefined
  /** Whether the codes of the matching slots are scanned: in place of a walk, or after one that was given up. */
  readonly codeScan?: CodeScanUse | undefined
  /** A walk that has compared more slots is given up for the scan. */
  readonly comparedMax: number
  /** For an operator. */
  readonly reason: string
  /** Of the walk, as last measured. */
  readonly recall?: number | undefined
  /** Of the scan by codes, as last measured. */
  readonly scanRecall?: number | undefined
  /** A short walk: its cost tells nothing of walks among scattered points. */
  readonly isTrial?: boolean
}

/** Whether a plan is to scan the matching slots at once. */
export function isScan({ route, codeScan }: FilterPlan): boolean {
  return route === undefined || codeScan === 'instead'
}

/** How a search with a filter was carried out. */
export type FilteredPlanName = 'scan' | 'code_scan' | 'walk' | 'walk_and_scan'

/** Searches with a filter, by how they were carried out. */
export type FilteredPlanCounts = Readonly<Record<FilteredPlanName, number>>

export function noPlanCounts(): Record<FilteredPlanName, number> {
  return { scan: 0, code_scan: 0, walk: 0, walk_and_scan: 0 }
}

function nameOf(plan: FilterPlan, { hasGivenUp }: SearchWork): FilteredPlanName {
  if (plan.route === undefined) return 'scan'
  if (isScan(plan)) return 'code_scan'
  return hasGivenUp ? 'walk_and_scan' : 'walk'
}

/** The cheaper way to scan the matching slots. */
interface Scan {
  readonly isByCodes: boolean
  /** Microseconds. */
  readonly cost: number
}

/**
 * Decides how filtered queries are searched for: by a scan of the matching slots, of their rows or their codes, or by a walk that
 * passes through those that do not match. It knows how many match, and learns what rows, codes and comparisons cost here.
 *
 * A walk is never far from the better plan: it is given up once it has cost what the scan would. A filter whose walks were
 * given up, because its points are elsewhere than the queries, is scanned at once, with a walk now and then to see whether
 * that still holds.
 */
export class FilterPlanner {
  readonly #index: VectorIndex
  readonly #costs = new LearnedCosts()
  readonly #walks = new WalkMemory()
  readonly #counts = noPlanCounts()

  constructor(index: VectorIndex) {
    this.#index = index
  }

  /** @param route of filtered searches of this metric and share of points; undefined if none is good enough */
  plan(query: FilteredQuery, route: RouteInForce | undefined): FilterPlan {
    const { metric, ef, isExact, matching } = query
    const { count, id } = matching
    if (isExact) return rowScan('the query asks for exact results')
    if (metric === 'Hamming') return rowScan('under Hamming, walks with a filter find too little')
    if (route === undefined) return rowScan(whyNoRoute(this.#index))
    const scan = this.#cheaperScan(query, route)
    if (route.isForScans) return scanBy(scan, route, 'walks find too little at this share of points')
    if (ef * route.efMultiplier > efMax) return scanBy(scan, route, 'a walk with so large an ef does not fit')
    const comparison = this.#costs.of(this.#comparisonStep(route))
    const walkCost = this.#walkCost(query, route, comparison)
    if (scan.cost <= walkCost * (!scan.isByCodes && scan.cost <= quickMicroseconds ? 2 : 1)) {
      return this.#triedPlan(route, matching, scan, comparison)
    }
    if (this.#walks.isElsewhere(id))
      return scanBy(scan, route, 'the matching points are far from where queries are')
    return {
      ...walkBy(scan, route),
      comparedMax: Math.max(comparedMin, Math.ceil(scan.cost / comparison)),
      reason: `a walk costs less than comparing ${count} matching points`,
    }
  }

  /**
   * Among matching points a walk costs a small part of what it costs where they are scattered, and only walking tells: where the
   * scan takes long, a short walk is tried first.
   */
  #triedPlan(route: RouteInForce, { id, count }: SlotFilter, scan: Scan, comparison: number): FilterPlan {
    if (scan.cost <= trialMicroseconds || !this.#walks.isWorthTrying(id, count)) {
      return scanBy(
        scan,
        route,
        `comparing ${count} matching points costs less than a walk through the graph`,
      )
    }
    const share = this.#walks.hasEnded(id) ? 1 : trialShare
    return {
      ...walkBy(scan, route),
      comparedMax: Math.max(comparedMin, Math.ceil(scan.cost / comparison / share)),
      reason: `a short walk shows whether the query is among the ${count} matching points; if not, all of them are compared`,
      isTrial: true,
    }
  }

  /** Searches that were planned, by how they were carried out. */
  get counts(): FilteredPlanCounts {
    return this.#counts
  }

  /** Learns from a search that was planned, and counts it. */
  learn(query: FilteredQuery, plan: FilterPlan, work: SearchWork): void {
    this.#counts[nameOf(plan, work)] += 1
    const { metric, matching } = query
    const { route, isTrial = false } = plan
    const { compared, measured, microseconds, hasGivenUp } = work
    const costs = this.#costs
    if (route === undefined) {
      if (measured >= learnMin) costs.learn(this.#rowStep(metric), microseconds / measured)
      return
    }
    if (isScan(plan)) {
      if (compared < learnMin) return
      const ofCodes = Math.max(microseconds / 4, microseconds - measured * this.#rowCost(metric))
      costs.learn(codeStep(route), ofCodes / compared)
      return
    }
    if (isTrial) this.#walks.noteTrial(matching.id, matching.count, hasGivenUp)
    else this.#walks.note(matching.id, hasGivenUp)
    if (hasGivenUp) {
      this.#learnAtLeast(route, (compared - matching.count) / this.#lengthFactor(query, route))
      return
    }
    if (compared < learnMin) return
    costs.learn(this.#comparisonStep(route), microseconds / compared)
    if (!isTrial) costs.learn(lengthStep(route), compared / this.#lengthFactor(query, route))
  }

  /**
   * Learns from a walk that was given up at this length, without the scan that followed: it would have been longer, by half, say. Its
   * matching points may be far from the query, which says nothing of those that are scattered, so it counts up to a bound.
   */
  #learnAtLeast(route: Route, length: number): void {
    const step = lengthStep(route)
    const bounded = Math.min(1.5 * length, givenUpLengthMax)
    if (bounded > this.#costs.of(step)) this.#costs.learn(step, bounded)
  }

  /** Rows give exact results, so codes have to be clearly cheaper. */
  #cheaperScan({ metric, ef, matching: { count } }: FilteredQuery, route: RouteInForce): Scan {
    const rowCost = this.#rowCost(metric)
    const rows: Scan = { isByCodes: false, cost: count * rowCost }
    // The pool of a scan by codes has no room for more results.
    if (ef > efMax || route.scanRecall === undefined || !isOnCodes(route.distanceKind)) return rows
    const cost = count * this.#costs.of(codeStep(route)) + Math.min(count, ef) * rowCost
    const isByCodes = rows.cost > exactnessFactor * cost
    this.#costs.avoided(isByCodes ? this.#rowStep(metric) : codeStep(route))
    return isByCodes ? { isByCodes, cost } : rows
  }

  /** Of a walk among matching points that are scattered; infinite where its pool would not have room for them. */
  #walkCost(query: FilteredQuery, route: RouteInForce, comparison: number): number {
    if (this.#placesOf(query, route) > filteredPoolMax) return Number.POSITIVE_INFINITY
    return this.#costs.of(lengthStep(route)) * this.#lengthFactor(query, route) * comparison
  }

  /** The length of walks rises less than the places of their pools: the more of these, the more neighbors they have in common. */
  #lengthFactor(query: FilteredQuery, route: Route): number {
    return this.#placesOf(query, route) ** lengthExponent * this.#index.segments.length
  }

  /** Places of the pool that hold as many matching slots as the beam is wide, if they are scattered among the others. */
  #placesOf({ ef, matching }: FilteredQuery, { efMultiplier }: Route): number {
    return (ef * efMultiplier * Math.max(this.#index.liveCount, 1)) / Math.max(matching.count, 1)
  }

  #rowCost(metric: Metric): number {
    return this.#costs.of(this.#rowStep(metric))
  }

  #rowStep(metric: Metric): Step {
    return { name: `row ${metric}`, usual: this.#usualRowCost }
  }

  #comparisonStep({ graph, distanceKind }: Route): Step {
    const usual = isOnCodes(distanceKind) ? comparisonMicroseconds : this.#usualRowCost
    return { name: `comparison ${graph} ${distanceKind}`, usual }
  }

  get #usualRowCost(): number {
    const { rows, rowBytes } = this.#index.layout
    return rows === 0 ? diskRowMicroseconds : 0.03 + rowBytes / bytesPerMicrosecond
  }
}

function rowScan(reason: string): FilterPlan {
  return { route: undefined, comparedMax: 0, reason }
}

function scanBy({ isByCodes }: Scan, route: RouteInForce, reason: string): FilterPlan {
  if (!isByCodes) return rowScan(reason)
  return { route, codeScan: 'instead', comparedMax: 0, reason, scanRecall: route.scanRecall }
}

/** A walk, and the scan that follows where it is given up. */
function walkBy(
  { isByCodes }: Scan,
  route: RouteInForce,
): Pick<FilterPlan, 'route' | 'codeScan' | 'recall' | 'scanRecall'> {
  const { recall, scanRecall } = route
  return isByCodes ? { route, recall, scanRecall, codeScan: 'after' } : { route, recall }
}

function codeStep({ graph, distanceKind }: Route): Step {
  return { name: `code ${graph} ${distanceKind}`, usual: codeMicroseconds }
}

/** Slots that a walk compares, divided by `lengthFactor`. */
function lengthStep({ graph, distanceKind }: Route): Step {
  return { name: `length ${graph} ${distanceKind}`, usual: usualLength }
}

/** Microseconds for a code of 512 components in a scan, until it is known. */
const codeMicroseconds = 0.05
/** The same in a walk, at any address. */
const comparisonMicroseconds = 0.15
/**
 * Walks compare so many slots times this power of the places of their pools, within a factor of 2.5, on sentence embeddings of
 * 512 components as on clusters of 16 dimensions.
 */
const usualLength = 25
const lengthExponent = 0.7
/** What walks that were given up show at most. */
const givenUpLengthMax = 60
/** Of rows at any addresses. */
const bytesPerMicrosecond = 8000
const diskRowMicroseconds = 3

/** A scan of rows may cost this many times as much as one of codes: its results are exact. */
const exactnessFactor = 1.5

/** A scan of rows that takes no longer is preferred to a walk of half its cost: its results are exact. */
const quickMicroseconds = 1000

/** A scan that takes no longer is not worth a trial. */
const trialMicroseconds = 250

/** The scan costs this many times as much as a trial may. */
const trialShare = 3

/** Of fewer, the time tells nothing. */
const learnMin = 1000

/** A walk is not given up before this. */
const comparedMin = 2000
