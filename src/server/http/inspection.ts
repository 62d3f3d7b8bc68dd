import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ApiContext, Database } from '../../api/call.ts'
import { checkName } from '../../api/collections.ts'
import type { SlowRequest, SlowRequests } from '../../api/slow-requests.ts'
import { defaultCollection } from '../../base/collection.ts'
import type { SettingInfo } from '../../base/setting-info.ts'
import { collectionPrefix, type PathParts } from './routes.ts'
import { statsJson, statsOfNodesJson, totalsJson } from './stats-json.ts'

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
