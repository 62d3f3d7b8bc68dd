import { DatabaseError } from '../base/errors.ts'
import { partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import type { InsertOptions } from '../engine/database.ts'

/**
 * Where nodes have a part of the points each, a node decides about the points that it has. So an insert that is stored as a
 * whole or not at all, depending on which points exist, has to be about one partition; and what is kept under an
 * idempotency key, which all nodes keep, must not depend on the points of some.
 *
 * @returns the partition in which ids have to be drawn; undefined for any
 * @throws DatabaseError `invalid_argument` for what no node can decide
 */
export function partitionToDraw(
  points: readonly NewPoint[],
  { onError = 'abort', identity }: InsertOptions,
): number | undefined {
  const deciding = points.filter(({ id, onConflict = 'error' }) => id !== undefined && onConflict === 'error')
  if (deciding.length === 0) return undefined
  if (identity !== undefined) throw new DatabaseError('invalid_argument', keyedMessage)
  if (onError === 'continue') return undefined
  const partitions = new Set(points.flatMap(({ id }) => (id === undefined ? [] : partitionOf(id))))
  if (partitions.size > 1) throw new DatabaseError('invalid_argument', scatteredMessage)
  return [...partitions][0]
}

const scatteredMessage =
  'no node of this cluster has all of these points: an insert with ids needs on_conflict "skip" or "replace", or on_error "continue", unless all ids begin with the same two digits'

const keyedMessage =
  'no node of this cluster has all points: an insert with ids and an idempotency key needs on_conflict "skip" or "replace"'
