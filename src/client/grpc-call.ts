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
import { cancellation, DatabaseError, type Reason, reasons } from '../base/errors.ts'
import { partialHeader } from '../base/partial-reads.ts'
import { type CallDetails, idempotencyKeyOf, notePartial, partialHeaders } from './call-options.ts'
import { reasonOfMissing } from './collections.ts'
import { refuseHalfSurrogates } from './half-surrogates.ts'
import { type RetryOptions, withRetries } from './retries.ts'
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
export interface GrpcCallOptions extends RetryOptions {
  readonly address: string
  readonly apiKey: string
  /** The collection of the calls. */
  readonly collection?: string | undefined
  readonly timeoutMs?: number
}

export function grpcCaller(
  client: Client,
  session: Session,
  { address, apiKey, collection, timeoutMs, retries }: GrpcCallOptions,
): GrpcCaller {
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
      ...partialHeaders(details),
    })
    const bytes = encoded(method, request)
    const { message, partial } = await withRetries({ retries }, { signal, isRepeatable }, () =>
      attempt(method, bytes, metadata, signal),
    )
    notePartial(details, partial())
    return message
  }

  function attempt<Method extends DescMethodUnary>(
    method: Method,
    bytes: Buffer,
    metadata: Metadata,
    signal: AbortSignal | undefined,
  ): Promise<Answered<MessageShape<Method['output']>>> {
    if (signal?.aborted) throw cancellation(signal)
    return new Promise<Answered<MessageShape<Method['output']>>>((resolve, reject) => {
      let partial: string | undefined
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
          else resolve({ message: answer as MessageShape<Method['output']>, partial: () => partial })
        },
      )
      running.on('status', ({ metadata: trailer }) => {
        session.note(trailer.get(positionHeader)[0]?.toString())
        partial = trailer.get(partialHeader)[0]?.toString()
      })
      const cancel = (): void => running.cancel()
      signal?.addEventListener('abort', cancel, { once: true })
    })
  }
}

interface Answered<Message> {
  readonly message: Message
  /**
   * Returns the trailer's value about missing partitions; a function, because the trailer arrives after the message.
   */
  readonly partial: () => string | undefined
}

function withMore(common: Metadata, more: Readonly<Record<string, string | undefined>>): Metadata {
  const given = Object.entries(more).filter(([, value]) => value !== undefined)
  if (given.length === 0) return common
  const metadata = common.clone()
  for (const [name, value] of given) metadata.set(name, value!)
  return metadata
}

/**
 * Encodes a request. Refuses values that cannot be encoded, such as a number beyond float32, a fractional limit or half
 * of a surrogate pair.
 */
function encoded<Method extends DescMethodUnary>(
  method: Method,
  request: MessageInitShape<Method['input']>,
): Buffer {
  refuseHalfSurrogates(request, '')
  try {
    return Buffer.from(toBinary(method.input, create(method.input, request)))
  } catch (error) {
    throw new DatabaseError('invalid_argument', (error as Error).message, { cause: error })
  }
}

/**
 * Converts an error. Several reasons share a status code; the first one in the table stands for all of them, with two
 * exceptions. `retry-after-ms` marks an overload, and the text distinguishes a missing point from a missing collection.
 */
function errorOf(error: GrpcError, address: string): ServiceError {
  const [asked] = error.metadata?.get('retry-after-ms') ?? []
  return new ServiceError(reasonOf(error), messageOf(error, address), {
    cause: error,
    retryAfterMs: asked === undefined ? undefined : Number(asked),
    isUncertain: error.code === status.UNAVAILABLE && asked === undefined,
  })
}

function reasonOf({ code, details, metadata }: GrpcError): Reason {
  if (metadata?.get('retry-after-ms').length > 0) return 'overloaded'
  if (code === status.NOT_FOUND) return reasonOfMissing(details)
  return reasonOfCode(code)
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
