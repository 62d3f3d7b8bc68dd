import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, CollectionStats, CollectionTotals, Database, StatsOfNodes } from '../../api/call.ts'
import { checkName } from '../../api/collections.ts'
import type { SlowRequest, SlowRequests } from '../../api/slow-requests.ts'
import { defaultCollection } from '../../base/collection.ts'
import { partitionCount } from '../../base/partitions.ts'
import { distanceMetrics } from '../../base/point.ts'
import type { SettingInfo } from '../../base/setting-info.ts'
import { collectionPrefix, type PathParts } from './routes.ts'

export interface InspectionOptions {
  readonly context: ApiContext
  readonly slowRequests: SlowRequests
  /** The settings in force. */
  readonly settings: readonly SettingInfo[]
}

export const inspectionPaths: readonly string[] = [
  '/stats',
  `${collectionPrefix}/stats`,
  '/slow-queries',
  `${collectionPrefix}/slow-queries`,
  '/settings',
]

/** Adds read-only pages for operators: the state of an index, the slowest requests, the settings in force. */
export function addInspection(app: FastifyInstance, options: InspectionOptions): void {
  const add = (path: string, answer: (collection: string | undefined) => unknown): void => {
    app.get(path, { config: { role: 'read' } }, async (request: FastifyRequest, reply: FastifyReply) => {
      const { collection } = request.params as PathParts
      const json = await answer(collection === undefined ? undefined : checkName(collection, 'collection'))
      return reply
        .type('application/json; charset=utf-8')
        .header('cache-control', 'no-store')
        .send(JSON.stringify(json))
    })
  }
  const { context, slowRequests, settings } = options
  for (const prefix of ['', collectionPrefix]) {
    add(`${prefix}/stats`, (collection) => statsOf(context, collection))
    add(`${prefix}/slow-queries`, (collection) => slowOf(context, slowRequests, collection))
  }
  add('/settings', () => ({ settings: settings.map(settingJson) }))
}

async function statsOf({ collections, database }: ApiContext, name: string | undefined): Promise<unknown> {
  if (name === undefined) {
    return {
      ...(await statsIn(database, defaultCollection)),
      all_collections: totalsJson(collections.totals),
    }
  }
  using lease = await collections.lease(name)
  return await statsIn(lease.database, collections.aliases.get(name) ?? name)
}

async function statsIn(database: Database, collection: string): Promise<object> {
  const ofNodes = await database.statsOfNodes?.()
  if (ofNodes !== undefined) return statsOfNodesJson(collection, ofNodes)
  return statsJson(collection, database.stats)
}

function slowOf({ collections }: ApiContext, slow: SlowRequests, name: string | undefined): unknown {
  // Fails if the collection does not exist: an empty list would suggest a fast collection.
  const collection = name === undefined ? undefined : collections.get(name).name
  return { threshold_ms: slow.thresholdMs, queries: slow.list(collection).map(slowJson) }
}

/** Leaves out undefined fields. */
function slowJson({ timeMs, metric, tookMs, ...request }: SlowRequest): unknown {
  return {
    time: new Date(timeMs).toISOString(),
    took_ms: Math.round(tookMs * 100) / 100,
    ...request,
    similarity: metric,
  }
}

function settingJson({ isSecret, source, ...setting }: SettingInfo): unknown {
  return { ...setting, source: source ?? null, secret: isSecret }
}

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
