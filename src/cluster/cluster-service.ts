import type { ClusterStatus, LogStatus, NodeStatus } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { version } from '../base/version.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import { type Announcement, Membership, removeMember, type Topology } from './membership.ts'
import { type NatsCluster, type NatsClusterOptions, openNatsCluster } from './nats-cluster.ts'

export interface ClusterServiceOptions extends NatsClusterOptions {
  readonly node: string
  readonly zone: string
  readonly address: string
}

/** How far a node is in applying the log. */
export interface NodeState {
  /** All records up to here are applied. */
  readonly position: number
  /** All records up to here are on this node's disk. */
  readonly floor: number
  readonly isReady: boolean
  /** What keeps the node from applying more; undefined when nothing does. */
  readonly fault: string | undefined
  /** Since the start. */
  readonly gaps: number
  readonly digestMismatches: number
}

/**
 * What a process has of its cluster: the connection to the log servers, its place among the nodes, and the status that
 * operators see. What is in the log is the business of the node that is attached.
 */
export class ClusterService {
  readonly #options: ClusterServiceOptions
  readonly #logger: Logger
  readonly #stop = new AbortController()
  #nats: NatsCluster | undefined
  #membership: Membership | undefined
  #state: (() => NodeState) | undefined

  constructor(options: ClusterServiceOptions, logger: Logger) {
    this.#options = options
    this.#logger = logger
  }

  /**
   * Connects to the log, and waits until it can be used.
   *
   * @throws UnusableNats; DatabaseError `shutting_down` when closed meanwhile
   */
  async open(): Promise<{ readonly log: CommitLog; readonly documents: SharedDocuments }> {
    const { cluster, node } = this.#options
    this.#logger.info({ cluster, node }, 'connecting to the log of the cluster')
    this.#nats = await openNatsCluster(this.#options, this.#logger, this.#stop.signal)
    const { first, last, bytes } = await this.#nats.log.bounds()
    this.#logger.info({ cluster, node, first, last, bytes }, 'the log of the cluster is open')
    return this.#nats
  }

  /** Enters this node among the others, and tells them from now on how far it is. */
  async attach(state: () => NodeState): Promise<void> {
    this.#state = state
    const { log, documents } = this.#nats!
    const { node } = this.#options
    const describe = (): Announcement => this.#announcement(state())
    this.#membership = await Membership.join({ log, documents, node, describe, logger: this.#logger })
  }

  /** How far the node is; before it is attached, at the beginning. */
  get state(): NodeState {
    return this.#state?.() ?? beginning
  }

  /** Why the node is not ready; undefined when it is. */
  readonly notReady = (): string | undefined => {
    const { isReady, fault } = this.state
    if (fault !== undefined) return fault
    return isReady ? undefined : 'this node has not caught up with the log of its cluster yet'
  }

  readonly status = async (): Promise<ClusterStatus> => {
    const { cluster: name, node } = this.#options
    const { position, fault, isReady, gaps, digestMismatches } = this.state
    const [log, nodes] = await Promise.all([this.#logStatus(), this.#nodes()])
    return {
      ...{ name, node, is_ready: isReady && fault === undefined },
      is_connected: this.#nats?.isConnected ?? false,
      ...(fault === undefined ? {} : { fault }),
      position,
      ...(log === undefined ? {} : { log }),
      ...{ nodes, gaps, digest_mismatches: digestMismatches },
    }
  }

  readonly remove = async (node: string): Promise<boolean> => {
    if (this.#nats === undefined) {
      throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer')
    }
    return await removeMember(this.#nats.documents, node)
  }

  /** Ends the connection; the node has to be closed before. */
  async close(): Promise<void> {
    this.#stop.abort()
    await this.#membership?.close()
    await this.#nats?.close()
  }

  #announcement({ position, floor, isReady, fault }: NodeState): Announcement {
    const { zone, address } = this.#options
    return {
      ...{ zone, address, version: version() },
      isReady: isReady && fault === undefined,
      position,
      floor,
    }
  }

  /** Undefined while the servers do not answer. */
  async #logStatus(): Promise<LogStatus | undefined> {
    const bounds = await this.#nats?.log.bounds().catch(() => undefined)
    if (bounds === undefined) return undefined
    const { first, last, bytes, bytesMax } = bounds
    return { first, last, bytes, bytes_max: bytesMax }
  }

  /** All members; without log servers this node alone. */
  async #nodes(): Promise<NodeStatus[]> {
    const { node } = this.#options
    const own = new Map([[node, this.#announcement(this.state)]])
    const known = await Promise.all([this.#membership?.topology(), this.#membership?.announced()]).catch(
      () => [undefined, undefined] as const,
    )
    const topology: Topology = known[0] ?? { generation: 0, members: {} }
    const there = new Map([...(known[1] ?? []), ...own])
    const names = new Set([...Object.keys(topology.members), ...there.keys()])
    return [...names].sort().map((name) => {
      const said = there.get(name)
      const { zone, address } = said ?? topology.members[name]!
      const is = { is_there: said !== undefined, is_ready: said?.isReady ?? false }
      return { name, zone, address, ...is, ...(said && { position: said.position, version: said.version }) }
    })
  }
}

const beginning: NodeState = {
  ...{ position: 0, floor: 0, isReady: false, fault: undefined },
  ...{ gaps: 0, digestMismatches: 0 },
}
