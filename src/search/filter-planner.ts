import { assert } from '../base/errors.ts'
import type { Metric } from '../base/point.ts'
import { whyNoRoute } from '../graphs/graph-set.ts'
import type { RouteInForce } from '../graphs/recall-plans.ts'
import type { SearchedIndex } from '../index/index-view.ts'
import { isOnCodes, type Route } from '../index/routes.ts'
import type { CodeScanUse, QueryWork } from '../index/searcher.ts'
import { efMax, filteredPoolMax } from '../index/segment.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { FilteredPlanCounts, FilteredPlanName } from '../points/database.ts'

/**
 * A query whose vector and slots are known. Its route is decided when a thread takes it, because graphs can change while
 * it waits. `limit` is at least 1, and `ef` at least `limit`.
 */
export interface PlannedQuery {
  readonly vector: Float32Array
  readonly metric: Metric
  readonly limit: number
  readonly ef: number
  readonly exact?: boolean | undefined
  /** The slots to search, at least one; undefined for all. */
  readonly matching?: SlotFilter | undefined
  /** The search records here how it was carried out; every query with `matching` has a report. */
  readonly report?: SearchReport | undefined
}

/** How a query was carried out; filled in by the search. */
export interface SearchReport {
  readonly work: QueryWork
  plan?: FilterPlan
  /** The time since the request, including waiting. */
  elapsedUs: number
}

/** What the plan of a query with a filter depends on. */
export type FilteredQuery = Pick<PlannedQuery, 'metric' | 'ef' | 'exact'> & { readonly matching: SlotFilter }

/** How a search with a filter is carried out. */
export interface FilterPlan {
  /** Undefined to scan the rows of the matching slots. */
  readonly route: Route | undefined
  /** Whether the codes of the matching slots are scanned: instead of a walk, or after one that was given up. */
  readonly codeScan?: CodeScanUse | undefined
  /** A walk is given up for the scan once it has compared more slots. */
  readonly comparedMax: number
  /** Why this plan was chosen, for an operator. */
  readonly reason: string
  /** The recall of the walk, as last measured. */
  readonly recall?: number | undefined
  /** The recall of the scan by codes, as last measured. */
  readonly scanRecall?: number | undefined
  /** A short trial walk. Its cost says nothing about walks among scattered points. */
  readonly isTrial?: boolean
}

/** Whether a plan scans the matching slots without a walk. */
export function isScan({ route, codeScan }: FilterPlan): boolean {
  return route === undefined || codeScan === 'instead'
}

export function noPlanCounts(): Record<FilteredPlanName, number> {
  return { scan: 0, code_scan: 0, walk: 0, walk_and_scan: 0 }
}

function nameOf(plan: FilterPlan, { hasGivenUp }: QueryWork): FilteredPlanName {
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
 * Decides how searches with a filter are carried out: by a scan of the rows or codes of the matching slots, or by a
 * walk that passes through slots that do not match. It knows how many slots match, and learns what rows, codes and
 * comparisons cost here.
 *
 * A walk never costs much more than the better plan: it is given up once it has cost as much as the scan. If walks with
 * a filter were given up because its points are far from the queries, later queries scan immediately. An occasional
 * walk checks whether that is still so.
 */
export class FilterPlanner {
  readonly #index: SearchedIndex
  readonly #costs = new LearnedCosts()
  readonly #walks = new WalkMemory()
  readonly #counts = noPlanCounts()

  constructor(index: SearchedIndex) {
    this.#index = index
  }

  /**
   * @param route the route of filtered searches for this metric and share of points; undefined if none is good enough
   */
  plan(query: FilteredQuery, route: RouteInForce | undefined): FilterPlan {
    const { metric, exact, matching } = query
    const { count, id } = matching
    const why = whyScan(this.#index, query, route)
    if (why !== undefined && (exact === true || metric === 'Hamming' || route === undefined))
      return rowScan(why)
    assert(route !== undefined, 'without a route, a search scans')
    const scan = this.#cheaperScan(query, route)
    if (why !== undefined) return scanBy(scan, route, why)
    const comparison = this.#costs.of(this.#comparisonStep(route))
    const walkCost = this.#walkCost(query, route, comparison)
    if (scan.cost <= walkCost * (!scan.isByCodes && scan.cost <= quickMicroseconds ? 2 : 1)) {
      return this.#triedPlan(route, matching, scan, comparison)
    }
    if (this.#walks.isElsewhere(id))
      return scanBy(scan, route, 'the matching points are far from the queries')
    return {
      ...walkBy(scan, route),
      comparedMax: Math.max(comparedMin, Math.ceil(scan.cost / comparison)),
      reason: `a walk costs less than comparing ${count} matching points`,
    }
  }

  /**
   * A walk where matching points are dense costs a small part of one where they are scattered. Only walking shows which
   * it is, so where the scan takes long, a short walk is tried first.
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

  /** The number of planned searches, by how they were carried out. */
  get counts(): FilteredPlanCounts {
    return this.#counts
  }

  /** Learns from a planned search, and counts it. */
  learn(query: FilteredQuery, plan: FilterPlan, work: QueryWork): void {
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
   * Learns from a walk that was given up at this length, not counting the scan that followed. The complete walk is
   * assumed to be half as long again. The matching points may be far from the query, which says nothing about scattered
   * ones, so the length counts up to a bound.
   */
  #learnAtLeast(route: Route, length: number): void {
    const step = lengthStep(route)
    const bounded = Math.min(1.5 * length, givenUpLengthMax)
    if (bounded > this.#costs.of(step)) this.#costs.learn(step, bounded)
  }

  /** Chooses the cheaper scan. Scans of rows are exact, so codes must be clearly cheaper. */
  #cheaperScan({ metric, ef, matching: { count } }: FilteredQuery, route: RouteInForce): Scan {
    const rowCost = this.#rowCost(metric)
    const rows: Scan = { isByCodes: false, cost: count * rowCost }
    // The pool of a scan by codes cannot hold more results.
    if (ef > efMax || route.scanRecall === undefined || !isOnCodes(route.distanceKind)) return rows
    const cost = count * this.#costs.of(codeStep(route)) + Math.min(count, ef) * rowCost
    const isByCodes = rows.cost > exactnessFactor * cost
    this.#costs.avoided(isByCodes ? this.#rowStep(metric) : codeStep(route))
    return isByCodes ? { isByCodes, cost } : rows
  }

  /** Estimates the cost of a walk among scattered matching points; infinite if they do not fit into its pool. */
  #walkCost(query: FilteredQuery, route: RouteInForce, comparison: number): number {
    if (this.#placesOf(query, route) > filteredPoolMax) return Number.POSITIVE_INFINITY
    return this.#costs.of(lengthStep(route)) * this.#lengthFactor(query, route) * comparison
  }

  /** Walks grow more slowly than their pools: the larger the pool, the more neighbours its slots have in common. */
  #lengthFactor(query: FilteredQuery, route: Route): number {
    return this.#placesOf(query, route) ** lengthExponent * this.#index.segments.length
  }

  /** The pool size that holds as many matching slots as the beam is wide, if they are scattered among the others. */
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

/** Why a search scans the points that match, however many there are; undefined if it may walk. */
export function whyScan(
  index: SearchedIndex,
  { metric, ef, exact }: Pick<FilteredQuery, 'metric' | 'ef' | 'exact'>,
  route: RouteInForce | undefined,
): string | undefined {
  if (exact === true) return 'the query asks for exact results'
  if (metric === 'Hamming') return 'with Hamming, walks with a filter find too few points'
  if (route === undefined) return whyNoRoute(index)
  if (route.isForScans) return 'walks find too few points at this share of matching points'
  return ef * route.efMultiplier > efMax ? 'the ef is too large for a walk' : undefined
}

function rowScan(reason: string): FilterPlan {
  return { route: undefined, comparedMax: 0, reason }
}

function scanBy({ isByCodes }: Scan, route: RouteInForce, reason: string): FilterPlan {
  if (!isByCodes) return rowScan(reason)
  return { route, codeScan: 'instead', comparedMax: 0, reason, scanRecall: route.scanRecall }
}

/** A walk, and the scan that follows if it is given up. */
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

/** The number of slots that a walk compares, divided by `lengthFactor`. */
function lengthStep({ graph, distanceKind }: Route): Step {
  return { name: `length ${graph} ${distanceKind}`, usual: usualLength }
}

/** Microseconds for a code of 512 components in a scan, until measured. */
const codeMicroseconds = 0.05
/** The same in a walk, with random access. */
const comparisonMicroseconds = 0.15
/**
 * Walks compare this many slots times the pool size to the power of `lengthExponent`, within a factor of 2.5, both on
 * sentence embeddings of 512 components and on clusters of 16 dimensions.
 */
const usualLength = 25
const lengthExponent = 0.7
/** The upper bound of the length learned from walks that were given up. */
const givenUpLengthMax = 60
/** For rows at random addresses. */
const bytesPerMicrosecond = 8000
const diskRowMicroseconds = 3

/** A scan of rows may cost this many times as much as one of codes, because its results are exact. */
const exactnessFactor = 1.5

/** A scan of rows within this time is preferred to a walk of half its cost, because its results are exact. */
const quickMicroseconds = 1000

/** A scan within this time is not worth a trial. */
const trialMicroseconds = 250

/** A trial may cost at most the cost of the scan divided by this. */
const trialShare = 3

/** The time for fewer comparisons is not representative. */
const learnMin = 1000

/** A walk is not given up before it has compared this many slots. */
const comparedMin = 2000

/** A step of a search whose cost is learned. */
export interface Step {
  /** Unique among the steps of an instance. */
  readonly name: string
  /** Its cost until it is measured. */
  readonly usual: number
}

interface Learned {
  cost: number
  measurements: number
}

/**
 * The costs of search steps on this machine, as moving averages. Each begins at a usual cost, and no single measurement
 * counts for much: the first one finds caches empty, and any thread can lose its core for a while. While searches avoid
 * a step, a cost above the usual one slowly falls back to it, so that they try the step again.
 */
export class LearnedCosts {
  readonly #learned = new Map<string, Learned>()

  of({ name, usual }: Step): number {
    return this.#learned.get(name)?.cost ?? usual
  }

  learn({ name, usual }: Step, measured: number): void {
    const learned = this.#learned.get(name) ?? { cost: usual, measurements: 0 }
    const { cost } = learned
    learned.measurements += 1
    const bounded = Math.min(Math.max(measured, cost / 4), cost * 4)
    learned.cost += (bounded - cost) / Math.min(16, learned.measurements + 3)
    this.#learned.set(name, learned)
  }

  /** Call when a search avoided the step. */
  avoided({ name, usual }: Step): void {
    const learned = this.#learned.get(name)
    if (learned !== undefined && learned.cost > usual) learned.cost += (usual - learned.cost) / 256
  }
}

/** The outcome of walks with a filter. */
interface WalkOutcome {
  /** Whether the last walk reached its end. */
  readonly hasEnded: boolean
  /** How many scans follow a walk that was given up, and how many of them remain. */
  readonly scans: number
  left: number
}

/** The outcome of short walks with new filters, for filters that a similar number of points match. */
interface Bin {
  /** The share of walks that reached their end, as a moving average. */
  ended: number
  /** The number of scans since the last walk. */
  scans: number
}

/**
 * Remembers the filters whose points are far from the queries: walks with such a filter are given up. The next 2
 * queries with the filter then scan immediately. The number doubles each time, up to 64; a walk in between checks
 * whether the points are still far.
 *
 * Filters can be new with every query. For these, the share of short walks that reached their end is kept by the number
 * of matching points. Where nearly none did, only every eighth query tries a walk.
 */
class WalkMemory {
  readonly #filters = new Map<number, WalkOutcome>()
  readonly #bins = new Map<number, Bin>()

  /** Whether the last walk with a filter reached its end. */
  hasEnded(filter: number): boolean {
    return this.#filters.get(filter)?.hasEnded ?? false
  }

  /** Whether to scan immediately because walks with the filter were given up. Call once per query. */
  isElsewhere(filter: number): boolean {
    const known = this.#filters.get(filter)
    if (known === undefined || known.left === 0) return false
    known.left -= 1
    return true
  }

  /** Whether to try a short walk with a filter that this many points match. Call once per query. */
  isWorthTrying(filter: number, matching: number): boolean {
    if (this.#filters.has(filter)) return !this.isElsewhere(filter)
    const bin = this.#bins.get(binOf(matching))
    if (bin === undefined || bin.ended >= endedMin || bin.scans >= scansBetween) return true
    bin.scans += 1
    return false
  }

  /** Records how a walk ended. */
  note(filter: number, hasGivenUp: boolean): void {
    const scans = hasGivenUp ? Math.min(scansMax, 2 * (this.#filters.get(filter)?.scans ?? 1)) : 1
    this.#filters.delete(filter)
    this.#filters.set(filter, { hasEnded: !hasGivenUp, scans, left: hasGivenUp ? scans : 0 })
    if (this.#filters.size > filtersMax) this.#filters.delete(this.#filters.keys().next().value!)
  }

  /** Records how a short walk ended. */
  noteTrial(filter: number, matching: number, hasGivenUp: boolean): void {
    if (!this.#filters.has(filter)) {
      const { ended } = this.#bins.get(binOf(matching)) ?? { ended: 0.5 }
      this.#bins.set(binOf(matching), { ended: ended + (Number(!hasGivenUp) - ended) / 8, scans: 0 })
    }
    this.note(filter, hasGivenUp)
  }
}

/** Counts within a factor of two share a bin, so there are at most 33. */
function binOf(matching: number): number {
  return Math.floor(Math.log2(Math.max(1, matching)))
}

/** A short walk costs at most a third of the scan, and saves at least half of it. */
const endedMin = 0.25
const scansBetween = 7

/** The most scans that follow each walk, after walks were given up again and again. */
const scansMax = 64

const filtersMax = 1024
