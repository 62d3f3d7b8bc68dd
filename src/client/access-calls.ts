import type { DateTime } from '../base/attributes.ts'
import type { AccessClient, AuditPage, AuditQuery } from './access.ts'
import { type CallDetails, repeatable } from './calls.ts'
import { dateIn } from './input.ts'
import { booleanIn, fieldsOf, optional, textIn, wholeIn } from './values.ts'

/** These operations as a transport performs them. */
export interface AccessCalls {
  audit(query: CheckedAuditQuery, details: CallDetails): Promise<AuditPage>
}

export interface CheckedAuditQuery extends AuditQuery {
  readonly since?: DateTime | undefined
  readonly until?: DateTime | undefined
}

/** A client of these operations over any transport. */
export function accessOver(calls: AccessCalls): AccessClient {
  return { audit: async (query, options) => calls.audit(auditQueryIn(query), repeatable(options)) }
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
