import { DatabaseError } from '../../base/errors.ts'
import type { Applied } from '../../storage/applied.ts'
import { storedPosition } from '../../storage/data-store.ts'
import type { DataStore } from '../../storage/store.ts'
import { askedAgain } from '../waiting.ts'
import { type CommitLog, LogLost, type SharedDocuments, shortIdOf } from './commit-log.ts'

/** A position of the log, and the cluster's clock at its record, in microseconds since 1970. */
export interface LogPlace {
  readonly position: number
  readonly clockUs: number
}

/** The log alone cannot bring this node up to date: it needs a copy of another node's data. */
export class NeedsReplica extends Error {
  override readonly name = 'NeedsReplica'
}

/** A node's data, and the log to apply to them. */
export interface Beginning {
  readonly log: Pick<CommitLog, 'bounds'>
  readonly documents: SharedDocuments
  /** The short id of the log. */
  readonly logId: string
  readonly node: string
  /** What the default collection has applied; undefined when it has never applied a log. */
  readonly applied: Applied | undefined
  /** The last position that any collection has stored: some can be ahead of the floor. */
  readonly stored: number
  /** Whether there are points or collections. */
  readonly hasPoints: boolean
}

/**
 * The place from which a node continues with the log. A node that has applied nothing begins as the first node, with
 * or without points. It can also begin empty if the first node began empty.
 *
 * @throws NeedsReplica; LogLost when the log is not the one that this node has applied, or is shorter; Error when the
 *   data do not belong to this cluster; DatabaseError `not_ready` when the caller has to retry
 */
export async function placeOf(beginning: Beginning): Promise<LogPlace> {
  const { log, logId, applied, stored } = beginning
  if (applied !== undefined && applied.logId !== logId) {
    throw new LogLost(
      'the log is not the one that this node has applied: the data directory belongs to a node of another cluster, or the log was deleted and recreated',
    )
  }
  const { first, last } = await askedAgain(
    () => log.bounds(),
    (bounds) => bounds.last >= stored,
  )
  if (applied === undefined) await checkFounding(beginning, first)
  const { floor = 0, floorClockUs = 0 } = applied ?? {}
  if (last < stored) {
    throw new LogLost(`the log ends at position ${last}, and this node has applied it up to ${stored}`)
  }
  if (first > floor + 1) {
    throw new NeedsReplica(`the log begins at ${first} and this node has applied it up to ${floor}`)
  }
  return { position: floor, clockUs: floorClockUs }
}

/** The place from which a node with this data directory continues: see `placeOf`. */
export async function placeIn(
  store: DataStore,
  cluster: { readonly log: CommitLog; readonly documents: SharedDocuments; readonly node: string },
): Promise<LogPlace> {
  const { main, collections } = store
  const { applied } = main
  const hasPoints = main.sequence > 0 || collections.size > 0
  const stored = await storedPosition(store)
  return await placeOf({ ...cluster, logId: shortIdOf(cluster.log), applied, stored, hasPoints })
}

/** How the first node of a log began it. */
interface Founding {
  readonly node: string
  /** Whether it already had points: then the log alone does not make a replica. */
  readonly hasPoints: boolean
}

async function checkFounding(
  { documents, logId, node, hasPoints }: Beginning,
  firstPosition: number,
): Promise<void> {
  // A log without its first records was begun by a node that has applied it.
  if (firstPosition > 1) {
    if (hasPoints) throw foreignPoints()
    throw new NeedsReplica(`the log begins at ${firstPosition} and this node has applied nothing`)
  }
  const own: Founding = { node, hasPoints }
  const name = `founding-${logId}`
  const value = new TextEncoder().encode(JSON.stringify(own))
  if ((await documents.put(name, value, 0)) !== undefined) return
  const document = await documents.get(name)
  // Servers refuse to create a document a second time before the first one can be read.
  if (document === undefined) throw new DatabaseError('not_ready', 'another node is founding the cluster')
  const first = JSON.parse(new TextDecoder().decode(document.value)) as Founding
  // It was this node, whose process may have ended before it stored anything.
  if (first.node === own.node && first.hasPoints === own.hasPoints) return
  if (own.hasPoints) throw foreignPoints()
  if (first.hasPoints) throw new NeedsReplica(`the cluster was founded with points that ${first.node} had`)
}

function foreignPoints(): Error {
  return new Error(
    'the data directory has points that are not from this cluster: start the node with an empty one',
  )
}
