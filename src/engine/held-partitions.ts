import { PartitionSet } from '../base/partitions.ts'
import type { Store } from '../storage/store.ts'

/**
 * The partitions that a node of a cluster has, for all of its collections. What it has follows from its data: the meta record of
 * the default collection says it, and it is stored there before it counts here, or at the latest before the next change.
 *
 * Main thread only.
 */
export class HeldPartitions {
  #now: PartitionSet
  /** Those that it is getting: their points are kept, and nobody sees them. */
  coming: PartitionSet = new PartitionSet()
  /** Called after each change of what the node has. */
  readonly listeners: Set<() => void> = new Set()
  /** Whether points of other partitions may be deleted. */
  mayDelete = false

  /** @param now what the directory has: see `heldIn` */
  constructor(now: PartitionSet) {
    this.#now = now
  }

  /** Another object whenever it changes. */
  get now(): PartitionSet {
    return this.#now
  }

  set now(next: PartitionSet) {
    this.#now = next
    for (const listener of this.listeners) listener()
  }

  /** Whether points of a partition stay. */
  keeps(partition: number): boolean {
    return this.#now.has(partition) || this.coming.has(partition)
  }
}

/** The partitions that a data directory has, by the store of its default collection. */
export function heldIn({ applied }: Pick<Store, 'applied'>): PartitionSet {
  return applied?.held === undefined ? PartitionSet.all() : new PartitionSet(applied.held)
}

/**
 * A node would take partitions for complete of which it has passed over records.
 *
 * @throws Error when the data is that of other partitions
 */
export function checkHeld(store: Pick<Store, 'applied' | 'sequence'>, held: PartitionSet | undefined): void {
  // A collection without points can be that of any partitions.
  if (store.applied === undefined && store.sequence === 0) return
  if (heldIn(store).equals(held ?? PartitionSet.all())) return
  throw new Error(
    'the data directory has the points of other partitions than the topology of the cluster says: start the node with an empty one',
  )
}
