import type { Metric } from '../base/point.ts'
import type { GraphDistanceSource } from '../graphs/graph-set.ts'
import type { BinRecall, MetricPlan } from '../graphs/recall-plans.ts'
import type { FilteredPlanCounts } from '../search/filter-planner.ts'

/** Figures of a collection, for metrics and operators. */
export interface CollectionStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
  readonly attributeBytes: number
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
