import { DatabaseError } from '../base/errors.ts'
import type { Applied } from '../storage/applied.ts'
import { type CommitLog, LogLost, type SharedDocuments } from './commit-log.ts'
import { pause } from './pause.ts'

/** A position of the log, and the cluster's clock at its record, in microseconds since 1970. */
export interface LogPlace {
  readonly position: number
  readonly clockUs: number
}

/** The log does not lead from what a node has to what the others have: it needs a copy of what another node holds. */
export class NeedsReplica extends Error {
  override readonly name = 'NeedsReplica'
}

/** What a node has, and the log that it is to apply. */
export interface Beginning {
  readonly log: Pick<CommitLog, 'bounds' | 'former'>
  readonly documents: SharedDocuments
  /** Names the log. */
  readonly logId: string
  readonly node: string
  /** Of the default collection; undefined when none of a log has been applied to it. */
  readonly applied: Applied | undefined
  /** Whether there are points or collections. */
  readonly hasPoints: boolean
}

/**
 * From where a node goes on with the log. A node that has applied nothing begins as the first one, with or without points of
 * its own, or empty where the first one was empty, too.
 *
 * @throws NeedsReplica; LogLost when the log is not the one that this node has applied, or shorter; Error when the data are not
 *   those of this cluster; DatabaseError `not_ready` when it has to be tried again
 */
export async function placeOf(beginning: Beginning): Promise<LogPlace> {
  const { log, logId, applied } = beginning
  if (applied !== undefined && applied.logId !== logId) {
    if (log.former?.includes(applied.logId)) {
      throw new NeedsReplica('a new log was begun from what another node held')
    }
    throw new LogLost(
      'the log is not the one that this node has applied: the data directory is that of a node of another cluster, or the log was deleted and made anew',
    )
  }
  if (applied === undefined) await checkFounding(beginning)
  const { floor = 0, floorClockUs = 0 } = applied ?? {}
  const { first, last } = await boundsFrom(log, floor)
  if (last < floor) {
    throw new LogLost(`the log ends at position ${last}, and this node has applied it up to ${floor}`)
  }
  if (first > floor + 1) {
    throw new NeedsReplica(`the log begins at ${first} and this node has applied it up to ${floor}`)
  }
  return { position: floor, clockUs: floorClockUs }
}

/** Servers that have just started may not know yet how far the log is. */
async function boundsFrom(log: Beginning['log'], floor: number): ReturnType<CommitLog['bounds']> {
  for (let asked = 1; ; asked += 1) {
    const bounds = await log.bounds()
    if (bounds.last >= floor || asked === timesAsked) return bounds
    await pause(askAgainMs)
  }
}

const timesAsked = 11
const askAgainMs = 500

/** How the first node of a log began it. */
interface Founding {
  readonly node: string
  /** Whether it brought points: then the log alone does not make a replica. */
  readonly hasPoints: boolean
}

async function checkFounding({ documents, logId, node, hasPoints }: Beginning): Promise<void> {
  const own: Founding = { node, hasPoints }
  const name = `founding-${logId}`
  const value = new TextEncoder().encode(JSON.stringify(own))
  if ((await documents.put(name, value, 0)) !== undefined) return
  const document = await documents.get(name)
  // Servers refuse a second first revision before the first one can be read.
  if (document === undefined) throw new DatabaseError('not_ready', 'another node begins the cluster')
  const first = JSON.parse(new TextDecoder().decode(document.value)) as Founding
  // Its process can have ended before it stored anything.
  if (first.node === own.node && first.hasPoints === own.hasPoints) return
  if (own.hasPoints) {
    throw new Error(
      'the data directory has points that are not from this cluster: start the node with an empty one',
    )
  }
  if (first.hasPoints) throw new NeedsReplica(`the cluster was made from points that ${first.node} had`)
}
