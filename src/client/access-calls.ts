import { type DateTime, shownText } from '../base/attributes.ts'
import { invalid } from '../base/errors.ts'
import type {
  AccessClient,
  AuditPage,
  AuditQuery,
  CreatedKey,
  KeyInfo,
  KeyQuotas,
  KeysClient,
} from './access.ts'
import { type CallDetails, optionsIn, repeatable } from './calls.ts'
import { dateIn, filterIn, keyQuotaFields } from './input.ts'
import { booleanIn, objectIn, oneOf, optional, textIn, textsIn, wholeIn } from './values.ts'

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

const auditFields = {
  since: optional(dateIn),
  until: optional(dateIn),
  key: optional(textIn),
  operation: optional(textIn),
  collection: optional(textIn),
  allowed: optional(booleanIn),
  limit: optional((value, at) => wholeIn(value, at, 1, 1000)),
  cursor: optional(textIn),
}

function auditQueryIn(query: AuditQuery = {}): CheckedAuditQuery {
  return objectIn<CheckedAuditQuery>(query, auditFields, 'the query', '')
}

const roles: readonly KeyInfo['role'][] = ['read', 'write', 'admin']

const keyFields = {
  name: keyNameIn,
  role: (value: unknown, at: string) => optional(oneOf(roles))(value, at) ?? 'read',
  collections: optional(collectionsIn),
  filter: optional(filterIn),
  expiresAt: optional(dateIn),
  quotas: optional((value, at) => objectIn<KeyQuotas>(value, keyQuotaFields, at)),
}

function keyIn(key: Parameters<KeysClient['create']>[0]): CheckedKey {
  return objectIn<CheckedKey>(key, keyFields, 'the key', '')
}

/** Over gRPC, an empty list would be an absent one, and the key for all collections. */
function collectionsIn(value: unknown, at: string): readonly string[] {
  const names = textsIn(value, at)
  if (names.length > 0) return names
  throw invalid(`${at} is empty: it must have a name, or be absent for all collections`)
}

/** In a path, `..` would lead to another route. */
function keyNameIn(value: unknown, at: string): string {
  const name = textIn(value, at)
  if (/^(?!\.+$)[\w.-]{1,64}$/.test(name)) return name
  throw invalid(`${at} is ${shownText(name)}: it must be 1 to 64 letters, digits and _.-`)
}
