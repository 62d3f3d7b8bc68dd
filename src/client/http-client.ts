import { type Reason, reasonOfStatus } from '../base/errors.ts'
import type { Profile } from '../base/point.ts'
import { type HttpParts, httpPath } from '../messages/http-paths.ts'
import { repeatable, tooLarge } from './calls.ts'
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
  fieldsJson,
  type HitAnswer,
  type HttpCaller,
  type HttpServices,
  hitOf,
  httpCaller,
  renamed,
} from './http-call.ts'
import { checkCollectionName } from './input.ts'
import {
  accessOver,
  collectionsOver,
  type Found,
  type Operations,
  pointsOver,
  type Send,
} from './transport.ts'
import { attributeFromJson, dateIn, type Filter, fieldsOf, objectOf } from './values.ts'

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
  const send = sender(caller, undefined)
  return {
    ...pointsOver(sender(caller, collection)),
    ...inspectionOf(caller, collection),
    ...accessOver(send),
    collection: (name) => clientOf(caller, name),
    collections: collectionsOver(send),
    async close() {},
  }
}

/** Sends operations to the path of a collection, or of the whole service. */
function sender({ call, maxRequestBytes }: HttpCaller, collection: string | undefined): Send {
  return async (name, input, details) => {
    const { method, path } = httpPath(name)
    const hasBody = method !== 'GET' && method !== 'DELETE'
    const steps = path.split('/')
    const isInBody = (field: string): boolean => hasBody && !steps.includes(`:${field}`)
    const fields = Object.entries(input)
    const inBody = Object.fromEntries(fields.filter(([field]) => isInBody(field)))
    const parts = fieldsJson(Object.fromEntries(fields.filter(([field]) => !isInBody(field)))) as HttpParts
    const body = hasBody ? { body: requestBody(inBody, maxRequestBytes) } : {}
    const { status, answer } = await call<never>(name, { collection, parts, details, ...body })
    const read: Reader<typeof name> | undefined = readers[name]
    return read === undefined ? answer : read(answer, status)
  }
}

/**
 * The JSON of a request. The items of a batch are added one by one, up to the bound: much longer text could not be built,
 * and would take minutes.
 */
function requestBody(fields: Readonly<Record<string, unknown>>, maxRequestBytes: number): string {
  const batch = ['vectors', 'queries', 'judgements'].find((name) => name in fields)
  if (batch === undefined) return bodyOf(fields)
  const { [batch]: items, ...others } = fields
  const rest = bodyOf(others).slice(1, -1)
  const start = `{${rest && `${rest},`}"${batch}":[`
  const bodies: string[] = []
  let length = start.length
  for (const item of items as readonly object[]) {
    const body = bodyOf(item)
    length += body.length + 1
    if (length > maxRequestBytes) throw tooLarge(maxRequestBytes)
    bodies.push(body)
  }
  return `${start}${bodies.join(',')}]}`
}

type Reader<Name extends keyof Operations> = (answer: never, status: number) => Operations[Name]['output']

/** How the answers are read that differ from what the client returns. */
const readers: { readonly [Name in keyof Operations]?: Reader<Name> } = {
  InsertVector: ({ point_id }: { readonly point_id: string }) => point_id,
  InsertVectorsBatch({ point_ids: ids, errors = [] }: ReportAnswer) {
    const reasonOf = (status: number): Reason => reasonOfStatus('http', status)
    return {
      ids,
      errors: errors.map(({ index, status, message }) => ({ index, reason: reasonOf(status), message })),
    }
  },
  PutPoint: ({ version, created }: Operations['PutPoint']['output']) => ({ version, created }),
  GetPoint: (hit: HitAnswer) => hitOf(hit) as Point,
  SearchPoints: foundOf,
  SearchPointsBatch: (answers: SearchBatchAnswer) =>
    answers.results.map((_, index) => {
      const fields = Object.entries(answers).map(([name, values]) => [name, values?.[index]])
      return foundOf(Object.fromEntries(fields))
    }),
  ListPoints: ({ points, next_cursor: nextCursor }: ListAnswer) => ({
    points: points.map(hitOf),
    nextCursor,
  }),
  CountPoints: ({ count }: { readonly count: number }) => count,
  FacetPoints: ({ facets }: FacetsAnswer) =>
    objectOf(Object.entries(facets), (counts) => counts.map(countOf)),
  ListCollections: ({ collections }: { readonly collections: readonly unknown[] }) => collections.map(infoOf),
  GetCollection: infoOf,
  PutCollection: (answer: unknown, status) => ({ created: status === 201, info: infoOf(answer) }),
  SetAliases: ({ aliases }: { readonly aliases: Aliases }) => aliases,
  ListAudit(answer: unknown) {
    const page = renamed(answer) as AuditPage
    return { ...page, records: page.records.map((each) => ({ ...each, time: new Date(each.time) })) }
  },
  CreateKey: (answer: KeyAnswer) => keyOf(answer) as CreatedKey,
  ListKeys: ({ keys }: { readonly keys: readonly KeyAnswer[] }) => keys.map(keyOf),
}

function profileOf(answer: unknown): Profile {
  const profile = renamed(answer) as Profile
  return { ...profile, recallEstimate: profile.recallEstimate }
}

function foundOf({
  results: ids,
  hits = [],
  profile,
  next_cursor: nextCursor,
  groups = [],
}: SearchAnswer): Found {
  return {
    ids,
    hits: hits.map(hitOf),
    profile: profile ? profileOf(profile) : undefined,
    ...(nextCursor ? { nextCursor } : {}),
    ...(groups.length > 0 && { counts: groups.map(countOf) }),
  }
}

interface ReportAnswer {
  readonly point_ids: readonly (string | null)[]
  readonly errors?: readonly { readonly index: number; readonly status: number; readonly message: string }[]
}

interface SearchAnswer {
  readonly results: readonly string[]
  readonly hits?: readonly HitAnswer[]
  readonly profile?: unknown
  readonly next_cursor?: string | null
  readonly groups?: readonly ValueCount[]
}

/** Each field has a list with an item for each query. */
type SearchBatchAnswer = { readonly [Field in keyof SearchAnswer]: readonly SearchAnswer[Field][] }

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
