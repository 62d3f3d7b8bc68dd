import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'

/**
 * What a node answers for partitions is whole only if it holds all of them.
 *
 * @throws DatabaseError `not_ready` that names one which it does not hold
 */
export function checkHolds(held: PartitionSet, asked: PartitionSet): void {
  for (const partition of asked) {
    if (held.has(partition)) continue
    throw new DatabaseError('not_ready', `this node does not hold partition ${partition}: try again later`)
  }
}
