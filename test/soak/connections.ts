import { once } from 'node:events'
import { Agent, request } from 'node:http'
import {
  create,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { jsonNumbers } from '../../src/base/attributes.ts'
import { VectorDB } from '../../src/messages/generated/vectordb_pb.js'
import { frame, RawHttp2 } from '../support/raw-http2.ts'
import { apiKey } from '../support/service.ts'

/**
 * A client with a dedicated connection, which it closes at its end. (The product's clients share connections: grpc-js
 * and fetch keep them for the next client of the same address.) Calls return the received status as text, and fail
 * without one.
 */
export interface Connection {
  insert(vectors: readonly Float32Array[]): Promise<Answer>
  remove(id: string): Promise<Answer>
  get(id: string): Promise<Answer>
  search(vectors: readonly Float32Array[], limit: number, signal?: AbortSignal): Promise<Answer>
  close(): void
}

export interface Answer {
  readonly status: string
  /** Ids of the inserted points. */
  readonly ids: readonly string[]
}

const content = 'soaked'

export class GrpcConnection implements Connection {
  readonly #connection: RawHttp2

  constructor(port: number) {
    this.#connection = new RawHttp2(port)
  }

  async insert(vectors: readonly Float32Array[]): Promise<Answer> {
    const points = vectors.map((vector) => ({
      vector: { values: [...vector] },
      payload: { contentType: 1, content },
    }))
    if (points.length === 1) {
      const { status, message } = await this.#call(VectorDB.method.insertVector, points[0]!)
      return { status, ids: message?.id === undefined ? [] : [message.id.value] }
    }
    const { status, message } = await this.#call(VectorDB.method.insertVectorsBatch, { vectors: points })
    return { status, ids: message?.ids.map(({ id }) => id!.value) ?? [] }
  }

  async remove(id: string): Promise<Answer> {
    return { ...(await this.#call(VectorDB.method.deletePoint, { id: { value: id } })), ids: [] }
  }

  async get(id: string): Promise<Answer> {
    return { ...(await this.#call(VectorDB.method.getPoint, { id: { value: id } })), ids: [] }
  }

  async search(vectors: readonly Float32Array[], limit: number, signal?: AbortSignal): Promise<Answer> {
    const queries = vectors.map((vector) => ({
      queryVector: { values: [...vector] },
      similarity: 0,
      limit: BigInt(limit),
    }))
    const { status } =
      queries.length === 1
        ? await this.#call(VectorDB.method.searchPoints, queries[0]!, signal)
        : await this.#call(VectorDB.method.searchPointsBatch, { queries }, signal)
    return { status, ids: [] }
  }

  close(): void {
    this.#connection[Symbol.dispose]()
  }

  async #call<Method extends DescMethodUnary>(
    method: Method,
    init: MessageInitShape<Method['input']>,
    signal?: AbortSignal,
  ): Promise<{ readonly status: string; readonly message: MessageShape<Method['output']> | undefined }> {
    // Some calls exceed the deadline before they are aborted.
    const headers = { authorization: apiKey, ...(signal ? { 'grpc-timeout': '2m' } : {}) }
    const stream = this.#connection.open(`/${method.parent.typeName}/${method.name}`, headers)
    let code: unknown
    const chunks: Buffer[] = []
    stream.on('response', (fields) => (code ??= fields['grpc-status']))
    stream.on('trailers', (fields) => (code ??= fields['grpc-status']))
    stream.on('data', (chunk: Buffer) => chunks.push(chunk))
    // A missing status shows that the stream was ended.
    stream.on('error', () => {})
    const giveUp = (): void => stream.close(cancelCode)
    signal?.addEventListener('abort', giveUp, { once: true })
    stream.end(frame(toBinary(method.input, create(method.input, init))))
    await once(stream, 'close')
    signal?.removeEventListener('abort', giveUp)
    const isAnswered = code === '0' && chunks.length > 0
    const bytes = isAnswered ? Buffer.concat(chunks).subarray(messageHead) : undefined
    return {
      status: String(code ?? 'given up'),
      message: bytes && (fromBinary(method.output, bytes) as MessageShape<Method['output']>),
    }
  }
}

const cancelCode = 8
const messageHead = 5

export class HttpConnection implements Connection {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #port: number

  constructor(port: number) {
    this.#port = port
  }

  async insert(vectors: readonly Float32Array[]): Promise<Answer> {
    const points = vectors.map(
      (vector) =>
        `{"vector":${jsonNumbers(vector)},"payload":{"content_type":"Text","content":"${content}"}}`,
    )
    const isBatch = points.length > 1
    const body = isBatch ? `{"vectors":[${points.join(',')}]}` : points[0]!
    const { status, text } = await this.#call('POST', isBatch ? '/points/batch' : '/points', body)
    if (status !== '201') return { status, ids: [] }
    const answer = JSON.parse(text) as { point_id?: string; point_ids?: string[] }
    return { status, ids: answer.point_ids ?? [answer.point_id!] }
  }

  async remove(id: string): Promise<Answer> {
    return { ...(await this.#call('DELETE', `/points/${id}`)), ids: [] }
  }

  async get(id: string): Promise<Answer> {
    return { ...(await this.#call('GET', `/points/${id}`)), ids: [] }
  }

  async search(vectors: readonly Float32Array[], limit: number, signal?: AbortSignal): Promise<Answer> {
    const queries = vectors.map(
      (vector) => `{"vector":${jsonNumbers(vector)},"similarity":"Euclidean","limit":${limit}}`,
    )
    const isBatch = queries.length > 1
    const body = isBatch ? `{"queries":[${queries.join(',')}]}` : queries[0]!
    const path = isBatch ? '/points/search/batch' : '/points/search'
    return { ...(await this.#call('POST', path, body, signal)), ids: [] }
  }

  close(): void {
    this.#agent.destroy()
  }

  #call(
    method: string,
    path: string,
    body?: string,
    signal?: AbortSignal,
  ): Promise<{ readonly status: string; readonly text: string }> {
    return new Promise((resolve) => {
      const options = { host: '127.0.0.1', port: this.#port, agent: this.#agent, method, path }
      const headers = body === undefined ? {} : { 'content-type': 'application/json' }
      const call = request({ ...options, headers, ...(signal ? { signal } : {}) }, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => (text += chunk))
        response.on('error', () => resolve({ status: 'given up', text: '' }))
        response.on('end', () => resolve({ status: String(response.statusCode), text }))
      })
      call.on('error', () => resolve({ status: 'given up', text: '' }))
      call.end(body)
    })
  }
}
