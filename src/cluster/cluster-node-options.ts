import type { Logger } from '../base/log.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Consistency } from '../base/request-headers.ts'
import type { CommitLog, SharedDocuments } from './log/commit-log.ts'
import type { ClusterTimings } from './node-state.ts'
import type { PlacementOptions } from './reads/placement.ts'
import type { Peers } from './requests.ts'

export interface ReadPosition {
  /** Absent: `session`. */
  readonly consistency?: Consistency | undefined
  /** The position of the caller's last write or read. */
  readonly position?: number | undefined
}

/** Which partitions a node holds, and who holds the others. */
export interface Sharding extends Pick<PlacementOptions, 'owners' | 'isLive' | 'hasFault'> {
  /** The partitions that this node holds completely at its start. */
  readonly held: PartitionSet
  /** Sends requests to the other nodes. */
  readonly peers: Peers
}

export interface ClusterNodeOptions {
  readonly log: CommitLog
  readonly documents: SharedDocuments
  /** Unique in the cluster. */
  readonly name: string
  /** Unique among all runs of nodes with this name; absent: derived from the clock. */
  readonly run?: string | undefined
  /** Maximum bytes of this node's writes in flight. */
  readonly maxBufferedBytes: number
  /** Maximum bytes of one request. */
  readonly maxRequestBytes: number
  readonly logger: Logger
  /** Microseconds since 1970; absent: the system's clock. */
  readonly nowUs?: (() => number) | undefined
  /** How long a write, or a read that waits for the log, is tried. */
  readonly timeoutMs: number
  /** How long other nodes are asked for statistics and counts of collections; long in tests. */
  readonly statsMs?: number | undefined
  /** How long this node's log may be held for a move of partitions; long in tests. */
  readonly logHoldMs?: number | undefined
  /** Pause before a retry; short in tests. */
  readonly retryMs?: number | undefined
  /** How often the position is stored; short in tests. */
  readonly markMs?: number | undefined
  /**
   * Upper limit of the random delay before this node deletes expired points. Another node may have deleted them by
   * then. Short in tests.
   */
  readonly expireMs?: number | undefined
  /** How often the replicas are compared; short in tests. */
  readonly auditMs?: number | undefined
  readonly sharding: Sharding
  readonly timings: () => ClusterTimings | undefined
  /** Called when the log does not have the next position. */
  readonly onGap?: (() => void) | undefined
}

/** The status of a node, for operators and metrics. */
export interface LocalStatus {
  /** All log records up to here are applied. */
  readonly position: number
  /** All log records up to here are on this node's disk. */
  readonly floor: number
  /**
   * Whether it answers reads: it has applied everything that was in the log at its start. While the log is lost it does,
   * as of the last applied position.
   */
  readonly answers: boolean
  /** Comparisons with other nodes that found a difference, since the data were loaded. */
  readonly digestMismatches: number
  /** Why changes are currently not applied, or why this node's data are in doubt. */
  readonly fault: string | undefined
}
