import {
  type ConnectionInjector,
  logVerbosity,
  Metadata,
  type MetadataValue,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type ServiceDefinition,
  type StatusObject,
  type sendUnaryData,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js'
import { type EndedCall, unknownOperation } from '../../api/audit.ts'
import { type ApiContext, type Call, grpcFields, type RunningServer } from '../../api/call.ts'
import { refusalOf as refusalOfKey } from '../../api/key-rights.ts'
import { type GrpcOperationName, type OperationTypes, operations } from '../../api/operations.ts'
import { type OperationRunner, runOperation } from '../../api/run-operation.ts'
import type { ApiKey, Keyring } from '../../base/api-key.ts'
import { defaultCollection } from '../../base/collection.ts'
import { DatabaseError, reasonHeader, reasonIn, reasonOfStatus, toDatabaseError } from '../../base/errors.ts'
import { consistencyHeader, positionHeader } from '../../base/request-headers.ts'
import { setV8Flags, v8Flags } from '../../base/runtime.ts'
import { type Listener, listen, type ServerOptions } from '../listener.ts'
import { boundBody, type OutgoingStatus, type ReceivedRequest, statusOf } from './bodies.ts'
import { codecs } from './codec.ts'
import { addReflection, Health } from './services.ts'

interface GrpcServerOptions extends ServerOptions {
  readonly keys: Keyring
  /** The interval of keepalive pings; for tests, shorter. */
  readonly keepaliveMs?: number
}

export interface GrpcServer extends RunningServer {
  /** Sets the health service's status; NOT_SERVING at first. */
  setServing(serving: boolean): void
}

const serviceName = 'vectordb.VectorDB'

const codecNames = Object.keys(codecs) as GrpcOperationName[]

function isOperation(path: string): boolean {
  return path.startsWith(`/${serviceName}/`)
}

/** Shorter than the idle time-outs of load balancers and firewalls, which usually start at four minutes. */
const keepaliveMs = 60_000

const longestTimerMs = 2 ** 31 - 1

const healthPrefix = '/grpc.health.v1.Health/'

/**
 * Serves the operations over gRPC, with reflection and the standard health service.
 *
 *   call ─> key ─> size ─> decode ─> operation ─> encode ─> answer
 *            │      │        │           └ the reason's code
 *            │      │        └ INVALID_ARGUMENT
 *            │      └ RESOURCE_EXHAUSTED
 *            └ UNAUTHENTICATED, PERMISSION_DENIED (health is open)
 *
 * @throws Error that names host, port and setting when it cannot listen
 */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  // The objects of calls survive minor GCs as long as their streams do (`detachListeners` in bodies.ts). V8 would learn
  // from that and allocate later ones in the old generation, where they keep other objects alive until a major GC.
  setV8Flags(v8Flags().allocateYoung)
  // grpc-js also throws everything that it would write to standard error, bypassing our log.
  setLogVerbosity(logVerbosity.NONE)
  const streams = new Set<ServerInterceptingCallInterface>()
  const pingMs = options.keepaliveMs ?? keepaliveMs
  const server = new Server({
    // Limits messages after decompression; `boundBody` limits them before.
    'grpc.max_receive_message_length': options.maxRequestBytes,
    // The answer to an accepted request is never refused for its size: MAX_LIMIT bounds it.
    'grpc.max_send_message_length': -1,
    // Per connection; a client queues further calls. Each call in progress is memory that the GC must scan.
    'grpc.max_concurrent_streams': 200,
    'grpc.enable_channelz': 0,
    // Detects peers that disappeared without closing their connection, which would stay open forever.
    'grpc.keepalive_time_ms': pingMs,
    'grpc.keepalive_timeout_ms': Math.ceil(pingMs / 3),
    interceptors: [watchCalls(options, streams)],
  })
  const runner: OperationRunner = { ...options, transport: 'grpc' }
  server.addService(
    serviceDefinition(),
    Object.fromEntries(codecNames.map((name) => [name, handlerOf(runner, name)])),
  )
  addReflection(server)
  const health = new Health(server, ['', serviceName])

  const { listener, injector } = await bind(server, options)
  const setServing = (serving: boolean): void => {
    health.set(serving ? 'SERVING' : 'NOT_SERVING')
  }
  return {
    host: options.host,
    port: listener.port,
    get connections() {
      return listener.connections
    },
    // Calls that run may take as long as they need, so that no client notices.
    askToReconnect: () => injector.drain(longestTimerMs),
    setServing,
    async close(timeoutMs) {
      setServing(false)
      for (const stream of streams) {
        stream.sendStatus({ code: status.UNAVAILABLE, details: 'the server is shutting down' })
      }
      await close(server, listener, timeoutMs)
    },
  }
}

/** The definition of the service. Handlers decode the bytes, so that malformed requests get the right status code. */
function serviceDefinition(): ServiceDefinition {
  const pass = (bytes: Buffer): Buffer => bytes
  return Object.fromEntries(
    codecNames.map((name) => [
      name,
      {
        path: `/${serviceName}/${name}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: pass,
        requestDeserialize: pass,
        responseSerialize: pass,
        responseDeserialize: pass,
      },
    ]),
  )
}

function handlerOf(
  runner: OperationRunner,
  name: GrpcOperationName,
): (call: OperationCall, callback: sendUnaryData<Buffer>) => void {
  return (call, callback) => void handle(runner, name, call, callback)
}

async function handle(
  runner: OperationRunner,
  name: GrpcOperationName,
  call: OperationCall,
  callback: sendUnaryData<Buffer>,
): Promise<void> {
  const caller = callOf(call, name, runner.context)
  const bytes = await answer(runner, name, call, caller.call).catch(toDatabaseError)
  caller.answered()
  try {
    if (bytes instanceof DatabaseError) {
      // What was read for the answer is dropped.
      call.request.room.release()
      callback(refusalOf(bytes, runner.context), null)
    } else callback(null, bytes, trailerOf(runner.context))
  } catch (error) {
    // An error of grpc-js while sending concerns only this call and must not end the process.
    runner.logger.error({ err: error, operation: name }, 'an answer was not sent')
    // A client without a deadline would wait forever, and the call would keep one of its connection's streams.
    call.request.abort()
  }
}

/**
 * The status of a refusal. In a cluster it also has the position, because a refusal may depend on the stored points.
 */
function refusalOf(error: DatabaseError, { cluster }: ApiContext): StatusObject {
  const refusal = statusOf(error)
  if (cluster !== undefined) refusal.metadata.set(positionHeader, String(cluster.answeredPosition))
  return refusal
}

/** The trailer in a cluster: the newest position that the answer may contain. */
function trailerOf({ cluster }: ApiContext): Metadata | undefined {
  if (cluster === undefined) return undefined
  const trailer = new Metadata()
  trailer.set(positionHeader, String(cluster.answeredPosition))
  return trailer
}

/** `boundBody` turns the message into the request. */
type OperationCall = ServerUnaryCall<ReceivedRequest, Buffer>

function answer<Name extends GrpcOperationName>(
  runner: OperationRunner,
  name: Name,
  call: OperationCall,
  as: Call,
): Promise<Buffer> {
  const { decode, encode } = codecs[name]
  const { request } = call
  const { room } = request
  const hold = (bytes: Buffer): Buffer => {
    // Counts the complete answer instead of what it was made of.
    if (operations[name].role === 'read') room.resize(bytes.length)
    else room.exceed(bytes.length)
    request.answered()
    return bytes
  }
  const codec = {
    decode: () => decode(request.take()),
    encode(output: OperationTypes[Name]['output']): Buffer | Promise<Buffer> {
      const bytes = encode(output, room)
      return bytes instanceof Promise ? bytes.then(hold) : hold(bytes)
    },
  }
  return runOperation(runner, name, codec, as)
}

/** Converts a call for the operations. grpc-js emits `cancelled` at the end of every call, even of an answered one. */
function callOf(
  call: OperationCall,
  name: GrpcOperationName,
  { cluster }: ApiContext,
): { readonly call: Call; readonly answered: () => void } {
  const controller = new AbortController()
  const cancel = (): void => {
    controller.abort(
      Date.now() >= Number(call.getDeadline())
        ? new DatabaseError('deadline_exceeded', 'the deadline of the call has passed')
        : new DatabaseError('cancelled', 'the caller disconnected'),
    )
  }
  call.on('cancelled', cancel)
  return {
    call: {
      fields: grpcFields,
      key: call.request.key,
      address: () => addressIn(call.getPeer()),
      collection: firstOf(call, 'collection'),
      // Only the metadata that the operation reads: each lookup takes as long as decoding a small request.
      idempotencyKey: operations[name].role === 'write' ? firstOf(call, 'idempotency-key') : undefined,
      version: name === 'GetPoint' ? firstOf(call, 'version') : undefined,
      consistency: cluster && firstOf(call, consistencyHeader),
      position: cluster && firstOf(call, positionHeader),
      signal: controller.signal,
      room: call.request.room,
      decoded: () => call.request.release(),
    },
    answered: () => call.off('cancelled', cancel),
  }
}

function firstOf({ metadata }: OperationCall, key: string): string | undefined {
  return metadata.get(key)[0]?.toString()
}

/** Replaces the status of a call that grpc-js itself refuses with ours, which names the setting. */
function rewordRefusal(outcome: OutgoingStatus, maxRequestBytes: number): OutgoingStatus {
  const { code, details = '' } = outcome
  if (code === status.RESOURCE_EXHAUSTED && /^Received message/.test(details ?? '')) {
    return { ...outcome, details: `the request is larger than ${maxRequestBytes} bytes (MAX_REQUEST_BYTES)` }
  }
  if (code === status.INTERNAL && details === 'Failed to decompress message') {
    return { ...outcome, code: status.INVALID_ARGUMENT, details: 'the compressed request is malformed' }
  }
  // grpc-js reports these as errors of the server.
  if (code === status.INTERNAL && /^Invalid grpc-timeout|^Error deserializing request/.test(details ?? '')) {
    return { ...outcome, code: status.INVALID_ARGUMENT }
  }
  return outcome
}

/**
 * Reports every call to the read scheduler, bounds its body, and refuses a call without a valid key before reading its
 * message. Also keeps track of streams that only their client would end (health watches and reflection), so that a
 * shutdown ends them.
 *
 * One interceptor does all this, because each interceptor adds a layer to every event of every call.
 */
function watchCalls(
  options: GrpcServerOptions,
  streams: Set<ServerInterceptingCallInterface>,
): ServerInterceptor {
  const reword = (outcome: OutgoingStatus): OutgoingStatus => rewordRefusal(outcome, options.maxRequestBytes)
  return ({ path, requestStream, responseStream }, call) => {
    options.readScheduler.noteWork()
    const isOpen = path.startsWith(healthPrefix)
    let hasBegun = false
    let collection: string | undefined
    const body = boundBody(call, options, isOperation(path), (given) => {
      const outcome = reword(given)
      if (!hasBegun && outcome.code !== status.OK) {
        auditRefusal(
          options,
          path,
          { key: body.key?.name, collection, address: addressIn(call.getPeer()) },
          outcome,
        )
      }
      return outcome
    })
    if (responseStream) streams.add(call)
    return new ServerInterceptingCall(call, {
      start(next) {
        // A client that streams requests, as in reflection, may wait any time between two of them.
        if (!requestStream) body.startRequestTimer()
        next({
          onReceiveMetadata(metadata, proceed) {
            if (isOpen) return proceed(metadata)
            collection = metadata.get('collection')[0]?.toString()
            const key = keyIn(metadata.get('authorization'), options.keys)
            if ('code' in key) options.refusedKeys.add('grpc', call.getPeer())
            else body.key = key
            const refused = 'code' in key ? key : refusalByRights(key, path)
            if (refused === undefined) return proceed(metadata)
            call.sendStatus(refused)
          },
          onReceiveMessage(message: Buffer, proceed) {
            hasBegun = true
            proceed(body.received(message))
          },
          onCancel() {
            body.end()
            if (responseStream) streams.delete(call)
          },
        })
      },
    })
  }
}

/** Adds a line to the audit for a call that was refused before its operation began, or that is of another service. */
function auditRefusal(
  { context: { audit } }: GrpcServerOptions,
  path: string,
  caller: Pick<EndedCall, 'key' | 'collection' | 'address'>,
  { code, metadata }: OutgoingStatus,
): void {
  if (audit === undefined) return
  const operation = operationAt(path)
  const error = reasonIn(metadata?.get(reasonHeader)[0]?.toString()) ?? reasonOfStatus('grpc', code)
  if (operation === undefined && error !== 'unauthenticated') return
  const role = operation === undefined ? 'read' : operations[operation].role
  const isOfPoints = operation !== undefined && operations[operation].concerns === 'points'
  const collection = caller.collection ?? (isOfPoints ? defaultCollection : undefined)
  audit.note({
    ...caller,
    collection,
    operation: operation ?? unknownOperation,
    error,
    transport: 'grpc',
    role,
  })
}

/** The address in what grpc-js says of a caller, like `[::1]:50010`. */
function addressIn(peer: string): string {
  return peer.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
}

function operationAt(path: string): GrpcOperationName | undefined {
  return codecNames.find((each) => path === `/${serviceName}/${each}`)
}

/** Returns the key of a call, or the status that refuses it. */
function keyIn(values: readonly MetadataValue[], keys: Keyring): ApiKey | OutgoingStatus {
  const [value] = values
  const key = values.length === 1 && typeof value === 'string' ? keys.find(value) : undefined
  if (key !== undefined) return key
  const details =
    values.length === 0
      ? 'missing API key: send it as `authorization` metadata'
      : 'invalid API key in `authorization`'
  return { code: status.UNAUTHENTICATED, details }
}

/** Methods that are not operations (reflection, and methods that do not exist) need only the role `read`. */
function refusalByRights(key: ApiKey, path: string): OutgoingStatus | undefined {
  const name = operationAt(path)
  const refusal = name && refusalOfKey(key, name, operations[name])
  return refusal && statusOf(refusal)
}

async function bind(
  server: Server,
  { host, port, reusePort = false, certificate, readScheduler }: GrpcServerOptions,
): Promise<{ readonly listener: Listener; readonly injector: ConnectionInjector }> {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  try {
    const listener = await listen({ host, port, reusePort, certificate, protocols: ['h2'] }, (socket) => {
      readScheduler.track(socket)
      readScheduler.throttle(socket)
      injector.injectConnection(socket)
    })
    return { listener, injector }
  } catch (error) {
    server.forceShutdown()
    throw new Error(`gRPC cannot listen on ${host} port ${port} (GRPC_PORT): ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/** `tryShutdown` returns as soon as it has notified the connections; only the listener knows when they have ended. */
async function close(server: Server, listener: Listener, timeoutMs: number): Promise<void> {
  const ended = listener.close()
  server.tryShutdown(() => {})
  const timer = setTimeout(() => listener.destroyConnections(), timeoutMs)
  await ended
  clearTimeout(timer)
}
