import type { ServiceMetrics } from '../base/metrics.ts'
import type { CollectionSet } from './collection-set.ts'
import type { CollectionStats } from './collection-stats.ts'
import type { Engine } from './engine.ts'
import { type MetricPlan, recallInForce } from './recall-plans.ts'
import type { ServedData } from './served-data.ts'

/** Registers gauges of the default collection and of what all collections share. */
export function registerEngine(metrics: ServiceMetrics, engine: Engine, data: ServedData): void {
  const stats = (): CollectionStats => data.figures.stats
  metrics.gauge('vicinal_points', 'Live points.', () => stats().points)
  metrics.gauge(
    'vicinal_dimension',
    'Length of every vector; 0 until the first insert.',
    () => stats().dimension,
  )
  metrics.gauge('vicinal_sequence', 'Sequence number of the last durable change.', () => stats().sequence)
  metrics.gauge('vicinal_index_segments', 'Memory segments of the index.', () => stats().segments)
  metrics.gauge('vicinal_index_memory_bytes', 'Memory of vectors and graphs.', () => stats().indexBytes)
  metrics.gauge('vicinal_id_table_memory_bytes', 'Memory of the id table.', () => stats().idTableBytes)
  metrics.gauge(
    'vicinal_attribute_memory_bytes',
    'Memory of the attribute index, including the filter results that it keeps.',
    () => stats().attributeBytes,
  )
  metrics.gauge(
    'vicinal_index_waiting_points',
    'Stored points that are not in the graph yet. Every search scans them.',
    () => stats().unindexed,
  )
  metrics.gauge(
    'vicinal_index_tombstones',
    'Deleted points that are still in a graph or a link queue.',
    () => stats().tombstones,
  )
  metrics.gauge(
    'vicinal_index_settling',
    '1 while a graph is being built, or repaired after a start, or recall is being measured. Meanwhile searches may be exact, and slower.',
    () => Number(stats().isSettling),
  )
  metrics.gauges(
    'vicinal_index_distance_source',
    'What the graph computes distances from, by its metric: 0 no graph yet, 1 codes, 2 vectors, 3 no graph, because neither distinguishes the points.',
    'graph',
    () =>
      Object.entries(stats().distanceSources).map(([graph, on]) => [
        graph,
        distanceSourceNumbers[on ?? 'none'],
      ]),
  )
  const plans = (): [string, MetricPlan][] => Object.entries(stats().plans)
  metrics.gauges(
    'vicinal_index_recall',
    'Recall of the ten nearest at the default ef: measured on stored points, or 1 where searches are exact.',
    'metric',
    () => plans().map(([metric, plan]) => [metric, recallInForce(plan)]),
  )
  metrics.gaugesOf(
    'vicinal_filtered_recall',
    'Recall of the ten nearest matching points of searches with a filter at the default ef, by the share of points that match; 1 where they are exact. Absent where they walk through a graph and were not measured yet.',
    ['metric', 'bin'],
    () => stats().filteredRecalls.map(({ metric, bin, recall }) => [{ metric, bin }, recall]),
  )
  metrics.gauges(
    'vicinal_filtered_searches',
    'Searches with a filter that matches points, since the start, by plan: a scan of the vectors of the matching points, a scan of their codes, a walk through the graph, or a walk that was replaced by a scan.',
    'plan',
    () => Object.entries(stats().filteredPlans),
  )
  metrics.gauges(
    'vicinal_index_ef_multiplier',
    'The ef multiplier that searches through the graph use to reach the recall target; 0 where searches are exact.',
    'metric',
    () => plans().map(([metric, { route }]) => [metric, route?.efMultiplier ?? 0]),
  )
  metrics.gauge('vicinal_queued_queries', 'Queries that wait or run.', () => engine.stats.queuedQueries)
  metrics.gauges(
    'vicinal_search_thread_pieces',
    'Pieces of searches that each search thread has processed since it started.',
    'thread',
    () => engine.stats.searchedPieces.map((pieces, thread) => [String(thread), pieces]),
  )
  metrics.gauge(
    'vicinal_queued_write_bytes',
    'Bytes of changes that wait for the disk.',
    () => engine.stats.queuedWriteBytes,
  )
  metrics.gauge(
    'vicinal_idempotency_keys',
    'Idempotency keys on disk, including expired ones.',
    () => data.figures.keyedRequests,
  )
  metrics.gauge('vicinal_disk_bytes', 'Bytes of the stored data on disk.', () => data.figures.diskBytes)
}

/** Registers gauges of the number of collections and of the largest ones. */
export function registerCollections(metrics: ServiceMetrics, data: ServedData): void {
  const largest = (): ReturnType<CollectionSet['largestOpen']> =>
    data.loaded?.set.largestOpen(collectionsShown) ?? []
  metrics.gauge(
    'vicinal_collections',
    'Collections, including the default one.',
    () => data.loaded?.set.count ?? 0,
  )
  metrics.gauge(
    'vicinal_open_collections',
    'Named collections whose points are in memory.',
    () => data.loaded?.set.openCount ?? 0,
  )
  metrics.gauges(
    'vicinal_collection_points',
    `Live points of the ${collectionsShown} largest open named collections.`,
    'collection',
    () => largest().map(([name, { points }]) => [name, points]),
  )
  metrics.gauges(
    'vicinal_collection_memory_bytes',
    'Memory of the vectors, graphs, ids and attributes of these collections.',
    'collection',
    () => largest().map(([name, { memoryBytes }]) => [name, memoryBytes]),
  )
}

/** Limited because every label costs memory where metrics are stored. */
const collectionsShown = 50

const distanceSourceNumbers = { none: 0, codes: 1, rows: 2, nothing: 3 } as const
