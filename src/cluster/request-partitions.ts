import { PartitionSet, partitionOf } from '../base/partitions.ts'
import type { LoggedRequest } from '../write/logged-request.ts'

/** The partitions whose points a request is about. */
export function partitionsOf(request: LoggedRequest): PartitionSet {
  if (request.kind === 'insert') {
    const drawn = request.idSeed[0]!
    return PartitionSet.of(request.points.map(({ id }) => (id === undefined ? drawn : partitionOf(id))))
  }
  if ('ids' in request) return PartitionSet.of(request.ids.map(partitionOf))
  return PartitionSet.of([partitionOf(request.id)])
}

/**
 * Whether a node that holds some partitions must apply a request. Every node keeps all idempotency keys: a key can be
 * used again for points of another partition, and the eviction of keys must not depend on what a node holds. Every
 * node also decides about inserts with looked-up points, so that the asking node learns immediately when the lookup
 * was stale.
 */
export function concerns(request: LoggedRequest, held: PartitionSet): boolean {
  if (request.kind === 'insert' && (request.identity ?? request.found) !== undefined) return true
  return [...partitionsOf(request)].some((partition) => held.has(partition))
}
