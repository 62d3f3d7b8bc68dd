import { PartitionSet } from '../base/partitions.ts'
import type { Store } from '../storage/store.ts'

/**
 * The partitions that a node of a cluster holds, for all of its collections. The data decides this: the meta record of
 * the default collection lists them. A change is stored there before it counts here, or at the latest before the next
 * change.
 *
 * Main thread only.
 */
export class HeldPartitions {
  /** A new object whenever they change. */
  now: PartitionSet
  /** The partitions that the node is receiving. Their points are kept, and no read shows them. */
  coming: PartitionSet = new PartitionSet()
  /** Whether points of other partitions may be deleted. */
  mayDelete = false

  /** @param now the partitions of the data directory: see `heldIn` */
  constructor(now: PartitionSet) {
    this.now = now
  }

  /** Whether points of a partition are kept. */
  keeps(partition: number): boolean {
    return this.now.has(partition) || this.coming.has(partition)
  }
}

/** Returns the partitions that a data directory holds, according to the store of its default collection. */
export function heldIn({ applied }: Pick<Store, 'applied'>): PartitionSet {
  return applied?.held === undefined ? PartitionSet.all() : new PartitionSet(applied.held)
}

/**
 * Checks that the data directory holds the partitions of the topology. Otherwise a node would treat partitions as
 * complete although it has skipped records of them.
 *
 * @throws Error when the data is that of other partitions
 */
export function checkHeld(store: Pick<Store, 'applied' | 'sequence'>, held: PartitionSet | undefined): void {
  // A collection without points is valid for any partitions.
  if (store.applied === undefined && store.sequence === 0) return
  if (heldIn(store).equals(held ?? PartitionSet.all())) return
  throw new Error(
    'the data directory holds points of partitions other than those in the topology of the cluster: start the node with an empty directory',
  )
}
