import { DateTime } from '../base/attributes.ts'
import { reasonOfStatus } from '../base/errors.ts'
import type { Profile } from '../base/point.ts'
import type { AuditPage, CreatedKey, KeyInfo } from './access.ts'
import { type AccessCalls, accessOver } from './access-calls.ts'
import { type CallDetails, repeatable, tooLarge } from './calls.ts'
import type {
  Aliases,
  CollectionInfo,
  CollectionStats,
  FacetCount,
  InspectionClient,
  NodeStats,
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
  type PayloadAnswer,
  payloadOf,
  renamed,
} from './http-call.ts'
import { checkCollectionName } from './input.ts'
import {
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
function clientOf(call: HttpCaller, collection: string | undefined): HttpClient {
  const base = collection === undefined ? '' : pathOf(collection)
  return {
    ...pointsOver(pointCalls(call, `${base}/points`)),
    ...inspectionOf(call, base),
    ...accessOver(accessCalls(call)),
    collection: (name) => clientOf(call, name),
    collections: collectionsOver(collectionCalls(call)),
    async close() {},
  }
}

/** @param path of the points of a collection */
function pointCalls(call: HttpCaller, path: string): PointCalls {
  const post = async <Answer>(name: string, body: string, details: CallDetails): Promise<Answer> =>
    (await call<Answer>('POST', `${path}${name}`, body, details)).answer
  return {
    async insert(point, details) {
      return (await post<{ point_id: string }>('', bodyOf(point), details)).point_id
    },
    async insertBatch(points, details) {
      const body = batchBody(call, '{"vectors":[', points)
      return (await post<{ point_ids: string[] }>('/batch', body, details)).point_ids
    },
    async insertEach(points, details) {
      const body = batchBody(call, '{"on_error":"continue","vectors":[', points)
      const { point_ids: ids, errors = [] } = await post<ReportAnswer>('/batch', body, details)
      const failed = errors.map(({ index, status, message }) => ({
        index,
        reason: reasonOfStatus('http', status),
        message,
      }))
      return { ids, errors: failed }
    },
    async put(id, point, when, details) {
      const { answer } = await call<PutAnswer>('PUT', `${path}/${id}`, bodyOf({ ...point, when }), details)
      return { version: answer.version, created: answer.created }
    },
    async patch(id, patch, when, details) {
      const body = bodyOf({ ...patch, when })
      const { answer } = await call<{ version: number }>('PATCH', `${path}/${id}`, body, details)
      return { version: answer.version }
    },
    async delete(id, details) {
      await call('DELETE', `${path}/${id}`, undefined, details)
    },
    async get(id, withVersion, details) {
      const query = withVersion ? '?version=true' : ''
      const { answer } = await call<PointAnswer>('GET', `${path}/${id}${query}`, undefined, details)
      const { id: stored, vector, payload, version } = answer
      return {
        id: stored,
        vector: Float32Array.from(vector),
        payload: payloadOf(payload),
        ...(version === undefined ? {} : { version }),
      }
    },
    async search(query, details) {
      const { results, hits, profile, next_cursor, groups } = await post<SearchAnswer>(
        '/search',
        bodyOf(query),
        details,
      )
      return foundOf(results, hits, profile, next_cursor, groups)
    },
    async searchBatch(queries, details) {
      const body = batchBody(call, '{"queries":[', queries)
      const answer = await post<SearchBatchAnswer>('/search/batch', body, details)
      const { results, hits, profile, next_cursor, groups } = answer
      return results.map((ids, index) =>
        foundOf(ids, hits?.[index], profile?.[index], next_cursor?.[index], groups?.[index]),
      )
    },
    async list(query, details) {
      const answer = await post<ListAnswer>('/list', bodyOf(query), details)
      return { points: answer.points.map(hitOf), nextCursor: answer.next_cursor }
    },
    async count(filter, details) {
      return (await post<{ count: number }>('/count', bodyOf({ filter }), details)).count
    },
    async facets(query, details) {
      const { facets } = await post<FacetsAnswer>('/facets', bodyOf(query), details)
      return objectOf(Object.entries(facets), (counts) => counts.map(countOf))
    },
    async evaluate({ judgements, ...settings }, details) {
      const rest = bodyOf(settings).slice(1, -1)
      const start = `{${rest === '' ? '' : `${rest},`}"judgements":[`
      return post('/evaluate', batchBody(call, start, judgements), details)
    },
    update: (selection, change, details) => post('/update', bodyOf({ ...selection, ...change }), details),
    deleteMatching: (selection, details) => post('/delete', bodyOf(selection), details),
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

interface PointAnswer {
  readonly id: string
  readonly vector: readonly number[]
  readonly payload: PayloadAnswer
  readonly version?: number
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

function collectionCalls(call: HttpCaller): CollectionCalls {
  return {
    async list(details) {
      const { answer } = await call<{ collections: unknown[] }>('GET', root, undefined, details)
      return answer.collections.map(infoOf)
    },
    async get(name, details) {
      return infoOf((await call<unknown>('GET', pathOf(name), undefined, details)).answer)
    },
    async put(name, settings, details) {
      const { status, answer } = await call<unknown>('PUT', pathOf(name), bodyOf(settings), details)
      return { created: status === 201, info: infoOf(answer) }
    },
    async delete(name, details) {
      await call('DELETE', pathOf(name), undefined, details)
    },
    async setAliases(changes, details) {
      return (await call<{ aliases: Aliases }>('PUT', '/aliases', JSON.stringify(changes), details)).answer
        .aliases
    },
  }
}

function accessCalls(call: HttpCaller): AccessCalls {
  return {
    async audit(query, details) {
      const path = `/audit${queryOf(query)}`
      const page = renamed((await call('GET', path, undefined, details)).answer) as AuditPage
      return { ...page, records: page.records.map((each) => ({ ...each, time: new Date(each.time) })) }
    },
    async createKey(key, details) {
      return keyOf((await call<KeyAnswer>('POST', '/keys', bodyOf(key), details)).answer) as CreatedKey
    },
    async listKeys(details) {
      const { answer } = await call<{ keys: readonly KeyAnswer[] }>('GET', '/keys', undefined, details)
      return answer.keys.map(keyOf)
    },
    async revokeKey(name, details) {
      await call('DELETE', `/keys/${name}`, undefined, details)
    },
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

/** The query of a path with those parameters that are there. */
function queryOf(parameters: object): string {
  const entries = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value instanceof DateTime ? dateText(value) : String(value)]],
  )
  return entries.length === 0 ? '' : `?${new URLSearchParams(entries)}`
}

const root = '/collections'

/** The path of a collection, which is the prefix of its points' paths. @throws DatabaseError for an invalid name */
function pathOf(name: string): string {
  return `${root}/${checkCollectionName(name)}`
}

function infoOf(answer: unknown): CollectionInfo {
  // Callers choose the names in `words`.
  const { words, ...others } = answer as { readonly words?: CollectionInfo['words'] }
  const info = renamed(others) as CollectionInfo
  return { ...info, dimension: info.dimension, ...(words && { words }) }
}

/** @param base the path of the client's collection; '' for the default one */
function inspectionOf(call: HttpCaller, base: string): InspectionClient {
  const get = async <Answer>(path: string, options: Parameters<typeof repeatable>[0]): Promise<Answer> =>
    (await call<Answer>('GET', path, undefined, repeatable(options))).answer
  return {
    async stats(options) {
      const { nodes, partitions, diskBytes, ...figures } = renamed(
        await get(`${base}/stats`, options),
      ) as StatsAnswer
      if (nodes === undefined) return figures
      const missing = { partitions: partitions!.missing, of: partitions!.total }
      return { ...figures, parts: { nodes: nodes.map(nodeOf), diskBytes: diskBytes!, missing } }
    },
    async slowQueries(options) {
      const answer = renamed(await get(`${base}/slow-queries`, options)) as SlowQueries
      return { ...answer, queries: answer.queries.map((query) => ({ ...query, time: new Date(query.time) })) }
    },
    async settings(options) {
      const { settings } = renamed(await get('/settings', options)) as {
        readonly settings: readonly SettingInForce[]
      }
      return settings
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
