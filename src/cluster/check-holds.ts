import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'

/**
 * Checks that a node holds all partitions that it is asked about. Otherwise its answer would be incomplete.
 *
 * @throws DatabaseError `not_ready` that names a missing partition
 */
export function checkHolds(held: PartitionSet, asked: PartitionSet): void {
  for (const partition of asked) {
    if (held.has(partition)) continue
    throw new DatabaseError('not_ready', `this node does not hold partition ${partition}: try again later`)
  }
}
