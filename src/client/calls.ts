import { cancellation, DatabaseError, invalid, type Reason } from '../base/errors.ts'
import {
  type Consistency,
  consistencies,
  consistencyHeader,
  faultOfIdempotencyKey,
  positionHeader,
  positionOf,
} from '../base/request-headers.ts'
import { backoffMs, retried } from '../base/retry.ts'
import { booleanIn, fieldsOf, oneOf, optional, textIn, textsIn, wholeIn, wrongKind } from './values.ts'

/** What the calls of both transports have in common: options, bounds, retries, errors, and the session with a cluster. */

export interface CallOptions {
  /** How up to date a cluster's answer to a read must be; `session` by default. Has no effect elsewhere. */
  readonly consistency?: Consistency | undefined
  /** Cancels the call, which then fails with `cancelled`. */
  readonly signal?: AbortSignal | undefined
}

export interface InsertOptions extends CallOptions {
  /**
   * Makes the insert safe to repeat: a call with the key and the points of an earlier one stores nothing and returns
   * the earlier ids. Up to 255 characters of printable ASCII; use a new key for each insert. The service keeps keys for
   * a day.
   */
  readonly idempotencyKey?: string | undefined
}

/** Options for inserting any number of points. */
export interface BulkOptions extends CallOptions {
  /** The most points per request; 500 by default. Large points are sent in smaller requests, of about 8 MiB. */
  readonly batchSize?: number | undefined
  /** Maximum number of concurrent requests; 2 by default. */
  readonly concurrency?: number | undefined
}

/** What the transport knows about a call in addition to its request. */
export interface CallDetails extends InsertOptions {
  /** Whether the call is idempotent. */
  readonly isRepeatable?: boolean
}

/** Adds a random key to an insert whose caller gave none, so that the insert can be retried. */
export function withKey(options: InsertOptions | undefined): CallDetails {
  const { idempotencyKey = randomKey(), ...others } = optionsIn<InsertOptions>(options, ['idempotencyKey'])
  return { ...others, idempotencyKey, isRepeatable: true }
}

/** Marks a call as idempotent. */
export function repeatable(options: CallOptions | undefined): CallDetails {
  return { ...optionsIn(options), isRepeatable: true }
}

/**
 * Reads the options of a call.
 *
 * @param more the names of the options that the call has in addition to those of every call
 * @throws DatabaseError `invalid_argument` for other options
 */
export function optionsIn<Options extends CallOptions = CallOptions>(
  options: Options | undefined,
  more: readonly (keyof Options & string)[] = [],
): Options {
  const names: readonly string[] = [...callFields, ...more]
  const fields: Readonly<Record<string, unknown>> = fieldsOf(options ?? {}, names, 'the options')
  // A header would be made of any text, and a misspelt consistency has no effect outside a cluster.
  optional(oneOf(consistencies))(fields.consistency, 'consistency')
  optional(signalIn)(fields.signal, 'signal')
  optional(booleanIn)(fields.version, 'version')
  return fields as unknown as Options
}

/** The signal of another realm or of a library is one, too. */
function signalIn(value: unknown, at: string): void {
  const { aborted, addEventListener } = (value ?? {}) as Partial<AbortSignal>
  if (typeof aborted !== 'boolean' || typeof addEventListener !== 'function') {
    throw wrongKind(value, at, 'an AbortSignal')
  }
}

const callFields = ['consistency', 'signal'] as const

/** Returns a random key. `crypto.randomUUID` does not exist in a page loaded over plain HTTP. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** @throws DatabaseError `invalid_argument` for a key that no transport can carry */
function keyHeader({ idempotencyKey }: InsertOptions): Readonly<Record<string, string>> {
  if (idempotencyKey === undefined) return {}
  const fault = faultOfIdempotencyKey(textIn(idempotencyKey, 'idempotencyKey'))
  if (fault !== undefined) throw invalid(`idempotencyKey ${fault}`)
  return { 'idempotency-key': idempotencyKey }
}

/** The bounds of each call of a client; the same for both transports. */
export interface CallBounds {
  /** How often a call is retried after the service was busy, starting or unreachable: 4 by default, 0 for never. */
  readonly retries?: number | undefined
  /** How long to wait for an answer, in each attempt: two minutes by default. */
  readonly timeoutMs?: number | undefined
  /** Larger requests are refused before they are sent: 64 MiB by default, like MAX_REQUEST_BYTES of the service. */
  readonly maxRequestBytes?: number | undefined
}

type Bounds = Readonly<Record<keyof CallBounds, number>>

/** The bounds with their defaults. @throws DatabaseError `invalid_argument` */
export function boundsIn(bounds: CallBounds): Bounds {
  // A timer with a longer time would fire at once.
  const timeoutMs = optional((value, at) => wholeIn(value, at, 1, 2 ** 31 - 1))(bounds.timeoutMs, 'timeoutMs')
  return {
    retries: optional(wholeIn)(bounds.retries, 'retries') ?? 4,
    timeoutMs: timeoutMs ?? 120_000,
    maxRequestBytes: optional(wholeIn)(bounds.maxRequestBytes, 'maxRequestBytes') ?? 64 * 1024 * 1024,
  }
}

/** @param where the address of the service */
export function noAnswerInTime(where: string, timeoutMs: number, cause: unknown): ServiceError {
  const message = `${where} has not answered within ${timeoutMs} ms (timeoutMs)`
  return new ServiceError('deadline_exceeded', message, { cause, isUncertain: true })
}

export function tooLarge(maxRequestBytes: number): DatabaseError {
  return new DatabaseError(
    'request_too_large',
    `the request takes more than ${maxRequestBytes} bytes (maxRequestBytes of the client, MAX_REQUEST_BYTES of the service): send it in parts; insertAll does so`,
  )
}

/** The nodes that a client may call. It stays with one of them until that one fails. */
export class Nodes<Node> {
  readonly all: readonly Node[]
  #at = 0

  constructor(all: readonly Node[]) {
    this.all = all
  }

  get current(): Node {
    return this.all[this.#at]!
  }

  /** Moves to the next node, unless another call has already left this one. */
  leave(node: Node): void {
    if (node === this.current) this.#at = (this.#at + 1) % this.all.length
  }
}

/** The addresses of a service: one, or those of the nodes of a cluster. @throws DatabaseError `invalid_argument` */
export function addressesIn(addresses: string | readonly string[], at: string): readonly string[] {
  const all = typeof addresses === 'string' ? [addresses] : textsIn(addresses, at)
  if (all.length === 0) throw invalid(`${at} must have at least one address`)
  // An error of fetch would show the password.
  if (all.some((each) => /^(\w+:\/\/)?[^/?#]*@/.test(each)))
    throw invalid(`${at} must have no user or password`)
  return all
}

/** A file of a key ends with a line break. The errors of grpc-js and fetch would show the key. */
export function apiKeyIn(value: unknown): string {
  const key = textIn(value, 'apiKey').trim()
  if (/^[\x20-\x7e]*$/.test(key)) return key
  throw invalid('apiKey has characters other than printable ASCII')
}

/**
 * Makes a call: refuses it if it is too large, and repeats it until it succeeds, fails permanently, or has no retries
 * left. After a failure, the next node is asked, and at once if it was not asked yet.
 *
 * @param attempt receives the node, and the headers or metadata of the request that depend on the options
 */
export async function makeCall<Result, Node>(
  { retries, maxRequestBytes }: Bounds,
  session: Session,
  nodes: Nodes<Node>,
  details: CallDetails,
  requestBytes: number,
  attempt: (node: Node, headers: Readonly<Record<string, string>>) => Promise<Result>,
): Promise<Result> {
  const { signal, consistency } = details
  const key = keyHeader(details)
  if (requestBytes > maxRequestBytes) throw tooLarge(maxRequestBytes)
  const send = async (): Promise<Result> => {
    if (signal?.aborted) throw cancellation(signal)
    const node = nodes.current
    try {
      return await attempt(node, { ...session.headers(consistency), ...key })
    } catch (error) {
      if (isFaultOfNode(error)) nodes.leave(node)
      throw error
    }
  }
  const pauseOf = (error: unknown, tries: number): number | undefined => {
    if (tries >= retries || !mayBeRetried(error, details)) return undefined
    if (tries < nodes.all.length - 1 && isFaultOfNode(error)) return 0
    const { retryAfterMs = 0 } = error
    // Never shorter than the service asks; but the caller learns at once of a proxy's maintenance that takes an hour.
    return retryAfterMs > retryAfterMaxMs
      ? undefined
      : Math.max(retryAfterMs, backoffMs(tries, firstWaitMs, waitMaxMs))
  }
  return await retried(send, pauseOf, signal)
}

/** Whether another node may do better. */
function isFaultOfNode(error: unknown): boolean {
  return error instanceof ServiceError && nodeReasons.has(error.reason)
}

const nodeReasons = new Set<Reason>(['overloaded', 'not_ready', 'shutting_down', 'deadline_exceeded'])

/** A call that is not idempotent is retried only if the service refused it. */
function mayBeRetried(error: unknown, { isRepeatable = false }: CallDetails): error is ServiceError {
  return (
    error instanceof ServiceError && passingReasons.has(error.reason) && (isRepeatable || !error.isUncertain)
  )
}

/** Reasons for failures that are temporary. */
export const passingReasons: ReadonlySet<Reason> = new Set([
  ...(['overloaded', 'not_ready', 'shutting_down', 'embeddings_unavailable'] as const),
])

const firstWaitMs = 100
const waitMaxMs = 10_000
/** The same in the Python client. */
const retryAfterMaxMs = 60_000

/** A failed call: the service refused it, or did not answer. */
export class ServiceError extends DatabaseError {
  /** How long the service asks the client to wait before a retry. */
  readonly retryAfterMs: number | undefined
  /** Whether the service may have executed the request although no answer arrived. */
  readonly isUncertain: boolean

  constructor(
    reason: Reason,
    message: string,
    options: {
      readonly cause?: unknown
      readonly retryAfterMs?: number | undefined
      readonly isUncertain?: boolean | undefined
    } = {},
  ) {
    super(reason, message, { cause: options.cause })
    this.retryAfterMs = options.retryAfterMs
    this.isUncertain = options.isUncertain ?? false
  }
}

/**
 * A client's session with a cluster. Each request carries the highest position of all earlier answers, so that the node
 * that answers is at least as up to date. Outside a cluster, answers have no position, and requests carry none.
 */
export class Session {
  #position: number | undefined

  /** The headers or metadata of a request. */
  headers(consistency: Consistency | undefined): Readonly<Record<string, string>> {
    return {
      ...(consistency === undefined ? {} : { [consistencyHeader]: consistency }),
      ...(this.#position === undefined ? {} : { [positionHeader]: String(this.#position) }),
    }
  }

  /** @param position of an answer */
  note(position: string | null | undefined): void {
    const number = positionOf(position ?? '')
    if (number !== undefined) this.#position = Math.max(this.#position ?? 0, number)
  }
}

/**
 * Describes a TLS failure and its remedy; returns undefined for any other failure.
 *
 * @param where the address that was called
 * @param text the message of OpenSSL or Node, which is all that gRPC passes on
 */
export function tlsFault(where: string, text: string): string | undefined {
  const remedy = remedies.find(([pattern]) => pattern.test(`${where} ${text}`))?.[1]
  return remedy && `${remedy(where)} (${text.split('; if the root CA')[0]})`
}

const remedies: readonly (readonly [RegExp, (where: string) => string])[] = [
  [
    /self[- ]signed certificate|unable to (verify|get)|certificate not trusted/i,
    (where) =>
      `the certificate of ${where} is not trusted: name the file of its authority's certificate with --ca-file, or in NODE_EXTRA_CA_CERTS`,
  ],
  [
    /certificate has expired|not yet valid/i,
    (where) => `the certificate of ${where} is not valid at this time: renew it, or set the clock`,
  ],
  [/altnames/i, (where) => `the certificate of ${where} is for other names: call the service by one of them`],
  [
    /wrong version number|packet length too long/i,
    (where) => `${where} does not speak TLS: is it the address of the service itself, and not of its proxy?`,
  ],
  [
    /^http:.* other side closed$|^(?!http).* Failed to connect$/,
    (where) =>
      `the connection to ${where} was closed without an answer; if the service speaks TLS, ${where.startsWith('http') ? 'its address begins with https:' : 'use --tls or --ca-file, in programs tls'}`,
  ],
]
