import type { AuditPage } from '../../api/audit.ts'
import type { CollectionStats, CollectionTotals, StatsOfNodes } from '../../api/call.ts'
import type {
  CreatedKey,
  ListAuditInput,
  SlowRequestsAnswer,
  Stats,
  TakenSnapshot,
} from '../../api/inspect-service.ts'
import type { SlowRequest } from '../../api/slow-requests.ts'
import type { KeyInfo } from '../../base/api-key.ts'
import { DateTime, formatDateTime, parseDateTime, shownText } from '../../base/attributes.ts'
import { invalid } from '../../base/errors.ts'
import { filterText } from '../../base/filter-text.ts'
import { partitionCount } from '../../base/partitions.ts'
import { distanceMetrics, type Metric } from '../../base/point.ts'
import { positionHeader } from '../../base/request-headers.ts'
import type { SettingInfo } from '../../base/setting-info.ts'
import { inSnakeCase } from '../../base/spelling.ts'
import type { StreamedAnswer } from './answers.ts'

/** What operators see: the state of an index, the slowest requests and the settings as JSON, and snapshots. */

export function encodeStats({ collection, stats, totals, quotas }: Stats): string {
  const json = 'nodes' in stats ? statsOfNodesJson(collection, stats) : statsJson(collection, stats)
  const { max = {}, ...use } = quotas ?? {}
  const quotasOf = quotas && { ...inSnakeCase({ ...max }), ...use }
  return JSON.stringify({ ...json, quotas: quotasOf, all_collections: totals && totalsJson(totals) })
}

export function encodeSlowRequests({ thresholdMs, requests }: SlowRequestsAnswer): string {
  return JSON.stringify({ threshold_ms: thresholdMs, queries: requests.map(slowJson) })
}

export function encodeSettings(settings: readonly SettingInfo[]): string {
  return JSON.stringify({ settings: settings.map(settingJson) })
}

/**
 * Reads the parameters of a list of the audit.
 *
 * @param parts each a text, or a list if it is repeated
 */
export function decodeAuditQuery(parts: object): ListAuditInput {
  const text = (name: string): string | undefined => {
    const value = (parts as Readonly<Record<string, unknown>>)[name]
    if (value === undefined || typeof value === 'string') return value
    throw invalid(`${name} is there more than once`)
  }
  const time = (name: string): number | undefined => {
    const given = text(name)
    if (given === undefined) return undefined
    const us = parseDateTime(given)?.us
    if (us !== undefined) return us
    throw invalid(`${name} is ${shownText(given)}, it must be a date like 2030-01-01T00:00:00Z`)
  }
  const [limit, allowed] = [text('limit'), text('allowed')]
  if (limit !== undefined && !/^-?\d+$/.test(limit)) {
    throw invalid(`limit is ${shownText(limit)}, it must be a whole number`)
  }
  if (allowed !== undefined && !/^(true|false)$/.test(allowed)) {
    throw invalid(`allowed is ${shownText(allowed)}, it must be true or false`)
  }
  return {
    sinceUs: time('since'),
    untilUs: time('until'),
    key: text('key'),
    operation: text('operation'),
    collection: text('collection'),
    allowed: allowed === undefined ? undefined : allowed === 'true',
    limit: limit === undefined ? undefined : Number(limit),
    cursor: text('cursor'),
  }
}

export function encodeAudit({ records, nextCursor }: AuditPage): string {
  return JSON.stringify({ records, next_cursor: nextCursor })
}

export function encodeKey({ key, ...info }: CreatedKey): string {
  return JSON.stringify({ ...keyJson(info), key })
}

export function encodeKeys(keys: readonly KeyInfo[]): string {
  return JSON.stringify({ keys: keys.map(keyJson) })
}

function keyJson({ filter, expiresAtMs, quotas, ...key }: KeyInfo): object {
  return {
    ...key,
    ...(filter && { filter: JSON.parse(filterText(filter, Number.POSITIVE_INFINITY)) }),
    ...(expiresAtMs !== undefined && { expires_at: formatDateTime(new DateTime(expiresAtMs * 1000)) }),
    ...(quotas && { quotas: inSnakeCase({ ...quotas }) }),
  }
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
function statsJson(collection: string, stats: CollectionStats): object {
  return { collection, points: stats.points, ...figuresJson([stats]) }
}

/**
 * The same for an index that is divided among several nodes. Each point counts once. All other figures cover every
 * copy.
 */
export function statsOfNodesJson(collection: string, { points, missing, nodes }: StatsOfNodes): object {
  const all = nodes.map(({ stats }) => stats).filter((stats) => stats !== undefined)
  const { graphs, searches, ...figures } = figuresJson(all)
  return {
    collection,
    points,
    ...figures,
    disk_bytes: all.reduce((sum, { diskBytes }) => sum + diskBytes, 0),
    graphs,
    searches,
    partitions: { total: partitionCount, missing },
    nodes: nodes.map(({ node, stats }) => ({ node, ...nodeJson(stats) })),
  }
}

/** Figures of all copies of an index: counts and sizes are sums, the others are the least favourable ones. */
function figuresJson(all: readonly CollectionStats[]) {
  const sum = (of: (stats: CollectionStats) => number): number =>
    all.reduce((total, each) => total + of(each), 0)
  const most = (of: (stats: CollectionStats) => number): number => Math.max(0, ...all.map(of))
  const words = sum(({ wordBytes }) => wordBytes)
  const wordsWaiting = sum((stats) => stats.wordsWaiting)
  return {
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
      ...(words > 0 && { words }),
    },
    ...(wordsWaiting > 0 && { words_waiting: wordsWaiting }),
    graphs: graphsJson(all),
    searches: distanceMetrics.map((metric) => searchJson(metric, all)),
  }
}

/** What `/stats` adds: all collections together, as the node that answers has them. */
function totalsJson(totals: CollectionTotals): object {
  const { collections, open, damaged, points, unindexed, tombstones, memoryBytes, memoryBytesMax } = totals
  return {
    collections,
    open,
    damaged,
    points,
    waiting: unindexed,
    tombstones,
    memory_bytes: memoryBytes,
    memory_bytes_max: memoryBytesMax === 0 ? null : memoryBytesMax,
  }
}

function nodeJson(stats: CollectionStats | undefined): object {
  if (stats === undefined) return { answers: false }
  const { segments, linked, waiting, tombstones, settling, memory_bytes } = figuresJson([stats])
  return {
    answers: true,
    points: stats.points,
    segments,
    linked,
    waiting,
    tombstones,
    settling,
    memory_bytes,
    disk_bytes: stats.diskBytes,
  }
}

function linkedOf({ points, unindexed }: CollectionStats): number {
  return Math.max(0, points - unindexed)
}

const distanceSourceWords = { codes: 'codes', rows: 'vectors', nothing: 'nothing' } as const

/** For each metric of a graph, the distance source on the first node that has such a graph. */
function graphsJson(all: readonly CollectionStats[]): object[] {
  const metrics = new Set(all.flatMap(({ distanceSources }) => Object.keys(distanceSources)))
  return [...metrics].map((similarity) => {
    const on = all
      .map(({ distanceSources }) => distanceSources[similarity])
      .find((each) => each !== undefined)
    return { similarity, distance_source: on === undefined ? null : distanceSourceWords[on] }
  })
}

/** A search is only as good as on the worst node. */
function searchJson(similarity: Metric, all: readonly CollectionStats[]): object {
  const plans = all.map((stats) => stats.plans[similarity])
  const multipliers = plans.flatMap(({ route }) => (route === undefined ? [] : [route.efMultiplier]))
  const bins = all.flatMap((stats) => stats.filteredRecalls.filter(({ metric }) => metric === similarity))
  return {
    similarity,
    plan: multipliers.length === 0 ? 'scan' : 'graph',
    ef_multiplier: multipliers.length === 0 ? null : Math.max(...multipliers),
    recall: worst(plans.map(recallInForce)),
    filtered: [...new Set(bins.map(({ bin }) => bin))].map((share) => ({
      matching_share: share,
      recall: worst(bins.filter(({ bin }) => bin === share).map(({ recall }) => recall)),
    })),
  }
}

/** The recall of searches; undefined if it is not measured yet. */
function recallInForce({ route, recall }: CollectionStats['plans'][Metric]): number | undefined {
  return route === undefined ? 1 : recall
}

/** The lowest recall; null if a node has not measured it. */
function worst(recalls: readonly (number | undefined)[]): number | null {
  const known = recalls.filter((recall) => recall !== undefined)
  return known.length < recalls.length || known.length === 0 ? null : Math.min(...known)
}

export function snapshotHeaders({ snapshot, position }: TakenSnapshot): Record<string, string | number> {
  const { databaseId, sequence, points } = snapshot
  return {
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="vicinal-${databaseId}-${sequence}.snapshot"`,
    'cache-control': 'no-store',
    'vicinal-database-id': databaseId,
    'vicinal-sequence': sequence,
    'vicinal-points': points,
    ...(position === undefined ? {} : { [positionHeader]: String(position) }),
  }
}

export function streamSnapshot({ snapshot, since }: TakenSnapshot): StreamedAnswer {
  return { chunks: snapshot.chunks({ since }), end: () => snapshot.close() }
}
