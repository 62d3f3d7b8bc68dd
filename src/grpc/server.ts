import { setFlagsFromString } from 'node:v8'
import {
  logVerbosity,
  type MetadataValue,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  type ServerUnaryCall,
  type ServiceDefinition,
  type sendUnaryData,
  setLogVerbosity,
  status,
} from '@grpc/grpc-js'
import { HealthImplementation } from 'grpc-health-check'
import { allows, operationRoles, permissionDenied } from '../api/access.ts'
import type { ApiContext, Call } from '../api/call.ts'
import { type OperationName, type OperationTypes, operationNames } from '../api/operations.ts'
import { type OperationRunner, runOperation } from '../api/run-operation.ts'
import type { RunningServer } from '../api/server.ts'
import type { ApiKey, Keyring } from '../base/api-key.ts'
import type { BodyBudgets } from '../base/byte-budget.ts'
import { DatabaseError, toDatabaseError } from '../base/errors.ts'
import type { Intake } from '../base/intake.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import type { RefusedKeys } from '../base/refused-keys.ts'
import { boundBody, type OutgoingStatus, type ReceivedRequest, statusOf } from './bodies.ts'
import { codecs } from './codec.ts'
import { type Listener, listen } from './listener.ts'
import { addReflection } from './reflection.ts'

export interface GrpcServerOptions {
  readonly context: ApiContext
  readonly keys: Keyring
  readonly host: string
  readonly port: number
  readonly maxRequestBytes: number
  /** Time a client has to send a whole request, and to take in a whole answer. */
  readonly requestTimeoutMs: number
  /** How often a connection is pinged; for tests, more often. */
  readonly keepaliveMs?: number
  readonly budgets: BodyBudgets
  readonly intake: Intake
  readonly refusedKeys: RefusedKeys
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

export interface GrpcServer extends RunningServer {
  /** What the health service answers; not serving until told. */
  setServing(serving: boolean): void
}

const serviceName = 'vectordb.VectorDB'

function isOperation(path: string): boolean {
  return path.startsWith(`/${serviceName}/`)
}

/** Shorter than load balancers and firewalls usually let a connection be idle, which is from four minutes on. */
const keepaliveMs = 60_000

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
  // Objects of calls outlive a quick collection while their streams do (`letGo` in bodies.ts). V8 takes that for a habit
  // and makes the next ones among the old objects, where each keeps others alive until a full collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // What it would write to standard error, past our log, it also throws.
  setLogVerbosity(logVerbosity.NONE)
  const streams = new Set<ServerInterceptingCallInterface>()
  const pingMs = options.keepaliveMs ?? keepaliveMs
  const server = new Server({
    // Of what is compressed, when it is not any more; before, `boundBody` sees to it.
    'grpc.max_receive_message_length': options.maxRequestBytes,
    // The answer to a request that was let in is never refused for its size: MAX_LIMIT bounds it.
    'grpc.max_send_message_length': -1,
    // Of a connection; a client keeps back what is more. Each call under way is memory that the collector goes through.
    'grpc.max_concurrent_streams': 200,
    'grpc.enable_channelz': 0,
    // A peer that went away without a word is found out by its silence: its connection would stay for ever.
    'grpc.keepalive_time_ms': pingMs,
    'grpc.keepalive_timeout_ms': Math.ceil(pingMs / 3),
    interceptors: [watchCalls(options, streams)],
  })
  const runner: OperationRunner = { ...options, transport: 'grpc' }
  const health = new HealthImplementation({ '': 'NOT_SERVING', [serviceName]: 'NOT_SERVING' })
  server.addService(
    serviceDefinition(),
    Object.fromEntries(operationNames.map((name) => [name, handlerOf(runner, name)])),
  )
  addReflection(server)
  health.addToServer(server)

  const listener = await bind(server, options)
  const setServing = (serving: boolean): void => {
    for (const name of ['', serviceName]) health.setStatus(name, serving ? 'SERVING' : 'NOT_SERVING')
  }
  return {
    host: options.host,
    port: listener.port,
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

/** Requests and answers pass as bytes: decoding is the handler's, so that its faults get their own code. */
function serviceDefinition(): ServiceDefinition {
  const pass = (bytes: Buffer): Buffer => bytes
  return Object.fromEntries(
    operationNames.map((name) => [
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
  name: OperationName,
): (call: OperationCall, callback: sendUnaryData<Buffer>) => void {
  return (call, callback) => {
    const caller = callOf(call)
    answer(runner, name, call, caller.call)
      .finally(caller.answered)
      .then(
        (bytes) => callback(null, bytes),
        (error: unknown) => callback(statusOf(toDatabaseError(error)), null),
      )
      // What grpc-js throws while it sends concerns this call alone: it must not end the process.
      .catch((error: unknown) =>
        runner.logger.error({ err: error, operation: name }, 'an answer was not sent'),
      )
  }
}

/** `boundBody` makes the request of the message. */
type OperationCall = ServerUnaryCall<ReceivedRequest, Buffer>

function answer<Name extends OperationName>(
  runner: OperationRunner,
  name: Name,
  call: OperationCall,
  as: Call,
): Promise<Buffer> {
  const { decode, encode } = codecs[name]
  const { request } = call
  const codec = {
    decode: () => decode(request.take()),
    async encode(output: OperationTypes[Name]['output']): Promise<Buffer> {
      const bytes = await encode(output)
      request.holdAnswer(bytes.length)
      return bytes
    },
  }
  return runOperation(runner, name, codec, as)
}

/** A call as the operations know it. grpc-js calls every one cancelled in the end, those that were answered too. */
function callOf(call: OperationCall): { readonly call: Call; readonly answered: () => void } {
  const controller = new AbortController()
  const deadline = Number(call.getDeadline())
  const cancel = (): void => {
    controller.abort(
      Date.now() >= deadline
        ? new DatabaseError('deadline_exceeded', 'the deadline of the call has passed')
        : new DatabaseError('cancelled', 'the caller has gone'),
    )
  }
  call.on('cancelled', cancel)
  return {
    call: {
      fields: { queryVector: 'query_vector' },
      collection: call.metadata.get('collection')[0]?.toString(),
      idempotencyKey: call.metadata.get('idempotency-key')[0]?.toString(),
      signal: controller.signal,
      decoded: () => call.request.release(),
    },
    answered: () => call.off('cancelled', cancel),
  }
}

/** What grpc-js refuses of itself, with the code and the words of our settings. */
function inOurWords(outcome: OutgoingStatus, maxRequestBytes: number): OutgoingStatus {
  const { code, details = '' } = outcome
  if (code === status.RESOURCE_EXHAUSTED && /^Received message/.test(details ?? '')) {
    return { ...outcome, details: `the request is larger than ${maxRequestBytes} bytes (MAX_REQUEST_BYTES)` }
  }
  if (code === status.INTERNAL && details === 'Failed to decompress message') {
    return { ...outcome, code: status.INVALID_ARGUMENT, details: 'the compressed request is malformed' }
  }
  // grpc-js takes these for faults of the server.
  if (code === status.INTERNAL && /^Invalid grpc-timeout|^Error deserializing request/.test(details ?? '')) {
    return { ...outcome, code: status.INVALID_ARGUMENT }
  }
  return outcome
}

/**
 * Counts every call in the intake, bounds its body, refuses it without the key before its message is looked at, and
 * keeps the streams that only their client would end, health watches and reflection: a shutdown ends them.
 *
 * All in one: each interceptor is a layer that every event of every call goes through.
 */
function watchCalls(
  options: GrpcServerOptions,
  streams: Set<ServerInterceptingCallInterface>,
): ServerInterceptor {
  const reword = (outcome: OutgoingStatus): OutgoingStatus => inOurWords(outcome, options.maxRequestBytes)
  return ({ path, requestStream, responseStream }, call) => {
    options.intake.note()
    const isOpen = path.startsWith(healthPrefix)
    const body = boundBody(call, options, isOperation(path), reword)
    if (responseStream) streams.add(call)
    return new ServerInterceptingCall(call, {
      start(next) {
        // Whoever streams requests, as reflection lets, may take any time between two of them.
        if (!requestStream) body.expect()
        next({
          onReceiveMetadata(metadata, proceed) {
            const refused = isOpen ? undefined : refusal(metadata.get('authorization'), options.keys, path)
            if (refused === undefined) return proceed(metadata)
            options.refusedKeys.add('grpc', call.getPeer())
            call.sendStatus(refused)
          },
          onReceiveMessage(message: Buffer, proceed) {
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

/** Undefined for a call that brings a key which allows it. */
function refusal(values: readonly MetadataValue[], keys: Keyring, path: string): OutgoingStatus | undefined {
  const [value] = values
  const key = values.length === 1 && typeof value === 'string' ? keys.find(value) : undefined
  if (key !== undefined) return key.role === 'write' ? undefined : refusalByRole(key, path)
  const details =
    values.length === 0
      ? 'missing API key: send it as `authorization` metadata'
      : 'invalid API key in `authorization`'
  return { code: status.UNAUTHENTICATED, details }
}

/** What is no operation reads: it describes the service, or is not there. */
function refusalByRole(key: ApiKey, path: string): OutgoingStatus | undefined {
  const name = operationNames.find((each) => path === `/${serviceName}/${each}`)
  if (name === undefined || allows(key, operationRoles[name])) return undefined
  return statusOf(permissionDenied(key, name))
}

async function bind(server: Server, { host, port, intake }: GrpcServerOptions): Promise<Listener> {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  try {
    return await listen({ host, port }, (socket) => {
      intake.greet(socket)
      intake.add(socket)
      injector.injectConnection(socket)
    })
  } catch (error) {
    server.forceShutdown()
    throw new Error(`gRPC cannot listen on ${host} port ${port} (GRPC_PORT): ${(error as Error).message}`, {
      cause: error,
    })
  }
}

/** The server says that it ends as soon as it has told the connections; only the listener knows when they have. */
async function close(server: Server, listener: Listener, timeoutMs: number): Promise<void> {
  const ended = listener.close()
  server.tryShutdown(() => {})
  const timer = setTimeout(() => listener.destroyConnections(), timeoutMs)
  await ended
  clearTimeout(timer)
}
