import type { Metric } from '../base/point.ts'
import { repeatable } from './call-options.ts'
import type { HttpCaller } from './http-call.ts'
import type { CollectionStats, InspectionClient, NodeStats, SettingInForce, SlowQuery } from './inspection.ts'

/** @param base the path of the client's collection; '' for the default one */
export function inspectionOf(call: HttpCaller, base: string): InspectionClient {
  const get = async <Answer>(path: string, options: Parameters<typeof repeatable>[0]): Promise<Answer> =>
    (await call<Answer>('GET', path, undefined, repeatable(options))).answer
  return {
    async stats(options) {
      return statsOf(await get<StatsAnswer>(`${base}/stats`, options))
    },
    async slowQueries(options) {
      const { threshold_ms, queries } = await get<SlowAnswer>(`${base}/slow-queries`, options)
      return { thresholdMs: threshold_ms, queries: queries.map(slowQueryOf) }
    },
    async settings(options) {
      const { settings } = await get<SettingsAnswer>('/settings', options)
      return settings.map(settingOf)
    },
  }
}

function statsOf(answer: StatsAnswer): CollectionStats {
  const { settling, memory_bytes, dimension, graphs, searches, ...others } = answer
  const { nodes, partitions, disk_bytes: diskBytes, ...figures } = others
  return {
    ...figures,
    ...(nodes && {
      parts: {
        nodes: nodes.map(nodeOf),
        diskBytes: diskBytes!,
        missing: { partitions: partitions!.missing, of: partitions!.total },
      },
    }),
    dimension: dimension ?? undefined,
    isSettling: settling,
    memoryBytes: memory_bytes,
    graphs: graphs.map(({ similarity, distance_source }) => ({
      metric: similarity,
      distanceSource: distance_source ?? undefined,
    })),
    searches: searches.map(({ similarity, plan, ef_multiplier, recall, filtered }) => ({
      metric: similarity,
      plan,
      efMultiplier: ef_multiplier ?? undefined,
      recall: recall ?? undefined,
      filtered: filtered.map((bin) => ({
        matchingShare: bin.matching_share,
        recall: bin.recall ?? undefined,
      })),
    })),
  }
}

function nodeOf(answer: NodeStatsAnswer): NodeStats {
  if (!answer.answers) return { node: answer.node, stats: undefined }
  const { node, answers: _, settling, memory_bytes, disk_bytes, ...figures } = answer
  return {
    node,
    stats: { ...figures, isSettling: settling, memoryBytes: memory_bytes, diskBytes: disk_bytes },
  }
}

function slowQueryOf({ time, took_ms, similarity, ...request }: SlowAnswer['queries'][number]): SlowQuery {
  return {
    time: new Date(time),
    tookMs: took_ms,
    ...request,
    ...(similarity === undefined ? {} : { metric: similarity }),
  }
}

function settingOf({
  value,
  source,
  secret,
  ...setting
}: SettingsAnswer['settings'][number]): SettingInForce {
  return { ...setting, value: value ?? undefined, source: source ?? undefined, isSecret: secret }
}

interface StatsAnswer
  extends Pick<
    CollectionStats,
    'collection' | 'points' | 'segments' | 'sequence' | 'linked' | 'waiting' | 'tombstones'
  > {
  readonly dimension: number | null
  readonly settling: boolean
  readonly memory_bytes: CollectionStats['memoryBytes']
  /** This field and the next two are only present in a cluster that divides the points among its nodes. */
  readonly disk_bytes?: number
  readonly partitions?: { readonly total: number; readonly missing: number }
  readonly nodes?: readonly NodeStatsAnswer[]
  readonly graphs: readonly {
    readonly similarity: Metric
    readonly distance_source: 'codes' | 'vectors' | 'nothing' | null
  }[]
  readonly searches: readonly {
    readonly similarity: Metric
    readonly plan: 'graph' | 'scan'
    readonly ef_multiplier: number | null
    readonly recall: number | null
    readonly filtered: readonly { readonly matching_share: string; readonly recall: number | null }[]
  }[]
}

type NodeStatsAnswer =
  | { readonly node: string; readonly answers: false }
  | ({
      readonly node: string
      readonly answers: true
      readonly settling: boolean
      readonly memory_bytes: CollectionStats['memoryBytes']
      readonly disk_bytes: number
    } & Pick<CollectionStats, 'points' | 'segments' | 'linked' | 'waiting' | 'tombstones'>)

interface SlowAnswer {
  readonly threshold_ms: number
  readonly queries: readonly (Omit<SlowQuery, 'time' | 'tookMs' | 'metric'> & {
    readonly time: string
    readonly took_ms: number
    readonly similarity?: Metric
  })[]
}

interface SettingsAnswer {
  readonly settings: readonly (Omit<SettingInForce, 'value' | 'source' | 'isSecret'> & {
    readonly value: string | number | boolean | null
    readonly source: 'default' | 'environment' | 'flag' | null
    readonly secret: boolean
  })[]
}
