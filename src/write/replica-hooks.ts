import type { HeldPartitions } from '../points/held-partitions.ts'

/** What a collection on a node of a cluster needs from the node. */
export interface ReplicaHooks {
  /** The id of the log, 16 bytes in hex. */
  readonly logId: string
  /** The partitions that this node holds; absent where every node holds all. */
  readonly held?: HeldPartitions | undefined
  /**
   * Returns how far all collections have applied the log, and the cluster's clock there, in microseconds since 1970.
   */
  readonly floor: () => { readonly position: number; readonly clockUs: number }
  /**
   * Called with the position of a record before reads can see any of its effects. Earlier records of other collections
   * may not be applied yet.
   */
  readonly onVisible: (position: number) => void
  /**
   * Called when a point has expired by this node's clock but not by the cluster's. A record of the log then moves the
   * cluster's clock forward.
   */
  readonly onDue: () => void
  /**
   * Deletes expired points through the log; resolves when that is applied. Calls `take` for their ids when it is this
   * node's turn: all nodes have the same expired points, and one node is enough.
   */
  readonly expire: (take: () => readonly string[]) => Promise<void>
  /** Called with the reason when changes cannot be applied for now, and without one when they can again. */
  readonly onStall: (stall: Error | undefined) => void
  /** The delay before a failed attempt is repeated; tests use a few milliseconds. */
  readonly retryMs?: number | undefined
}
