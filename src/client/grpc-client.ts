import {
  create,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { contentTypes, metrics, type Payload } from '../base/point.ts'
import type { CallOptions, PointToInsert, Query, VectorClient } from './client.ts'
import {
  type Payload as PayloadMessage,
  type PointID,
  type PointIDSchema,
  VectorDB,
} from './generated/vectordb_pb.js'

export interface GrpcClientOptions {
  /** `host:port`. */
  readonly address: string
  readonly apiKey: string
  /** Time a call may take; none by default. */
  readonly timeoutMs?: number
}

/** A client that speaks gRPC; calls share one connection. */
export function createGrpcClient(options: GrpcClientOptions): VectorClient {
  const client = new Client(options.address, credentials.createInsecure(), {
    'grpc.max_send_message_length': -1,
    'grpc.max_receive_message_length': -1,
  })
  const call = caller(client, options)
  const { insertVector, insertVectorsBatch, getPoint, deletePoint, searchPoints, searchPointsBatch } =
    VectorDB.method
  return {
    insert: async (point, callOptions) => idOf(await call(insertVector, pointMessage(point), callOptions)),
    async insertBatch(points, callOptions) {
      const { ids } = await call(insertVectorsBatch, { vectors: points.map(pointMessage) }, callOptions)
      return ids.map(idOf)
    },
    async get(id, callOptions) {
      const { payload, vector } = await call(getPoint, idMessage(id), callOptions)
      return { id, vector: Float32Array.from(vector?.values ?? []), payload: payloadOf(payload) }
    },
    async delete(id, callOptions) {
      await call(deletePoint, idMessage(id), callOptions)
    },
    async search(query, callOptions) {
      const { resultPointIds } = await call(searchPoints, queryMessage(query), callOptions)
      return resultPointIds.map(idOf)
    },
    async searchBatch(queries, callOptions) {
      const { results } = await call(searchPointsBatch, { queries: queries.map(queryMessage) }, callOptions)
      return results.map(({ resultPointIds }) => resultPointIds.map(idOf))
    },
    async close() {
      client.close()
    },
  }
}

type Caller = <Method extends DescMethodUnary>(
  method: Method,
  request: MessageInitShape<Method['input']>,
  options?: CallOptions,
) => Promise<MessageShape<Method['output']>>

function caller(client: Client, { apiKey, timeoutMs }: GrpcClientOptions): Caller {
  const metadata = new Metadata()
  metadata.set('authorization', apiKey)
  return <Method extends DescMethodUnary>(
    method: Method,
    request: MessageInitShape<Method['input']>,
    options?: CallOptions,
  ) =>
    new Promise<MessageShape<Method['output']>>((resolve, reject) => {
      options?.signal?.throwIfAborted()
      const running = client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: MessageInitShape<Method['input']>) =>
          Buffer.from(toBinary(method.input, create(method.input, message))),
        (bytes: Buffer) => fromBinary(method.output, bytes) as MessageShape<Method['output']>,
        request,
        metadata,
        timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          options?.signal?.removeEventListener('abort', cancel)
          if (error) reject(errorOf(error))
          else resolve(answer as MessageShape<Method['output']>)
        },
      )
      const cancel = (): void => running.cancel()
      options?.signal?.addEventListener('abort', cancel, { once: true })
    })
}

function pointMessage({ vector, payload }: PointToInsert): {
  vector: { values: number[] }
  payload: { contentType: number; content: string }
} {
  return {
    vector: { values: Array.from(vector) },
    payload: { contentType: contentTypes.indexOf(payload.contentType), content: payload.content },
  }
}

function queryMessage({ vector, metric, limit, ef }: Query): {
  queryVector: { values: number[] }
  similarity: number
  limit: bigint
  ef?: bigint
} {
  return {
    queryVector: { values: Array.from(vector) },
    similarity: metrics.indexOf(metric),
    limit: BigInt(limit),
    ...(ef === undefined ? {} : { ef: BigInt(ef) }),
  }
}

function idMessage(id: string): MessageInitShape<typeof PointIDSchema> {
  return { id: { value: id } }
}

function idOf(message: PointID): string {
  return message.id?.value ?? ''
}

function payloadOf(payload: PayloadMessage | undefined): Payload {
  return { contentType: contentTypes[payload?.contentType ?? 0]!, content: payload?.content ?? '' }
}

/** The first reason with the status's code stands for all that share it. */
function errorOf(error: ServiceError): DatabaseError {
  const found = Object.entries(reasons).find(([, { grpc }]) => grpc === error.code)
  const reason = (found?.[0] ?? 'internal') as Reason
  return new DatabaseError(reason, error.details || error.message, { cause: error })
}
