import { randomUUID } from 'node:crypto'
import type { ByteBudget } from '../base/budgets.ts'
import { type ClusterStatus, drainedReason, type NodeState } from '../base/cluster-status.ts'
import { version } from '../base/runtime.ts'
import type { ClusterFigures } from './cluster-metrics.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { LocalStatus } from './cluster-node-options.ts'
import { shortIdOf } from './log/commit-log.ts'
import type { NatsCluster, NatsClusterOptions, openNatsCluster } from './log/nats-cluster.ts'
import { type ClusterView, logStatus, nodeStatuses, partitionsStatus } from './membership/cluster-view.ts'
import type { Announcement, Membership } from './membership/membership.ts'
import type { PartitionMover } from './transfer/partition-mover.ts'

/** What a service has and does now. Whatever does not exist is undefined. */
interface ServiceState {
  readonly node: ClusterNode | undefined
  readonly nats: NatsCluster | undefined
  readonly membership: Membership | undefined
  readonly parts: PartitionMover | undefined
  readonly state: NodeState
  /** Why this node does not serve, where its `ClusterNode` does not report the reason. */
  readonly reason: string | undefined
  /** Why clients should use other nodes, although this one answers. */
  readonly warning: string | undefined
  /** Why the log is lost; undefined while this node knows of no loss. */
  readonly lostLog: string | undefined
  /** The log position that this node has applied. */
  readonly position: number
  /** How often everything was fetched from another node. */
  readonly fetches: number
  /** How often the log did not have the next position. */
  readonly gaps: number
}

/** What a service reports about itself: to operators, in metrics and to other nodes. */
export class ServiceStatus {
  readonly #options: ClusterServiceOptions
  readonly #view: ClusterView
  readonly #now: () => ServiceState
  /** Of this process. */
  readonly run: string = randomUUID()

  constructor(options: ClusterServiceOptions, view: ClusterView, now: () => ServiceState) {
    this.#options = options
    this.#view = view
    this.#now = now
  }

  /** For metrics. */
  get figures(): ClusterFigures {
    const { node, nats, parts, fetches, gaps } = this.#now()
    const { position, floor, digestMismatches } = node?.status ?? beginning
    const view = this.#view
    return {
      position,
      durable_position: floor,
      lag: Math.max(0, view.last - position),
      connected: Number(nats?.isConnected ?? false),
      log_bytes: view.log?.bytes ?? 0,
      log_servers: view.log?.servers?.length ?? 0,
      log_servers_current: view.log?.servers?.filter((each) => each.is_current).length ?? 0,
      gaps,
      digest_mismatches: digestMismatches,
      hedges: node?.hedges ?? 0,
      fetches,
      partitions: node?.held.size ?? 0,
      // Getters, because these figures go through all partitions: reading the others should not take as long.
      get partitions_missing() {
        return parts?.missing(node?.held) ?? 0
      },
      get partitions_under_replicated() {
        return partitionsStatus(view.topology, view.announced).under_replicated
      },
    }
  }

  /** Why the node is not ready for clients; undefined when it is. */
  get notReady(): string | undefined {
    const { warning, state } = this.#now()
    return this.notServing ?? warning ?? (state === 'draining' ? drainedReason : undefined)
  }

  /** Why other nodes cannot fetch its data; undefined when they can, also while it is drained. */
  get notServing(): string | undefined {
    const { reason, node, state } = this.#now()
    if (reason !== undefined) return reason
    if (state === 'joining') return 'this node is waiting for the log servers of its cluster'
    const { isReady, fault } = node?.status ?? beginning
    if (fault !== undefined) return fault
    return isReady ? undefined : 'this node has not caught up with the log of its cluster yet'
  }

  /** For operators: this node, its log, and all members as far as they are known. */
  async ofCluster(): Promise<ClusterStatus> {
    const { cluster: name, node } = this.#options
    const { node: running, nats, reason, warning, lostLog, position, gaps } = this.#now()
    const { fault = reason ?? warning } = running?.status ?? beginning
    const [log, shown] = await Promise.all([logStatus(nats?.log), this.#nodes()])
    const { digestMismatches } = running?.status ?? beginning
    return {
      name,
      node,
      is_ready: this.notReady === undefined,
      is_connected: this.#now().nats?.isConnected ?? false,
      ...(fault === undefined ? {} : { fault }),
      ...(lostLog === undefined ? {} : { log_lost: lostLog }),
      position,
      ...(log === undefined ? {} : { log }),
      ...shown,
      gaps,
      digest_mismatches: digestMismatches,
    }
  }

  /** For other nodes. */
  get announcement(): Announcement {
    const { zone, address } = this.#options
    const { node, nats, state } = this.#now()
    const { position } = node?.status ?? beginning
    return {
      zone,
      run: this.run,
      address: address(),
      version: version(),
      state,
      ...this.#asked(),
      ...(node?.lostLog === undefined ? {} : { lostLog: shortIdOf(nats!.log) }),
      isReady: this.notReady === undefined,
      serves: this.notServing === undefined,
      position,
    }
  }

  /** What other nodes have to know to ask this node. */
  #asked(): Pick<Announcement, 'answers' | 'generation' | 'takesFrom'> {
    const { reason, node, parts } = this.#now()
    const answers = reason === undefined && (node?.status.answers ?? false)
    const { from: takesFrom } = parts?.moving ?? {}
    const { generation } = this.#view.topology
    return { answers, generation, ...(takesFrom === undefined ? {} : { takesFrom }) }
  }

  /** All members; while the log servers do not answer, as they were last known. */
  async #nodes(): Promise<Pick<ClusterStatus, 'nodes' | 'partitions'>> {
    const { membership } = this.#now()
    const own = new Map([[this.#options.node, this.announcement]])
    const known = await Promise.all([membership?.topology(), membership?.announced()]).catch(
      () => [undefined, undefined] as const,
    )
    const [topology = this.#view.topology, announced = []] = known
    const there = new Map([...announced, ...own])
    return { partitions: partitionsStatus(topology, there), nodes: nodeStatuses(topology, there) }
  }
}

/** The status of a service without a running node. */
const beginning: LocalStatus = {
  position: 0,
  floor: 0,
  isReady: false,
  answers: false,
  digestMismatches: 0,
  fault: undefined,
}

export interface ClusterServiceOptions extends NatsClusterOptions {
  readonly node: string
  readonly zone: string
  readonly address: () => string
  /** Nodes that hold each point, for the first node; absent: the usual number. */
  readonly replicas?: number | undefined
  /** The length of all vectors; absent: that of the first one. */
  readonly dimension?: number | undefined
  readonly maxBufferedBytes: number
  readonly maxRequestBytes: number
  /** Counts the answers to other nodes. */
  readonly answerBytes?: ByteBudget | undefined
  /** Called with the seconds that each append, applied record and acknowledged write took. */
  readonly onAppend: (seconds: number) => void
  readonly onApply: (seconds: number) => void
  readonly onAcknowledge: (seconds: number) => void
  /** Called with the seconds that each request to another node took. */
  readonly onRequest?: ((seconds: number) => void) | undefined
  /** Called when this node is taken out of service, and when it serves again. */
  readonly onServing?: ((isServing: boolean) => void) | undefined
  /** Pause before a fetch is retried; short in tests. */
  readonly fetchRetryMs?: number | undefined
  /** Absent: opens the log on the log servers; tests use one in memory. */
  readonly openLog?: OpenLog | undefined
}

/** Connects to the log of a cluster. */
export type OpenLog = typeof openNatsCluster
