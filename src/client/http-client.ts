import { cancellation, DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { jsonNumbers } from '../base/json-numbers.ts'
import type { ContentType } from '../base/point.ts'
import {
  type InsertOptions,
  idempotencyKeyOf,
  type PointToInsert,
  type Query,
  type VectorClient,
} from './client.ts'
import { tlsFault } from './tls-fault.ts'

export interface HttpClientOptions {
  /** Like `http://127.0.0.1:3000`. */
  readonly baseUrl: string
  /** For a server with HTTP_API_KEY. */
  readonly apiKey?: string | undefined
  /** For a proxy that asks for user and password; it takes the place of the key, which travels in the same header. */
  readonly basicAuth?: { readonly user: string; readonly password: string } | undefined
}

/** A client that speaks HTTP/JSON through the built-in fetch. */
export function createHttpClient(options: HttpClientOptions): VectorClient {
  const call = caller(options)
  return {
    async insert(point, callOptions) {
      const { point_id } = await call<{ point_id: string }>('POST', '/points', pointBody(point), callOptions)
      return point_id
    },
    async insertBatch(points, callOptions) {
      const body = `{"vectors":[${points.map(pointBody).join(',')}]}`
      return (await call<{ point_ids: string[] }>('POST', '/points/batch', body, callOptions)).point_ids
    },
    async get(id, callOptions) {
      const point = await call<PointAnswer>('GET', pathOf(id), undefined, callOptions)
      const { content_type: contentType, content } = point.payload
      return { id: point.id, vector: Float32Array.from(point.vector), payload: { contentType, content } }
    },
    async delete(id, callOptions) {
      await call('DELETE', pathOf(id), undefined, callOptions)
    },
    async search(query, callOptions) {
      return (await call<{ results: string[] }>('POST', '/points/search', queryBody(query), callOptions))
        .results
    },
    async searchBatch(queries, callOptions) {
      const body = `{"queries":[${queries.map(queryBody).join(',')}]}`
      return (await call<{ results: string[][] }>('POST', '/points/search/batch', body, callOptions)).results
    },
    async close() {},
  }
}

interface PointAnswer {
  readonly id: string
  readonly vector: readonly number[]
  readonly payload: { readonly content_type: ContentType; readonly content: string }
}

type Caller = <Answer>(
  method: string,
  path: string,
  body: string | undefined,
  options?: InsertOptions,
) => Promise<Answer>

function caller(options: HttpClientOptions): Caller {
  const base = options.baseUrl.replace(/\/+$/, '')
  const authorization = authorizationOf(options)
  return async <Answer>(method: string, path: string, body: string | undefined, options?: InsertOptions) => {
    const { signal } = options ?? {}
    const key = idempotencyKeyOf(options)
    try {
      const response = await fetch(base + path, {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...authorization,
          ...(key === undefined ? {} : { 'idempotency-key': key }),
        },
        ...(body === undefined ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      })
      const text = await response.text()
      if (!response.ok) throw errorOf(response.status, refusalOf(response, text))
      return (text === '' ? undefined : JSON.parse(text)) as Answer
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      if (signal?.aborted) throw cancellation(signal)
      throw noAnswer(base, error)
    }
  }
}

/** The header that lets a caller in, where one is needed. */
export function authorizationOf({
  apiKey,
  basicAuth,
}: Omit<HttpClientOptions, 'baseUrl'>): Readonly<Record<string, string>> {
  if (basicAuth !== undefined) {
    const { user, password } = basicAuth
    const bytes = new TextEncoder().encode(`${user}:${password}`)
    return { authorization: `Basic ${btoa(String.fromCharCode(...bytes))}` }
  }
  return apiKey === undefined ? {} : { authorization: apiKey }
}

/** The service answers in plain text; a page is a proxy's. */
export function refusalOf({ status, headers }: Response, text: string): string {
  if (!headers.get('content-type')?.startsWith('text/html')) return text
  const title = /<title>(.*?)<\/title>/is.exec(text)?.[1] ?? `status ${status}`
  return `the proxy in front of the service answered: ${title}${status === 401 ? ' (it asks for user and password: --user, --password-file)' : ''}`
}

/** fetch says "fetch failed" whatever the matter is; what the system said is the cause. */
export function causeOf(error: unknown): string {
  const { cause, message } = error as Error
  return cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code! : message
}

function noAnswer(base: string, error: unknown): DatabaseError {
  if (error instanceof SyntaxError) {
    return new DatabaseError('internal', `${base} does not answer in JSON: is it the HTTP port?`, {
      cause: error,
    })
  }
  const why = causeOf(error)
  const message = tlsFault(base, why) ?? `no HTTP service answers at ${base}: ${why}`
  return new DatabaseError('not_ready', message, { cause: error })
}

function pointBody({ vector, payload }: PointToInsert): string {
  const { contentType, content } = payload
  return `{"vector":${jsonNumbers(vector)},"payload":${JSON.stringify({ content_type: contentType, content })}}`
}

function queryBody({ vector, metric, limit, ef }: Query): string {
  return `{"vector":${jsonNumbers(vector)},${JSON.stringify({ similarity: metric, limit, ef }).slice(1)}`
}

function pathOf(id: string): string {
  return `/points/${encodeURIComponent(id)}`
}

/** The first reason with the answer's status stands for all that share it. */
function errorOf(status: number, text: string): DatabaseError {
  const found = Object.entries(reasons).find(([, { http }]) => http === status)
  return new DatabaseError((found?.[0] ?? 'internal') as Reason, text)
}
