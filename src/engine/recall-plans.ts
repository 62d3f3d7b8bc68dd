import { isDeepStrictEqual } from 'node:util'
import { type Metric, metrics } from '../base/point.ts'
import { type AuditRequest, isLinked } from '../index/audit.ts'
import { isCheaperThanScan, type MeasuredOn, type Route, routesFor, wideningMax } from '../index/graph.ts'
import type { KeptRoute } from '../index/graph-file.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { RouteRecall } from './index-messages.ts'

/** What a metric's searches do, and why. */
export interface MetricPlan {
  /** Undefined for the exact scan. */
  readonly route: Route | undefined
  /** Of the route, or of the best that was tried; undefined before the first measurement. */
  readonly recall: number | undefined
}

/** What recall was measured on. */
export interface MeasuredPoints {
  /** Linked points at the measurement. */
  readonly points: number
  /** Points that had ever been linked, and removed, by then, as `linkedEver` and `removedEver` count them. */
  readonly linkedBefore: number
  readonly removedBefore: number
}

/** What a plan was decided by. */
interface Measured extends MetricPlan, MeasuredPoints {
  /** It stands, but is to be made again whatever has changed since. */
  readonly isOld: boolean
}

/**
 * Which way each metric's searches take, and when it is time to measure again.
 *
 * While points are still to be linked, only what somebody searches with is measured: measuring all metrics again
 * and again as a collection fills took a quarter of the index threads' time, and nobody asked. When all points are linked
 * the others follow.
 */
export class RecallPlans {
  readonly #recallTarget: number
  readonly #hnswEf: number
  readonly #measured = new Map<Metric, Measured>()
  /** Metrics that were searched with since they were measured. */
  readonly #asked = new Set<Metric>()
  #linkedEver = 0
  #removedEver = 0
  #measuredAt = 0
  /** The longest of the points last sampled, as a multiple of the shortest. */
  #lengthSpread = 1

  /** @param hnswEf the ef at which recall is measured */
  constructor({ recallTarget, hnswEf }: { readonly recallTarget: number; readonly hnswEf: number }) {
    this.#recallTarget = recallTarget
    this.#hnswEf = hnswEf
  }

  get all(): Readonly<Record<Metric, MetricPlan>> {
    return Object.fromEntries(metrics.map((metric) => [metric, this.of(metric)])) as Record<
      Metric,
      MetricPlan
    >
  }

  of(metric: Metric): MetricPlan {
    const { route, recall } = this.#measured.get(metric) ?? noPlan
    return { route, recall }
  }

  /**
   * The way of a search; undefined for the exact scan. A measurement speaks for the points that it was made on: when a third as many
   * have been linked or removed since, searches go twice as wide, and once a third of them has been removed, or as many have changed
   * as there were, they are exact until recall has been measured again.
   */
  routeFor(metric: Metric): Route | undefined {
    this.#asked.add(metric)
    return this.routeInForce(metric)
  }

  /** As `routeFor`, and nobody asks. */
  routeInForce(metric: Metric): Route | undefined {
    const measured = this.#measured.get(metric)
    if (measured?.route === undefined) return undefined
    const { linked, removed } = this.#since(measured)
    if (linked + removed <= measured.points * trustedShare) return measured.route
    const widening = measured.route.widening * 2
    const isDoubtful = removed > measured.points * trustedShare || linked + removed > measured.points
    return isDoubtful || widening > wideningMax ? undefined : { ...measured.route, widening }
  }

  #since({ linkedBefore, removedBefore }: Measured): { readonly linked: number; readonly removed: number } {
    return { linked: this.#linkedEver - linkedBefore, removed: this.#removedEver - removedBefore }
  }

  /** What a later run can take up. */
  get kept(): KeptRoute[] {
    return [...this.#measured].map(([metric, measured]) => {
      const { route, recall, points, isOld } = measured
      const { linked, removed } = this.#since(measured)
      const by = isOld ? undefined : { ef: this.#hnswEf, target: this.#recallTarget }
      return { metric, route, recall, points, linkedSince: linked, removedSince: removed, by }
    })
  }

  /**
   * Takes up what an earlier run measured; again is measured only what that run measured otherwise, or other points.
   *
   * @param linked points that stand in the graph now
   */
  restore(kept: readonly KeptRoute[], linked: number): void {
    for (const { metric, route, recall, points, by, linkedSince = 0, removedSince = 0 } of kept) {
      const isOld = by?.ef !== this.#hnswEf || by.target !== this.#recallTarget
      const linkedBefore = this.#linkedEver - Math.max(linkedSince, linked - points)
      const removedBefore = this.#removedEver - Math.max(removedSince, points - linked)
      this.#measured.set(metric, { route, recall, points, linkedBefore, removedBefore, isOld })
    }
  }

  /** What a measurement that begins now is made on. */
  now(points: number): MeasuredPoints {
    return { points, linkedBefore: this.#linkedEver, removedBefore: this.#removedEver }
  }

  /** So many more points have been linked. */
  linked(count: number): void {
    this.#linkedEver += count
  }

  /** So many more points have been removed. */
  removed(count: number): void {
    this.#removedEver += count
  }

  /**
   * The metrics to measure now, those first that somebody searches with: that were never measured, or since whose measurement
   * many points have come or gone.
   *
   * Points that wait do not count as measured, or what half a graph showed while it was being built, with links
   * still missing that come with the other half, would be believed of the whole one.
   *
   * @param waiting points that are not linked yet
   * @param isCalm whether there is time for metrics that nobody searches with
   */
  due(points: number, waiting: number, isCalm: boolean = waiting === 0): Metric[] {
    const linked = points - waiting
    if (linked === 0 || waiting > points / 2) return []
    const inTurn = metrics.toSorted((a, b) => Number(this.#asked.has(b)) - Number(this.#asked.has(a)))
    return inTurn.filter((metric) => {
      if (!isCalm && !this.#asked.has(metric)) return false
      const measured = this.#measured.get(metric)
      if (measured === undefined || measured.isOld) return true
      const since = this.#since(measured)
      return since.linked + since.removed >= measured.points * dueShare
    })
  }

  /** Whether somebody has searched with a metric since it was measured. */
  isAsked(metric: Metric): boolean {
    return this.#asked.has(metric)
  }

  /** Measures a metric again at the next opportunity. */
  expire(metric: Metric): void {
    const measured = this.#measured.get(metric)
    if (measured !== undefined) this.#measured.set(metric, { ...measured, isOld: true })
  }

  /** What was measured of a graph that there is no more. */
  forget(metric: Metric): void {
    this.#measured.delete(metric)
  }

  /**
   * Measures all again at the next opportunity, if the last measurement is old.
   *
   * @param isBusy whether searches need the processors: then it may grow older
   */
  expireWhenOld(now: number, isBusy: boolean): void {
    if (now - this.#measuredAt > (isBusy ? veryOldMs : oldMs))
      for (const metric of metrics) this.expire(metric)
  }

  /**
   * What to measure of a metric.
   *
   * @param ready which graphs can be searched
   * @param waiting points that are not linked yet
   * @param measuredOn what each graph's distances are measured on
   */
  request(
    index: VectorIndex,
    metric: Metric,
    ready: readonly boolean[],
    waiting: number,
    measuredOn: readonly (MeasuredOn | undefined)[] = [],
  ): AuditRequest {
    const slots = [...new Set(Array.from({ length: rounds }, () => sampleOf(index, ready, waiting)).flat())]
    this.#lengthSpread = spreadOf(slots.map((slot) => index.lengthOf(slot)))
    return {
      slots,
      fewest: samples,
      k: 10,
      ef: this.#hnswEf,
      target: Math.min(1, this.#recallTarget + margin),
      floor: this.#recallTarget,
      metric,
      routes: this.#worthwhile(routesFor(metric, index.layout, ready, measuredOn), index.liveCount),
    }
  }

  /**
   * Without those so wide that searches scan instead: of 4,096 vectors of 4,096 components they took minutes to measure.
   * The plain one always: a search can ask for a smaller ef.
   */
  #worthwhile(routes: readonly Route[], points: number): Route[] {
    return routes.filter(
      ({ widening }) => widening === 1 || isCheaperThanScan(widening * this.#hnswEf, points),
    )
  }

  /**
   * Decides by what was measured: the last route tried is the first that was good enough.
   *
   * @param on what was measured, as `now` gave it
   * @returns whether searches under the metric go another way now
   */
  decide(metric: Metric, tried: readonly RouteRecall[], on: MeasuredPoints): boolean {
    const best = tried.toSorted((a, b) => b.recall - a.recall)[0]
    const isEnough = best !== undefined && best.recall >= this.#recallTarget
    const route = isEnough ? best.route : undefined
    const isOther = !isDeepStrictEqual(route, this.of(metric).route)
    this.#measured.set(metric, { ...on, route, recall: best?.recall, isOld: false })
    this.#asked.delete(metric)
    this.#measuredAt = performance.now()
    return isOther
  }

  /**
   * Whether Cosine should have a graph of its own: vectors differ in length, and the Euclidean graph has to be searched
   * much wider for Cosine than asked, if it serves it at all. Where lengths are alike, both metrics order alike, and a
   * graph by the other one would be no better.
   */
  get isCosineGraphWanted(): boolean {
    const measured = this.#measured.get('Cosine')
    const isPoor = measured !== undefined && (measured.route === undefined || measured.route.widening > 2)
    return isPoor && this.#lengthSpread > alikeSpread
  }
}

/** The recall of the searches that a plan makes; undefined when that is not known. */
export function recallInForce({ route, recall }: MetricPlan): number | undefined {
  return route === undefined ? 1 : recall
}

/** Plans as people read them, by metric. */
export function plansInWords(plans: Readonly<Record<Metric, MetricPlan>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(plans).map(([metric, plan]) => [metric, inWords(plan)]))
}

function inWords({ route, recall }: MetricPlan): string {
  if (route === undefined) {
    return recall === undefined ? 'exact scan' : `exact scan: the graph finds only ${recall.toFixed(3)}`
  }
  const graph = route.graph === 0 ? 'graph' : 'graph of its own'
  const width = route.widening === 1 ? '' : `, searched ${route.widening} times as wide`
  return `${graph}${width}, finds ${recall?.toFixed(3)}`
}

const noPlan: MetricPlan = { route: undefined, recall: undefined }

/** Recall sinks slowly as points come and go: the next look is due when so many of those measured have changed. */
const dueShare = 0.25
/** Beyond it a plan is not trusted any more. A little more than what makes a measurement due, which takes its time. */
const trustedShare = 1 / 3
const oldMs = 600_000
const veryOldMs = 3_600_000
/** A sample's figure is a little off: what is just at the target in it may be below in truth. */
const margin = 0.005
const samples = 100
/**
 * Where a first sample leaves it in doubt whether a route reaches the target, as many more are taken. Of 1,841 glosses with
 * lengths that differ 50 times, one sample of 100 in eight found .989 on a route whose recall is .974.
 */
const rounds = 4
/** What rounding, or storing as halves or bytes, leaves of one length. */
const alikeSpread = 1.1

/**
 * Linked slots, evenly spread over the index with a random start in each stretch. One that waits says nothing of
 * the graph, and is not counted (audit.ts): the stretches are so much shorter that `samples` remain without them.
 * Of fewer, one point that no way leads to would weigh as much as a graph that falls short.
 */
function sampleOf(index: VectorIndex, ready: readonly boolean[], waiting: number): number[] {
  const stretches = Math.ceil((samples * index.liveCount) / (index.liveCount - waiting))
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

/** 1 where there are none; points at the origin, which have no direction, do not count. */
function spreadOf(lengths: readonly number[]): number {
  const above = lengths.filter((length) => length > 0)
  return above.length === 0 ? 1 : Math.max(...above) / Math.min(...above)
}
