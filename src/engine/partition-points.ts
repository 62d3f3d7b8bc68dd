import type { Filter } from '../base/filter.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { Turn } from '../base/turns.ts'
import type { LivePoints } from './live-points.ts'
import type { ReplicaPath } from './replica-path.ts'

/**
 * The slots of all points of some partitions, those included that have expired and are not deleted yet, a bounded number at
 * each step. What changes meanwhile may be missing, or there twice.
 *
 * @param isWanted by partition
 */
export async function* slotsIn(
  { table, expirations }: LivePoints,
  isWanted: (partition: number) => boolean,
): AsyncGenerator<number[], void> {
  const turn = new Turn()
  let slots: number[] = []
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    const isThere = table.isVisible(slot) || expirations.isHidden(slot)
    if (isThere && isWanted(table.ids.firstByteOf(slot))) slots.push(slot)
    if (slots.length === slotsPerStep) {
      yield slots
      slots = []
    }
    if (slot % slotsPerLook === 0 && turn.isOver) await turn.next()
  }
  if (slots.length > 0) yield slots
}

/**
 * Removes the points of partitions that are not kept; resolves when that is durable.
 *
 * @throws the reason of the signal when that aborts
 */
export async function clearPartitions(
  points: LivePoints,
  path: Pick<ReplicaPath, 'clear'>,
  keeps: (partition: number) => boolean,
  signal: AbortSignal,
): Promise<void> {
  for await (const slots of slotsIn(points, (partition) => !keeps(partition))) {
    signal.throwIfAborted()
    await path.clear(slots.map((slot) => points.idOf(slot)))
  }
}

/** A filter that only points of some partitions match. */
export function within(partitions: PartitionSet, filter: Filter | undefined): Filter {
  const own: Filter = { kind: 'partitions', partitions: partitions.bytes }
  return filter === undefined ? own : { kind: 'all', of: [filter, own] }
}

/** Some milliseconds of deletions. */
const slotsPerStep = 2048
/** About ten microseconds. */
const slotsPerLook = 1024
