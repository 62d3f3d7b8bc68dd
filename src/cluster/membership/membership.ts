import type { NodeState } from '../../base/cluster-status.ts'
import type { Logger } from '../../base/log.ts'
import type { ServedData } from '../../collections/served-data.ts'
import type { SharedDocuments } from '../log/commit-log.ts'
import { pause, unlessAborted } from '../waiting.ts'
import { replicasNote, setMemberState, withEntered } from './ownership.ts'
import {
  announcedIn,
  changeTopology,
  type Member,
  type MemberState,
  memberOf,
  readTopology,
  type Topology,
  toJson,
} from './topology.ts'

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
  readonly dimension?: DimensionNote | undefined
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
  /** Whether this node may be the first one; absent: yes. */
  readonly mayFound?: boolean | undefined
  /** Called when the topology has a new state for this node. */
  readonly onState?: ((state: MemberState | undefined) => void) | undefined
  readonly announceMs?: number
}

/** A node's membership of its cluster: the node enters itself in the topology, and announces itself. */
export class Membership {
  readonly #options: MembershipOptions
  readonly #closed = new AbortController()
  #running: Promise<unknown> = Promise.resolve()
  #state: MemberState | undefined

  private constructor(options: MembershipOptions) {
    this.#options = options
  }

  static async join(options: MembershipOptions): Promise<Membership> {
    const membership = new Membership(options)
    const { documents, node, describe, replicas, mayFound } = options
    const { zone, address } = describe()
    const entry = {
      node,
      member: { zone, address },
      replicas,
      mayFound: mayFound ?? true,
    }
    const topology = await changeTopology(documents, (topology) => withEntered(topology, entry))
    const note = replicasNote(topology, replicas)
    if (note !== undefined) options.logger.warn(note)
    membership.#running = membership.#announceOften()
    return membership
  }

  /** Notes that this node has fetched its data again, if it should. */
  async endRefetch(): Promise<void> {
    const { documents, node } = this.#options
    await setMemberState(documents, node, undefined, (before) => before === 'refetching')
  }

  async topology(): Promise<Topology> {
    return (await readTopology(this.#options.documents)).topology
  }

  /** The latest announcements of the live nodes. */
  async announced(): Promise<ReadonlyMap<string, Announcement>> {
    return await announcedIn<Announcement>(this.#options.documents)
  }

  async close(): Promise<void> {
    this.#closed.abort()
    await this.#running
  }

  async #announce(): Promise<void> {
    const { documents, node, describe, onState } = this.#options
    await documents.announce(node, toJson(describe()))
    const { state } = memberOf(await this.topology(), node) ?? {}
    // It is back before others had to replace it, or afterwards.
    if (state === 'away') await setMemberState(documents, node, undefined, (before) => before === 'away')
    if (state === this.#state || state === 'away') return
    this.#state = state
    onState?.(state)
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

/** The `DIMENSION` of a node's default collection. */
interface DimensionNote {
  /** Null: not set. */
  readonly value: number | null
  /** Whether a node that has not set it gets this value from the log. */
  readonly isLogged: boolean
}

/** What a node announces about its dimension; undefined while its data are not open. */
export function dimensionNote({ opened }: Pick<ServedData, 'opened'>): DimensionNote | undefined {
  const { main } = opened ?? {}
  return main && { value: main.dimension ?? null, isLogged: main.sequence > 0 }
}

type Dimension = Pick<Announcement, 'dimension'>

/**
 * Says how the dimension of a node differs from that of another one; undefined: it does not. It decides which points are
 * refused, and nobody could tell afterwards which node was right.
 */
export function dimensionFault(
  node: string,
  { dimension: own }: Dimension,
  announced: ReadonlyMap<string, Dimension>,
): string | undefined {
  for (const [name, { dimension: other }] of announced) {
    if (name === node || own === undefined || other === undefined || own.value === other.value) continue
    if (own.value === null ? other.isLogged : other.value === null && own.isLogged) continue
    const [here, there] = [own, other].map(({ value }) => value ?? 'not set')
    return `DIMENSION is ${here} on node ${node} and ${there} on node ${name}: they would store different points`
  }
  return undefined
}

interface DimensionCheck {
  readonly documents: SharedDocuments
  readonly node: string
  /** What the node announces. */
  readonly describe: () => Dimension
  readonly logger: Logger
  readonly signal: AbortSignal
  /** How long the announcement of a node remains after it has stopped. */
  readonly announcementMs?: number | undefined
}

/**
 * Compares the dimension of a node that starts with that of the running nodes. Of nodes that start at the same time, at
 * least one notices the difference, because each of them announces itself first.
 *
 * @throws Error that names the values, and what to do
 */
export async function checkDimension(check: DimensionCheck): Promise<void> {
  const { documents, node, describe, logger, signal, announcementMs = 5_000 } = check
  const untilMs = performance.now() + announcementMs + 1_000
  for (let attempt = 1; ; attempt += 1) {
    const own = describe()
    await documents.announce(node, toJson(own))
    const fault = dimensionFault(node, own, await announcedIn<Dimension>(documents))
    if (fault === undefined || signal.aborted) return
    if (performance.now() >= untilMs)
      throw new Error(`${fault}. Set it alike; to change it, stop all nodes first`)
    if (attempt === 1) logger.warn(`${fault}. Waiting in case the other node has just stopped`)
    await pause(500, signal)
  }
}
