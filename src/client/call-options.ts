import type { Consistency } from '../base/consistency.ts'
import { DatabaseError } from '../base/errors.ts'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'
import { allowanceText, type Missing, missingOf, partialHeader } from '../base/partial-reads.ts'

export interface CallOptions {
  /** For reads from a cluster: how new the answer has to be; `session` when not given. Anywhere else it has no effect. */
  readonly consistency?: Consistency
  /**
   * For searches, lists, counts and facets from a cluster whose nodes have a part of the points each: allows an answer without
   * the points of which no node answers. Called before such an answer, with how many of the partitions are missing; for a list,
   * once for each page. Without it such a read fails with `not_ready`. Lists and gets of collections never do: where it is
   * called, the points of these partitions are not counted. Anywhere else it has no effect.
   */
  readonly onPartial?: (missing: Missing) => void
  /** With `onPartial`: nodes that have not answered after so many milliseconds are left out. */
  readonly partialAfterMs?: number
  /** Gives the call up; it then fails with `cancelled`. */
  readonly signal?: AbortSignal
}

export interface InsertOptions extends CallOptions {
  /**
   * Makes repeating safe: a call with the key and the points of one that was stored gets that one's ids, and stores
   * nothing. Up to 255 characters of printable ASCII, a new one for each insert; the service keeps it for a day.
   */
  readonly idempotencyKey?: string
}

/** How any number of points is inserted. */
export interface BulkOptions extends CallOptions {
  /** Points a request; 500 when not given. */
  readonly batchSize?: number | undefined
  /** Requests under way at once; 2 when not given. */
  readonly concurrency?: number | undefined
}

/** What a call is to the transport, besides its request. */
export interface CallDetails extends InsertOptions {
  /** Whether doing it twice does the same as doing it once. */
  readonly isRepeatable?: boolean
}

/** A key for an insert whose caller gave none, so that it can be repeated. */
export function withKey(options: InsertOptions | undefined): CallDetails {
  const idempotencyKey = options?.idempotencyKey ?? randomKey()
  return { ...options, idempotencyKey, isRepeatable: true }
}

/** For a call that changes nothing, or the same however often it is made. */
export function repeatable(options: CallOptions | undefined): CallDetails {
  return { ...options, isRepeatable: true }
}

/**
 * What a request says of partial answers, as headers or metadata.
 *
 * @throws DatabaseError `invalid_argument`
 */
export function partialHeaders({
  onPartial,
  partialAfterMs: waitMs,
}: CallOptions = {}): Readonly<Record<string, string>> {
  if (waitMs !== undefined && (!Number.isSafeInteger(waitMs) || waitMs < 1 || waitMs > waitMsMax)) {
    throw new DatabaseError('invalid_argument', `partialAfterMs must be 1 to ${waitMsMax}, not ${waitMs}`)
  }
  if (onPartial !== undefined) return { [partialHeader]: allowanceText({ waitMs }) }
  if (waitMs === undefined) return {}
  throw new DatabaseError('invalid_argument', 'partialAfterMs needs onPartial')
}

/** @param text of an answer's header */
export function notePartial({ onPartial }: CallOptions = {}, text: string | null | undefined): void {
  const missing = missingOf(text ?? '')
  if (missing !== undefined) onPartial?.(missing)
}

const waitMsMax = 999_999_999

/** Not `crypto.randomUUID`: a page that came over plain HTTP has none. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** The key of a call's options. @throws DatabaseError `invalid_argument` for one that no transport can carry */
export function idempotencyKeyOf({ idempotencyKey }: InsertOptions = {}): string | undefined {
  const fault = idempotencyKey === undefined ? undefined : faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw new DatabaseError('invalid_argument', `idempotencyKey ${fault}`)
  return idempotencyKey
}
