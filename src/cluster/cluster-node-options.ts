import type { Consistency } from '../base/consistency.ts'
import type { Logger } from '../base/log.ts'
import type { CommitLog, SharedDocuments } from './commit-log.ts'
import type { Sharding } from './node-shards.ts'

export interface ReadPosition {
  /** Absent: `session`. */
  readonly consistency?: Consistency | undefined
  /** Of the caller's last write or read. */
  readonly position?: number | undefined
}

export interface ClusterNodeOptions {
  readonly log: CommitLog
  readonly documents: SharedDocuments
  /** Unique in the cluster. */
  readonly name: string
  /** Unique among all runs of nodes of this name; absent: by the clock. */
  readonly run?: string | undefined
  /** Bytes of writes of this node that are on their way. */
  readonly maxBufferedBytes: number
  /** Bytes of one request at most. */
  readonly maxRequestBytes: number
  readonly logger: Logger
  /** Microseconds since 1970; absent: the system's clock. */
  readonly nowUs?: (() => number) | undefined
  /** How long a write or a read that waits for the log is tried. */
  readonly timeoutMs?: number | undefined
  /** For tests, a few. */
  readonly retryMs?: number | undefined
  /** How often the position is stored although nothing is written; for tests, a few. */
  readonly markMs?: number | undefined
  /** A node waits up to so long before it has expired points deleted, as others may have done it; for tests, a few. */
  readonly expireMs?: number | undefined
  /** How often the replicas are compared; for tests, a few. */
  readonly auditMs?: number | undefined
  /** Absent: every node has all points. */
  readonly sharding?: Sharding | undefined
  /** Called with the seconds that a record took to be applied, and a write to be acknowledged. */
  readonly onApply?: ((seconds: number) => void) | undefined
  readonly onAcknowledge?: ((seconds: number) => void) | undefined
}

/** How a node is, for people and metrics. */
export interface NodeStatus {
  /** Up to here, all records of the log are applied. */
  readonly position: number
  /** Up to here, they are on this node's disk: the log may be trimmed up to there for its sake. */
  readonly floor: number
  /** Whether everything that was in the log at the start is applied, and the log is still being applied. */
  readonly isReady: boolean
  /** Whether it answers reads: also while the log is lost, as of where that has ended. */
  readonly answers: boolean
  /** Comparisons with other nodes that came out different, since the start. */
  readonly digestMismatches: number
  /** Why changes are not applied now. */
  readonly fault: string | undefined
}
