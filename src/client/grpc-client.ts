import type { DescMessage, DescMethodUnary, MessageShape } from '@bufbuild/protobuf'
import {
  type ChannelCredentials,
  Client,
  credentials,
  type ServiceError as GrpcError,
  Metadata,
  status,
} from '@grpc/grpc-js'
import { DatabaseError, invalid, reasonHeader, reasonIn, reasonOfStatus } from '../base/errors.ts'
import { positionHeader } from '../base/request-headers.ts'
import { VectorDB } from '../messages/generated/vectordb_pb.js'
import { Encoded } from '../messages/reader.ts'
import { idIn, idMessage } from '../messages/values.ts'
import { encode, type Init } from '../messages/writer.ts'
import {
  addressesIn,
  boundsIn,
  type CallBounds,
  type CallDetails,
  makeCall,
  Nodes,
  noAnswerInTime,
  ServiceError,
  Session,
  tlsFault,
} from './calls.ts'
import type { CollectionInfo, CreatedKey, VectorClient } from './client.ts'
import {
  auditOf,
  changedOf,
  collectionOf,
  evaluatedOf,
  evaluateMessage,
  facetsOf,
  foundOf,
  hitOf,
  includeMessage,
  keyOf,
  optionalFilter,
  patchMessage,
  pointMessage,
  pointOf,
  putMessage,
  queryMessage,
  selectionMessage,
  settingsMessage,
  whenMessage,
} from './grpc-messages.ts'
import { checkCollectionName } from './input.ts'
import {
  type AccessCalls,
  accessOver,
  type CollectionCalls,
  collectionsOver,
  type PointCalls,
  pointsOver,
} from './transport.ts'
import { fieldsOf, objectOf } from './values.ts'

export interface GrpcClientOptions extends CallBounds {
  /** `host:port`. Of several nodes of a cluster, one is called until it fails. */
  readonly address: string | readonly string[]
  readonly apiKey: string
  /** Name or alias of the collection whose points the client accesses; the default collection if absent. */
  readonly collection?: string | undefined
  /**
   * For a service with TLS. `true` trusts the authorities that Node knows;
   * `ca` trusts only those of this PEM text. Without it, calls and key are sent unencrypted. `cert` and `key`, as PEM
   * text too, are for a service that asks for certificates of its clients.
   */
  readonly tls?: boolean | TlsFiles
}

interface TlsFiles {
  readonly ca?: string | Uint8Array | undefined
  readonly cert?: string | Uint8Array | undefined
  readonly key?: string | Uint8Array | undefined
}

/** Creates a client that speaks gRPC; all calls share one connection to each node. */
export function createGrpcClient(options: GrpcClientOptions): VectorClient {
  const names = ['address', 'apiKey', 'collection', 'tls', 'retries', 'timeoutMs', 'maxRequestBytes'] as const
  fieldsOf(options, names, 'the options')
  const nodes = addressesIn(options.address, 'address').map((address) => ({
    address,
    client: new Client(address, credentialsOf(options), {
      'grpc.max_send_message_length': -1,
      'grpc.max_receive_message_length': -1,
      'grpc.max_reconnect_backoff_ms': reconnectMsMax,
    }),
  }))
  return clientOver(new Nodes(nodes), new Session(), options)
}

/** Creates a client over connections and a session that other clients may share. */
function clientOver(nodes: Nodes<GrpcNode>, session: Session, options: GrpcClientOptions): VectorClient {
  const { collection: chosen, ...others } = options
  if (chosen !== undefined) checkCollectionName(chosen)
  return {
    ...pointsOver(pointCalls(grpcCaller(nodes, session, options))),
    collection: (name) => clientOver(nodes, session, { ...options, collection: name }),
    collections: collectionsOver(collectionCalls(grpcCaller(nodes, session, others))),
    ...accessOver(accessCalls(grpcCaller(nodes, session, others))),
    async close() {
      for (const { client } of nodes.all) client.close()
    },
  }
}

function pointCalls(call: GrpcCaller): PointCalls {
  return {
    insert: (point, details) => call(method.insertVector, pointMessage(point), idIn, details),
    insertBatch(points, details) {
      const request = { vectors: points.map(pointMessage) }
      return call(
        method.insertVectorsBatch,
        request,
        (answer) => Array.from(answer.items('ids'), idIn),
        details,
      )
    },
    insertEach(points, details) {
      const request = { vectors: points.map(pointMessage), continueOnError: true }
      return call(
        method.insertVectorsBatch,
        request,
        (answer) => ({
          ids: Array.from(answer.items('ids'), (id) => idIn(id) || null),
          errors: Array.from(answer.items('errors'), (error) => {
            const { index, code, message } = error.read()
            return { index, reason: reasonOfStatus('grpc', code), message }
          }),
        }),
        details,
      )
    },
    put(id, point, when, details) {
      const read = (answer: Answer<typeof method.putPoint>): { version: number; created: boolean } => {
        const { version, created } = answer.read()
        return { version: Number(version), created }
      }
      return call(method.putPoint, putMessage(id, point, when), read, details)
    },
    patch(id, patch, when, details) {
      const request = { id: idMessage(id), patch: patchMessage(patch), when: whenMessage(when) }
      return call(
        method.patchPoint,
        request,
        (answer) => ({ version: Number(answer.read().version) }),
        details,
      )
    },
    async delete(id, details) {
      try {
        await call(method.deletePoint, idMessage(id), ignore, details)
      } catch (error) {
        // Over HTTP, this is a success.
        if (!(error instanceof DatabaseError && error.reason === 'not_found')) throw error
      }
    },
    get: (id, version, details) => call(method.getPoint, idMessage(id), pointOf, { ...details, version }),
    search: (query, details) => call(method.searchPoints, queryMessage(query), foundOf, details),
    searchBatch(queries, details) {
      const request = { queries: queries.map((query, index) => queryMessage(query, `queries[${index}].`)) }
      return call(
        method.searchPointsBatch,
        request,
        (answer) => Array.from(answer.items('results'), foundOf),
        details,
      )
    },
    list({ filter, limit, cursor, include }, details) {
      const request = {
        filter: optionalFilter(filter),
        limit,
        cursor,
        include: include && includeMessage(include),
      }
      return call(
        method.listPoints,
        request,
        (answer) => ({
          points: Array.from(answer.items('points'), hitOf),
          nextCursor: answer.read().nextCursor || undefined,
        }),
        details,
      )
    },
    count(filter, details) {
      const request = { filter: optionalFilter(filter) }
      return call(method.countPoints, request, (answer) => Number(answer.read().count), details)
    },
    facets: ({ filter, ...query }, details) =>
      call(method.facetPoints, { ...query, filter: optionalFilter(filter) }, facetsOf, details),
    evaluate: (query, details) => call(method.evaluatePoints, evaluateMessage(query), evaluatedOf, details),
    update: (selection, change, details) =>
      call(method.updatePoints, selectionMessage(selection, patchMessage(change)), changedOf, details),
    deleteMatching: (selection, details) =>
      call(method.deletePoints, selectionMessage(selection), changedOf, details),
  }
}

function collectionCalls(call: GrpcCaller): CollectionCalls {
  return {
    list: (details) =>
      call(
        method.listCollections,
        {},
        (answer) => Array.from(answer.items('collections'), collectionOf),
        details,
      ),
    get: (name, details) => call(method.getCollection, { name }, collectionOf, details),
    put(name, settings, details) {
      const read = (
        answer: Answer<typeof method.putCollection>,
      ): { created: boolean; info: CollectionInfo } => {
        const { created, collection } = answer.read()
        return { created, info: collectionOf(collection!) }
      }
      return call(method.putCollection, { ...settingsMessage(settings), name }, read, details)
    },
    delete: (name, details) => call(method.deleteCollection, { name }, ignore, details),
    setAliases({ set, remove }, details) {
      const request = { set: new Map(Object.entries(set)), remove }
      const read = (answer: Answer<typeof method.setAliases>): Readonly<Record<string, string>> =>
        objectOf([...answer.entries('aliases')], (name) => name)
      return call(method.setAliases, request, read, details)
    },
  }
}

function accessCalls(call: GrpcCaller): AccessCalls {
  return {
    audit: ({ since, until, ...query }, details) =>
      call(method.listAudit, { ...query, sinceUs: since?.us, untilUs: until?.us }, auditOf, details),
    createKey({ filter, expiresAt, ...key }, details) {
      const request = { ...key, filter: optionalFilter(filter), expiresAtUs: expiresAt?.us }
      const read = (answer: Answer<typeof method.createKey>): CreatedKey => {
        const { info, key: created } = answer.read()
        return { ...keyOf(info!), key: created }
      }
      return call(method.createKey, request, read, details)
    },
    listKeys: (details) =>
      call(method.listKeys, {}, (answer) => Array.from(answer.items('keys'), keyOf), details),
    revokeKey: (name, details) => call(method.revokeKey, { name }, ignore, details),
  }
}

const { method } = VectorDB

/** The answer of a method, in its bytes. */
type Answer<Method extends DescMethodUnary> = Encoded<MessageShape<Method['output']>>

function ignore(): void {}

/** Otherwise, the pauses between attempts to reach a service that restarts grow up to two minutes. */
const reconnectMsMax = 2_000

function credentialsOf({ tls }: GrpcClientOptions): ChannelCredentials {
  if (tls === undefined || tls === false) return credentials.createInsecure()
  const { ca, cert, key } = tls === true ? ({} as TlsFiles) : tls
  if ((cert === undefined) !== (key === undefined)) throw invalid('tls.cert and tls.key need each other')
  const [roots, privateKey, chain] = [ca, key, cert].map((pem) =>
    pem === undefined ? null : Buffer.from(pem),
  )
  return credentials.createSsl(roots, privateKey, chain)
}

/** Calls a method of the service. */
type GrpcCaller = <Method extends DescMethodUnary, Result>(
  method: Method,
  request: Init<MessageShape<Method['input']>>,
  read: (answer: Encoded<MessageShape<Method['output']>>) => Result,
  details: GrpcDetails,
) => Promise<Result>

/** The options of a call; each applies only to the methods that have it. */
interface GrpcDetails extends CallDetails {
  /** Whether the answer has the point's version. */
  readonly version?: boolean | undefined
}

interface GrpcNode {
  readonly address: string
  readonly client: Client
}

function grpcCaller(
  nodes: Nodes<GrpcNode>,
  session: Session,
  { apiKey, collection, ...given }: GrpcClientOptions,
): GrpcCaller {
  const bounds = boundsIn(given)
  const { timeoutMs } = bounds
  const common = new Metadata()
  common.set('authorization', apiKey)
  if (collection !== undefined) common.set('collection', collection)
  return async (method, request, read, details) => {
    const bytes = encoded(method.input, request)
    return makeCall(bounds, session, nodes, details, bytes.length, (node, headers) => {
      const metadata = common.clone()
      for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
      if (details.version === true) metadata.set('version', 'true')
      return attempt(node, method, bytes, read, metadata, details.signal)
    })
  }

  function attempt<Method extends DescMethodUnary, Result>(
    { address, client }: GrpcNode,
    method: Method,
    bytes: Buffer,
    read: (answer: Answer<Method>) => Result,
    metadata: Metadata,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const running = client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: Buffer) => message,
        (answer: Buffer) => read(Encoded.of(method.output, answer) as Answer<Method>),
        bytes,
        metadata,
        { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          signal?.removeEventListener('abort', cancel)
          if (error) reject(errorOf(error, address, timeoutMs))
          else resolve(answer as Result)
        },
      )
      running.on('status', ({ metadata: trailer }) => {
        session.note(trailer.get(positionHeader)[0]?.toString())
      })
      const cancel = (): void => running.cancel()
      signal?.addEventListener('abort', cancel, { once: true })
    })
  }
}

/** Encodes a request. Refuses values that cannot be encoded, such as a whole number beyond 32 bits. */
function encoded<Schema extends DescMessage>(schema: Schema, request: Init<MessageShape<Schema>>): Buffer {
  try {
    return encode(schema, request)
  } catch (error) {
    if (error instanceof DatabaseError) throw error
    throw new DatabaseError('invalid_argument', (error as Error).message, { cause: error })
  }
}

/** Converts an error. A status without a reason is not from the service; then the code has to do. */
function errorOf(error: GrpcError, address: string, timeoutMs: number): ServiceError {
  const { code, metadata } = error
  const [asked] = metadata?.get('retry-after-ms') ?? []
  const named = reasonIn(metadata?.get(reasonHeader)[0]?.toString())
  if (code === status.DEADLINE_EXCEEDED && named === undefined)
    return noAnswerInTime(address, timeoutMs, error)
  return new ServiceError(named ?? reasonOfStatus('grpc', code), messageOf(error, address), {
    cause: error,
    retryAfterMs: asked === undefined ? undefined : Number(asked),
    isUncertain: code === status.UNAVAILABLE && asked === undefined,
  })
}

/**
 * The message for an error. grpc-js wraps a failed connection in its own text; the system's message is at the end of
 * it.
 */
function messageOf(error: GrpcError, address: string): string {
  const text = error.details || error.message
  if (!text.startsWith('No connection established')) return text
  const cause = /Last error: (?:Error: )?(.*?)(?: \([0-9TZ:.-]+\))?\.? Resolution note/.exec(text)?.[1]
  if (cause === undefined) return `no gRPC service answers at ${address}`
  return tlsFault(address, cause) ?? `no gRPC service answers at ${address}: ${cause}`
}
