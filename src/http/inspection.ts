import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, CollectionStats } from '../api/call.ts'
import { checkName } from '../api/collections.ts'
import type { SlowRequest, SlowRequests } from '../api/slow-requests.ts'
import { defaultCollection } from '../base/collection.ts'
import { metrics } from '../base/point.ts'
import type { SettingInfo } from '../base/setting-info.ts'
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

/** Adds what an operator asks for: the state of an index, the slowest requests, the settings in force. Nothing of it changes anything. */
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
  if (name === undefined) return statsJson(defaultCollection, database.stats)
  using lease = await collections.lease(name)
  return statsJson(collections.aliases.get(name) ?? name, lease.database.stats)
}

const measuredOnWords = { codes: 'codes', rows: 'vectors', nothing: 'nothing' } as const

function statsJson(collection: string, stats: CollectionStats): unknown {
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
    memory_bytes: { index: stats.indexBytes, ids: stats.idTableBytes, attributes: stats.attributeBytes },
    graphs: Object.entries(stats.measuredOn).map(([similarity, on]) => ({
      similarity,
      measured_on: on === undefined ? null : measuredOnWords[on],
    })),
    searches: metrics.map((similarity) => {
      const { route, recall } = stats.plans[similarity]
      return {
        similarity,
        plan: route === undefined ? 'scan' : 'graph',
        ef_multiplier: route?.efMultiplier ?? null,
        recall: route === undefined ? 1 : (recall ?? null),
        filtered: stats.filteredRecalls
          .filter(({ metric }) => metric === similarity)
          .map(({ bin, recall: measured }) => ({ matching_share: bin, recall: measured ?? null })),
      }
    }),
  }
}

function slowOf({ collections }: ApiContext, slow: SlowRequests, name: string | undefined): unknown {
  // Of one that does not exist, an empty list would look like a fast collection.
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
