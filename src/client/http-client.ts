import { reasonOfStatus } from '../base/errors.ts'
import type { Profile } from '../base/point.ts'
import type { HttpOperation } from '../messages/http-paths.ts'
import { type CallDetails, repeatable, tooLarge } from './calls.ts'
import type {
  Aliases,
  AuditPage,
  CollectionInfo,
  CollectionStats,
  CreatedKey,
  FacetCount,
  InspectionClient,
  KeyInfo,
  NodeStats,
  Point,
  SettingInForce,
  SlowQueries,
  VectorClient,
} from './client.ts'
import {
  bodyOf,
  type HitAnswer,
  type HttpCaller,
  type HttpServices,
  hitOf,
  httpCaller,
  renamed,
} from './http-call.ts'
import { checkCollectionName } from './input.ts'
import {
  type AccessCalls,
  accessOver,
  type CollectionCalls,
  collectionsOver,
  type Found,
  type PointCalls,
  pointsOver,
} from './transport.ts'
import { attributeFromJson, dateIn, dateText, type Filter, fieldsOf, objectOf } from './values.ts'

export interface HttpClientOptions extends HttpServices {
  /** Name or alias of the collection whose points the client accesses; the default collection if absent. */
  readonly collection?: string | undefined
}

/** A client over HTTP, with some operations that gRPC does not have. */
export interface HttpClient extends VectorClient, InspectionClient {
  collection(name: string): HttpClient
}

/** Creates a client that speaks HTTP/JSON through the built-in fetch. */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const names = [
    'baseUrl',
    'apiKey',
    'basicAuth',
    'collection',
    'retries',
    'timeoutMs',
    'maxRequestBytes',
    'fetch',
  ] as const
  fieldsOf(options, names, 'the options')
  const { collection, ...service } = options
  return clientOf(httpCaller(service), collection)
}

/** A client and those that it creates for other collections share one session with a cluster. */
function clientOf(caller: HttpCaller, collection: string | undefined): HttpClient {
  if (collection !== undefined) checkCollectionName(collection)
  return {
    ...pointsOver(pointCalls(caller, collection)),
    ...inspectionOf(caller, collection),
    ...accessOver(accessCalls(caller)),
    collection: (name) => clientOf(caller, name),
    collections: collectionsOver(collectionCalls(caller)),
    async close() {},
  }
}

function pointCalls(caller: HttpCaller, collection: string | undefined): PointCalls {
  const ask = <Answer>(operation: HttpOperation, body: string, details: CallDetails): Promise<Answer> =>
    caller.ask(operation, { collection, body, details })
  return {
    async insert(point, details) {
      return (await ask<{ point_id: string }>('InsertVector', bodyOf(point), details)).point_id
    },
    async insertBatch(points, details) {
      const body = batchBody(caller, '{"vectors":[', points)
      return (await ask<{ point_ids: string[] }>('InsertVectorsBatch', body, details)).point_ids
    },
    async insertEach(points, details) {
      const body = batchBody(caller, '{"on_error":"continue","vectors":[', points)
      const { point_ids: ids, errors = [] } = await ask<ReportAnswer>('InsertVectorsBatch', body, details)
      const failed = errors.map(({ index, status, message }) => ({
        index,
        reason: reasonOfStatus('http', status),
        message,
      }))
      return { ids, errors: failed }
    },
    async put(id, point, when, details) {
      const request = { collection, parts: { id }, body: bodyOf({ ...point, when }), details }
      const { version, created } = await caller.ask<PutAnswer>('PutPoint', request)
      return { version, created }
    },
    patch: (id, patch, when, details) =>
      caller.ask('PatchPoint', { collection, parts: { id }, body: bodyOf({ ...patch, when }), details }),
    delete: (id, details) => caller.ask('DeletePoint', { collection, parts: { id }, details }),
    async get(id, withVersion, details) {
      const parts = { id, version: withVersion || undefined }
      return hitOf(await caller.ask('GetPoint', { collection, parts, details })) as Point
    },
    async search(query, details) {
      const { results, hits, profile, next_cursor, groups } = await ask<SearchAnswer>(
        'SearchPoints',
        bodyOf(query),
        details,
      )
      return foundOf(results, hits, profile, next_cursor, groups)
    },
    async searchBatch(queries, details) {
      const body = batchBody(caller, '{"queries":[', queries)
      const answer = await ask<SearchBatchAnswer>('SearchPointsBatch', body, details)
      const { results, hits, profile, next_cursor, groups } = answer
      return results.map((ids, index) =>
        foundOf(ids, hits?.[index], profile?.[index], next_cursor?.[index], groups?.[index]),
      )
    },
    async list(query, details) {
      const answer = await ask<ListAnswer>('ListPoints', bodyOf(query), details)
      return { points: answer.points.map(hitOf), nextCursor: answer.next_cursor }
    },
    async count(filter, details) {
      return (await ask<{ count: number }>('CountPoints', bodyOf({ filter }), details)).count
    },
    async facets(query, details) {
      const { facets } = await ask<FacetsAnswer>('FacetPoints', bodyOf(query), details)
      return objectOf(Object.entries(facets), (counts) => counts.map(countOf))
    },
    evaluate({ judgements, ...settings }, details) {
      const rest = bodyOf(settings).slice(1, -1)
      const start = `{${rest === '' ? '' : `${rest},`}"judgements":[`
      return ask('EvaluatePoints', batchBody(caller, start, judgements), details)
    },
    update: (selection, change, details) => ask('UpdatePoints', bodyOf({ ...selection, ...change }), details),
    deleteMatching: (selection, details) => ask('DeletePoints', bodyOf(selection), details),
  }
}

/** The JSON of a batch. Stops at the bound: much longer text could not be built, and would take minutes. */
function batchBody<Item extends object>(
  { maxRequestBytes }: HttpCaller,
  start: string,
  items: readonly Item[],
): string {
  const bodies: string[] = []
  let length = start.length
  for (const item of items) {
    const body = bodyOf(item)
    length += body.length + 1
    if (length > maxRequestBytes) throw tooLarge(maxRequestBytes)
    bodies.push(body)
  }
  return `${start}${bodies.join(',')}]}`
}

function profileOf(answer: unknown): Profile {
  const profile = renamed(answer) as Profile
  return { ...profile, recallEstimate: profile.recallEstimate }
}

function foundOf(
  ids: readonly string[],
  hits: readonly HitAnswer[] = [],
  profile?: unknown,
  nextCursor?: string | null,
  groups: readonly ValueCount[] = [],
): Found {
  return {
    ids,
    hits: hits.map(hitOf),
    profile: profile ? profileOf(profile) : undefined,
    ...(nextCursor ? { nextCursor } : {}),
    ...(groups.length > 0 && { counts: groups.map(countOf) }),
  }
}

interface PutAnswer {
  readonly version: number
  readonly created: boolean
}

interface ReportAnswer {
  readonly point_ids: readonly (string | null)[]
  readonly errors?: readonly { readonly index: number; readonly status: number; readonly message: string }[]
}

interface SearchAnswer {
  readonly results: readonly string[]
  readonly hits?: readonly HitAnswer[]
  readonly profile?: unknown
  readonly next_cursor?: string
  readonly groups?: readonly ValueCount[]
}

interface SearchBatchAnswer {
  readonly results: readonly (readonly string[])[]
  readonly hits?: readonly (readonly HitAnswer[])[]
  readonly profile?: readonly unknown[]
  readonly next_cursor?: readonly (string | null)[]
  readonly groups?: readonly (readonly ValueCount[])[]
}

interface ListAnswer {
  readonly points: readonly HitAnswer[]
  readonly next_cursor?: string
}

interface FacetsAnswer {
  readonly facets: Readonly<Record<string, readonly ValueCount[]>>
}

interface ValueCount {
  readonly value: unknown
  readonly count: number
}

function countOf({ value, count }: ValueCount): FacetCount {
  return { value: attributeFromJson(value), count }
}

function collectionCalls({ ask, call }: HttpCaller): CollectionCalls {
  return {
    async list(details) {
      return (await ask<{ collections: unknown[] }>('ListCollections', { details })).collections.map(infoOf)
    },
    async get(name, details) {
      return infoOf(await ask('GetCollection', { parts: { name }, details }))
    },
    async put(name, settings, details) {
      const request = { parts: { name }, body: bodyOf(settings), details }
      const { status, answer } = await call<unknown>('PutCollection', request)
      return { created: status === 201, info: infoOf(answer) }
    },
    delete: (name, details) => ask('DeleteCollection', { parts: { name }, details }),
    async setAliases(changes, details) {
      const request = { body: JSON.stringify(changes), details }
      return (await ask<{ aliases: Aliases }>('SetAliases', request)).aliases
    },
  }
}

function accessCalls({ ask }: HttpCaller): AccessCalls {
  return {
    async audit({ since, until, ...query }, details) {
      const parts = { ...query, since: since && dateText(since), until: until && dateText(until) }
      const page = renamed(await ask('ListAudit', { parts, details })) as AuditPage
      return { ...page, records: page.records.map((each) => ({ ...each, time: new Date(each.time) })) }
    },
    async createKey(key, details) {
      return keyOf(await ask<KeyAnswer>('CreateKey', { body: bodyOf(key), details })) as CreatedKey
    },
    async listKeys(details) {
      return (await ask<{ keys: readonly KeyAnswer[] }>('ListKeys', { details })).keys.map(keyOf)
    },
    revokeKey: (name, details) => ask('RevokeKey', { parts: { name }, details }),
  }
}

function keyOf({ filter, ...key }: KeyAnswer): KeyInfo {
  const { expiresAt, ...info } = renamed(key) as Omit<KeyInfo, 'expiresAt'> & { readonly expiresAt?: string }
  return {
    ...info,
    ...(filter !== undefined && { filter: attributeFromJson(filter) as Filter }),
    ...(expiresAt !== undefined && { expiresAt: dateIn(expiresAt) }),
  }
}

interface KeyAnswer {
  /** Callers choose its names. */
  readonly filter?: unknown
}

function infoOf(answer: unknown): CollectionInfo {
  // Callers choose the names in `words`.
  const { words, ...others } = answer as { readonly words?: CollectionInfo['words'] }
  const info = renamed(others) as CollectionInfo
  return { ...info, dimension: info.dimension, ...(words && { words }) }
}

function inspectionOf({ ask }: HttpCaller, collection: string | undefined): InspectionClient {
  return {
    async stats(options) {
      const request = { collection, details: repeatable(options) }
      const { nodes, partitions, diskBytes, ...figures } = renamed(
        await ask('GetStats', request),
      ) as StatsAnswer
      if (nodes === undefined) return figures
      const missing = { partitions: partitions!.missing, of: partitions!.total }
      return { ...figures, parts: { nodes: nodes.map(nodeOf), diskBytes: diskBytes!, missing } }
    },
    async slowQueries(options) {
      const request = { collection, details: repeatable(options) }
      const answer = renamed(await ask('ListSlowRequests', request)) as SlowQueries
      return { ...answer, queries: answer.queries.map((query) => ({ ...query, time: new Date(query.time) })) }
    },
    async settings(options) {
      const answer = renamed(await ask('GetSettings', { details: repeatable(options) }))
      return (answer as { readonly settings: readonly SettingInForce[] }).settings
    },
  }
}

function nodeOf({ node, answers, ...stats }: NodeAnswer): NodeStats {
  return { node, stats: answers ? (stats as NodeStats['stats']) : undefined }
}

interface StatsAnswer extends CollectionStats {
  /** This field and the next two are only present in a cluster that divides the points among its nodes. */
  readonly diskBytes?: number
  readonly partitions?: { readonly total: number; readonly missing: number }
  readonly nodes?: readonly NodeAnswer[]
}

interface NodeAnswer extends Partial<NonNullable<NodeStats['stats']>> {
  readonly node: string
  readonly answers: boolean
}
