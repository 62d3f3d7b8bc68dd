import { jsonNumbers } from '../base/json-numbers.ts'
import type { ContentType } from '../base/point.ts'
import type { PointsClient, PointToInsert, Query, VectorClient } from './client.ts'
import { type HttpCaller, type HttpService, httpCaller } from './http-call.ts'
import { httpCollections, pathOfCollection } from './http-collections.ts'

export interface HttpClientOptions extends HttpService {
  /** Name or alias of the collection whose points the client is for; the default one when not given. */
  readonly collection?: string | undefined
}

/** A client that speaks HTTP/JSON through the built-in fetch. */
export function createHttpClient(options: HttpClientOptions): VectorClient {
  const { collection: chosen, ...service } = options
  const call = httpCaller(service)
  return {
    ...pointsOf(call, chosen === undefined ? '' : pathOfCollection(chosen)),
    collection: (name) => createHttpClient({ ...service, collection: name }),
    collections: httpCollections(call),
    async close() {},
  }
}

/** @param base what the paths of points begin with */
function pointsOf(call: HttpCaller, base: string): Omit<PointsClient, 'close'> {
  const path = `${base}/points`
  const pathOf = (id: string): string => `${path}/${encodeURIComponent(id)}`
  return {
    async insert(point, callOptions) {
      const { answer } = await call<{ point_id: string }>('POST', path, pointBody(point), callOptions)
      return answer.point_id
    },
    async insertBatch(points, callOptions) {
      const body = `{"vectors":[${points.map(pointBody).join(',')}]}`
      const { answer } = await call<{ point_ids: string[] }>('POST', `${path}/batch`, body, callOptions)
      return answer.point_ids
    },
    async get(id, callOptions) {
      const { answer } = await call<PointAnswer>('GET', pathOf(id), undefined, callOptions)
      const { content_type: contentType, content } = answer.payload
      return { id: answer.id, vector: Float32Array.from(answer.vector), payload: { contentType, content } }
    },
    async delete(id, callOptions) {
      await call('DELETE', pathOf(id), undefined, callOptions)
    },
    async search(query, callOptions) {
      const body = queryBody(query)
      const { answer } = await call<{ results: string[] }>('POST', `${path}/search`, body, callOptions)
      return answer.results
    },
    async searchBatch(queries, callOptions) {
      const body = `{"queries":[${queries.map(queryBody).join(',')}]}`
      const { answer } = await call<{ results: string[][] }>(
        'POST',
        `${path}/search/batch`,
        body,
        callOptions,
      )
      return answer.results
    },
  }
}

interface PointAnswer {
  readonly id: string
  readonly vector: readonly number[]
  readonly payload: { readonly content_type: ContentType; readonly content: string }
}

function pointBody({ vector, payload }: PointToInsert): string {
  const { contentType, content } = payload
  return `{"vector":${jsonNumbers(vector)},"payload":${JSON.stringify({ content_type: contentType, content })}}`
}

function queryBody({ vector, metric, limit, ef }: Query): string {
  return `{"vector":${jsonNumbers(vector)},${JSON.stringify({ similarity: metric, limit, ef }).slice(1)}`
}
