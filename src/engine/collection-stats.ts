import type { Metric } from '../base/point.ts'
import type { FilteredPlanCounts } from './filter-planner.ts'
import type { BinRecall } from './filtered-recall.ts'
import type { GraphDistanceSource } from './graph-distance-sources.ts'
import type { MetricPlan } from './recall-plans.ts'

/** Figures of a collection, for metrics and people. */
export interface CollectionStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
  readonly attributeBytes: number
  /** On disk, a recent figure; of a named collection its vectors alone. */
  readonly diskBytes: number
  readonly sequence: number
  /** Points that are not in the graph yet. */
  readonly unindexed: number
  /** Slots whose points were removed and that are still in a graph. */
  readonly tombstones: number
  /** Whether a graph is being built or recall measured: the plans may change by that. */
  readonly isSettling: boolean
  /** By the metric of each graph: what its distances are measured on. */
  readonly distanceSources: Readonly<Record<string, GraphDistanceSource>>
  /** By metric: which way searches take, and with what measured recall. */
  readonly plans: Readonly<Record<Metric, MetricPlan>>
  /** The recall of searches with filters. */
  readonly filteredRecalls: readonly BinRecall[]
  /** Searches with a filter that points match, since the collection was opened. */
  readonly filteredPlans: FilteredPlanCounts
}
