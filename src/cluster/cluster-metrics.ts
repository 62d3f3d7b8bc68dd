import type { ServiceMetrics } from '../base/metrics.ts'

/** Callbacks that record how long the steps of a change take, in seconds. */
export interface ClusterTimings {
  readonly append: (seconds: number) => void
  readonly apply: (seconds: number) => void
  readonly acknowledge: (seconds: number) => void
  readonly request: (seconds: number) => void
}

/** What a node tells about itself and its log in numbers: the gauges `vicinal_cluster_<name>`, with their meaning. */
const gauges = {
  position: 'Position in the log of the cluster up to which this node has applied all records.',
  durable_position:
    'Position in the log of the cluster up to which all records are on the disk of this node.',
  lag: 'Records of the log of the cluster that this node has not applied.',
  connected: '1 while a log server is connected.',
  log_bytes: 'Bytes of the log of the cluster, on each server that has it.',
  log_servers: 'Servers that should have the log of the cluster.',
  log_servers_current: 'Servers that have the whole log of the cluster.',
  gaps: 'How often the log of the cluster did not have the next position, since the start.',
  digest_mismatches: 'Comparisons with other nodes that found a difference, since the data were loaded.',
  hedges:
    'Requests also sent to a second node because the first one took more than 100 ms, since the data were loaded.',
  fetches: 'How often this node has fetched everything from another node, since the start.',
  partitions: 'Partitions of the points, of 256, that this node has.',
  partitions_missing: 'Partitions of the points that this node should have but does not have yet.',
  partitions_under_replicated:
    'Partitions of the points that fewer nodes can answer for than should have them, as this node sees it.',
} as const

export type ClusterFigures = Readonly<Record<keyof typeof gauges, number>>

/**
 * Registers the gauges of a node and its log.
 *
 * @returns the callbacks that fill the histograms
 */
export function registerCluster(
  metrics: ServiceMetrics,
  cluster: { readonly figures: ClusterFigures },
): ClusterTimings {
  metrics.countUnanswered()
  for (const [name, meaning] of Object.entries(gauges))
    metrics.gauge(`vicinal_cluster_${name}`, meaning, () => cluster.figures[name as keyof typeof gauges])
  return {
    append: metrics.seconds(
      'vicinal_cluster_append_seconds',
      'Time of an append to the log of the cluster, until a majority of its servers has it on disk.',
    ),
    apply: metrics.seconds(
      'vicinal_cluster_apply_seconds',
      'Time from reading a record of the log of the cluster until it is applied.',
    ),
    acknowledge: metrics.seconds(
      'vicinal_cluster_acknowledge_seconds',
      'Time of a write on this node, from its append to its answer.',
    ),
    request: metrics.seconds(
      'vicinal_cluster_request_seconds',
      'Time that another node took to answer a request from this node.',
    ),
  }
}
