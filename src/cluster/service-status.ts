import { type ClusterStatus, drainedReason } from '../base/cluster-status.ts'
import { version } from '../base/version.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { NodeStatus } from './cluster-node-options.ts'
import type { ClusterFigures, ClusterServiceOptions } from './cluster-service-options.ts'
import { type ClusterView, logStatus, nodeStatuses, partitionsStatus } from './cluster-view.ts'
import type { DecidingSettings } from './deciding-settings.ts'
import { shortIdOf } from './log-id.ts'
import type { MeasuredLog } from './measured-log.ts'
import type { Announcement, Membership } from './membership.ts'
import type { NatsCluster } from './nats-cluster.ts'
import type { PeerLink } from './peer-link.ts'
import type { ServiceParts } from './service-parts.ts'
import type { MemberState } from './topology.ts'

/** The current state of a service. Whatever does not exist now is undefined. */
export interface ServiceState {
  readonly node: ClusterNode | undefined
  readonly nats: NatsCluster | undefined
  readonly log: MeasuredLog | undefined
  readonly membership: Membership | undefined
  readonly link: PeerLink | undefined
  readonly parts: ServiceParts | undefined
  /** The state of this node among the members. */
  readonly memberState: MemberState | undefined
  /** Why this node is not ready yet, when its `ClusterNode` does not report the reason. */
  readonly waitsFor: string | undefined
  /** Why the log is lost; undefined while this node knows of no loss. */
  readonly lostLog: string | undefined
  /** The log position that this node has applied. */
  readonly position: number
  /** How often everything was fetched from another node. */
  readonly fetches: number
  readonly settings: DecidingSettings
}

/** What a service reports about itself: to operators, in metrics and to other nodes. */
export class ServiceStatus {
  readonly #options: ClusterServiceOptions
  readonly #view: ClusterView
  readonly #now: () => ServiceState

  constructor(options: ClusterServiceOptions, view: ClusterView, now: () => ServiceState) {
    this.#options = options
    this.#view = view
    this.#now = now
  }

  /** For metrics. */
  get figures(): ClusterFigures {
    const { node, nats, log, parts, fetches } = this.#now()
    const { position, floor, digestMismatches } = node?.status ?? beginning
    const view = this.#view
    return {
      ...{ position, floor, lag: Math.max(0, view.last - position), gaps: log?.gaps ?? 0 },
      ...{
        digestMismatches,
        fetches,
        hedges: node?.hedges ?? 0,
        partitions: node?.held.size ?? 0,
        isConnected: nats?.isConnected ?? false,
      },
      // Getters, because these figures go through all partitions: reading the others should not take as long.
      get partitionsMissing() {
        return parts?.missing(node?.held) ?? 0
      },
      get partitionsUnderReplicated() {
        return partitionsStatus(view.topology, view.announced)?.under_replicated ?? 0
      },
    }
  }

  /** Why the node is not ready for clients; undefined when it is. */
  get notReady(): string | undefined {
    const { memberState } = this.#now()
    return this.notServing ?? (memberState === 'draining' ? drainedReason : undefined)
  }

  /** Why other nodes cannot fetch its data; undefined when they can, also while it is drained. */
  get notServing(): string | undefined {
    const { waitsFor, node } = this.#now()
    if (waitsFor !== undefined) return waitsFor
    if (node === undefined) return 'this node is waiting for the log servers of its cluster'
    const { isReady, fault } = node.status
    if (fault !== undefined) return fault
    return isReady ? undefined : 'this node has not caught up with the log of its cluster yet'
  }

  /** For operators: this node, its log, and all members as far as they are known. */
  async ofCluster(): Promise<ClusterStatus> {
    const { cluster: name, node } = this.#options
    const { node: running, nats, waitsFor, lostLog, position } = this.#now()
    const { fault = waitsFor } = running?.status ?? beginning
    const [log, shown] = await Promise.all([logStatus(nats?.log), this.#nodes()])
    const { gaps, digestMismatches } = this.figures
    return {
      ...{ name, node, is_ready: this.notReady === undefined },
      is_connected: this.#now().nats?.isConnected ?? false,
      ...(fault === undefined ? {} : { fault }),
      ...(lostLog === undefined ? {} : { log_lost: lostLog }),
      position,
      ...(log === undefined ? {} : { log }),
      ...{ ...shown, gaps, digest_mismatches: digestMismatches },
    }
  }

  /** For other nodes. */
  get announcement(): Announcement {
    const { zone, address, link: settings } = this.#options
    const { node, log, link, settings: deciding } = this.#now()
    const { position, floor } = node?.status ?? beginning
    return {
      ...{ zone, address: address(), version: version() },
      ...(settings && link && { peer: settings.addressAt(link.port), ...this.#asked() }),
      ...(node?.lostLog === undefined ? {} : { lostLog: shortIdOf(log!) }),
      isReady: this.notReady === undefined,
      serves: this.notServing === undefined,
      ...{ position, floor, settings: deciding },
    }
  }

  /** What other nodes have to know to ask this node. */
  #asked(): Pick<Announcement, 'answers' | 'generation' | 'takesFrom'> {
    const { waitsFor, node, parts } = this.#now()
    const answers = waitsFor === undefined && (node?.status.answers ?? false)
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
    const partitions = partitionsStatus(topology, there)
    return { ...(partitions && { partitions }), nodes: nodeStatuses(topology, there) }
  }
}

/** The status of a service without a running node. */
const beginning: NodeStatus = {
  ...{ position: 0, floor: 0, isReady: false, answers: false },
  digestMismatches: 0,
  fault: undefined,
}
