import { DatabaseError } from '../base/errors.ts'
import type { PlannedNode, RepairPlan } from '../base/repair-plan.ts'
import type { DataStore } from '../storage/store.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import { fromJson } from './json-documents.ts'
import { shortIdOf } from './log-id.ts'
import { adoptLog } from './log-repair.ts'
import { adoptAsLeader, type LeaderPlan, putRepairDocument, readRepair } from './part-repair.ts'

/**
 * Lets the leader of a repair finish it. The new log exists before the leader adopts it, and in between the leader can
 * be killed, have a full disk, or miss the answer of the log servers:
 *
 *   writes this document ─> the new log is created ─> killed ─> started: finds the document ─> adopts the log
 *
 * All other nodes wait for a node that serves with the new log. Without the document, the leader would wait, too.
 */
export interface RepairLeader {
  readonly node: string
  /** Id of its data directory. */
  readonly database_id: string
  /** What its default collection has applied of the former log. An older copy of the directory differs. */
  readonly applied: { readonly log: string; readonly position: number; readonly floor: number }
  /** The first position of the new log. */
  readonly first: number
  /**
   * The last keyed request that each node knows, by collection, as in the plan. Nodes other than the leader have only
   * what differs from the leader. Absent when every node holds all points.
   */
  readonly last_keys?: Readonly<Record<string, PlannedNode['last_keys']>>
}

/**
 * Describes a leader that has not adopted the new log yet.
 *
 * @param plan present when each node holds only some of the points
 * @throws DatabaseError `precondition_failed` when the directory has not applied any log
 */
export function repairLeaderOf(
  { main: { databaseId, applied } }: DataStore,
  { node, first, plan }: { readonly node: string; readonly first: number; readonly plan?: RepairPlan },
): RepairLeader {
  if (applied === undefined)
    throw new DatabaseError('precondition_failed', 'this node has not applied any log')
  return {
    ...{ node, first, database_id: databaseId },
    applied: { log: applied.logId, position: applied.position, floor: applied.floor },
    ...(plan && { last_keys: lastKeysOf(plan) }),
  }
}

export async function writeRepairLeader(
  documents: SharedDocuments,
  logId: string,
  leader: RepairLeader,
): Promise<void> {
  await putRepairDocument(documents, documentOf(logId), leader)
}

/**
 * Adopts a log that this node has created as the leader of a repair, unless it has done that before. Durable when this
 * resolves; idempotent.
 *
 * @returns whether this node continues with the log
 */
export async function finishAsLeader(
  store: DataStore,
  node: string,
  { log, documents }: { readonly log: Pick<CommitLog, 'id'>; readonly documents: SharedDocuments },
): Promise<boolean> {
  const logId = shortIdOf(log)
  const document = await documents.get(documentOf(logId))
  if (document === undefined) return false
  const leader = fromJson<RepairLeader>(document.value)
  if (!isOf(leader, node, store)) return false
  if (leader.last_keys === undefined) await adoptLog(store, { logId, first: leader.first })
  else await adoptParts(store, logId, { documents, node, lastKeys: leader.last_keys })
  return true
}

function isOf({ node, database_id, applied }: RepairLeader, self: string, { main }: DataStore): boolean {
  if (node !== self || database_id !== main.databaseId || main.applied === undefined) return false
  // The default collection adopts a log after all others, so it is unchanged until then.
  const { logId, position, floor } = main.applied
  return logId === applied.log && position === applied.position && floor === applied.floor
}

async function adoptParts(
  store: DataStore,
  logId: string,
  {
    documents,
    node,
    lastKeys,
  }: {
    readonly documents: SharedDocuments
    readonly node: string
    readonly lastKeys: NonNullable<RepairLeader['last_keys']>
  },
): Promise<void> {
  const repair = await readRepair(documents, logId)
  if (repair === undefined) throw new DatabaseError('not_ready', 'the repair of the log cannot be read')
  const nodes: LeaderPlan['nodes'] = Object.fromEntries(
    Object.entries(repair.nodes).map(([name, { keeps }]) => [
      name,
      { keeps, last_keys: { ...lastKeys[node], ...lastKeys[name] } },
    ]),
  )
  await adoptAsLeader(store, logId, repair, { leader: node, nodes })
}

/** The leader knows most keys, and usually all nodes know the same: a document has to fit into one message. */
function lastKeysOf({ leader, nodes }: RepairPlan): NonNullable<RepairLeader['last_keys']> {
  const { last_keys: known } = nodes[leader]!
  const ofNodes = Object.entries(nodes).map(([name, { last_keys }]) => {
    if (name === leader) return [name, known] as const
    const differing = Object.keys(known)
      .map((collection) => [collection, last_keys[collection] ?? null] as const)
      .filter(([collection, last]) => last !== known[collection])
    return [name, Object.fromEntries(differing)] as const
  })
  return Object.fromEntries(ofNodes)
}

function documentOf(logId: string): string {
  return `repair-leader-${logId}`
}
