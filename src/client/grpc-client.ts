import {
  create,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire'
import { type ChannelCredentials, Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { cancellation, DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { contentTypes, metrics, type Payload } from '../base/point.ts'
import {
  type InsertOptions,
  idempotencyKeyOf,
  type PointToInsert,
  type Query,
  type VectorClient,
} from './client.ts'
import {
  type Payload as PayloadMessage,
  type PointID,
  type PointIDSchema,
  VectorDB,
} from './generated/vectordb_pb.js'
import { tlsFault } from './tls-fault.ts'

keepByteOrderMarks()

export interface GrpcClientOptions {
  /** `host:port`. */
  readonly address: string
  readonly apiKey: string
  /** Time a call may take; none by default. */
  readonly timeoutMs?: number
  /**
   * For a service behind a proxy that speaks TLS, as docs/examples has one: `true` trusts the authorities that Node
   * knows, `ca` those of this PEM text alone. Without it, calls and key are sent in the clear.
   */
  readonly tls?: boolean | { readonly ca: string | Uint8Array }
}

/** A client that speaks gRPC; calls share one connection. */
export function createGrpcClient(options: GrpcClientOptions): VectorClient {
  const client = new Client(options.address, credentialsOf(options), {
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
      const point = await call(getPoint, idMessage(id), callOptions)
      const vector = Float32Array.from(point.vector?.values ?? [])
      return { id: point.id?.id?.value ?? id, vector, payload: payloadOf(point.payload) }
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

function credentialsOf({ tls }: GrpcClientOptions): ChannelCredentials {
  if (tls === undefined || tls === false) return credentials.createInsecure()
  return credentials.createSsl(tls === true ? null : Buffer.from(tls.ca))
}

type Caller = <Method extends DescMethodUnary>(
  method: Method,
  request: MessageInitShape<Method['input']>,
  options?: InsertOptions,
) => Promise<MessageShape<Method['output']>>

function caller(client: Client, { address, apiKey, timeoutMs }: GrpcClientOptions): Caller {
  const authorization = new Metadata()
  authorization.set('authorization', apiKey)
  return async <Method extends DescMethodUnary>(
    method: Method,
    request: MessageInitShape<Method['input']>,
    options?: InsertOptions,
  ) => {
    const { signal } = options ?? {}
    const key = idempotencyKeyOf(options)
    const metadata = key === undefined ? authorization : withKey(authorization, key)
    if (signal?.aborted) throw cancellation(signal)
    const bytes = encoded(method, request)
    return new Promise<MessageShape<Method['output']>>((resolve, reject) => {
      const running = client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: Buffer) => message,
        (answer: Buffer) => fromBinary(method.output, answer) as MessageShape<Method['output']>,
        bytes,
        metadata,
        timeoutMs === undefined ? {} : { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          signal?.removeEventListener('abort', cancel)
          if (error) reject(errorOf(error, address))
          else resolve(answer as MessageShape<Method['output']>)
        },
      )
      const cancel = (): void => running.cancel()
      signal?.addEventListener('abort', cancel, { once: true })
    })
  }
}

function withKey(authorization: Metadata, key: string): Metadata {
  const metadata = authorization.clone()
  metadata.set('idempotency-key', key)
  return metadata
}

/** What cannot be encoded, a number beyond float32 or a limit that is not whole, never leaves the client. */
function encoded<Method extends DescMethodUnary>(
  method: Method,
  request: MessageInitShape<Method['input']>,
): Buffer {
  try {
    return Buffer.from(toBinary(method.input, create(method.input, request)))
  } catch (error) {
    throw new DatabaseError('invalid_argument', (error as Error).message, { cause: error })
  }
}

function pointMessage({ vector, payload }: PointToInsert): {
  vector: { values: number[] }
  payload: { contentType: number; content: string }
} {
  return {
    vector: { values: numbersOf(vector) },
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
    queryVector: { values: numbersOf(vector) },
    similarity: metrics.indexOf(metric),
    limit: unsigned(limit, 'limit'),
    ...(ef === undefined ? {} : { ef: unsigned(ef, 'ef') }),
  }
}

/** `Array.from` takes ten times as long on a typed array, and then it leads the profile of an import. */
function numbersOf(vector: ArrayLike<number>): number[] {
  const values = new Array<number>(vector.length)
  for (let index = 0; index < vector.length; index += 1) values[index] = vector[index]!
  return values
}

function unsigned(value: number, name: string): bigint {
  if (Number.isSafeInteger(value) && value >= 0) return BigInt(value)
  throw new DatabaseError('invalid_argument', `${name} is ${value}, it must be a whole number`)
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

/**
 * The first reason with the status's code stands for all that share it, but for overload: that one passes,
 * and the service says so by when to come again.
 */
function errorOf(error: ServiceError, address: string): DatabaseError {
  const isOverload = error.metadata?.get('retry-after-ms').length > 0
  const found = Object.entries(reasons).find(([, { grpc }]) => grpc === error.code)
  const reason = isOverload ? 'overloaded' : ((found?.[0] ?? 'internal') as Reason)
  return new DatabaseError(reason, messageOf(error, address), { cause: error })
}

/** grpc-js tells of a failed connection in the words of its layers; the system's own are at the end of them. */
function messageOf(error: ServiceError, address: string): string {
  const text = error.details || error.message
  if (!text.startsWith('No connection established')) return text
  const cause = /Last error: (?:Error: )?(.*?)(?: \([0-9TZ:.-]+\))?\.? Resolution note/.exec(text)?.[1]
  if (cause === undefined) return `no gRPC service answers at ${address}`
  return tlsFault(address, cause) ?? `no gRPC service answers at ${address}: ${cause}`
}

/** Unless told otherwise, a TextDecoder drops U+FEFF at the beginning of a text: it would not come back as it was stored. */
function keepByteOrderMarks(): void {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
  configureTextEncoding({
    ...getTextEncoding(),
    decodeUtf8: (bytes, isStrict) => (isStrict ? strict : decoder).decode(bytes),
  })
}
