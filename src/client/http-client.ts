import { cancellation, DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { jsonNumbers } from '../base/json-numbers.ts'
import type { ContentType } from '../base/point.ts'
import type { CallOptions, PointToInsert, Query, VectorClient } from './client.ts'

export interface HttpClientOptions {
  /** Like `http://127.0.0.1:3000`. */
  readonly baseUrl: string
  /** For a server with HTTP_API_KEY. */
  readonly apiKey?: string
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
  options?: CallOptions,
) => Promise<Answer>

function caller({ baseUrl, apiKey }: HttpClientOptions): Caller {
  const base = baseUrl.replace(/\/+$/, '')
  return async <Answer>(method: string, path: string, body: string | undefined, options?: CallOptions) => {
    const { signal } = options ?? {}
    try {
      const response = await fetch(base + path, {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(apiKey === undefined ? {} : { authorization: apiKey }),
        },
        ...(body === undefined ? {} : { body }),
        ...(signal === undefined ? {} : { signal }),
      })
      const text = await response.text()
      if (!response.ok) throw errorOf(response.status, text)
      return (text === '' ? undefined : JSON.parse(text)) as Answer
    } catch (error) {
      if (error instanceof DatabaseError) throw error
      if (signal?.aborted) throw cancellation(signal)
      throw noAnswer(base, error)
    }
  }
}

/** fetch says "fetch failed" whatever the matter is; what the system said is the cause. */
function noAnswer(base: string, error: unknown): DatabaseError {
  if (error instanceof SyntaxError) {
    return new DatabaseError('internal', `${base} does not answer in JSON: is it the HTTP port?`, {
      cause: error,
    })
  }
  const { cause, message } = error as Error
  const why = cause instanceof Error ? cause.message || (cause as NodeJS.ErrnoException).code : message
  return new DatabaseError('not_ready', `no HTTP service answers at ${base}: ${why}`, { cause: error })
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
