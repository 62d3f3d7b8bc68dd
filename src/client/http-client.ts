import { attributeFromJson, objectOf } from './attributes.ts'
import { type BatchInsert, insertEachOf, insertInBatches } from './bulk-insert.ts'
import { tooLarge } from './call-bounds.ts'
import { type CallDetails, type CallOptions, optionsIn, repeatable, withKey } from './call-options.ts'
import type { GetOptions, PointsClient, Query, Selection, VectorClient, WriteOptions } from './client.ts'
import { fieldsOf, optional } from './field-readers.ts'
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
import {
  facetsIn,
  filterIn,
  idIn,
  listIn,
  patchIn,
  pointIn,
  pointsIn,
  pointToPutIn,
  preconditionIn,
  queriesIn,
  queryIn,
  selectionIn,
  updateIn,
} from './input.ts'
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
  const names = [
    'baseUrl',
    'apiKey',
    'basicAuth',
    'collection',
    'retries',
    'timeoutMs',
    'maxRequestBytes',
  ] as const
  fieldsOf(options, names, 'the options')
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
  const pathOf = (id: string): string => `${path}/${idIn(id, 'id')}`
  const writes = writesOf(call, path, pathOf)
  return {
    ...writes,
    ...readsOf(call, path, pathOf),
    ...selectionsOf(call, path),
    insertAll: (points, options) => insertInBatches(writes.insertChecked, points, options),
  }
}

type PathOf = (id: string) => string

function writesOf(
  call: HttpCaller,
  path: string,
  pathOf: PathOf,
): Pick<PointsClient, 'insert' | 'insertBatch' | 'insertEach' | 'put' | 'patch' | 'delete'> & BatchInsert {
  const insertChecked: BatchInsert['insertChecked'] = async (points, options) => {
    const body = batchBody(call, '{"vectors":[', points, pointBody)
    const { answer } = await call<{ point_ids: string[] }>('POST', `${path}/batch`, body, withKey(options))
    return answer.point_ids
  }
  return {
    insertChecked,
    async insert(point, options) {
      const body = pointBody(pointIn(point))
      const { answer } = await call<{ point_id: string }>('POST', path, body, withKey(options))
      return answer.point_id
    },
    insertBatch: async (points, options) => insertChecked(pointsIn(points), options),
    insertEach: (points, options) =>
      insertEachOf(points, async (checked) => {
        const body = batchBody(call, '{"on_error":"continue","vectors":[', checked, pointBody)
        const { answer } = await call<ReportAnswer>('POST', `${path}/batch`, body, withKey(options))
        const { point_ids: ids, errors = [] } = answer
        const failed = errors.map(({ index, status, message }) => ({
          index,
          reason: reasonOfStatus(status),
          message,
        }))
        return { ids, errors: failed }
      }),
    async put(id, point, options) {
      const { when, ...details } = optionsIn<WriteOptions>(options, ['when'])
      const body = putBody(pointToPutIn(point), preconditionIn(when))
      const { answer } = await call<PutAnswer>('PUT', pathOf(id), body, {
        ...details,
        isRepeatable: when === undefined,
      })
      return { version: answer.version, created: answer.created }
    },
    async patch(id, patch, options) {
      const { when, ...details } = optionsIn<WriteOptions>(options, ['when'])
      const body = patchBody(patchIn(patch), preconditionIn(when))
      const { answer } = await call<{ version: number }>('PATCH', pathOf(id), body, {
        ...details,
        isRepeatable: when === undefined,
      })
      return { version: answer.version }
    },
    async delete(id, options) {
      await call('DELETE', pathOf(id), undefined, repeatable(options))
    },
  }
}

/** The JSON of a batch. Stops at the bound: much longer text could not be built, and would take minutes. */
function batchBody<Item>(
  { maxRequestBytes }: HttpCaller,
  start: string,
  items: readonly Item[],
  bodyOf: (item: Item) => string,
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

function readsOf(
  call: HttpCaller,
  path: string,
  pathOf: PathOf,
): Pick<PointsClient, 'get' | 'search' | 'searchBatch' | 'searchHits' | 'searchHitsBatch'> {
  const search = async <Answer>(query: Query, options: CallOptions | undefined): Promise<Answer> => {
    const body = queryBody(queryIn(query))
    return (await call<Answer>('POST', `${path}/search`, body, repeatable(options))).answer
  }
  const searchBatch = async <Answer>(
    queries: readonly Query[],
    options: CallOptions | undefined,
  ): Promise<Answer> => {
    const body = batchBody(call, '{"queries":[', queriesIn(queries), queryBody)
    return (await call<Answer>('POST', `${path}/search/batch`, body, repeatable(options))).answer
  }
  return {
    async get(id, options) {
      const { version = false, ...details } = optionsIn<GetOptions>(options, ['version'])
      const query = version ? '?version=true' : ''
      const { answer } = await call<PointAnswer>(
        'GET',
        `${pathOf(id)}${query}`,
        undefined,
        repeatable(details),
      )
      const { id: stored, vector, payload, version: found } = answer
      return {
        id: stored,
        vector: Float32Array.from(vector),
        payload: payloadOf(payload),
        ...(found === undefined ? {} : { version: found }),
      }
    },
    search: async (query, options) => (await search<{ results: string[] }>(query, options)).results,
    searchBatch: async (queries, options) =>
      (await searchBatch<{ results: string[][] }>(queries, options)).results,
    async searchHits(query, options) {
      const { hits, profile } = await search<HitsAnswer>(query, options)
      return { hits: hits.map(hitOf), profile: profile && profileOf(profile) }
    },
    async searchHitsBatch(queries, options) {
      const answer = await searchBatch<HitsBatchAnswer>(queries, options)
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
  const post = async <Answer>(name: string, body: unknown, options: CallDetails): Promise<Answer> =>
    (await call<Answer>('POST', `${path}/${name}`, JSON.stringify(body), options)).answer
  const list: PointsClient['list'] = async (query, options) => {
    const { filter, ...others } = listIn(query)
    const answer = await post<ListAnswer>(
      'list',
      { filter: filterJson(filter), ...others },
      repeatable(options),
    )
    return { points: answer.points.map(hitOf), nextCursor: answer.next_cursor }
  }
  return {
    list,
    listAll: (query, options) => pagesOf(list, query, options),
    async count(filter, options) {
      const body = { filter: filterJson(optional(filter, filterIn, 'filter')) }
      return (await post<{ count: number }>('count', body, repeatable(options))).count
    },
    async facets(query, options) {
      const { filter, ...others } = facetsIn(query)
      const body = { filter: filterJson(filter), ...others }
      const { facets } = await post<FacetsAnswer>('facets', body, repeatable(options))
      return objectOf(Object.entries(facets), (counts) =>
        counts.map(({ value, count }) => ({ value: attributeFromJson(value), count })),
      )
    },
    async updateMatching(request, options) {
      const { set, unset, expiresAt, ...selection } = updateIn(request)
      const change = changeJson({ set, unset, expiresAt })
      return await post('update', { ...selectionJson(selection), ...change }, optionsIn(options))
    },
    async deleteMatching(selection, options) {
      return await post('delete', selectionJson(selectionIn(selection)), optionsIn(options))
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
