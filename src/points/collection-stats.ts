import type { Metric } from '../base/point.ts'
import type { DistanceSource, Route } from '../index/routes.ts'

/** Figures of a collection, for metrics and operators. */
export interface CollectionStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
  readonly attributeBytes: number
  readonly wordBytes: number
  /** About how many points wait until their words are indexed. */
  readonly wordsWaiting: number
  /** On disk, a recent figure. For a named collection: only its vectors. */
  readonly diskBytes: number
  readonly sequence: number
  /** Points that are not in the graph yet. */
  readonly unindexed: number
  /** Slots whose points were removed and that are still in a graph or a link queue. */
  readonly tombstones: number
  /** Whether a graph is being built or recall is being measured: plans may change as a result. */
  readonly isSettling: boolean
  /** What each graph's distances are computed from, by the graph's metric. */
  readonly distanceSources: Readonly<Record<string, GraphDistanceSource>>
  /** By metric: the route that searches take, and its measured recall. */
  readonly plans: Readonly<Record<Metric, MetricPlan>>
  /** The recall of searches with filters. */
  readonly filteredRecalls: readonly BinRecall[]
  /** How searches with a filter that matches points were carried out since the collection was opened. */
  readonly filteredPlans: FilteredPlanCounts
}

/** The route of a metric's searches, and its recall. */
export interface MetricPlan {
  /** Undefined for the exact scan. */
  readonly route: Route | undefined
  /** The recall of the route, or the best of the routes that were tried; undefined before the first measurement. */
  readonly recall: number | undefined
}

/** The recall of searches with filters, for one metric and bin. */
export interface BinRecall {
  readonly metric: Metric
  readonly bin: string
  /** 1 where searches are exact; undefined where it was not measured. */
  readonly recall: number | undefined
}

/** What a graph's distances are computed from, or why there is no graph. */
export type GraphDistanceSource = DistanceSource | 'nothing' | undefined

/** How a search with a filter was carried out. */
export type FilteredPlanName = (typeof filteredPlanNames)[number]
export const filteredPlanNames = ['scan', 'code_scan', 'walk', 'walk_and_scan'] as const

/** The number of searches with a filter, by how they were carried out. */
export type FilteredPlanCounts = Readonly<Record<FilteredPlanName, number>>
