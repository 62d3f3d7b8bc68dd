import type { Announcement } from './membership.ts'
import type { NatsClusterOptions, openNatsCluster } from './nats-cluster.ts'
import type { PeerLinkOptions } from './peer-link.ts'
import type { ReplicaSource } from './replica-transfer.ts'

export interface ClusterServiceOptions extends NatsClusterOptions {
  readonly node: string
  readonly zone: string
  readonly address: () => string
  /** Nodes that hold each point; absent: all. */
  readonly replicas?: number | undefined
  readonly maxBufferedBytes: number
  readonly maxRequestBytes: number
  /** The link between this node and the others; absent: none. */
  readonly link?: LinkSettings | undefined
  /** Called with the seconds that each append, applied record and acknowledged write took. */
  readonly onAppend: (seconds: number) => void
  readonly onApply: (seconds: number) => void
  readonly onAcknowledge: (seconds: number) => void
  /** The source from which the data of another node are fetched. */
  readonly sourceOf: (node: string, said: Announcement) => ReplicaSource
  /** Called when this node is taken out of service, and when it serves again. */
  readonly onServing?: ((isServing: boolean) => void) | undefined
  /** Pause before a fetch is retried; short in tests. */
  readonly fetchRetryMs?: number | undefined
  /** Absent: opens the log on the log servers; tests use one in memory. */
  readonly openLog?: OpenLog | undefined
}

/** The settings of the link. */
export interface LinkSettings
  extends Pick<
    PeerLinkOptions,
    'host' | 'port' | 'tls' | 'callsMax' | 'answerBytes' | 'timeoutMs' | 'onCall'
  > {
  readonly secret: string | undefined
  /** The host and port to announce to other nodes. */
  readonly addressAt: (port: number) => string
}

/** Connects to the log of a cluster. */
export type OpenLog = typeof openNatsCluster

/** This node in numbers, for metrics. */
export interface ClusterFigures {
  readonly position: number
  readonly floor: number
  /** Log records that are not applied yet. */
  readonly lag: number
  readonly gaps: number
  readonly digestMismatches: number
  /** How often this node fetched everything from another node. */
  readonly fetches: number
  /** How often it also asked a second node because the first one was slow. */
  readonly hedges: number
  /** Partitions that it holds; all when each node holds all points. */
  readonly partitions: number
  /** Partitions that it should hold but does not hold yet. */
  readonly partitionsMissing: number
  /** Partitions that fewer nodes can answer for than should hold them, as this node sees it. */
  readonly partitionsUnderReplicated: number
  readonly isConnected: boolean
}
