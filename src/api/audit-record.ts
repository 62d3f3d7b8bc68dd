import type { Reason } from '../base/errors.ts'

/** A call that has ended. */
export interface AuditRecord<Time = Date> {
  readonly time: Time
  /** The name of the caller's key; absent if there was no valid one. */
  readonly key?: string | undefined
  /** `Unknown` for calls of no operation, `Lost` for lines that could not be stored. */
  readonly operation: string
  readonly collection?: string | undefined
  /** The key or the node that the call has named. */
  readonly target?: string | undefined
  /** False if the caller had no right to call. */
  readonly allowed: boolean
  /** Why the call failed. */
  readonly error?: Reason | undefined
  readonly transport?: 'grpc' | 'http' | undefined
  /** The caller's address. */
  readonly address?: string | undefined
  /** For further calls of the same second without a valid key, which have no records: how many there were. */
  readonly calls?: number | undefined
  /** How many records are missing here. */
  readonly lost?: number | undefined
}

export interface AuditPage<Time = Date> {
  /** The newest first. */
  readonly records: readonly AuditRecord<Time>[]
  /** Absent on the last page. Another page can have fewer records than the limit, or none. */
  readonly nextCursor?: string | undefined
}
