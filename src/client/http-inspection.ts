import type { ContentType, Metric } from '../base/point.ts'
import { attributesFromJson } from './attributes.ts'
import { repeatable } from './call-options.ts'
import { filterJson } from './filters.ts'
import type { HttpCaller } from './http-call.ts'
import type {
  CollectionStats,
  InspectionClient,
  MapPoint,
  MapQuery,
  SettingInForce,
  SlowQuery,
} from './inspection.ts'

/** @param base the path of the client's collection; '' for the default one */
export function inspectionOf(call: HttpCaller, base: string): InspectionClient {
  const get = async <Answer>(path: string, options: Parameters<typeof repeatable>[0]): Promise<Answer> =>
    (await call<Answer>('GET', path, undefined, repeatable(options))).answer
  return {
    async map(query = {}, options) {
      const { similarity, seed, k, matching, points } = await get<MapAnswer>(
        `${base}/map?${parametersOf(query)}`,
        options,
      )
      return { metric: similarity, seed, k, matching, points: points.map(mapPointOf) }
    },
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

function parametersOf(query: MapQuery): URLSearchParams {
  const { metric, filter, attributes = [], ...numbers } = query
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(numbers))
    if (value !== undefined) parameters.set(name, String(value))
  if (metric !== undefined) parameters.set('similarity', metric)
  if (filter !== undefined) parameters.set('filter', JSON.stringify(filterJson(filter)))
  for (const path of attributes) parameters.append('attributes', path)
  return parameters
}

function mapPointOf({ content_type, attributes, ...point }: MapAnswer['points'][number]): MapPoint {
  const read = attributesFromJson(attributes)
  return {
    ...point,
    ...(content_type === undefined ? {} : { contentType: content_type }),
    ...(read === undefined ? {} : { attributes: read }),
  }
}

function statsOf(answer: StatsAnswer): CollectionStats {
  const { settling, memory_bytes, dimension, graphs, searches, ...figures } = answer
  return {
    ...figures,
    dimension: dimension ?? undefined,
    isSettling: settling,
    memoryBytes: memory_bytes,
    graphs: graphs.map(({ similarity, measured_on }) => ({
      metric: similarity,
      measuredOn: measured_on ?? undefined,
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

interface MapAnswer {
  readonly similarity: Metric
  readonly seed: number
  readonly k: number
  readonly matching: number
  readonly points: readonly (Pick<MapPoint, 'id' | 'neighbours' | 'distances' | 'content'> & {
    readonly content_type?: ContentType
    readonly attributes?: unknown
  })[]
}

interface StatsAnswer
  extends Pick<
    CollectionStats,
    'collection' | 'points' | 'segments' | 'sequence' | 'linked' | 'waiting' | 'tombstones'
  > {
  readonly dimension: number | null
  readonly settling: boolean
  readonly memory_bytes: CollectionStats['memoryBytes']
  readonly graphs: readonly {
    readonly similarity: Metric
    readonly measured_on: 'codes' | 'vectors' | 'nothing' | null
  }[]
  readonly searches: readonly {
    readonly similarity: Metric
    readonly plan: 'graph' | 'scan'
    readonly ef_multiplier: number | null
    readonly recall: number | null
    readonly filtered: readonly { readonly matching_share: string; readonly recall: number | null }[]
  }[]
}

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
