import { attributeFromJson, objectOf } from './attributes.ts'
import { insertInBatches } from './bulk-insert.ts'
import { type CallDetails, repeatable, withKey } from './call-options.ts'
import type { PointsClient, Query, Selection, VectorClient } from './client.ts'
import { filterJson } from './filters.ts'
import {
  changeJson,
  type HitAnswer,
  hitOf,
  type PayloadAnswer,
  patchBody,
  payloadOf,
  pointBody,
  putBody,
  queryBody,
} from './http-bodies.ts'
import { type HttpCaller, type HttpService, httpCaller, reasonOfStatus } from './http-call.ts'
import { httpCollections, pathOfCollection } from './http-collections.ts'
import { inspectionOf } from './http-inspection.ts'
import type { InspectionClient } from './inspection.ts'
import { pagesOf } from './pages.ts'
import { type ProfileAnswer, profileOf } from './profile.ts'

export interface HttpClientOptions extends HttpService {
  /** Name or alias of the collection whose points the client accesses; the default collection if absent. */
  readonly collection?: string | undefined
}

/** A client over HTTP, with some operations that gRPC does not have. */
export interface HttpClient extends VectorClient, InspectionClient {
  collection(name: string): HttpClient
}

/** Creates a client that speaks HTTP/JSON through the built-in fetch. */
export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { collection, ...service } = options
  return clientOf(httpCaller(service), collection)
}

/** A client and those that it creates for other collections share one session with a cluster. */
function clientOf(call: HttpCaller, collection: string | undefined): HttpClient {
  const base = collection === undefined ? '' : pathOfCollection(collection)
  return {
    ...pointsOf(call, base),
    ...inspectionOf(call, base),
    collection: (name) => clientOf(call, name),
    collections: httpCollections(call),
    async close() {},
  }
}

/** @param base prefix of the paths of points */
function pointsOf(call: HttpCaller, base: string): Omit<PointsClient, 'close'> {
  const path = `${base}/points`
  const pathOf = (id: string): string => `${path}/${encodeURIComponent(id)}`
  const writes = writesOf(call, path, pathOf)
  return {
    ...writes,
    ...readsOf(call, path, pathOf),
    ...selectionsOf(call, path),
    insertAll: (points, options) => insertInBatches(writes.insertBatch, points, options),
  }
}

type PathOf = (id: string) => string

function writesOf(
  call: HttpCaller,
  path: string,
  pathOf: PathOf,
): Pick<PointsClient, 'insert' | 'insertBatch' | 'insertEach' | 'put' | 'patch' | 'delete'> {
  return {
    async insert(point, options) {
      const { answer } = await call<{ point_id: string }>('POST', path, pointBody(point), withKey(options))
      return answer.point_id
    },
    async insertBatch(points, options) {
      const body = `{"vectors":[${points.map(pointBody).join(',')}]}`
      const { answer } = await call<{ point_ids: string[] }>('POST', `${path}/batch`, body, withKey(options))
      return answer.point_ids
    },
    async insertEach(points, options) {
      const body = `{"on_error":"continue","vectors":[${points.map(pointBody).join(',')}]}`
      const { answer } = await call<ReportAnswer>('POST', `${path}/batch`, body, withKey(options))
      const { point_ids: ids, errors = [] } = answer
      return {
        ids,
        errors: errors.map(({ index, status, message }) => ({
          index,
          reason: reasonOfStatus(status),
          message,
        })),
      }
    },
    async put(id, point, { when, ...options } = {}) {
      const { answer } = await call<PutAnswer>('PUT', pathOf(id), putBody(point, when), {
        ...options,
        isRepeatable: when === undefined,
      })
      return { version: answer.version, created: answer.created }
    },
    async patch(id, patch, { when, ...options } = {}) {
      const { answer } = await call<{ version: number }>('PATCH', pathOf(id), patchBody(patch, when), {
        ...options,
        isRepeatable: when === undefined,
      })
      return { version: answer.version }
    },
    async delete(id, options) {
      await call('DELETE', pathOf(id), undefined, repeatable(options))
    },
  }
}

function readsOf(
  call: HttpCaller,
  path: string,
  pathOf: PathOf,
): Pick<PointsClient, 'get' | 'search' | 'searchBatch' | 'searchHits' | 'searchHitsBatch'> {
  const batchOf = (queries: readonly Query[]): string => `{"queries":[${queries.map(queryBody).join(',')}]}`
  return {
    async get(id, { version = false, ...options } = {}) {
      const query = version ? '?version=true' : ''
      const { answer } = await call<PointAnswer>(
        'GET',
        `${pathOf(id)}${query}`,
        undefined,
        repeatable(options),
      )
      const { id: stored, vector, payload, version: found } = answer
      return {
        id: stored,
        vector: Float32Array.from(vector),
        payload: payloadOf(payload),
        ...(found === undefined ? {} : { version: found }),
      }
    },
    async search(query, options) {
      const { answer } = await call<{ results: string[] }>(
        'POST',
        `${path}/search`,
        queryBody(query),
        options,
      )
      return answer.results
    },
    async searchBatch(queries, options) {
      const { answer } = await call<{ results: string[][] }>(
        'POST',
        `${path}/search/batch`,
        batchOf(queries),
        repeatable(options),
      )
      return answer.results
    },
    async searchHits(query, options) {
      const { answer } = await call<HitsAnswer>(
        'POST',
        `${path}/search`,
        queryBody(query),
        repeatable(options),
      )
      return { hits: answer.hits.map(hitOf), profile: answer.profile && profileOf(answer.profile) }
    },
    async searchHitsBatch(queries, options) {
      const { answer } = await call<HitsBatchAnswer>(
        'POST',
        `${path}/search/batch`,
        batchOf(queries),
        repeatable(options),
      )
      return answer.hits.map((hits, index) => {
        const profile = answer.profile?.[index]
        return { hits: hits.map(hitOf), profile: profile ? profileOf(profile) : undefined }
      })
    },
  }
}

function selectionsOf(
  call: HttpCaller,
  path: string,
): Pick<PointsClient, 'list' | 'listAll' | 'count' | 'facets' | 'updateMatching' | 'deleteMatching'> {
  const post = async <Answer>(name: string, body: unknown, options?: CallDetails): Promise<Answer> =>
    (await call<Answer>('POST', `${path}/${name}`, JSON.stringify(body), options)).answer
  const list: PointsClient['list'] = async ({ filter, limit, cursor, include } = {}, options) => {
    const body = { filter: filterJson(filter), limit, cursor, include }
    const answer = await post<ListAnswer>('list', body, repeatable(options))
    return { points: answer.points.map(hitOf), nextCursor: answer.next_cursor }
  }
  return {
    list,
    listAll: (query, options) => pagesOf(list, query, options),
    async count(filter, options) {
      return (await post<{ count: number }>('count', { filter: filterJson(filter) }, repeatable(options)))
        .count
    },
    async facets({ filter, paths, limit }, options) {
      const body = { filter: filterJson(filter), paths, limit }
      const { facets } = await post<FacetsAnswer>('facets', body, repeatable(options))
      return objectOf(Object.entries(facets), (counts) =>
        counts.map(({ value, count }) => ({ value: attributeFromJson(value), count })),
      )
    },
    async updateMatching({ set, unset, expiresAt, ...selection }, options) {
      const change = changeJson({ set, unset, expiresAt })
      return await post('update', { ...selectionJson(selection), ...change }, options)
    },
    async deleteMatching(selection, options) {
      return await post('delete', selectionJson(selection), options)
    },
  }
}

function selectionJson({ filter, limit, dryRun, everything }: Selection): Readonly<Record<string, unknown>> {
  return { filter: filterJson(filter), limit, dry_run: dryRun, everything }
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

interface HitsAnswer {
  readonly hits: readonly HitAnswer[]
  readonly profile?: ProfileAnswer
}

interface HitsBatchAnswer {
  readonly hits: readonly (readonly HitAnswer[])[]
  readonly profile?: readonly (ProfileAnswer | null)[]
}

interface ListAnswer {
  readonly points: readonly HitAnswer[]
  readonly next_cursor?: string
}

interface FacetsAnswer {
  readonly facets: Readonly<Record<string, readonly { readonly value: unknown; readonly count: number }[]>>
}
