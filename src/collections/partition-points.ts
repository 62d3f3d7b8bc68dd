import type { Filter } from '../base/filter.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { Turn } from '../base/turns.ts'
import type { Replica } from '../write/replica.ts'
import type { LivePoints } from './live-points.ts'

/** Points as they were at one moment. */
interface ListedPoints {
  readonly slots: readonly number[]
  readonly ids: readonly string[]
  readonly versions: Float64Array
}

/**
 * Yields all points of some partitions in bounded batches, including expired points that are not deleted yet. Points
 * that change between two batches may be missing or appear twice.
 *
 * @param isWanted whether the points of a partition are wanted
 */
export async function* pointsIn(
  { table, expirations }: LivePoints,
  isWanted: (partition: number) => boolean,
): AsyncGenerator<ListedPoints, void> {
  const turn = new Turn()
  for (let slot = 0; slot < table.slotCount; ) {
    const slots: number[] = []
    // Runs in one turn: later, a slot can have another point.
    for (
      let looks = 0;
      looks < looksPerStep && slots.length < slotsPerStep && slot < table.slotCount;
      looks += 1
    ) {
      const isThere = table.isVisible(slot) || expirations.isHidden(slot)
      if (isThere && isWanted(table.ids.firstByteOf(slot))) slots.push(slot)
      slot += 1
    }
    if (slots.length > 0) {
      const ids = slots.map((each) => table.ids.idOf(each))
      yield { slots, ids, versions: Float64Array.from(slots, (each) => table.versionOf(each)) }
    }
    if (turn.isOver) await turn.next()
  }
}

/**
 * Removes the points of partitions that are not kept; resolves when that is durable.
 *
 * @throws the reason of `signal` when it aborts
 */
export async function clearPartitions(
  points: LivePoints,
  path: Pick<Replica, 'clear'>,
  keeps: (partition: number) => boolean,
  signal: AbortSignal,
): Promise<void> {
  for await (const { ids } of pointsIn(points, (partition) => !keeps(partition))) {
    signal.throwIfAborted()
    await path.clear(ids, keeps)
  }
}

/** Returns a filter that only points of some partitions match. */
export function within(partitions: PartitionSet, filter: Filter | undefined): Filter {
  const own: Filter = { kind: 'partitions', partitions: partitions.bytes }
  return filter === undefined ? own : { kind: 'all', of: [filter, own] }
}

/** A few milliseconds of deletions. */
const slotsPerStep = 2048
/** Some tens of microseconds. */
const looksPerStep = 8192
