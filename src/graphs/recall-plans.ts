import { isDeepStrictEqual } from 'node:util'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { type AuditRequest, isLinked } from '../index/audit.ts'
import type { KeptFilteredRoute, KeptRoute } from '../index/graph-file.ts'
import {
  type DistanceSource,
  efMultiplierMax,
  isCheaperThanScan,
  type Route,
  routesFor,
} from '../index/routes.ts'
import type { IndexQuery } from '../index/searcher.ts'
import { auditedNeighbours } from '../index/segment.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { RouteRecall } from './index-messages.ts'

/** The route of a metric's searches, and its recall. */
export interface MetricPlan {
  /** Undefined for the exact scan. */
  readonly route: Route | undefined
  /** The recall of the route, or the best of the routes that were tried; undefined before the first measurement. */
  readonly recall: number | undefined
}

/** The points on which recall was measured. */
export interface MeasuredPoints {
  /** The number of linked points at the measurement. */
  readonly points: number
  /** How many points had ever been linked and removed at the measurement; see `#linkedEver` and `#removedEver`. */
  readonly linkedBefore: number
  readonly removedBefore: number
}

/** A plan, and the measurement that decided it. */
interface Measured extends MetricPlan, MeasuredPoints {
  /** Whether to repeat the measurement even if no points have changed. The plan remains in use until then. */
  readonly isOld: boolean
}

/**
 * The route of each metric's searches, and when its recall must be measured again.
 *
 * While points wait to be linked, only the metrics of actual searches are measured. Measuring all metrics again and
 * again as a collection fills took a quarter of the index threads' time, for metrics that nobody used. The others
 * follow when all points are linked.
 */
export class RecallPlans {
  readonly #recallTarget: number
  readonly #hnswEf: number
  readonly #measured = new Map<Metric, Measured>()
  /** Metrics of searches since the metric was measured. */
  readonly #searched = new Set<Metric>()
  #linkedEver = 0
  #removedEver = 0
  #measuredAt = 0
  /** The greatest length among the points last sampled, as a multiple of the smallest. */
  #lengthSpread = 1

  /** @param hnswEf the ef at which recall is measured */
  constructor({ recallTarget, hnswEf }: { readonly recallTarget: number; readonly hnswEf: number }) {
    this.#recallTarget = recallTarget
    this.#hnswEf = hnswEf
  }

  get all(): Readonly<Record<Metric, MetricPlan>> {
    return Object.fromEntries(distanceMetrics.map((metric) => [metric, this.of(metric)])) as Record<
      Metric,
      MetricPlan
    >
  }

  of(metric: Metric): MetricPlan {
    const { route, recall } = this.#measured.get(metric) ?? noPlan
    return { route, recall }
  }

  /**
   * Returns the route of a search; undefined for the exact scan. A measurement is valid only for the points on which it
   * was made:
   *
   * - If more than a third as many points were linked or removed since, searches are twice as wide, or exact if no
   *   route is that wide.
   * - If more than a third of the points were removed, or more points have changed than there were, searches are exact
   *   until recall is measured again.
   */
  routeFor(metric: Metric): Route | undefined {
    this.#searched.add(metric)
    return this.routeInForce(metric)
  }

  /** Like `routeFor`, but does not count as a search. */
  routeInForce(metric: Metric): Route | undefined {
    const measured = this.#measured.get(metric)
    if (measured?.route === undefined) return undefined
    const { linked, removed } = this.#since(measured)
    if (linked + removed <= measured.points * trustedShare) return measured.route
    const efMultiplier = measured.route.efMultiplier * 2
    const isDoubtful = removed > measured.points * trustedShare || linked + removed > measured.points
    return isDoubtful || efMultiplier > efMultiplierMax ? undefined : { ...measured.route, efMultiplier }
  }

  #since({ linkedBefore, removedBefore }: Measured): { readonly linked: number; readonly removed: number } {
    return { linked: this.#linkedEver - linkedBefore, removed: this.#removedEver - removedBefore }
  }

  /** The measurements, for a later run to restore. */
  get kept(): KeptRoute[] {
    return [...this.#measured].map(([metric, measured]) => {
      const { route, recall, points, isOld } = measured
      const { linked, removed } = this.#since(measured)
      const by = isOld ? undefined : { ef: this.#hnswEf, target: this.#recallTarget }
      return { metric, route, recall, points, linkedSince: linked, removedSince: removed, by }
    })
  }

  /**
   * Restores the measurements of an earlier run. Those with other settings or too many changed points are repeated.
   *
   * @param linked the number of points that are in the graph now
   */
  restore(kept: readonly KeptRoute[], linked: number): void {
    for (const { metric, route, recall, points, by, linkedSince = 0, removedSince = 0 } of kept) {
      const isOld = by?.ef !== this.#hnswEf || by.target !== this.#recallTarget
      const linkedBefore = this.#linkedEver - Math.max(linkedSince, linked - points)
      const removedBefore = this.#removedEver - Math.max(removedSince, points - linked)
      this.#measured.set(metric, { route, recall, points, linkedBefore, removedBefore, isOld })
    }
  }

  /** Returns the points of a measurement that begins now. */
  now(points: number): MeasuredPoints {
    return { points, linkedBefore: this.#linkedEver, removedBefore: this.#removedEver }
  }

  /** Counts linked points. */
  linked(count: number): void {
    this.#linkedEver += count
  }

  /** Counts removed points. */
  removed(count: number): void {
    this.#removedEver += count
  }

  /**
   * Returns the metrics to measure now, those of recent searches first. A metric is due if it was never measured, or if
   * many points were linked or removed since.
   *
   * Waiting points do not count as measured. Otherwise the recall of half a graph, in which links to the other half are
   * still missing, would be taken for that of the complete graph.
   *
   * @param waiting the number of points that are not linked yet
   * @param isCalm whether there is time for metrics that no search uses
   */
  due(points: number, waiting: number, isCalm: boolean = waiting === 0): Metric[] {
    const linked = points - waiting
    if (linked === 0 || waiting > points / 2) return []
    const inTurn = distanceMetrics.toSorted(
      (a, b) => Number(this.#searched.has(b)) - Number(this.#searched.has(a)),
    )
    return inTurn.filter((metric) => {
      if (!isCalm && !this.#searched.has(metric)) return false
      const measured = this.#measured.get(metric)
      if (measured === undefined || measured.isOld) return true
      const since = this.#since(measured)
      return since.linked + since.removed >= measured.points * dueShare
    })
  }

  /** Whether any search has used a metric since it was measured. */
  isAsked(metric: Metric): boolean {
    return this.#searched.has(metric)
  }

  /** Measures a metric again at the next opportunity. */
  expire(metric: Metric): void {
    const measured = this.#measured.get(metric)
    if (measured !== undefined) this.#measured.set(metric, { ...measured, isOld: true })
  }

  /** Deletes the measurement of a graph that no longer exists. */
  discard(metric: Metric): void {
    this.#measured.delete(metric)
  }

  /**
   * Measures all metrics again at the next opportunity, if the last measurement is old.
   *
   * @param isBusy whether searches need the processors; the measurement may then get older
   */
  expireWhenOld(now: number, isBusy: boolean): void {
    if (now - this.#measuredAt > (isBusy ? veryOldMs : oldMs))
      for (const metric of distanceMetrics) this.expire(metric)
  }

  /**
   * Returns the audit to run for a metric.
   *
   * @param ready which graphs can be searched
   * @param waiting the number of points that are not linked yet
   * @param distanceSources what each graph's distances are computed from
   */
  request(
    index: VectorIndex,
    metric: Metric,
    ready: readonly boolean[],
    waiting: number,
    distanceSources: readonly (DistanceSource | undefined)[] = [],
  ): AuditRequest {
    const slots = [...new Set(Array.from({ length: rounds }, () => sampleOf(index, ready, waiting)).flat())]
    this.#lengthSpread = spreadOf(slots.map((slot) => index.lengthOf(slot)))
    return {
      slots,
      fewest: samples,
      k: auditedNeighbours,
      ef: this.#hnswEf,
      target: Math.min(1, this.#recallTarget + margin),
      floor: this.#recallTarget,
      metric,
      routes: this.#worthwhile(routesFor(metric, index.layout, ready, distanceSources), index.liveCount),
    }
  }

  /**
   * Leaves out routes so wide that searches would scan instead: with 4,096 vectors of 4,096 components, these took
   * minutes to measure. Always keeps the narrowest route, because a search can have a smaller ef.
   */
  #worthwhile(routes: readonly Route[], points: number): Route[] {
    return routes.filter(
      ({ efMultiplier }) => efMultiplier === 1 || isCheaperThanScan(efMultiplier * this.#hnswEf, points),
    )
  }

  /**
   * Chooses the route with the best measured recall, if that reaches the target.
   *
   * @param on the points of the measurement, from `now`
   * @returns whether the metric's route has changed
   */
  decide(metric: Metric, tried: readonly RouteRecall[], on: MeasuredPoints): boolean {
    const best = tried.toSorted((a, b) => b.recall - a.recall)[0]
    const isEnough = best !== undefined && best.recall >= this.#recallTarget
    const route = isEnough ? best.route : undefined
    const isOther = !isDeepStrictEqual(route, this.of(metric).route)
    this.#measured.set(metric, { ...on, route, recall: best?.recall, isOld: false })
    this.#searched.delete(metric)
    this.#measuredAt = performance.now()
    return isOther
  }

  /**
   * Whether Cosine should have a separate graph: vectors differ in length, and Cosine needs much more than ef in the
   * Euclidean graph, or does not reach the target at all. If lengths are alike, both metrics produce the same order,
   * and a Cosine graph would be no better.
   */
  get isCosineGraphWanted(): boolean {
    const measured = this.#measured.get('Cosine')
    const isPoor = measured !== undefined && (measured.route === undefined || measured.route.efMultiplier > 2)
    return isPoor && this.#lengthSpread > alikeSpread
  }
}

/** Returns the recall of searches with a plan; undefined if unknown. */
export function recallInForce({ route, recall }: MetricPlan): number | undefined {
  return route === undefined ? 1 : recall
}

/** Describes plans in words, by metric. */
export function plansInWords(plans: Readonly<Record<Metric, MetricPlan>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(plans).map(([metric, plan]) => [metric, inWords(plan)]))
}

function inWords({ route, recall }: MetricPlan): string {
  if (route === undefined) {
    return recall === undefined
      ? 'exact scan'
      : `exact scan: the recall of the graph is only ${recall.toFixed(3)}`
  }
  const graph = route.graph === 0 ? 'graph' : 'separate graph'
  const width = route.efMultiplier === 1 ? '' : ` with ${route.efMultiplier} times the ef`
  return `${graph}${width}, recall ${recall?.toFixed(3)}`
}

const noPlan: MetricPlan = { route: undefined, recall: undefined }

/**
 * Recall declines slowly as points are linked and removed. A new measurement is due when this share of points has
 * changed.
 */
const dueShare = 0.25
/** Beyond this share, a plan is no longer trusted. A little more than `dueShare`, because a measurement takes time. */
const trustedShare = 1 / 3
const oldMs = 600_000
const veryOldMs = 3_600_000
/** Samples have some error: a route whose measured recall is just at the target may actually be below it. */
const margin = 0.005
const samples = 100
/**
 * The number of samples taken if the first one does not show clearly whether a route reaches the target. With 1,841
 * glosses whose lengths differ by a factor of 50, one sample of 100 in eight found .989 on a route whose recall is
 * .974.
 */
const rounds = 4
/**
 * The maximum number of stretches from which a sample is taken. Measurements begin when at most half of the points wait,
 * which takes 200 stretches. More can wait by the time that a metric is measured, even all.
 */
const stretchesMax = 800
/** The spread of vectors of equal length after rounding, or after storing them as halves or bytes. */
const alikeSpread = 1.1

/**
 * Returns linked slots, evenly spread over the index, with a random start in each stretch. A waiting slot says nothing
 * about the graph and is not counted (audit.ts). The stretches are shorter by that share, so that `samples` slots
 * remain. With fewer slots, one unreachable point would weigh as much as a graph whose recall is too low.
 */
function sampleOf(index: VectorIndex, ready: readonly boolean[], waiting: number): number[] {
  const linked = Math.max(1, index.liveCount - waiting)
  const stretches = Math.min(stretchesMax, Math.ceil((samples * index.liveCount) / linked))
  const stretch = index.slotCount / stretches
  const slots = new Set<number>()
  for (let sample = 0; sample < stretches; sample += 1) {
    const end = Math.floor((sample + 1) * stretch)
    for (let slot = Math.floor((sample + Math.random()) * stretch); slot < end; slot += 1) {
      if (!index.isLive(slot)) continue
      if (ready.every((isReady, graph) => !isReady || isLinked(index, slot, graph))) slots.add(slot)
      break
    }
  }
  return [...slots]
}

/**
 * Returns the greatest length as a multiple of the smallest; 1 if there are none. Points at the origin have no
 * direction and do not count.
 */
function spreadOf(lengths: readonly number[]): number {
  const above = lengths.filter((length) => length > 0)
  return above.length === 0 ? 1 : Math.max(...above) / Math.min(...above)
}

/** A route and its last measured recall. */
export interface RouteInForce extends Route {
  readonly recall?: number | undefined
  /** For searches with filters: the recall of scans by codes; undefined if it is too low or not measured yet. */
  readonly scanRecall?: number | undefined
  /** Walks do not reach the recall target: the route is only for scans by codes. */
  readonly isForScans?: boolean | undefined
}

/** A query with a filter that asks for its route. */
export interface FilteredAsk {
  readonly vector: Float32Array
  readonly k: number
  readonly matching: SlotFilter
  /** The share of the points that match. */
  readonly share: number
}

/**
 * A range of shares of matching points. Recall is measured for each bin: walks past many points that do not match lose
 * most.
 */
export interface SelectivityBin {
  readonly name: string
  /** Shares below this one belong to the bin, unless they belong to the bin before. */
  readonly below: number
  /** The bin is measured with filters that one point in 2^halvings matches, near its more difficult end. */
  readonly halvings: number
}

export const selectivityBins: readonly SelectivityBin[] = [
  { name: '0-0.1', below: 0.1, halvings: 4 },
  { name: '0.1-0.3', below: 0.3, halvings: 3 },
  { name: '0.3-1', below: Number.POSITIVE_INFINITY, halvings: 1 },
]

/** The recall of searches with filters, for one metric and bin. */
export interface BinRecall {
  readonly metric: Metric
  readonly bin: string
  /** 1 where searches are exact; undefined where it was not measured. */
  readonly recall: number | undefined
}

interface MeasuredBin {
  readonly metric: Metric
  readonly bin: string
  /** Undefined if no route was good enough: searches scan. */
  readonly efMultiplier: number | undefined
  readonly recall: number
}

/**
 * The routes of searches with filters and their measurements, by metric and by the share of points that match. Until
 * measured, such searches are twice as wide as those without a filter. Main thread only.
 */
export class FilteredRecall {
  readonly #target: number
  readonly #hnswEf: number
  readonly #measured = new Map<string, MeasuredBin>()
  /** By metric: the recall of scans by codes. */
  readonly #scans = new Map<Metric, number>()
  /** Metrics of searches with filters since the metric was measured. */
  readonly #asked = new Set<Metric>()
  /** Metrics to measure again. */
  readonly #expired = new Set<Metric>()
  /** Some of the last queries, by metric and bin. */
  readonly #recent = new Map<string, FilteredAsk[]>()
  #asks = 0

  /** @param options.hnswEf the ef at which recall is measured */
  constructor({ recallTarget, hnswEf }: { readonly recallTarget: number; readonly hnswEf: number }) {
    this.#target = recallTarget
    this.#hnswEf = hnswEf
  }

  /** The measurements, for a later run to restore. */
  get kept(): KeptFilteredRoute[] {
    return [...this.#measured.values()].map((measured) => {
      const by = { ef: this.#hnswEf, target: this.#target }
      const { metric } = measured
      const scanRecall = this.#scans.get(metric)
      return { ...measured, scanRecall, by: this.#expired.has(metric) ? undefined : by }
    })
  }

  /**
   * Restores the measurements of an earlier run. Those made with other settings are repeated when a search needs them.
   */
  restore(kept: readonly KeptFilteredRoute[]): void {
    for (const { metric, bin, efMultiplier, recall, scanRecall, by } of kept) {
      this.#measured.set(keyOf(metric, bin), { metric, bin, efMultiplier, recall })
      if (scanRecall !== undefined) this.#scans.set(metric, scanRecall)
      if (by?.ef !== this.#hnswEf || by.target !== this.#target) this.#expired.add(metric)
    }
  }

  /** Returns the route of a search with a filter. @param plain the route of searches without a filter */
  route(metric: Metric, ask: FilteredAsk, plain: Route | undefined): RouteInForce | undefined {
    if (plain === undefined) return undefined
    const bin = binOf(ask.share)
    this.#note(metric, bin, ask)
    const measured = this.#measured.get(keyOf(metric, bin.name))
    const scanRecall = this.scanRecallOf(metric)
    if (measured === undefined)
      return { ...plain, efMultiplier: Math.min(efMultiplierMax, 2 * plain.efMultiplier), scanRecall }
    if (measured.efMultiplier === undefined)
      return scanRecall === undefined ? undefined : { ...plain, scanRecall, isForScans: true }
    const efMultiplier = Math.max(plain.efMultiplier, measured.efMultiplier)
    return { ...plain, efMultiplier, recall: measured.recall, scanRecall }
  }

  /** Returns the recall of scans by codes at the default ef; undefined if it is below the target or unknown. */
  scanRecallOf(metric: Metric): number | undefined {
    const recall = this.#scans.get(metric)
    return recall !== undefined && recall >= this.#target ? recall : undefined
  }

  /** Records the recall of scans by codes, with filters of all bins. */
  decideScans(metric: Metric, recall: number): void {
    this.#scans.set(metric, recall)
  }

  /** The metrics to measure now: those of recent searches with filters. */
  get due(): Metric[] {
    return [...this.#asked].filter((metric) => this.#expired.has(metric) || !this.#isMeasured(metric))
  }

  /** Returns the last queries of a bin with their own filters, without routes. */
  recent(metric: Metric, bin: SelectivityBin, ef: number): IndexQuery[] {
    const asks = this.#recent.get(keyOf(metric, bin.name)) ?? []
    return asks.map(({ vector, k, matching }) => {
      return { vector, metric, k, ef: Math.max(ef, k), route: undefined, matching }
    })
  }

  /** Returns the routes to try for a bin, the cheapest first. */
  routes(plain: Route): Route[] {
    const routes: Route[] = []
    for (let efMultiplier = plain.efMultiplier; efMultiplier <= efMultiplierMax; efMultiplier *= 2)
      routes.push({ ...plain, efMultiplier })
    return routes
  }

  get target(): number {
    return this.#target
  }

  /**
   * Chooses the route of a bin by the measured recall: the last route tried is the first that was good enough.
   *
   * @returns whether the route has changed
   */
  decide(metric: Metric, { name: bin }: SelectivityBin, tried: readonly RouteRecall[]): boolean {
    const last = tried.at(-1)
    if (last === undefined) return false
    const isEnough = last.recall >= this.#target
    const best = Math.max(...tried.map(({ recall }) => recall))
    const efMultiplier = isEnough ? last.route.efMultiplier : undefined
    const before = this.#measured.get(keyOf(metric, bin))
    this.#measured.set(keyOf(metric, bin), {
      metric,
      bin,
      efMultiplier,
      recall: isEnough ? last.recall : best,
    })
    return before === undefined || before.efMultiplier !== efMultiplier
  }

  /** Call when all bins of a metric have been measured, or cannot be measured now. */
  done(metric: Metric): void {
    this.#asked.delete(metric)
    this.#expired.delete(metric)
  }

  /** Call when a metric was measured again without filters because the graph has changed much. */
  expire(metric: Metric): void {
    this.#expired.add(metric)
  }

  /**
   * Returns the recall of a bin's searches at the default ef, the lower of walks and scans: 1 where they are exact;
   * undefined where it was not measured.
   */
  recallOf(metric: Metric, bin: SelectivityBin): number | undefined {
    const measured = this.#measured.get(keyOf(metric, bin.name))
    if (measured === undefined) return undefined
    const ofWalks = measured.efMultiplier === undefined ? 1 : measured.recall
    return Math.min(ofWalks, this.scanRecallOf(metric) ?? 1)
  }

  #isMeasured(metric: Metric): boolean {
    return selectivityBins.some(({ name }) => this.#measured.has(keyOf(metric, name)))
  }

  /** Remembers one of several queries, together with its filter. */
  #note(metric: Metric, bin: SelectivityBin, ask: FilteredAsk): void {
    this.#asked.add(metric)
    this.#asks += 1
    const key = keyOf(metric, bin.name)
    const recent = this.#recent.get(key) ?? []
    if (recent.length >= recentMax && this.#asks % notedEvery !== 0) return
    // Copied, because the caller's vector can be a view of the bytes of a whole request.
    recent.push({ ...ask, vector: ask.vector.slice() })
    if (recent.length > recentMax) recent.shift()
    this.#recent.set(key, recent)
  }
}

function binOf(share: number): SelectivityBin {
  return selectivityBins.find(({ below }) => share < below)!
}

function keyOf(metric: Metric, bin: string): string {
  return `${metric} ${bin}`
}

/** The queries kept for a bin of a metric. With filters of ten million slots they take 20 MB at most. */
const recentMax = 16
const notedEvery = 16

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
