import { DatabaseError } from '../base/errors.ts'
import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { NewPoint } from '../base/point.ts'
import { atOnce } from '../base/turns.ts'
import { type Found, FoundAnswerSchema } from '../messages/generated/cluster_pb.js'
import type { Fields } from '../messages/reader.ts'
import { bytesOfNumbers, idsOf } from '../messages/vectors.ts'
import { encode } from '../messages/writer.ts'
import type { LoggedInsert } from '../write/requests.ts'
import type { ReadingNode } from './reads/node-reads.ts'
import { checkHolds } from './reads/placement.ts'

/**
 * Inserts that depend on points of several partitions, which no replica may hold together: an insert of all or nothing,
 * and one whose result is kept under an idempotency key, which all nodes keep. They take two steps:
 *
 *   ask the owners which ids have points ─> append a record with the answer ─> changed since? ─ no: decided
 *         ^                                                                      └ yes: nothing is stored
 *         └──────────────────────────────────────────────────────────────────────────┘
 *
 * Every node can tell from the log alone whether the points have changed, so all of them decide the same.
 */

/**
 * Whether the ids of an insert have to be looked up first.
 *
 * @param owners how many nodes it takes to hold all points of the insert
 */
export function needsLookup({ points, onError, identity }: LoggedInsert, owners: number): boolean {
  if (!points.some(canBeRefused)) return false
  if (identity !== undefined) return true
  return ownPartitions(points).size > 1 && (onError === 'abort' || owners > 1)
}

/** The partition in which to draw ids, so that its owners decide about the whole insert; undefined: any. */
export function partitionToDraw(points: readonly NewPoint[]): number | undefined {
  return points.some(canBeRefused) ? [...ownPartitions(points)][0] : undefined
}

/** Whether a point is refused if its id exists. */
export function canBeRefused({ id, onConflict = 'error' }: NewPoint): boolean {
  return id !== undefined && onConflict === 'error'
}

function ownPartitions(points: readonly NewPoint[]): ReadonlySet<number> {
  return new Set(points.flatMap(({ id }) => (id === undefined ? [] : partitionOf(id))))
}

/** The ids of an insert with their indexes. A second point with the same id is refused in any case. */
export function indexesOf(points: readonly NewPoint[]): ReadonlyMap<string, number> {
  const indexes = new Map<string, number>()
  for (const [index, { id }] of points.entries())
    if (id !== undefined && !indexes.has(id)) indexes.set(id, index)
  return indexes
}

/**
 * Looks up ids on a node, all at one moment. A collection that was dropped meanwhile has no points; the node that
 * inserts learns that from the log.
 *
 * @throws DatabaseError `not_ready` when the node does not hold the partition of an id
 */
export async function findHere(
  node: ReadingNode,
  { collection, ids: bytes }: Pick<Fields<Found>, 'collection' | 'ids'>,
): Promise<Buffer> {
  const ids = atOnce(idsOf(bytes))
  // While the collection is opened, an alias can move: its record is then later than this position.
  const { position } = node
  let expiries = ids.map(() => Number.NaN)
  try {
    using lease = await node.set.lease(collection)
    checkHolds(node.held, PartitionSet.of(ids.map(partitionOf)))
    expiries = ids.map((id) => lease.database.expiryOf(id) ?? Number.NaN)
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.reason !== 'collection_not_found') throw error
  }
  return encode(FoundAnswerSchema, { position, expiries: bytesOfNumbers(expiries) })
}
