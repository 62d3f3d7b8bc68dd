import type { ServiceMetrics } from '../base/metrics.ts'
import type { ClusterService } from './cluster-service.ts'

/** Callbacks that record how long the steps of a change take, in seconds. */
export interface ClusterTimings {
  readonly append: (seconds: number) => void
  readonly apply: (seconds: number) => void
  readonly acknowledge: (seconds: number) => void
  readonly request: (seconds: number) => void
}

/**
 * Registers the gauges of a node and its log.
 *
 * @returns the callbacks that fill the histograms
 */
export function registerCluster(metrics: ServiceMetrics, cluster: ClusterService): ClusterTimings {
  metrics.countUnanswered()
  metrics.gauge(
    'vicinal_cluster_position',
    'Position in the log of the cluster up to which this node has applied all records.',
    () => cluster.figures.position,
  )
  metrics.gauge(
    'vicinal_cluster_durable_position',
    'Position in the log of the cluster up to which all records are on the disk of this node.',
    () => cluster.figures.floor,
  )
  metrics.gauge(
    'vicinal_cluster_lag',
    'Records of the log of the cluster that this node has not applied.',
    () => cluster.figures.lag,
  )
  metrics.gauge('vicinal_cluster_connected', '1 while a log server is connected.', () =>
    Number(cluster.figures.isConnected),
  )
  metrics.gauge(
    'vicinal_cluster_log_bytes',
    'Bytes of the log of the cluster, on each server that has it.',
    () => cluster.figures.logBytes,
  )
  metrics.gauge(
    'vicinal_cluster_log_servers',
    'Servers that should have the log of the cluster.',
    () => cluster.figures.logServers,
  )
  metrics.gauge(
    'vicinal_cluster_log_servers_current',
    'Servers that have the whole log of the cluster.',
    () => cluster.figures.logServersCurrent,
  )
  metrics.gauge(
    'vicinal_cluster_gaps',
    'Positions that the log of the cluster did not have, since the data were loaded.',
    () => cluster.figures.gaps,
  )
  metrics.gauge(
    'vicinal_cluster_digest_mismatches',
    'Comparisons with other nodes that found a difference, since the start.',
    () => cluster.figures.digestMismatches,
  )
  metrics.gauge(
    'vicinal_cluster_hedges',
    'Requests also sent to a second node because the first one took more than 100 ms, since the start.',
    () => cluster.figures.hedges,
  )
  metrics.gauge(
    'vicinal_cluster_fetches',
    'How often this node has fetched everything from another node, since the start.',
    () => cluster.figures.fetches,
  )
  metrics.gauge(
    'vicinal_cluster_partitions',
    'Partitions of the points, of 256, that this node has.',
    () => cluster.figures.partitions,
  )
  metrics.gauge(
    'vicinal_cluster_partitions_missing',
    'Partitions of the points that this node should have but does not have yet.',
    () => cluster.figures.partitionsMissing,
  )
  metrics.gauge(
    'vicinal_cluster_partitions_under_replicated',
    'Partitions of the points that fewer nodes can answer for than should have them, as this node sees it.',
    () => cluster.figures.partitionsUnderReplicated,
  )
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
