import type { ByteBudget } from '../base/budgets.ts'
import { type ClusterStatus, drainedReason, type NodeState } from '../base/cluster-status.ts'
import type { ServiceMetrics } from '../base/metrics.ts'
import { PartitionSet } from '../base/partitions.ts'
import { version } from '../base/runtime.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { LocalStatus } from './cluster-node-options.ts'
import { shortIdOf } from './log/commit-log.ts'
import type { NatsCluster, NatsClusterOptions, openNatsCluster } from './log/nats-cluster.ts'
import { type ClusterView, logStatus, nodeStatuses, partitionsStatus } from './membership/cluster-view.ts'
import { missingOf } from './membership/ownership.ts'
import { type Announcement, announcedIn, readTopology } from './membership/topology.ts'
import { twinMessage } from './requests.ts'
import type { PartitionMover } from './transfer/partition-mover.ts'

/** What happens to a node. Only `next` decides what follows. */
export type NodeEvent =
  /** It is a member, and its data belong to the log. */
  | 'usable'
  /** Its data are missing, damaged, too old for the log, or contradicted; or an operator does not want them. */
  | 'unusable'
  /** The data of another node have replaced its own. */
  | 'copied'
  /** It has applied everything that was in the log. */
  | 'caughtUp'
  | 'drained'
  | 'undrained'
  /** The log is gone, or shorter than what some node has applied. */
  | 'logLost'
  /** It has unloaded its data because the log is lost, and looks for the log again. */
  | 'retried'
  /** It cannot apply a record, and a copy would not help. */
  | 'failed'

const transitions: Readonly<Record<NodeState, Partial<Readonly<Record<NodeEvent, NodeState>>>>> = {
  joining: { usable: 'catchingUp', unusable: 'copying', logLost: 'logLost' },
  copying: { copied: 'catchingUp', logLost: 'logLost' },
  catchingUp: { caughtUp: 'serving', unusable: 'copying', logLost: 'logLost', failed: 'failed' },
  serving: { drained: 'draining', unusable: 'copying', logLost: 'logLost', failed: 'failed' },
  draining: { undrained: 'serving', unusable: 'copying', logLost: 'logLost', failed: 'failed' },
  logLost: { retried: 'joining' },
  failed: { unusable: 'copying', logLost: 'logLost' },
}

/**
 * The state after an event. An event that means nothing in a state changes nothing. docs/node-states.md draws the
 * states.
 */
export function next(state: NodeState, event: NodeEvent): NodeState {
  return transitions[state][event] ?? state
}

/** What a service has and does now. All that it reports, to operators, in metrics and to other nodes, follows from it. */
export interface ServiceState {
  readonly options: ClusterServiceOptions
  readonly view: ClusterView
  /** Of this process. */
  readonly run: string
  state: NodeState
  /** Undefined while the log is lost. */
  nats?: NatsCluster | undefined
  mover?: PartitionMover | undefined
  /** Undefined until its collections are open. */
  node?: ClusterNode | undefined
  /** Why this node does not serve, where its `ClusterNode` does not report the reason. */
  reason?: string | undefined
  /** Whether another process has announced itself under this node's name. */
  hasTwin?: boolean
  /** Set while the log is lost and no node runs: why it is lost, and the position that the data have reached. */
  lost?: { readonly why: string; readonly position: number } | undefined
  /** How often everything was fetched from another node. */
  fetches: number
  /** How often the log did not have the next position: counted here, because a node that finds a gap may be unloaded. */
  gaps: number
}

/** For metrics. */
function figuresOf({ options, node, nats, fetches, gaps, view }: ServiceState): ClusterFigures {
  const { position, floor, digestMismatches } = node?.status ?? beginning
  const { servers = [], bytes = 0, last = 0 } = view.log ?? {}
  const { held } = node ?? { held: new PartitionSet() }
  return {
    position,
    durable_position: floor,
    lag: Math.max(0, last - position),
    connected: Number(nats?.isConnected ?? false),
    log_bytes: bytes,
    log_servers: servers.length,
    log_servers_current: servers.filter((each) => each.is_current).length,
    gaps,
    digest_mismatches: digestMismatches,
    hedges: node?.hedges ?? 0,
    fetches,
    partitions: held.size,
    // Getters, because these figures go through all partitions: reading the others should not take as long.
    get partitions_missing() {
      return missingOf(view.topology.ownership, options.node, held)
    },
    get partitions_under_replicated() {
      return partitionsStatus(view.topology, view.announced).under_replicated
    },
  }
}

/** Why the node is not ready for clients; undefined when it is. */
export function whyNotReady(now: ServiceState): string | undefined {
  return whyNotServing(now) ?? warningOf(now) ?? (now.state === 'draining' ? drainedReason : undefined)
}

/** Why the node does not serve; undefined when it does, also while it is drained. */
function whyNotServing({ reason, node, state }: ServiceState): string | undefined {
  if (reason !== undefined) return reason
  if (state === 'joining') return 'this node is waiting for the log servers of its cluster'
  const { answers, fault } = node?.status ?? beginning
  if (fault !== undefined) return fault
  return answers ? undefined : 'this node has not caught up with the log of its cluster yet'
}

/** Why clients should use other nodes, although this one answers. */
function warningOf({ hasTwin, options, view }: ServiceState): string | undefined {
  if (hasTwin) return twinMessage(options.node)
  return view.isCutOff ? 'the log servers of the cluster do not answer this node' : undefined
}

/** The log position that this node has applied. */
export function positionOf({ node, lost }: ServiceState): number {
  return node?.position ?? lost?.position ?? 0
}

/** For operators: this node, its log, and all members as far as they are known. */
export async function statusOf(now: ServiceState): Promise<ClusterStatus> {
  const { options, node, nats, reason, lost, gaps } = now
  const { fault = reason ?? warningOf(now), digestMismatches } = node?.status ?? beginning
  const lostLog = node === undefined ? lost?.why : node.lostLog
  const [log, shown] = await Promise.all([logStatus(nats?.log), membersOf(now)])
  return {
    name: options.cluster,
    node: options.node,
    is_ready: whyNotReady(now) === undefined,
    is_connected: nats?.isConnected ?? false,
    ...(fault === undefined ? {} : { fault }),
    ...(lostLog === undefined ? {} : { log_lost: lostLog }),
    position: positionOf(now),
    ...(log === undefined ? {} : { log }),
    ...shown,
    gaps,
    digest_mismatches: digestMismatches,
  }
}

/** All members; while the log servers do not answer, as they were last known. */
async function membersOf(now: ServiceState): Promise<Pick<ClusterStatus, 'nodes' | 'partitions'>> {
  const { nats, view, options } = now
  const known = nats && Promise.all([readTopology(nats.documents), announcedIn(nats.documents)])
  const [{ topology }, announced] = (await known?.catch(() => undefined)) ?? [view, []]
  const there = new Map([...announced, [options.node, announcementOf(now)]])
  return { partitions: partitionsStatus(topology, there), nodes: nodeStatuses(topology, there) }
}

/** For other nodes. */
export function announcementOf(now: ServiceState): Announcement {
  const { options, run, state, node, nats, reason, mover, view } = now
  const { position, answers, fault } = node?.status ?? beginning
  const takesFrom = mover?.moving?.from
  return {
    zone: options.zone,
    run,
    address: options.address(),
    version: version(),
    state,
    answers: reason === undefined && answers,
    ...(fault === undefined ? {} : { hasFault: true }),
    generation: view.topology.generation,
    ...(takesFrom === undefined ? {} : { takesFrom }),
    ...(node?.lostLog === undefined ? {} : { lostLog: shortIdOf(nats!.log) }),
    isReady: whyNotReady(now) === undefined,
    position,
  }
}

/** The status of a service without a running node. */
const beginning: LocalStatus = {
  position: 0,
  floor: 0,
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
  /** Called when this node is taken out of service, and when it serves again. */
  readonly onServing?: ((isServing: boolean) => void) | undefined
  /** Pause before a fetch is retried; short in tests. */
  readonly fetchRetryMs?: number | undefined
  /** Absent: opens the log on the log servers; tests use one in memory. */
  readonly openLog?: OpenLog | undefined
}

/** Connects to the log of a cluster. */
export type OpenLog = typeof openNatsCluster

/** Callbacks that record how long the steps of a change take, in seconds. */
export interface ClusterTimings {
  readonly append: (seconds: number) => void
  readonly apply: (seconds: number) => void
  readonly acknowledge: (seconds: number) => void
  readonly request: (seconds: number) => void
}

/** What a node tells about itself and its log in numbers: the gauges `vicinal_cluster_<name>`, with their meaning. */
const gauges = {
  position: 'Position in the log of the cluster up to which this node has applied all records.',
  durable_position:
    'Position in the log of the cluster up to which all records are on the disk of this node.',
  lag: 'Records of the log of the cluster that this node has not applied.',
  connected: '1 while a log server is connected.',
  log_bytes: 'Bytes of the log of the cluster, on each server that has it.',
  log_servers: 'Servers that should have the log of the cluster.',
  log_servers_current: 'Servers that have the whole log of the cluster.',
  gaps: 'How often the log of the cluster did not have the next position, since the start.',
  digest_mismatches: 'Comparisons with other nodes that found a difference, since the data were loaded.',
  hedges:
    'Requests also sent to a second node because the first one took more than 100 ms, since the data were loaded.',
  fetches: 'How often this node has fetched everything from another node, since the start.',
  partitions: 'Partitions of the points, of 256, that this node has.',
  partitions_missing: 'Partitions of the points that this node should have but does not have yet.',
  partitions_under_replicated:
    'Partitions of the points that fewer nodes can answer for than should have them, as this node sees it.',
} as const

type ClusterFigures = Readonly<Record<keyof typeof gauges, number>>

/**
 * Registers the gauges of a node and its log.
 *
 * @returns the callbacks that fill the histograms
 */
export function registerMetrics(metrics: ServiceMetrics, now: ServiceState): ClusterTimings {
  metrics.countUnanswered()
  for (const [name, meaning] of Object.entries(gauges))
    metrics.gauge(`vicinal_cluster_${name}`, meaning, () => figuresOf(now)[name as keyof typeof gauges])
  return {
    append: metrics.seconds(
      'vicinal_cluster_append_seconds',
      'Time of an append to the log of the cluster, until a majority of its servers has it on disk.',
    ),
    apply: metrics.seconds(
      'vicinal_cluster_apply_seconds',
      'Time from reading a record of the log of the cluster until it is applied.',
    ),
    acknowledge: metrics.seconds(
      'vicinal_cluster_acknowledge_seconds',
      'Time of a write on this node, from its append to its answer.',
    ),
    request: metrics.seconds(
      'vicinal_cluster_request_seconds',
      'Time that another node took to answer a request from this node.',
    ),
  }
}
