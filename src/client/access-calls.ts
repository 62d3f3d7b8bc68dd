import { shownText } from '../base/attribute-checks.ts'
import type { DateTime } from '../base/attributes.ts'
import { invalid } from '../base/errors.ts'
import type { AccessClient, AuditPage, AuditQuery, CreatedKey, KeyInfo, KeysClient } from './access.ts'
import { type CallDetails, optionsIn, repeatable } from './calls.ts'
import { dateIn, filterIn } from './input.ts'
import { booleanIn, fieldsOf, oneOf, optional, textIn, textsIn, wholeIn } from './values.ts'

/** These operations as a transport performs them. */
export interface AccessCalls {
  audit(query: CheckedAuditQuery, details: CallDetails): Promise<AuditPage>
  createKey(key: CheckedKey, details: CallDetails): Promise<CreatedKey>
  listKeys(details: CallDetails): Promise<readonly KeyInfo[]>
  revokeKey(name: string, details: CallDetails): Promise<void>
}

export interface CheckedKey extends KeyInfo {
  readonly expiresAt?: DateTime | undefined
}

export interface CheckedAuditQuery extends AuditQuery {
  readonly since?: DateTime | undefined
  readonly until?: DateTime | undefined
}

/** A client of these operations over any transport. */
export function accessOver(calls: AccessCalls): AccessClient {
  return {
    audit: async (query, options) => calls.audit(auditQueryIn(query), repeatable(options)),
    keys: {
      create: async (key, options) => calls.createKey(keyIn(key), optionsIn(options)),
      list: async (options) => calls.listKeys(repeatable(options)),
      revoke: async (name, options) => calls.revokeKey(keyNameIn(name, 'name'), optionsIn(options)),
    },
  }
}

const auditFields = [
  ...(['since', 'until', 'key', 'operation', 'collection', 'allowed', 'limit', 'cursor'] as const),
]

function auditQueryIn(query: AuditQuery = {}): CheckedAuditQuery {
  const fields = fieldsOf(query, auditFields, 'the query')
  return {
    since: optional(fields.since, dateIn, 'since'),
    until: optional(fields.until, dateIn, 'until'),
    key: optional(fields.key, textIn, 'key'),
    operation: optional(fields.operation, textIn, 'operation'),
    collection: optional(fields.collection, textIn, 'collection'),
    allowed: optional(fields.allowed, booleanIn, 'allowed'),
    limit: optional(fields.limit, (value, at) => wholeIn(value, at, 1, 1000), 'limit'),
    cursor: optional(fields.cursor, textIn, 'cursor'),
  }
}

const roles: readonly KeyInfo['role'][] = ['read', 'write', 'admin']
const keyFields = ['name', 'role', 'collections', 'filter', 'expiresAt', 'quotas'] as const
const quotaFields = ['points', 'requestsPerSecond', 'searchesInFlight'] as const

function keyIn(key: Parameters<KeysClient['create']>[0]): CheckedKey {
  const fields = fieldsOf(key, keyFields, 'the key')
  return {
    name: keyNameIn(fields.name, 'name'),
    role: optional(fields.role, (value, at) => oneOf(value, roles, at), 'role') ?? 'read',
    collections: optional(fields.collections, collectionsIn, 'collections'),
    filter: optional(fields.filter, filterIn, 'filter'),
    expiresAt: optional(fields.expiresAt, dateIn, 'expiresAt'),
    quotas: optional(fields.quotas, quotasIn, 'quotas'),
  }
}

/** Over gRPC, an empty list would be an absent one, and the key for all collections. */
function collectionsIn(value: unknown, at: string): readonly string[] {
  const names = textsIn(value, at)
  if (names.length > 0) return names
  throw invalid(`${at} is empty: it must have a name, or be absent for all collections`)
}

function quotasIn(value: unknown, at: string): KeyInfo['quotas'] {
  const { points, requestsPerSecond, searchesInFlight } = fieldsOf(value, quotaFields, at)
  return {
    points: optional(
      points,
      (most, place) => wholeIn(most, place, 1, Number.MAX_SAFE_INTEGER),
      `${at}.points`,
    ),
    requestsPerSecond: optional(requestsPerSecond, wholeIn, `${at}.requestsPerSecond`),
    searchesInFlight: optional(searchesInFlight, wholeIn, `${at}.searchesInFlight`),
  }
}

/** In a path, `..` would lead to another route. */
function keyNameIn(value: unknown, at: string): string {
  const name = textIn(value, at)
  if (/^(?!\.+$)[\w.-]{1,64}$/.test(name)) return name
  throw invalid(`${at} is ${shownText(name)}: it must be 1 to 64 letters, digits and _.-`)
}
