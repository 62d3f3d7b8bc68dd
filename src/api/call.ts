import { DatabaseError } from '../base/errors.ts'
import type { Collections, Lease } from '../engine/collections.ts'
import type { Database, Snapshot } from '../engine/database.ts'

export type { Collections, Database, Lease, Snapshot }

/** The limits and defaults of operations, from the settings of the same names. */
export interface Limits {
  readonly maxLimit: number
  readonly hnswEf: number
}

/** What an operation runs against. */
export interface ApiContext {
  /** The collection that the call names, or the default one. */
  readonly database: Database
  readonly collections: Collections
  readonly limits: Limits
}

/**
 * What a transport knows about one call. `fields` gives the transport's own names for fields that the two
 * spell differently, so that a message names what the caller sent.
 */
export interface Call {
  readonly fields: { readonly queryVector: 'query_vector' | 'vector' }
  /** Name or alias of the collection that the call is about; absent for the default one. */
  readonly collection?: string | undefined
  /** What came as `idempotency-key`, header or metadata. */
  readonly idempotencyKey?: string | undefined
  /** Aborts when the caller has gone or its deadline has passed. */
  readonly signal?: AbortSignal
  /**
   * Called when the request's bytes are no longer needed and the values decoded from them are counted
   * elsewhere, as points are while they wait for the disk. Otherwise the bytes count until the answer.
   */
  readonly decoded?: () => void
}

/** An error in what the caller sent: the message names the field, the value and the limit. */
export function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}
