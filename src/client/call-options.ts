import { type Consistency, consistencies } from '../base/consistency.ts'
import { DatabaseError } from '../base/errors.ts'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'
import { fieldsOf, flagIn, oneOf, optional, textIn, wrongKind } from './field-readers.ts'

export interface CallOptions {
  /** How up to date a cluster's answer to a read must be; `session` by default. Has no effect elsewhere. */
  readonly consistency?: Consistency
  /** Cancels the call, which then fails with `cancelled`. */
  readonly signal?: AbortSignal
}

export interface InsertOptions extends CallOptions {
  /**
   * Makes the insert safe to repeat: a call with the key and the points of an earlier one stores nothing and returns
   * the earlier ids. Up to 255 characters of printable ASCII; use a new key for each insert. The service keeps keys for
   * a day.
   */
  readonly idempotencyKey?: string
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
  optional(fields.consistency, (value, at) => oneOf(value, consistencies, at), 'consistency')
  optional(fields.signal, signalIn, 'signal')
  optional(fields.version, flagIn, 'version')
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

/** The key of a call's options. @throws DatabaseError `invalid_argument` for a key that no transport can carry */
export function idempotencyKeyOf({ idempotencyKey }: InsertOptions = {}): string | undefined {
  if (idempotencyKey === undefined) return undefined
  const fault = faultOfIdempotencyKey(textIn(idempotencyKey, 'idempotencyKey'))
  if (fault !== undefined) throw new DatabaseError('invalid_argument', `idempotencyKey ${fault}`)
  return idempotencyKey
}
