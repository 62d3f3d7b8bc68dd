import { isDeepStrictEqual } from 'node:util'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { type AuditRequest, isLinked } from '../index/audit.ts'
import type { KeptPlan } from '../index/graph-file.ts'
import {
  type DistanceSource,
  efMultiplierMax,
  isCheaperThanScan,
  type Route,
  routesFor,
} from '../index/routes.ts'
import type { IndexQuery } from '../index/searcher.ts'
import { auditedNeighbours, efMax } from '../index/segment.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { MetricPlan } from '../points/database.ts'
import type { RouteRecall } from './index-thread-pool.ts'

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

/** What was measured of searches with filters of one bin. */
interface MeasuredBin {
  /** Undefined if no route was good enough: searches scan. */
  readonly efMultiplier?: number | undefined
  readonly recall: number
}

/** What is known about the searches of one metric. */
interface Known {
  plan: Measured | undefined
  /** Whether a search has used the metric since it was measured. */
  isAsked: boolean
  /** By bin. */
  readonly bins: Map<string, MeasuredBin>
  /** The recall of scans by codes, with filters of all bins. */
  scanRecall: number | undefined
  /** The same as `isAsked` and `isOld`, for searches with filters. */
  isFilterAsked: boolean
  isFilterOld: boolean
  /** By bin: some of the last queries with filters. */
  readonly recent: Map<string, FilteredAsk[]>
}

/**
 * What recall control knows and decides: for each metric, and for searches with filters for each share of matching
 * points, the route that reaches the recall target, and when that must be measured again. recall-control.ts measures.
 *
 *   measured ──> decide ──> route of searches ──> points linked and removed ──> wider, then exact ──> due ──> measured
 *
 * While points wait to be linked, only the metrics of actual searches are measured. Measuring all metrics again and
 * again as a collection fills took a quarter of the index threads' time, for metrics that nobody used. The others
 * follow when all points are linked.
 */
export class RecallPlans {
  /** The recall that searches must reach. */
  readonly target: number
  readonly #hnswEf: number
  readonly #known: Readonly<Record<Metric, Known>>
  #linkedEver = 0
  #removedEver = 0
  #measuredAt = 0
  /** The greatest length among the points last sampled, as a multiple of the smallest. */
  #lengthSpread = 1
  #filterAsks = 0

  /** @param options.hnswEf the ef at which recall is measured */
  constructor(options: { readonly recallTarget: number; readonly hnswEf: number }) {
    this.target = options.recallTarget
    this.#hnswEf = options.hnswEf
    const known = distanceMetrics.map((metric): [Metric, Known] => [
      metric,
      {
        plan: undefined,
        isAsked: false,
        bins: new Map(),
        scanRecall: undefined,
        isFilterAsked: false,
        isFilterOld: false,
        recent: new Map(),
      },
    ])
    this.#known = Object.fromEntries(known) as Record<Metric, Known>
  }

  get all(): Readonly<Record<Metric, MetricPlan>> {
    const plans = distanceMetrics.map((metric) => [metric, this.of(metric)])
    return Object.fromEntries(plans) as Record<Metric, MetricPlan>
  }

  of(metric: Metric): MetricPlan {
    const { route, recall } = this.#known[metric].plan ?? noPlan
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
    this.#known[metric].isAsked = true
    return this.routeInForce(metric)
  }

  /** Like `routeFor`, but does not count as a search. */
  routeInForce(metric: Metric): Route | undefined {
    const { plan } = this.#known[metric]
    if (plan?.route === undefined) return undefined
    const { linked, removed } = this.#since(plan)
    if (linked + removed <= plan.points * trustedShare) return plan.route
    const efMultiplier = plan.route.efMultiplier * 2
    const isDoubtful = removed > plan.points * trustedShare || linked + removed > plan.points
    return isDoubtful || efMultiplier > efMultiplierMax ? undefined : { ...plan.route, efMultiplier }
  }

  #since({ linkedBefore, removedBefore }: Measured): { readonly linked: number; readonly removed: number } {
    return { linked: this.#linkedEver - linkedBefore, removed: this.#removedEver - removedBefore }
  }

  /**
   * Returns the route of a search with a filter; undefined for the exact scan. Until measured, such a search is twice as
   * wide as one without a filter.
   *
   * @param plain the route of searches without a filter
   */
  filteredRoute(metric: Metric, ask: FilteredAsk, plain: Route | undefined): RouteInForce | undefined {
    if (plain === undefined) return undefined
    const bin = selectivityBins.find(({ below }) => ask.share < below)!
    this.#note(metric, bin, ask)
    const { plan, bins } = this.#known[metric]
    const measured = bins.get(bin.name)
    const scanRecall = this.#usableScanRecall(metric)
    if (measured === undefined)
      return { ...plain, efMultiplier: Math.min(efMultiplierMax, 2 * plain.efMultiplier), scanRecall }
    // So many points may have changed since that searches are twice as wide, or scan: see `routeFor`.
    const widening = plain.efMultiplier / (plan?.route ?? plain).efMultiplier
    const efMultiplier = Math.max(
      plain.efMultiplier,
      (measured.efMultiplier ?? Number.POSITIVE_INFINITY) * widening,
    )
    if (efMultiplier > efMultiplierMax)
      return scanRecall === undefined ? undefined : { ...plain, scanRecall, isForScans: true }
    return { ...plain, efMultiplier, recall: measured.recall, scanRecall }
  }

  /** Returns the recall of scans by codes at the default ef; undefined if it is below the target or unknown. */
  #usableScanRecall(metric: Metric): number | undefined {
    const recall = this.#known[metric].scanRecall
    return recall !== undefined && recall >= this.target ? recall : undefined
  }

  /** Remembers one of several queries, together with its filter. */
  #note(metric: Metric, bin: SelectivityBin, ask: FilteredAsk): void {
    const known = this.#known[metric]
    known.isFilterAsked = true
    // Such a query scans rows: no walk, and no scan by codes, can find so many.
    if (ask.k > efMax) return
    this.#filterAsks += 1
    const recent = known.recent.get(bin.name) ?? []
    if (recent.length >= recentMax && this.#filterAsks % notedEvery !== 0) return
    // Copied, because the caller's vector can be a view of the bytes of a whole request.
    recent.push({ ...ask, vector: ask.vector.slice() })
    if (recent.length > recentMax) recent.shift()
    known.recent.set(bin.name, recent)
  }

  /**
   * Returns the recall of a bin's searches at the default ef, the lower of walks and scans: 1 where they are exact;
   * undefined where it was not measured.
   */
  filteredRecallOf(metric: Metric, bin: SelectivityBin): number | undefined {
    const measured = this.#known[metric].bins.get(bin.name)
    if (measured === undefined) return undefined
    const ofWalks = measured.efMultiplier === undefined ? 1 : measured.recall
    return Math.min(ofWalks, this.#usableScanRecall(metric) ?? 1)
  }

  /** The measurements, for a later run to restore. */
  get kept(): KeptPlan[] {
    const by = { ef: this.#hnswEf, target: this.target }
    return Object.entries(this.#known).map(([metric, { plan, bins, scanRecall, isFilterOld }]) => {
      const { linked = 0, removed = 0 } = plan === undefined ? {} : this.#since(plan)
      return {
        metric: metric as Metric,
        ...(plan && {
          plan: { route: plan.route, recall: plan.recall, points: plan.points },
          linkedSince: linked,
          removedSince: removed,
          by: plan.isOld ? undefined : by,
        }),
        filtered: [...bins].map(([bin, measured]) => ({ bin, ...measured })),
        scanRecall,
        filteredBy: isFilterOld ? undefined : by,
      }
    })
  }

  /**
   * Restores the measurements of an earlier run. Those with other settings or too many changed points are repeated,
   * those of searches with filters when a search needs them.
   *
   * @param linked the number of points that are in the graph now
   */
  restore(kept: readonly KeptPlan[], linked: number): void {
    const isOld = (by: KeptPlan['by']): boolean => by?.ef !== this.#hnswEf || by.target !== this.target
    for (const {
      metric,
      plan,
      linkedSince = 0,
      removedSince = 0,
      by,
      filtered,
      scanRecall,
      filteredBy,
    } of kept) {
      const known = this.#known[metric]
      if (plan !== undefined) {
        const { route, recall, points } = plan
        const linkedBefore = this.#linkedEver - Math.max(linkedSince, linked - points)
        const removedBefore = this.#removedEver - Math.max(removedSince, points - linked)
        known.plan = { route, recall, points, linkedBefore, removedBefore, isOld: isOld(by) }
      }
      for (const { bin, efMultiplier, recall } of filtered) known.bins.set(bin, { efMultiplier, recall })
      known.scanRecall ??= scanRecall
      if (isOld(filteredBy)) known.isFilterOld = true
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
    const inTurn = distanceMetrics.toSorted((a, b) => Number(this.isAsked(b)) - Number(this.isAsked(a)))
    return inTurn.filter((metric) => {
      const { plan, isAsked } = this.#known[metric]
      if (!isCalm && !isAsked) return false
      if (plan === undefined || plan.isOld) return true
      const since = this.#since(plan)
      return since.linked + since.removed >= plan.points * dueShare
    })
  }

  /** The metrics whose searches with filters are to be measured: those of recent searches. */
  get dueFiltered(): Metric[] {
    return distanceMetrics.filter((metric) => {
      const { isFilterAsked, isFilterOld, bins } = this.#known[metric]
      return isFilterAsked && (isFilterOld || bins.size === 0)
    })
  }

  /** Whether any search has used a metric since it was measured. */
  isAsked(metric: Metric): boolean {
    return this.#known[metric].isAsked
  }

  /** Measures a metric again at the next opportunity. */
  expire(metric: Metric): void {
    const known = this.#known[metric]
    if (known.plan !== undefined) known.plan = { ...known.plan, isOld: true }
  }

  /** Deletes the measurements on a graph that no longer exists. */
  discardGraph(graph: number): void {
    for (const known of Object.values(this.#known))
      if (known.plan?.route?.graph === graph) known.plan = undefined
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
      target: Math.min(1, this.target + margin),
      floor: this.target,
      metric,
      // Without routes so wide that searches would scan instead: with 4,096 vectors of 4,096 components, these took
      // minutes to measure. The narrowest route always stays, because a search can have a smaller ef.
      routes: routesFor(metric, index.layout, ready, distanceSources).filter(
        ({ efMultiplier }) =>
          efMultiplier === 1 || isCheaperThanScan(efMultiplier * this.#hnswEf, index.liveCount),
      ),
    }
  }

  /** Returns the routes to try for searches with filters, the cheapest first. */
  filteredRoutes(plain: Route): Route[] {
    const routes: Route[] = []
    for (let efMultiplier = plain.efMultiplier; efMultiplier <= efMultiplierMax; efMultiplier *= 2)
      routes.push({ ...plain, efMultiplier })
    return routes
  }

  /** Returns the last queries of a bin with their own filters, without routes. */
  recent(metric: Metric, bin: SelectivityBin, ef: number): IndexQuery[] {
    const asks = this.#known[metric].recent.get(bin.name) ?? []
    return asks.map(({ vector, k, matching }) => {
      return { vector, metric, k, ef: Math.max(ef, k), route: undefined, matching }
    })
  }

  /**
   * Chooses the route with the best measured recall, if that reaches the target. Searches with filters are then measured
   * again too, when there are any.
   *
   * @param on the points of the measurement, from `now`
   * @returns whether the metric's route has changed
   */
  decide(metric: Metric, tried: readonly RouteRecall[], on: MeasuredPoints): boolean {
    const known = this.#known[metric]
    const best = tried.toSorted((a, b) => b.recall - a.recall)[0]
    const isEnough = best !== undefined && best.recall >= this.target
    const route = isEnough ? best.route : undefined
    const isOther = !isDeepStrictEqual(route, known.plan?.route)
    known.plan = { ...on, route, recall: best?.recall, isOld: false }
    known.isAsked = false
    known.isFilterOld = true
    this.#measuredAt = performance.now()
    return isOther
  }

  /**
   * Chooses the route of a bin by the measured recall: the last route tried is the first that was good enough.
   *
   * @returns whether the route has changed
   */
  decideFiltered(metric: Metric, { name }: SelectivityBin, tried: readonly RouteRecall[]): boolean {
    const last = tried.at(-1)
    if (last === undefined) return false
    const { bins } = this.#known[metric]
    const isEnough = last.recall >= this.target
    const efMultiplier = isEnough ? last.route.efMultiplier : undefined
    const before = bins.get(name)
    bins.set(name, { efMultiplier, recall: Math.max(...tried.map(({ recall }) => recall)) })
    return before === undefined || before.efMultiplier !== efMultiplier
  }

  /** Records the recall of scans by codes, with filters of all bins. */
  decideScans(metric: Metric, recall: number): void {
    this.#known[metric].scanRecall = recall
  }

  /** Call when all bins of a metric have been measured, or cannot be measured now. */
  doneFiltered(metric: Metric): void {
    this.#known[metric].isFilterAsked = false
    this.#known[metric].isFilterOld = false
  }

  /**
   * Whether Cosine should have a separate graph: vectors differ in length, and Cosine needs much more than ef in the
   * Euclidean graph, or does not reach the target at all. If lengths are alike, both metrics produce the same order,
   * and a Cosine graph would be no better.
   */
  get isCosineGraphWanted(): boolean {
    const { plan } = this.#known.Cosine
    const isPoor = plan !== undefined && (plan.route === undefined || plan.route.efMultiplier > 2)
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

/** The queries kept for a bin of a metric. With filters of ten million slots they take 20 MB at most. */
const recentMax = 16
const notedEvery = 16
