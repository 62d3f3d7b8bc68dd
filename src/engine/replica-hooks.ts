import type { HeldPartitions } from './held-partitions.ts'

/** What a collection on a node of a cluster asks of the node. */
export interface ReplicaHooks {
  /** Names the log, 16 bytes in hex. */
  readonly logId: string
  /** The partitions that this node has; absent where every node has all. */
  readonly held?: HeldPartitions | undefined
  /** How far all collections have applied the log, and the cluster's clock there, in microseconds since 1970. */
  readonly floor: () => { readonly position: number; readonly clockUs: number }
  /** By this node's clock a point has expired, and by the cluster's it has not: a record of the log moves that one on. */
  readonly onDue: () => void
  /**
   * Has the log delete points that have expired; resolves when that is applied. Takes them when it is this node's turn: all
   * nodes have the same ones, and one is enough.
   */
  readonly expire: (take: () => readonly string[]) => Promise<void>
  /** Called when changes cannot be applied for now, with the reason; without one, when they can again. */
  readonly onStall: (stall: Error | undefined) => void
  /** How long an attempt that failed is put off; for tests, a few. */
  readonly retryMs?: number | undefined
}
