import type { ServiceMetrics } from '../base/metrics.ts'
import type { CollectionSet } from './collection-set.ts'
import type { CollectionStats } from './collection-stats.ts'
import type { Engine } from './engine.ts'
import { type MetricPlan, recallInForce } from './recall-plans.ts'
import type { ServedData } from './served-data.ts'

/** Gauges of the default collection and of what all collections share. */
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
  metrics.gauge(
    'vicinal_index_memory_bytes',
    'Memory that the index has reserved for vectors.',
    () => stats().indexBytes,
  )
  metrics.gauge('vicinal_id_table_memory_bytes', 'Memory of the id table.', () => stats().idTableBytes)
  metrics.gauge(
    'vicinal_attribute_memory_bytes',
    'Memory of the attribute index, results of filters that it keeps included.',
    () => stats().attributeBytes,
  )
  metrics.gauge(
    'vicinal_index_waiting_points',
    'Points that are stored and not yet linked into the index: every search scans them.',
    () => stats().unindexed,
  )
  metrics.gauge(
    'vicinal_index_tombstones',
    'Removed points whose links are not repaired yet.',
    () => stats().tombstones,
  )
  metrics.gauge(
    'vicinal_index_settling',
    '1 while a graph is being built or repaired after a start, or recall is being measured; searches may be exact, and slower, meanwhile.',
    () => Number(stats().isSettling),
  )
  metrics.gauges(
    'vicinal_index_distance_source',
    'By the metric of the graph, what its distances are measured on: 0 no graph yet, 1 codes, 2 vectors, 3 no graph, as neither tells the points apart.',
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
    'Share of the ten nearest that searches at the default ef find: 1 where they are exact, else measured on stored points.',
    'metric',
    () => plans().map(([metric, plan]) => [metric, recallInForce(plan)]),
  )
  metrics.gaugesOf(
    'vicinal_filtered_recall',
    'Share of the ten nearest matching points that searches with a filter find at the default ef, by the share of points that match: 1 where they are exact. Absent where such searches walk through a graph and were not measured yet.',
    ['metric', 'bin'],
    () => stats().filteredRecalls.map(({ metric, bin, recall }) => [{ metric, bin }, recall]),
  )
  metrics.gauges(
    'vicinal_filtered_searches',
    'Searches with a filter that points match, since the start, by plan: a scan of the vectors of the matching points, one of their codes, a walk through the graph, or a walk that gave way to a scan.',
    'plan',
    () => Object.entries(stats().filteredPlans),
  )
  metrics.gauges(
    'vicinal_index_ef_multiplier',
    'How many times the asked-for ef a search uses to reach the recall target; 0 for the exact scan.',
    'metric',
    () => plans().map(([metric, { route }]) => [metric, route?.efMultiplier ?? 0]),
  )
  metrics.gauge('vicinal_queued_queries', 'Queries that wait or run.', () => engine.stats.queuedQueries)
  metrics.gauges(
    'vicinal_search_thread_pieces',
    'Single searches and parts of larger ones that each search thread has worked on since it started.',
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
    'Idempotency keys on disk, those included that are too old to be recognized.',
    () => data.figures.keyedRequests,
  )
  metrics.gauge('vicinal_disk_bytes', 'Bytes of the stored data on disk.', () => data.figures.diskBytes)
}

/** Gauges of how many collections there are, and how large. */
export function registerCollections(metrics: ServiceMetrics, data: ServedData): void {
  const largest = (): ReturnType<CollectionSet['largestOpen']> =>
    data.loaded?.set.largestOpen(collectionsShown) ?? []
  metrics.gauge(
    'vicinal_collections',
    'Collections, the default one included.',
    () => data.loaded?.set.count ?? 0,
  )
  metrics.gauge(
    'vicinal_open_collections',
    'Named collections whose points are in memory.',
    () => data.loaded?.set.openCount ?? 0,
  )
  metrics.gauges(
    'vicinal_collection_points',
    `Live points of named collections that are open, the ${collectionsShown} largest.`,
    'collection',
    () => largest().map(([name, { points }]) => [name, points]),
  )
  metrics.gauges(
    'vicinal_collection_memory_bytes',
    'Memory that these collections take for vectors, graphs, ids and attributes.',
    'collection',
    () => largest().map(([name, { memoryBytes }]) => [name, memoryBytes]),
  )
}

/** Bounded because every label costs memory where metrics are stored. */
const collectionsShown = 50

const distanceSourceNumbers = { none: 0, codes: 1, rows: 2, nothing: 3 } as const
