/** What `GET /cluster` says: how this node sees its cluster. The names are those of the JSON. */
export interface ClusterStatus {
  /** Of the cluster. */
  readonly name: string
  /** This node. */
  readonly node: string
  readonly is_ready: boolean
  /** Whether a log server is connected. */
  readonly is_connected: boolean
  /** What keeps the node from being used; absent when nothing does. */
  readonly fault?: string
  /** Why the log of the cluster is lost, as far as this node knows; absent when it is not. */
  readonly log_lost?: string
  /** This node has applied all records of the log up to here. */
  readonly position: number
  /** Absent while the log servers do not answer. */
  readonly log?: LogStatus
  /** Where nodes may have a part of the points each; absent where each has all of them. */
  readonly partitions?: PartitionsStatus
  /** All members, those that are away too. */
  readonly nodes: readonly NodeStatus[]
  /** Positions that the log did not have, since the start. */
  readonly gaps: number
  /** Comparisons with what other nodes hold that came out different, since the start. */
  readonly digest_mismatches: number
}

/** Points are divided into 256 partitions, by the first byte of their ids. */
export interface PartitionsStatus {
  /** Nodes that should have each partition. */
  readonly replicas: number
  /** Copies of partitions that a node has still to get. */
  readonly to_come: number
  /** Copies that a node has still, and should not. */
  readonly to_go: number
  /** Partitions of which no node that has them can be asked now. */
  readonly without_node: number
  /** Partitions of which fewer nodes can be asked now than should have them. */
  readonly under_replicated: number
}

export interface LogStatus {
  readonly first: number
  readonly last: number
  readonly bytes: number
  readonly bytes_max: number
}

export interface NodeStatus {
  readonly name: string
  readonly zone: string
  readonly address: string
  /** Whether it has been heard of in the last seconds. */
  readonly is_there: boolean
  readonly is_ready: boolean
  /** Absent for a node that takes part in everything. */
  readonly state?: 'joining' | 'draining' | 'refetching'
  /** Absent where each node has all points. */
  readonly partitions?: NodePartitions
  /** As it said last; absent for a node that is away. */
  readonly position?: number
  readonly version?: string
}

/** What `POST /cluster/repair` answers. */
export interface RepairedLog {
  /** The node that the new log begins with. */
  readonly node: string
  /** Up to here it has applied the lost log. */
  readonly position: number
  /** The first position of the new one. */
  readonly first: number
}

export interface NodePartitions {
  /** It has all of their points, and answers for them. */
  readonly owned: number
  readonly wanted: number
  /** The node that it is getting some from; absent while it gets none. */
  readonly from?: string
}

/** What `/readyz` says of a node that takes no clients, and otherwise could. */
export const drainedReason = 'this node is being drained'
