import { DatabaseError } from '../base/errors.ts'
import { faultOfIdempotencyKey } from '../base/idempotency-key.ts'

export interface CallOptions {
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

/** The key of a call's options. @throws DatabaseError `invalid_argument` for one that no transport can carry */
export function idempotencyKeyOf({ idempotencyKey }: InsertOptions = {}): string | undefined {
  const fault = idempotencyKey === undefined ? undefined : faultOfIdempotencyKey(idempotencyKey)
  if (fault !== undefined) throw new DatabaseError('invalid_argument', `idempotencyKey ${fault}`)
  return idempotencyKey
}
