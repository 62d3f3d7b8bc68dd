import type { Reason } from '../base/errors.ts'
import type { Quotas } from '../base/quotas.ts'
import type { CallOptions } from './calls.ts'
import type { DateValue, Filter } from './values.ts'

/** What admins ask about the callers of a service. */

/** Which records of the audit to return; absent fields select everything. */
export interface AuditQuery {
  /** From this time on. */
  readonly since?: DateValue | undefined
  /** Before this time. */
  readonly until?: DateValue | undefined
  /** The name of the callers' key. */
  readonly key?: string | undefined
  /** As in the protobuf service, like `PutPoint`. */
  readonly operation?: string | undefined
  readonly collection?: string | undefined
  /** False for calls that the caller had no right to. */
  readonly allowed?: boolean | undefined
  /** 1 to 1000; by default 100. */
  readonly limit?: number | undefined
  /** The `nextCursor` of the page before. */
  readonly cursor?: string | undefined
}

/** A call that has ended. */
export interface AuditRecord {
  readonly time: Date
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

export interface AuditPage {
  /** The newest first. */
  readonly records: readonly AuditRecord[]
  /** Absent on the last page. Another page can have fewer records than the limit, or none. */
  readonly nextCursor?: string | undefined
}

/** What a key may do; absent fields restrict nothing. */
export interface KeyInfo {
  /** 1 to 64 letters, digits and _.- */
  readonly name: string
  readonly role: 'read' | 'write' | 'admin'
  /** Names of collections, or beginnings followed by `*`. */
  readonly collections?: readonly string[] | undefined
  /** Only points that match exist for the key. It can only test attributes. */
  readonly filter?: Filter | undefined
  readonly expiresAt?: DateValue | undefined
  readonly quotas?: KeyQuotas | undefined
}

/** Points are those that match the filter. */
export type KeyQuotas = Omit<Quotas, 'bytes'>

export interface CreatedKey extends KeyInfo {
  /** What callers send. Nobody can find it out later. */
  readonly key: string
}

/** The keys of the file that API_KEYS_FILE names, on the node that answers. */
export interface KeysClient {
  /** Stores a new key, which can be used at once. Fails with `already_exists`. By default, it may read. */
  create(key: Partial<KeyInfo> & Pick<KeyInfo, 'name'>, options?: CallOptions): Promise<CreatedKey>
  list(options?: CallOptions): Promise<readonly KeyInfo[]>
  /** Removes a key: calls with it are refused at once. Fails with `not_found`. */
  revoke(name: string, options?: CallOptions): Promise<void>
}

/** What only a key with the role admin may do. */
export interface AccessClient {
  /** Lists what callers have done, from the audit of the node that answers. */
  audit(query?: AuditQuery, options?: CallOptions): Promise<AuditPage>
  readonly keys: KeysClient
}
