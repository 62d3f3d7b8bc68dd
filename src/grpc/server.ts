import { fileURLToPath } from 'node:url'
import {
  Metadata,
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServerUnaryCall,
  type ServiceDefinition,
  type StatusObject,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'
import { HealthImplementation } from 'grpc-health-check'
import type { ApiContext, Call } from '../api/call.ts'
import { pointNotFound } from '../api/get-point.ts'
import { type OperationName, operationNames } from '../api/operations.ts'
import { type OperationRunner, runOperation } from '../api/run-operation.ts'
import type { RunningServer } from '../api/server.ts'
import { createKeyCheck, type KeyCheck } from '../base/api-key.ts'
import { DatabaseError, reasons, toDatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { codecs } from './codec.ts'

export interface GrpcServerOptions {
  readonly context: ApiContext
  readonly apiKey: string
  readonly host: string
  readonly port: number
  readonly maxRequestBytes: number
  readonly metrics: ServiceMetrics
  readonly logger: Logger
}

export interface GrpcServer extends RunningServer {
  /** What the health service answers; not serving until told. */
  setServing(serving: boolean): void
}

const serviceName = 'vectordb.VectorDB'
const healthPrefix = '/grpc.health.v1.Health/'

/** proto/ stands beside src/ in a checkout and beside dist/ in the package. */
const protoPath = fileURLToPath(new URL('../../proto/vectordb.proto', import.meta.url))

/**
 * Serves the operations over gRPC, with reflection and the standard health service.
 *
 *   call ─> key ─> size ─> decode ─> operation ─> encode ─> answer
 *            │      │        │           └ the reason's code
 *            │      │        └ INVALID_ARGUMENT
 *            │      └ RESOURCE_EXHAUSTED
 *            └ UNAUTHENTICATED (health is open)
 *
 * @throws Error that names host, port and setting when it cannot listen
 */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  const server = new Server({
    'grpc.max_receive_message_length': options.maxRequestBytes,
    // The answer to a request that was let in is never refused for its size: MAX_LIMIT bounds it.
    'grpc.max_send_message_length': -1,
    'grpc.max_concurrent_streams': 1000,
    'grpc.enable_channelz': 0,
    interceptors: [guard(createKeyCheck(options.apiKey), options.maxRequestBytes)],
  })
  const runner: OperationRunner = { ...options, transport: 'grpc' }
  const health = new HealthImplementation({ '': 'NOT_SERVING', [serviceName]: 'NOT_SERVING' })
  server.addService(
    serviceDefinition(),
    Object.fromEntries(operationNames.map((name) => [name, handlerOf(runner, name)])),
  )
  new ReflectionService(loadSync(protoPath, { includeDirs: [], keepCase: true })).addToServer(server)
  health.addToServer(server)

  const port = await bind(server, options)
  return {
    host: options.host,
    port,
    setServing(serving) {
      for (const name of ['', serviceName]) health.setStatus(name, serving ? 'SERVING' : 'NOT_SERVING')
    },
    close: (timeoutMs) => close(server, timeoutMs),
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
): (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>) => void {
  return (call, callback) => {
    answer(runner, name, call).then(
      (bytes) => callback(null, bytes),
      (error: unknown) => callback(statusOf(toDatabaseError(error)), null),
    )
  }
}

async function answer<Name extends OperationName>(
  runner: OperationRunner,
  name: Name,
  call: ServerUnaryCall<Buffer, Buffer>,
): Promise<Buffer> {
  const { decode, encode } = codecs[name]
  const output = await runOperation(runner, name, decode(call.request), callOf(call))
  // gRPC tells a missing point from a deleted one; HTTP's DELETE is idempotent.
  if (name === 'DeletePoint' && output === false) throw new DatabaseError('not_found', pointNotFound)
  return encode(output)
}

function callOf(call: ServerUnaryCall<Buffer, Buffer>): Call {
  const controller = new AbortController()
  const deadline = Number(call.getDeadline())
  call.on('cancelled', () => {
    controller.abort(
      Date.now() >= deadline
        ? new DatabaseError('deadline_exceeded', 'the deadline of the call has passed')
        : new DatabaseError('cancelled', 'the caller has gone'),
    )
  })
  return { fields: { queryVector: 'query_vector' }, signal: controller.signal }
}

function statusOf(error: DatabaseError): Partial<StatusObject> {
  const metadata = new Metadata()
  if (error.reason === 'overloaded') metadata.set('retry-after-ms', '1000')
  return { code: reasons[error.reason].grpc, details: error.message, metadata }
}

type OutgoingStatus = Parameters<ServerInterceptingCall['sendStatus']>[0]

/**
 * Refuses calls without the key before their message is looked at, and gives the refusal of an oversized
 * message the words of our settings: grpc-js sends that one itself, past the other interceptors.
 */
function guard(isKey: KeyCheck, maxRequestBytes: number): ServerInterceptor {
  return (method, call) => {
    const send = call.sendStatus.bind(call)
    call.sendStatus = (outcome) => send(inOurWords(outcome, maxRequestBytes))
    if (method.path.startsWith(healthPrefix)) return new ServerInterceptingCall(call)
    return new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, proceed) {
            const values = metadata.get('authorization')
            const [value] = values
            if (values.length === 1 && typeof value === 'string' && isKey(value)) proceed(metadata)
            else call.sendStatus(refusal(values.length))
          },
        })
      },
    })
  }
}

function refusal(values: number): OutgoingStatus {
  const details =
    values === 0
      ? 'missing API key: send it as `authorization` metadata'
      : 'invalid API key in `authorization`'
  return { code: status.UNAUTHENTICATED, details }
}

function inOurWords(outcome: OutgoingStatus, maxRequestBytes: number): OutgoingStatus {
  const isOversize =
    outcome.code === status.RESOURCE_EXHAUSTED && /^Received message/.test(outcome.details ?? '')
  if (!isOversize) return outcome
  return { ...outcome, details: `the request is larger than ${maxRequestBytes} bytes (MAX_REQUEST_BYTES)` }
}

async function bind(server: Server, { host, port }: GrpcServerOptions): Promise<number> {
  const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
  return new Promise((resolve, reject) => {
    server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound)
      else reject(new Error(`gRPC cannot listen on ${host} port ${port} (GRPC_PORT): ${error.message}`))
    })
  })
}

async function close(server: Server, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      server.forceShutdown()
      resolve()
    }, timeoutMs)
    server.tryShutdown(() => resolve())
  })
  clearTimeout(timer)
}
