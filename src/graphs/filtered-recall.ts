import type { Metric } from '../base/point.ts'
import type { KeptFilteredRoute } from '../index/graph-file.ts'
import { efMultiplierMax, type Route } from '../index/routes.ts'
import type { IndexQuery } from '../index/searcher.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { RouteRecall } from './index-messages.ts'

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

interface Measured {
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
  readonly #measured = new Map<string, Measured>()
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
