import type { NodeState } from '../../base/cluster-status.ts'
import type { Logger } from '../../base/log.ts'
import type { SharedDocuments } from '../log/commit-log.ts'
import { pause, unlessAborted } from '../waiting.ts'
import { replicasNote, setMemberState, withEntered } from './ownership.ts'
import { changeTopology, type Member, toJson } from './topology.ts'

/** What a node announces about itself, again and again. */
export interface Announcement extends Omit<Member, 'state'> {
  /** Differs between the processes that have run as this node. */
  readonly run?: string
  readonly version: string
  readonly state: NodeState
  readonly isReady: boolean
  /** Whether other nodes can fetch its data; also while it is drained. */
  readonly serves: boolean
  /** Whether other nodes can ask it; also while it is drained, and while the log is lost. */
  readonly answers: boolean
  /** The generation of the topology that it acts on. */
  readonly generation: number
  /** The node that it is receiving partitions from. */
  readonly takesFrom?: string
  /** All records up to here are applied. */
  readonly position: number
  /** The short id of the log, if the node knows that it is lost: other nodes have to stop, too. */
  readonly lostLog?: string
}

interface MembershipOptions {
  readonly documents: SharedDocuments
  readonly node: string
  readonly describe: () => Announcement
  readonly logger: Logger
  /** Nodes that hold each point, for the first node; absent: the usual number. */
  readonly replicas?: number | undefined
  /** The DIMENSION of this node; absent: not set. */
  readonly dimension?: number | undefined
  /** Whether this node may be the first one; absent: yes. */
  readonly mayFound?: boolean | undefined
  /** See `Entry`. */
  readonly hasPoints?: boolean | undefined
  readonly announceMs?: number
}

/** A node's membership of its cluster: the node enters itself in the topology, and announces itself. */
export class Membership {
  readonly #options: MembershipOptions
  readonly #closed = new AbortController()
  #running: Promise<unknown> = Promise.resolve()

  private constructor(options: MembershipOptions) {
    this.#options = options
  }

  /** @throws Error when the DIMENSION of this node is not that of the cluster */
  static async join(options: MembershipOptions): Promise<Membership> {
    const membership = new Membership(options)
    const { documents, node, describe, replicas, dimension = null, mayFound, hasPoints } = options
    const { zone, address } = describe()
    const entry = {
      node,
      member: { zone, address },
      replicas,
      dimension,
      mayFound: mayFound ?? true,
      hasPoints,
    }
    const topology = await changeTopology(documents, (topology) => withEntered(topology, entry))
    const note = replicasNote(topology, replicas)
    if (note !== undefined) options.logger.warn(note)
    membership.#running = membership.#announceOften()
    return membership
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await this.#running
  }

  async #announce(): Promise<void> {
    const { documents, node, describe } = this.#options
    await documents.announce(node, toJson(describe()))
    // It is back before others had to replace it, or afterwards.
    await setMemberState(documents, node, undefined, (before) => before === 'away')
  }

  async #announceOften(): Promise<void> {
    const { announceMs = 1_000, logger } = this.#options
    const { signal } = this.#closed
    while (!signal.aborted) {
      // While the log servers do not answer, this is simply tried again later.
      await unlessAborted(this.#announce(), signal).catch((err: unknown) =>
        logger.debug({ err }, 'this node could not announce itself'),
      )
      await pause(announceMs, signal)
    }
  }
}
