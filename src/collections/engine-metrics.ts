import { defaultCollection } from '../base/collection.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { distanceMetrics } from '../base/point.ts'
import { recallInForce } from '../graphs/recall-plans.ts'
import type { CollectionStats, MetricPlan } from '../points/database.ts'
import type { CollectionWords } from './collection-words.ts'
import type { Collection, Engine } from './engine.ts'
import { openCollectionBytes } from './open-collections.ts'
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
  metrics.gauge('vicinal_changes_kept', 'Whether changes are kept for the next backup.', () =>
    data.figures.keepsChanges ? 1 : 0,
  )
}

/** Registers gauges of all collections together, and of each of the largest ones. */
export function registerCollections(metrics: ServiceMetrics, engine: Engine, data: ServedData): void {
  metrics.gauge(
    'vicinal_collections',
    'Collections, including the default one.',
    () => data.loaded?.set.count ?? 0,
  )
  metrics.gauge(
    'vicinal_open_collections',
    'Named collections whose points are in memory.',
    () => data.loaded?.set.open.length ?? 0,
  )
  metrics.gauge(
    'vicinal_damaged_collections',
    'Named collections that could not be opened when last tried, because their files are missing or damaged.',
    () => data.loaded?.set.damagedCount ?? 0,
  )
  metrics.gauge(
    'vicinal_stored_points',
    'Points of all collections.',
    () => data.loaded?.set.totals.points ?? 0,
  )
  metrics.gauge(
    'vicinal_memory_bytes',
    'Memory that counts towards MAX_MEMORY_BYTES: the points of all open collections.',
    () => engine.memory.usedBytes,
  )
  metrics.gauge('vicinal_memory_max_bytes', 'MAX_MEMORY_BYTES; 0 for no limit.', () => engine.memory.maxBytes)
  const gauges = (name: string, help: string, of: (collection: Collection) => number): void =>
    metrics.gauges(name, help, 'collection', () => figuresOfOpen(data, of, sum))
  gauges(
    'vicinal_collection_points',
    `Live points of the ${collectionsShown} largest open named collections, and of the others together.`,
    ({ points }) => points,
  )
  gauges(
    'vicinal_collection_memory_bytes',
    'What these collections count towards MAX_MEMORY_BYTES: vectors, graphs, ids and attributes, and 512 KiB for each.',
    ({ claimedBytes }) => claimedBytes + openCollectionBytes,
  )
  gauges(
    'vicinal_collection_waiting_points',
    'Stored points of these collections that are not in the graph yet. Every search scans them.',
    ({ stats }) => stats.unindexed,
  )
  gauges(
    'vicinal_collection_tombstones',
    'Deleted points of these collections that are still in a graph or a link queue.',
    ({ stats }) => stats.tombstones,
  )
  const ofWords = (name: string, help: string, of: (words: CollectionWords) => number): void =>
    metrics.gauges(name, help, 'collection', () => {
      const all = figuresOfOpen(data, ({ livePoints }) => of(livePoints.words), sum)
      const main = data.loaded?.main.livePoints.words
      return main === undefined ? all : [[defaultCollection, of(main)], ...all]
    })
  ofWords(
    'vicinal_words_points',
    'Points of open collections whose words are indexed.',
    ({ points }) => points,
  )
  ofWords('vicinal_words_bytes', 'Memory of their indexes of words.', ({ claimedBytes }) => claimedBytes)
  ofWords(
    'vicinal_words_waiting_points',
    'About how many of their points wait until their words are indexed.',
    ({ waiting }) => waiting,
  )
  ofWords(
    'vicinal_words_searches',
    'Searches by words since they were opened.',
    ({ searches }) => searches.count,
  )
  ofWords(
    'vicinal_words_search_seconds',
    'How long these searches have taken together.',
    ({ searches }) => searches.seconds,
  )
  metrics.gaugesOf(
    'vicinal_collection_recall',
    'vicinal_index_recall of these collections, the lowest of the others together.',
    ['collection', 'metric'],
    () =>
      distanceMetrics.flatMap((metric) =>
        figuresOfOpen(data, ({ routes }) => recallInForce(routes[metric]), lowest).map(
          ([collection, recall]) => [{ collection, metric }, recall] as const,
        ),
      ),
  )
}

/** Returns a figure of each of the largest open collections, and one of the others together. */
function figuresOfOpen<Figure>(
  { loaded }: ServedData,
  of: (collection: Collection) => Figure,
  together: (figures: readonly Figure[]) => Figure,
): (readonly [string, Figure])[] {
  const figures = (loaded?.set.open ?? []).map(([name, collection]) => [name, of(collection)] as const)
  const shown = figures.slice(0, collectionsShown)
  const others = figures.slice(collectionsShown).map(([, figure]) => figure)
  return others.length === 0 ? shown : [...shown, [otherCollections, together(others)]]
}

function sum(figures: readonly number[]): number {
  return figures.reduce((total, each) => total + each, 0)
}

/** Collections whose recall is not measured yet are left out. */
function lowest(recalls: readonly (number | undefined)[]): number | undefined {
  const known = recalls.filter((recall) => recall !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}

/** Not a valid name of a collection. */
const otherCollections = '(other)'

/** Limited because every label costs memory where metrics are stored. */
const collectionsShown = 50

const distanceSourceNumbers = { none: 0, codes: 1, rows: 2, nothing: 3 } as const
