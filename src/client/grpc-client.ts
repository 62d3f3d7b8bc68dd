import type { DescMessage, DescMethod, MessageShape } from '@bufbuild/protobuf'
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
  apiKeyIn,
  boundsIn,
  type CallBounds,
  makeCall,
  Nodes,
  noAnswerInTime,
  ServiceError,
  Session,
  tlsFault,
} from './calls.ts'
import type { VectorClient } from './client.ts'
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
  queryMessage,
  selectionMessage,
  settingsMessage,
  whenMessage,
} from './grpc-messages.ts'
import { checkCollectionName } from './input.ts'
import { accessOver, collectionsOver, type Operations, pointsOver, type Send } from './transport.ts'
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
  readonly tls?: boolean | TlsFiles | undefined
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
  const send = sender(nodes, session, others)
  return {
    ...pointsOver(sender(nodes, session, options)),
    collection: (name) => clientOver(nodes, session, { ...options, collection: name }),
    collections: collectionsOver(send),
    ...accessOver(send),
    async close() {
      for (const { client } of nodes.all) client.close()
    },
  }
}

type Method<Name extends keyof Operations> = (typeof VectorDB.method)[Uncapitalize<Name>]

/** How an operation is written and read. */
interface Row<Name extends keyof Operations> {
  readonly request: (input: Operations[Name]['input']) => Init<MessageShape<Method<Name>['input']>>
  readonly read: (answer: Encoded<MessageShape<Method<Name>['output']>>) => Operations[Name]['output']
  readonly metadata?: (input: Operations[Name]['input']) => Readonly<Record<string, string>>
  /** The output if the service answers `not_found`, which over HTTP is a success. */
  readonly mayBeAbsent?: true
}

const rows: { readonly [Name in keyof Operations]: Row<Name> } = {
  InsertVector: { request: pointMessage, read: idIn },
  InsertVectorsBatch: {
    request: ({ vectors, onError }) => ({
      vectors: vectors.map(pointMessage),
      continueOnError: onError === 'continue',
    }),
    read: (answer) => ({
      ids: Array.from(answer.items('ids'), (id) => idIn(id) || null),
      errors: Array.from(answer.items('errors'), (error) => {
        const { index, code, message } = error.read()
        return { index, reason: reasonOfStatus('grpc', code), message }
      }),
    }),
  },
  PutPoint: {
    request: ({ id, when, ...point }) => ({
      ...pointMessage(point),
      id: idMessage(id),
      when: whenMessage(when),
    }),
    read(answer) {
      const { version, created } = answer.read()
      return { version: Number(version), created }
    },
  },
  PatchPoint: {
    request: ({ id, when, ...patch }) => ({
      id: idMessage(id),
      patch: patchMessage(patch),
      when: whenMessage(when),
    }),
    read: (answer) => ({ version: Number(answer.read().version) }),
  },
  DeletePoint: { request: ({ id }) => idMessage(id), read: ignore, mayBeAbsent: true },
  GetPoint: {
    request: ({ id }) => idMessage(id),
    read: pointOf,
    metadata: ({ version }) => (version ? { version: 'true' } : {}),
  },
  SearchPoints: { request: queryMessage, read: foundOf },
  SearchPointsBatch: {
    request: ({ queries }) => ({
      queries: queries.map((query, index) => queryMessage(query, `queries[${index}].`)),
    }),
    read: (answer) => Array.from(answer.items('results'), foundOf),
  },
  ListPoints: {
    request: ({ filter, include, ...query }) => ({
      ...query,
      filter: optionalFilter(filter),
      include: include && includeMessage(include),
    }),
    read: (answer) => ({
      points: Array.from(answer.items('points'), hitOf),
      nextCursor: answer.read().nextCursor || undefined,
    }),
  },
  CountPoints: {
    request: ({ filter }) => ({ filter: optionalFilter(filter) }),
    read: (answer) => Number(answer.read().count),
  },
  FacetPoints: {
    request: ({ filter, ...query }) => ({ ...query, filter: optionalFilter(filter) }),
    read: facetsOf,
  },
  EvaluatePoints: { request: evaluateMessage, read: evaluatedOf },
  UpdatePoints: {
    request: ({ set, unset, expiresAt, ...selection }) =>
      selectionMessage(selection, patchMessage({ set, unset, expiresAt })),
    read: changedOf,
  },
  DeletePoints: { request: selectionMessage, read: changedOf },
  ListCollections: {
    request: same,
    read: (answer) => Array.from(answer.items('collections'), collectionOf),
  },
  GetCollection: { request: same, read: collectionOf },
  PutCollection: {
    request: ({ name, ...settings }) => ({ ...settingsMessage(settings), name }),
    read(answer) {
      const { created, collection } = answer.read()
      return { created, info: collectionOf(collection!) }
    },
  },
  DeleteCollection: { request: same, read: ignore },
  SetAliases: {
    request: ({ set, remove }) => ({ set: new Map(Object.entries(set)), remove }),
    read: (answer) => objectOf([...answer.entries('aliases')], (name) => name),
  },
  ListAudit: {
    request: ({ since, until, ...query }) => ({ ...query, sinceUs: since?.us, untilUs: until?.us }),
    read: auditOf,
  },
  CreateKey: {
    request: ({ filter, expiresAt, ...key }) => ({
      ...key,
      filter: optionalFilter(filter),
      expiresAtUs: expiresAt?.us,
    }),
    read(answer) {
      const { info, key } = answer.read()
      return { ...keyOf(info!), key }
    },
  },
  ListKeys: { request: same, read: (answer) => Array.from(answer.items('keys'), keyOf) },
  RevokeKey: { request: same, read: ignore },
}

const schemasOf = new Map<string, DescMethod>(VectorDB.methods.map((method) => [method.name, method]))

function same<Input>(input: Input): Input {
  return input
}

function ignore(): undefined {
  return undefined
}

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

interface GrpcNode {
  readonly address: string
  readonly client: Client
}

function sender(
  nodes: Nodes<GrpcNode>,
  session: Session,
  { apiKey, collection, ...given }: GrpcClientOptions,
): Send {
  const bounds = boundsIn(given)
  const { timeoutMs } = bounds
  const common = new Metadata()
  common.set('authorization', apiKeyIn(apiKey))
  if (collection !== undefined) common.set('collection', collection)
  return async (name, input, details) => {
    const { request, read, metadata: more, mayBeAbsent }: Row<typeof name> = rows[name]
    const schemas = schemasOf.get(name)!
    const bytes = encoded(schemas.input, request(input))
    const readBytes = (answer: Buffer): Operations[typeof name]['output'] =>
      read(Encoded.of(schemas.output, answer) as never)
    const outcome = makeCall(bounds, session, nodes, details, bytes.length, (node, headers) => {
      const metadata = common.clone()
      for (const [key, value] of Object.entries({ ...headers, ...more?.(input) })) metadata.set(key, value)
      return attempt(node, name, bytes, readBytes, metadata, details.signal)
    })
    return mayBeAbsent ? outcome.catch(throwUnlessAbsent) : outcome
  }

  function attempt<Result>(
    { address, client }: GrpcNode,
    method: string,
    bytes: Buffer,
    read: (answer: Buffer) => Result,
    metadata: Metadata,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const running = client.makeUnaryRequest(
        `/${VectorDB.typeName}/${method}`,
        (message: Buffer) => message,
        read,
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

function throwUnlessAbsent(error: unknown): undefined {
  if (!(error instanceof DatabaseError && error.reason === 'not_found')) throw error
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
