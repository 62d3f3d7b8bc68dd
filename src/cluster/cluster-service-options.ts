import type { Announcement } from './membership.ts'
import type { NatsClusterOptions, openNatsCluster, ReplaceLog } from './nats-cluster.ts'
import type { PeerLinkOptions } from './peer-link.ts'
import type { ReplicaSource } from './replica-transfer.ts'

export interface ClusterServiceOptions extends NatsClusterOptions {
  readonly node: string
  readonly zone: string
  readonly address: () => string
  /** Nodes that have each point; absent: all. */
  readonly replicas?: number | undefined
  readonly maxBufferedBytes: number
  readonly maxRequestBytes: number
  /** How other nodes reach this one, and it them; absent: not at all. */
  readonly link?: LinkSettings | undefined
  /** Called with what each took, in seconds. */
  readonly onAppend: (seconds: number) => void
  readonly onApply: (seconds: number) => void
  readonly onAcknowledge: (seconds: number) => void
  /** Where everything is fetched from that another node holds. */
  readonly sourceOf: (node: string, said: Announcement) => ReplicaSource
  /** Called when this node is taken out of service, and when it serves again. */
  readonly onServing?: ((isServing: boolean) => void) | undefined
  /** For tests, a few. */
  readonly fetchRetryMs?: number | undefined
  /** Absent: that of the log servers; for tests, one in memory. */
  readonly openLog?: OpenLog | undefined
  /** Absent: that of the log servers. */
  readonly replaceLog?: ReplaceLog | undefined
}

/** What the settings say about the link. */
export interface LinkSettings
  extends Pick<PeerLinkOptions, 'host' | 'port' | 'tls' | 'callsMax' | 'timeoutMs' | 'onCall'> {
  readonly secret: string | undefined
  /** Host and port that other nodes are told. */
  readonly addressAt: (port: number) => string
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
  /** How often this node fetched everything from another one. */
  readonly fetches: number
  /** How often it asked a second node, because the first one was slow. */
  readonly hedges: number
  /** Partitions that it has; all where each node has all points. */
  readonly partitions: number
  /** Partitions that it should have, and has not yet. */
  readonly partitionsMissing: number
  /** Partitions of which fewer nodes can be asked than should have them, as this node sees it. */
  readonly partitionsUnderReplicated: number
  readonly isConnected: boolean
}
