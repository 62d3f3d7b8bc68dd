import type { AuditQuery, AuditRecord } from '../client/client.ts'
import type { Environment } from './arguments.ts'
import { type ConnectionOptions, withClient } from './connection.ts'

export interface AuditOptions extends Omit<ConnectionOptions, 'collection'> {
  /** Milliseconds since 1970. */
  readonly since?: number
  readonly until?: number
  readonly key?: string
  readonly operation?: string
  /** The collection of the calls, not the one that this call is for. */
  readonly collection?: string
  readonly refused?: boolean
  readonly limit: number
  readonly json?: boolean
}

/** Prints the audit of a running service, the newest call first. */
export async function showAudit(options: AuditOptions, environment: Environment): Promise<void> {
  const { since, until, key, operation, collection, refused, limit, json, ...connection } = options
  const query: AuditQuery = {
    key,
    operation,
    collection,
    ...(since === undefined ? {} : { since: new Date(since) }),
    ...(until === undefined ? {} : { until: new Date(until) }),
    ...(refused ? { allowed: false } : {}),
  }
  await withClient(connection, environment, async (client) => {
    let cursor: string | undefined
    for (let left = limit; left > 0; ) {
      const page = await client.audit({ ...query, limit: Math.min(left, pageMax), cursor })
      for (const record of page.records) console.log(json ? JSON.stringify(record) : lineOf(record))
      left -= page.records.length
      cursor = page.nextCursor
      if (cursor === undefined) return
    }
  })
}

/** The most records of a page. */
const pageMax = 1000

/** A record for people: when, who, what, on what, the outcome, and from where. */
function lineOf({ time, key, operation, lost, ...record }: AuditRecord): string {
  const { collection, target, allowed, error, transport, address, calls } = record
  if (lost !== undefined) return `${time.toISOString()}  ${lost} lines are missing here`
  const parts = [
    time.toISOString(),
    key ?? '-',
    operation,
    collection ?? target ?? '-',
    error === undefined ? 'ok' : allowed ? error : `refused: ${error}`,
    [transport, address].filter((each) => each !== undefined).join(' '),
    ...(calls === undefined ? [] : [`${calls} calls`]),
  ]
  return parts.join('  ')
}
