/** The answer to `GET /cluster`: how this node sees its cluster. The names are those of the JSON. */
export interface ClusterStatus {
  /** Name of the cluster. */
  readonly name: string
  /** Name of this node. */
  readonly node: string
  readonly is_ready: boolean
  /** Whether a log server is connected. */
  readonly is_connected: boolean
  /** Why the node cannot be used; absent when it can. */
  readonly fault?: string
  /** Why the log of the cluster is lost; absent when it is not, as far as this node knows. */
  readonly log_lost?: string
  /** The last position up to which this node has applied all records of the log. */
  readonly position: number
  /** Absent while the log servers do not answer. */
  readonly log?: LogStatus
  readonly partitions: PartitionsStatus
  /** All members, including those that are away. */
  readonly nodes: readonly NodeStatus[]
  /** Positions missing in the log, counted since the start. */
  readonly gaps: number
  /** Comparisons with the points of other nodes that found a difference, counted since the start. */
  readonly digest_mismatches: number
}

/** The state of the 256 partitions into which points are divided by the first byte of their ids. */
export interface PartitionsStatus {
  /** Nodes that should have each partition. */
  readonly replicas: number
  /** Copies of partitions that nodes still have to fetch. */
  readonly incoming: number
  /** Copies of partitions that nodes still have and should not. */
  readonly surplus: number
  /** Partitions that no reachable node has. */
  readonly unowned: number
  /** Partitions that fewer reachable nodes have than should have them. */
  readonly under_replicated: number
}

export interface LogStatus {
  readonly first: number
  readonly last: number
  readonly bytes: number
  readonly bytes_max: number
  /** The servers that store it, the leader first. */
  readonly servers: readonly LogServer[]
}

export interface LogServer {
  /** Its `server_name`. */
  readonly name: string
  readonly is_leader: boolean
  /** Whether it has what the leader has; false also when it is away, or has switched off JetStream because of its disk. */
  readonly is_current: boolean
  readonly is_offline: boolean
}

/** What a node does: see docs/node-states.md. */
export type NodeState = 'joining' | 'copying' | 'catchingUp' | 'serving' | 'draining' | 'logLost' | 'failed'

/** The states in words. */
export const stateWords: Readonly<Record<NodeState, string>> = {
  joining: 'joining',
  copying: 'copying',
  catchingUp: 'catching up',
  serving: 'serving',
  draining: 'draining',
  logLost: 'log lost',
  failed: 'failed',
}

/** What a log server does, in words. */
export function logServerWord({
  is_leader: isLeader,
  is_current: isCurrent,
  is_offline: isOffline,
}: LogServer): string {
  if (isLeader) return 'leader'
  if (isOffline) return 'away, or without JetStream'
  return isCurrent ? 'current' : 'behind'
}

export interface NodeStatus {
  readonly name: string
  readonly zone: string
  readonly address: string
  /** Whether the node was heard from in the last seconds. */
  readonly is_alive: boolean
  readonly is_ready: boolean
  /** Absent for a node that is away. */
  readonly state?: NodeState
  readonly partitions: NodePartitions
  /** The position that the node last reported; absent for a node that is away. */
  readonly position?: number
  readonly version?: string
}

export interface NodePartitions {
  /** Partitions whose points the node has completely and answers for. */
  readonly owned: number
  readonly wanted: number
  /** The node that it is fetching partitions from; absent while it fetches none. */
  readonly from?: string
}

/** The reason in `/readyz` for a node that accepts no clients only because it is being drained. */
export const drainedReason = 'this node is being drained'
