import type { CollectionStats, CollectionTotals, StatsOfNodes } from '../../api/call.ts'
import { partitionCount } from '../../base/partitions.ts'
import { distanceMetrics } from '../../base/point.ts'

/** The answer of `/stats`: the state of an index. */
export function statsJson(collection: string, stats: CollectionStats): object {
  const { points, dimension, segments, sequence, unindexed, tombstones, isSettling } = stats
  return {
    collection,
    points,
    dimension: dimension === 0 ? null : dimension,
    segments,
    sequence,
    linked: Math.max(0, points - unindexed),
    waiting: unindexed,
    tombstones,
    settling: isSettling,
    memory_bytes: memoryJson(stats),
    graphs: graphsJson(stats),
    searches: searchesJson(stats),
  }
}

/**
 * The same for an index that is divided among several nodes. Each point counts once. All other figures cover every
 * copy: counts and sizes are sums over the nodes, other figures are the least favourable ones.
 */
export function statsOfNodesJson(collection: string, { points, missing, nodes }: StatsOfNodes): object {
  const all = nodes.map(({ stats }) => stats).filter((stats) => stats !== undefined)
  const sum = (of: (stats: CollectionStats) => number): number =>
    all.reduce((total, each) => total + of(each), 0)
  const most = (of: (stats: CollectionStats) => number): number => Math.max(0, ...all.map(of))
  return {
    collection,
    points,
    dimension: most(({ dimension }) => dimension) || null,
    segments: sum(({ segments }) => segments),
    sequence: most(({ sequence }) => sequence),
    linked: sum(linkedOf),
    waiting: sum(({ unindexed }) => unindexed),
    tombstones: sum(({ tombstones }) => tombstones),
    settling: all.some(({ isSettling }) => isSettling),
    memory_bytes: {
      index: sum(({ indexBytes }) => indexBytes),
      ids: sum(({ idTableBytes }) => idTableBytes),
      attributes: sum(({ attributeBytes }) => attributeBytes),
    },
    disk_bytes: sum(({ diskBytes }) => diskBytes),
    graphs: mergedGraphs(all.map(graphsJson)),
    searches: mergedSearches(all.map(searchesJson)),
    partitions: { total: partitionCount, missing },
    nodes: nodes.map(({ node, stats }) => ({ node, ...nodeJson(stats) })),
  }
}

/** What `/stats` adds: all collections together, as the node that answers has them. */
export function totalsJson(totals: CollectionTotals): object {
  const { collections, open, damaged, points, unindexed, tombstones, memoryBytes, memoryBytesMax } = totals
  return {
    ...{ collections, open, damaged, points, waiting: unindexed, tombstones, memory_bytes: memoryBytes },
    memory_bytes_max: memoryBytesMax === 0 ? null : memoryBytesMax,
  }
}

function nodeJson(stats: CollectionStats | undefined): object {
  if (stats === undefined) return { answers: false }
  const { points, segments, unindexed, tombstones, isSettling, diskBytes } = stats
  return {
    ...{ answers: true, points, segments, linked: linkedOf(stats), waiting: unindexed, tombstones },
    ...{ settling: isSettling, memory_bytes: memoryJson(stats), disk_bytes: diskBytes },
  }
}

function linkedOf({ points, unindexed }: CollectionStats): number {
  return Math.max(0, points - unindexed)
}

function memoryJson({ indexBytes, idTableBytes, attributeBytes }: CollectionStats): object {
  return { index: indexBytes, ids: idTableBytes, attributes: attributeBytes }
}

interface GraphJson {
  readonly similarity: string
  readonly distance_source: string | null
}

const distanceSourceWords = { codes: 'codes', rows: 'vectors', nothing: 'nothing' } as const

function graphsJson({ distanceSources }: CollectionStats): GraphJson[] {
  return Object.entries(distanceSources).map(([similarity, on]) => ({
    similarity,
    distance_source: on === undefined ? null : distanceSourceWords[on],
  }))
}

/** For each metric, the graph of the first node that has one. */
function mergedGraphs(all: readonly GraphJson[][]): GraphJson[] {
  const graphs = new Map<string, GraphJson>()
  for (const graph of all.flat()) {
    if ((graphs.get(graph.similarity)?.distance_source ?? null) === null) graphs.set(graph.similarity, graph)
  }
  return [...graphs.values()]
}

interface SearchJson {
  readonly similarity: string
  readonly plan: 'scan' | 'graph'
  readonly ef_multiplier: number | null
  readonly recall: number | null
  readonly filtered: readonly { readonly matching_share: string; readonly recall: number | null }[]
}

function searchesJson({ plans, filteredRecalls }: CollectionStats): SearchJson[] {
  return distanceMetrics.map((similarity) => {
    const { route, recall } = plans[similarity]
    return {
      similarity,
      plan: route === undefined ? 'scan' : 'graph',
      ef_multiplier: route?.efMultiplier ?? null,
      recall: route === undefined ? 1 : (recall ?? null),
      filtered: filteredRecalls
        .filter(({ metric }) => metric === similarity)
        .map(({ bin, recall: measured }) => ({ matching_share: bin, recall: measured ?? null })),
    }
  })
}

/** Merges the searches of all nodes: a search is only as good as on the worst node. */
function mergedSearches(all: readonly SearchJson[][]): SearchJson[] {
  return distanceMetrics.map((similarity) => {
    const same = all.flat().filter((each) => each.similarity === similarity)
    const bins = new Set(same.flatMap(({ filtered }) => filtered.map((bin) => bin.matching_share)))
    const factors = same.map((each) => each.ef_multiplier).filter((factor) => factor !== null)
    return {
      similarity,
      plan: same.some(({ plan }) => plan === 'graph') ? 'graph' : 'scan',
      ef_multiplier: factors.length === 0 ? null : Math.max(...factors),
      recall: worst(same.map(({ recall }) => recall)),
      filtered: [...bins].map((share) => {
        const of = same.flatMap(({ filtered }) => filtered.filter((bin) => bin.matching_share === share))
        return { matching_share: share, recall: worst(of.map(({ recall }) => recall)) }
      }),
    }
  })
}

/** The lowest recall; null if a node has not measured it. */
function worst(recalls: readonly (number | null)[]): number | null {
  const known = recalls.filter((recall) => recall !== null)
  return known.length < recalls.length || known.length === 0 ? null : Math.min(...known)
}
