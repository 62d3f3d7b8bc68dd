import {
  create,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { type Client, type ServiceError as GrpcError, Metadata, status } from '@grpc/grpc-js'
import { positionHeader } from '../base/consistency.ts'
import { cancellation, DatabaseError, type Reason, reasonHeader, reasonIn, reasons } from '../base/errors.ts'
import { boundsIn, type CallBounds, noAnswerInTime, tooLarge } from './call-bounds.ts'
import { type CallDetails, idempotencyKeyOf } from './call-options.ts'
import { withRetries } from './retries.ts'
import { ServiceError } from './service-error.ts'
import type { Session } from './session.ts'
import { tlsFault } from './tls-fault.ts'

/** Calls a method of the service. */
export type GrpcCaller = <Method extends DescMethodUnary>(
  method: Method,
  request: MessageInitShape<Method['input']>,
  details?: GrpcDetails,
) => Promise<MessageShape<Method['output']>>

/** The options of a call; each applies only to the methods that have it. */
interface GrpcDetails extends CallDetails {
  /** Whether the answer has the point's version. */
  readonly version?: boolean | undefined
}

/** What the calls of one client have in common. */
interface GrpcCallOptions extends CallBounds {
  readonly address: string
  readonly apiKey: string
  /** The collection of the calls. */
  readonly collection?: string | undefined
}

export function grpcCaller(
  client: Client,
  session: Session,
  { address, apiKey, collection, ...bounds }: GrpcCallOptions,
): GrpcCaller {
  const { retries, timeoutMs, maxRequestBytes } = boundsIn(bounds)
  const common = new Metadata()
  common.set('authorization', apiKey)
  if (collection !== undefined) common.set('collection', collection)
  return async <Method extends DescMethodUnary>(
    method: Method,
    request: MessageInitShape<Method['input']>,
    details?: GrpcDetails,
  ) => {
    const { signal, isRepeatable = false, version = false, consistency } = details ?? {}
    const metadata = withMore(common, {
      'idempotency-key': idempotencyKeyOf(details),
      version: version ? 'true' : undefined,
      ...session.headers(consistency),
    })
    const bytes = encoded(method, request)
    if (bytes.length > maxRequestBytes) throw tooLarge(maxRequestBytes)
    return await withRetries(retries, { signal, isRepeatable }, () =>
      attempt(method, bytes, metadata, signal),
    )
  }

  function attempt<Method extends DescMethodUnary>(
    method: Method,
    bytes: Buffer,
    metadata: Metadata,
    signal: AbortSignal | undefined,
  ): Promise<MessageShape<Method['output']>> {
    if (signal?.aborted) throw cancellation(signal)
    return new Promise<MessageShape<Method['output']>>((resolve, reject) => {
      const running = client.makeUnaryRequest(
        `/${method.parent.typeName}/${method.name}`,
        (message: Buffer) => message,
        (answer: Buffer) => fromBinary(method.output, answer) as MessageShape<Method['output']>,
        bytes,
        metadata,
        { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          signal?.removeEventListener('abort', cancel)
          if (error) reject(errorOf(error, address, timeoutMs))
          else resolve(answer as MessageShape<Method['output']>)
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

function withMore(common: Metadata, more: Readonly<Record<string, string | undefined>>): Metadata {
  const given = Object.entries(more).filter(([, value]) => value !== undefined)
  if (given.length === 0) return common
  const metadata = common.clone()
  for (const [name, value] of given) metadata.set(name, value!)
  return metadata
}

/** Encodes a request. Refuses values that cannot be encoded, such as a whole number beyond 32 bits. */
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

/** Converts an error. A status without a reason is not from the service; then the code has to do. */
function errorOf(error: GrpcError, address: string, timeoutMs: number): ServiceError {
  const { code, metadata } = error
  const [asked] = metadata?.get('retry-after-ms') ?? []
  const named = reasonIn(metadata?.get(reasonHeader)[0]?.toString())
  if (code === status.DEADLINE_EXCEEDED && named === undefined)
    return noAnswerInTime(address, timeoutMs, error)
  return new ServiceError(named ?? reasonOfCode(code), messageOf(error, address), {
    cause: error,
    retryAfterMs: asked === undefined ? undefined : Number(asked),
    isUncertain: code === status.UNAVAILABLE && asked === undefined,
  })
}

/** The first reason with a gRPC status. */
export function reasonOfCode(code: number): Reason {
  const found = Object.entries(reasons).find(([, { grpc }]) => grpc === code)
  return (found?.[0] ?? 'internal') as Reason
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
