import type { PartitionSet } from '../base/partitions.ts'

/** A node that is asked, and the partitions that it answers for: no other part of the cover has them. */
export interface CoverPart {
  readonly node: string
  readonly partitions: PartitionSet
}

/** The nodes that answer a read together. */
export interface Cover {
  readonly parts: readonly CoverPart[]
  /** Partitions without a live owner. */
  readonly missing: PartitionSet
}

/** Where the points are, for reads. */
export interface Placement {
  /** Whether this node holds every partition: then it answers alone. */
  readonly isWhole: boolean
  /**
   * Returns the fewest live nodes that hold some partitions together. This node is one of them if it holds any.
   *
   * @param wanted the partitions
   * @param avoid nodes that are not asked
   */
  cover(wanted: PartitionSet, avoid: ReadonlySet<string>): Cover
  /** By name, whether each node that holds some partition can be asked. */
  readonly nodes: ReadonlyMap<string, boolean>
  /** The live nodes that hold a partition, this node first. */
  owners(partition: number): readonly string[]
}
