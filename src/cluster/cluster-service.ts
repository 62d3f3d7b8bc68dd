import type { ClusterStatus, LogStatus, NodeStatus as ShownNode } from '../base/cluster-status.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { version } from '../base/version.ts'
import type { Collection } from '../engine/collection.ts'
import type { CollectionSet } from '../engine/collection-set.ts'
import { ClusterNode, type NodeStatus, type ReadPosition } from './cluster-node.ts'
import { MeasuredLog } from './measured-log.ts'
import { type Announcement, Membership, removeMember, type Topology } from './membership.ts'
import { type NatsCluster, type NatsClusterOptions, openNatsCluster } from './nats-cluster.ts'
import { pause } from './pause.ts'
import { isNoOutage, retried } from './retried.ts'

export interface ClusterServiceOptions extends NatsClusterOptions {
  readonly node: string
  readonly zone: string
  readonly address: string
  /** Nodes that have each point; absent: all. */
  readonly replicas?: number | undefined
  readonly maxBufferedBytes: number
  readonly maxRequestBytes: number
  /** Called with what each took, in seconds. */
  readonly onAppend: (seconds: number) => void
  readonly onApply: (seconds: number) => void
  readonly onAcknowledge: (seconds: number) => void
  /** Absent: that of the log servers; for tests, one in memory. */
  readonly openLog?: OpenLog | undefined
}

/** Connects to the log of a cluster. */
export type OpenLog = typeof openNatsCluster

/** How this node is, in numbers. */
export interface ClusterFigures {
  readonly position: number
  readonly floor: number
  /** Records of the log that are not applied yet. */
  readonly lag: number
  readonly gaps: number
  readonly digestMismatches: number
  readonly isConnected: boolean
}

/**
 * What a process has of its cluster: the connection to the log servers, the node, its place among the others, and the
 * status that operators see.
 *
 *   open ─> collections are opened with `replicaOf` ─> start ─> close
 */
export class ClusterService {
  readonly #options: ClusterServiceOptions
  readonly #logger: Logger
  readonly #stop = new AbortController()
  #nats: NatsCluster | undefined
  #log: MeasuredLog | undefined
  #node: ClusterNode | undefined
  #membership: Membership | undefined
  #watching: Promise<void> | undefined
  /** Of the log, as far as is known. */
  #last = 0

  constructor(options: ClusterServiceOptions, logger: Logger) {
    this.#options = options
    this.#logger = logger
  }

  /**
   * Connects to the log, and waits until it can be used.
   *
   * @throws UnusableNats; DatabaseError `shutting_down` when closed meanwhile
   */
  async open(): Promise<ClusterNode> {
    const { cluster, node, maxBufferedBytes, maxRequestBytes } = this.#options
    const { onAppend, onApply, onAcknowledge, openLog = openNatsCluster } = this.#options
    this.#logger.info({ cluster, node }, 'connecting to the log of the cluster')
    this.#nats = await openLog(this.#options, this.#logger, this.#stop.signal)
    this.#log = new MeasuredLog(this.#nats.log, onAppend)
    const log = this.#log
    const { first, last, bytes } = await this.#answered(() => log.bounds())
    this.#logger.info({ cluster, node, first, last, bytes }, 'the log of the cluster is open')
    this.#node = new ClusterNode({
      ...{ log: this.#log, documents: this.#nats.documents, name: node, maxBufferedBytes, maxRequestBytes },
      ...{ logger: this.#logger, onApply, onAcknowledge },
    })
    return this.#node
  }

  /**
   * Begins to apply the log, enters this node among the others, and resolves when it has caught up.
   *
   * @throws Error when the data of this node is not that of this cluster
   */
  async start(main: Collection, set: CollectionSet): Promise<void> {
    const { documents } = this.#nats!
    const { node, replicas } = this.#options
    await this.node.start(main, set)
    this.#membership = await this.#answered(() =>
      Membership.join({
        ...{ log: this.#log!, documents, node, replicas, logger: this.#logger },
        describe: () => this.#announcement(),
      }),
    )
    this.#watching = this.#watchLog()
    await this.node.caughtUp()
    this.#logger.info({ node, position: this.node.position }, 'caught up with the log of the cluster')
  }

  /** @throws DatabaseError `not_ready` before `open` is through */
  get node(): ClusterNode {
    if (this.#node === undefined) throw new DatabaseError('not_ready', 'the node is joining its cluster')
    return this.#node
  }

  /** For metrics. */
  get figures(): ClusterFigures {
    const { position, floor, digestMismatches } = this.#node?.status ?? beginning
    return {
      ...{ position, floor, lag: Math.max(0, this.#last - position), gaps: this.#log?.gaps ?? 0 },
      ...{ digestMismatches, isConnected: this.#nats?.isConnected ?? false },
    }
  }

  /** For reads: up to here, this node has applied the log. */
  get position(): number {
    return this.#node?.position ?? 0
  }

  /** What answers may have in them. */
  get answeredPosition(): number {
    return this.#node?.answeredPosition ?? 0
  }

  /** Resolves when this node is as new as a read asks for. */
  async admit(read: ReadPosition, signal: AbortSignal | undefined): Promise<number> {
    return await this.node.admit(read, signal)
  }

  /** Why the node is not ready; undefined when it is. */
  readonly notReady = (): string | undefined => {
    if (this.#node === undefined) return 'this node is waiting for the log servers of its cluster'
    const { isReady, fault } = this.#node.status
    if (fault !== undefined) return fault
    return isReady ? undefined : 'this node has not caught up with the log of its cluster yet'
  }

  readonly status = async (): Promise<ClusterStatus> => {
    const { cluster: name, node } = this.#options
    const { position, fault, isReady } = this.#node?.status ?? beginning
    const [log, nodes] = await Promise.all([this.#logStatus(), this.#nodes()])
    return {
      ...{ name, node, is_ready: isReady && fault === undefined },
      is_connected: this.#nats?.isConnected ?? false,
      ...(fault === undefined ? {} : { fault }),
      position,
      ...(log === undefined ? {} : { log }),
      ...{ nodes, gaps: this.figures.gaps, digest_mismatches: this.figures.digestMismatches },
    }
  }

  readonly remove = async (node: string): Promise<boolean> => {
    if (this.#nats === undefined) {
      throw new DatabaseError('not_ready', 'the log servers of the cluster do not answer')
    }
    return await removeMember(this.#nats.documents, node)
  }

  /** Ends what waits for the log servers, and applies no more. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#node?.close()
  }

  /** Ends the connection, once the collections are closed. */
  async close(): Promise<void> {
    await this.stop()
    await this.#membership?.close()
    await this.#watching
    await this.#nats?.close()
  }

  /** What is asked on the way to being ready, however long the log servers take. */
  async #answered<Value>(ask: () => Promise<Value>): Promise<Value> {
    const { signal } = this.#stop
    return await retried(ask, {
      ...{ what: 'joining the cluster', isFinal: isNoOutage, logger: this.#logger, signal },
    })
  }

  #announcement(): Announcement {
    const { zone, address } = this.#options
    const { position, floor, isReady, fault } = this.#node?.status ?? beginning
    return {
      ...{ zone, address, version: version() },
      isReady: isReady && fault === undefined,
      position,
      floor,
    }
  }

  async #watchLog(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      // Without an answer the log is where it was, as far as anybody knows.
      this.#last = (await this.#log!.bounds().catch(() => undefined))?.last ?? this.#last
      await pause(watchMs, signal)
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
  async #nodes(): Promise<ShownNode[]> {
    const { node } = this.#options
    const own = new Map([[node, this.#announcement()]])
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

const beginning: NodeStatus = {
  ...{ position: 0, floor: 0, isReady: false },
  digestMismatches: 0,
  fault: undefined,
}
const watchMs = 1_000
