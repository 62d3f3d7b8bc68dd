import type { NodeState } from '../../base/cluster-status.ts'
import type { Logger } from '../../base/log.ts'
import type { SharedDocuments } from '../log/commit-log.ts'
import { type Entry, replicasNote, setMemberState, withEntered } from './ownership.ts'
import { changeTopology, type Member, toJson } from './topology.ts'

/** What a node announces about itself, again and again. */
export interface Announcement extends Omit<Member, 'state'> {
  /** Differs between the processes that have run as this node. */
  readonly run?: string
  readonly version: string
  readonly state: NodeState
  readonly isReady: boolean
  /** Whether other nodes can ask it; also while it is drained, and while the log is lost. */
  readonly answers: boolean
  /** Whether something keeps it from applying the log, such as a full disk: a copy of it could soon be too old. */
  readonly hasFault?: boolean
  /** The generation of the topology that it acts on. */
  readonly generation: number
  /** The node that it is receiving partitions from. */
  readonly takesFrom?: string
  /** All records up to here are applied. */
  readonly position: number
  /** The short id of the log, if the node knows that it is lost: other nodes have to stop, too. */
  readonly lostLog?: string
}

/** Whether a node answers and applies the log: then others can copy from it. */
export function isWhole({ answers, lostLog }: Announcement): boolean {
  return answers && lostLog === undefined
}

/**
 * Enters a node in the topology of its cluster.
 *
 * @throws DatabaseError `not_ready` when another node has to be the first one; Error when the DIMENSION differs
 */
export async function enter(documents: SharedDocuments, entry: Entry, logger: Logger): Promise<void> {
  const topology = await changeTopology(documents, (each) => withEntered(each, entry))
  const note = replicasNote(topology, entry.replicas)
  if (note !== undefined) logger.warn(note)
}

/** Announces a node that has entered: to be repeated, for an announcement soon expires. */
export async function announce(documents: SharedDocuments, node: string, said: Announcement): Promise<void> {
  await documents.announce(node, toJson(said))
  // It is back before others had to replace it, or afterwards.
  await setMemberState(documents, node, undefined, (before) => before === 'away')
}
