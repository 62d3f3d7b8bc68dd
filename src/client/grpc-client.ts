import type { MessageInitShape } from '@bufbuild/protobuf'
import { configureTextEncoding, getTextEncoding } from '@bufbuild/protobuf/wire'
import { type ChannelCredentials, Client, credentials } from '@grpc/grpc-js'
import { DatabaseError } from '../base/errors.ts'
import { contentTypes, metrics, type Payload } from '../base/point.ts'
import type { PointsClient, PointToInsert, Query, VectorClient } from './client.ts'
import { checkCollectionName } from './collections.ts'
import {
  type Payload as PayloadMessage,
  type PointID,
  type PointIDSchema,
  VectorDB,
} from './generated/vectordb_pb.js'
import { type GrpcCaller, grpcCaller } from './grpc-call.ts'
import { grpcCollections } from './grpc-collections.ts'

keepByteOrderMarks()

export interface GrpcClientOptions {
  /** `host:port`. */
  readonly address: string
  readonly apiKey: string
  /** Name or alias of the collection whose points the client is for; the default one when not given. */
  readonly collection?: string | undefined
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
  return clientOver(client, options)
}

/** A client over a connection that others may use too. */
function clientOver(connection: Client, options: GrpcClientOptions): VectorClient {
  const { collection: chosen, ...others } = options
  if (chosen !== undefined) checkCollectionName(chosen)
  return {
    ...pointsOf(grpcCaller(connection, options)),
    collection: (name) => clientOver(connection, { ...options, collection: name }),
    collections: grpcCollections(grpcCaller(connection, others)),
    async close() {
      connection.close()
    },
  }
}

function pointsOf(call: GrpcCaller): Omit<PointsClient, 'close'> {
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
  }
}

function credentialsOf({ tls }: GrpcClientOptions): ChannelCredentials {
  if (tls === undefined || tls === false) return credentials.createInsecure()
  return credentials.createSsl(tls === true ? null : Buffer.from(tls.ca))
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

/** Unless told otherwise, a TextDecoder drops U+FEFF at the beginning of a text: it would not come back as it was stored. */
function keepByteOrderMarks(): void {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const strict = new TextDecoder('utf-8', { ignoreBOM: true, fatal: true })
  configureTextEncoding({
    ...getTextEncoding(),
    decodeUtf8: (bytes, isStrict) => (isStrict ? strict : decoder).decode(bytes),
  })
}
