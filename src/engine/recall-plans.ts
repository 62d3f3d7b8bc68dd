import { type Metric, metrics } from '../base/point.ts'
import type { AuditRequest } from '../index/audit.ts'
import { type Route, routesFor } from '../index/graph.ts'
import { slotStates } from '../index/graph-state.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { RouteRecall } from './index-messages.ts'

/** What a metric's searches do, and why. */
export interface MetricPlan {
  /** Undefined for the exact scan. */
  readonly route: Route | undefined
  /** Of the route, or of the best that was tried; undefined before the first measurement. */
  readonly recall: number | undefined
}

/** Which way each metric's searches take, and when it is time to measure again. */
export class RecallPlans {
  readonly #recallTarget: number
  readonly #hnswEf: number
  readonly #plans = new Map<Metric, MetricPlan>()
  /** Linked points at the last measurement, and by how much they have to grow for the next. */
  #measuredPoints = 0
  #growth = usualGrowth
  #measuredAt = 0

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
    return this.#plans.get(metric) ?? noPlan
  }

  /** Takes up what an earlier run measured. */
  restore(plans: readonly ({ readonly metric: Metric } & MetricPlan)[]): void {
    for (const { metric, route, recall } of plans) this.#plans.set(metric, { route, recall })
  }

  /**
   * Whether to measure now: many more points stand in the graph than the last time, and most of all do.
   *
   * Points that wait do not count as measured, or what half a graph showed while it was being built, with links
   * still missing that come with the other half, would be believed of the whole one.
   *
   * @param waiting points that are not linked yet
   */
  isDue(points: number, waiting: number): boolean {
    const linked = points - waiting
    const growth = waiting === 0 ? tightGrowth : this.#growth
    return linked > 0 && linked >= this.#measuredPoints * growth && waiting <= points / 2
  }

  /** Measures again at the next opportunity. */
  expire(): void {
    this.#measuredPoints = 0
  }

  /** Measures again at the next opportunity, if the last measurement is old. */
  expireWhenOld(now: number): void {
    if (now - this.#measuredAt > oldMs) this.expire()
  }

  /**
   * What to measure.
   *
   * @param ready which graphs can be searched
   * @param waiting points that are not linked yet
   */
  request(index: VectorIndex, ready: readonly boolean[], waiting: number): AuditRequest {
    return {
      slots: sampleOf(index, ready, waiting),
      slotCount: index.slotCount,
      k: 10,
      ef: this.#hnswEf,
      target: Math.min(1, this.#recallTarget + margin),
      floor: this.#recallTarget,
      candidates: metrics.map((metric) => ({ metric, routes: routesFor(metric, index.layout, ready) })),
    }
  }

  /**
   * Decides by what was measured: of a metric's routes the last one tried is the first that was good enough.
   *
   * @param linked points that were linked when the measurement began
   */
  decide(found: readonly RouteRecall[], linked: number): void {
    for (const metric of metrics) {
      const tried = found.filter((each) => each.metric === metric)
      const best = tried.toSorted((a, b) => b.recall - a.recall)[0]
      const isEnough = best !== undefined && best.recall >= this.#recallTarget
      this.#plans.set(metric, { route: isEnough ? best.route : undefined, recall: best?.recall })
    }
    this.#measuredPoints = linked
    this.#measuredAt = performance.now()
    const isTight = [...this.#plans.values()].some(({ route }) => route !== undefined && route.widening > 1)
    this.#growth = isTight ? tightGrowth : usualGrowth
  }

  /** Whether the Euclidean graph has to be searched much wider for Cosine than asked, if it serves it at all. */
  get isCosinePoor(): boolean {
    const plan = this.#plans.get('Cosine')
    return plan !== undefined && (plan.route === undefined || plan.route.widening > 2)
  }
}

const noPlan: MetricPlan = { route: undefined, recall: undefined }

/** Recall sinks slowly as points come: the next look is due when there are so many times as many. */
const usualGrowth = 2
const tightGrowth = 1.25
const oldMs = 600_000
/** A sample's figure is a little off: what is just at the target in it may be below in truth. */
const margin = 0.005
const samples = 100

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
      if (isLinked(index, ready, slot)) slots.add(slot)
      break
    }
  }
  return [...slots]
}

function isLinked(index: VectorIndex, ready: readonly boolean[], slot: number): boolean {
  const { ordinal, local } = index.locate(slot)
  return ready.every((isReady, graph) => {
    const { states } = index.linkQueue(ordinal, graph).state
    return !isReady || states[local] === slotStates.linked
  })
}
