import { DatabaseError } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Collection } from '../collections/collection.ts'

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

/**
 * Checks that the points of a collection are those of the position that its node has applied. After a restart the
 * collection can be ahead of it.
 *
 * @throws DatabaseError `not_ready`
 */
export function checkNotAhead({ replica }: Pick<Collection, 'replica'>, position: number): void {
  if (replica.position <= position) return
  throw new DatabaseError(
    'not_ready',
    `this node is reading the log again up to position ${replica.position}: try again later`,
  )
}
