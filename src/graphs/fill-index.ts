import { DatabaseError } from '../base/errors.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import { type IdPages, writePagedId } from '../points/id-table.ts'
import { shareRanges, stopRanges } from '../points/shared-ranges.ts'
import { readRows } from '../storage/row-reader.ts'
import type { StoredRows } from '../storage/store.ts'
import type { GraphScheduler } from './graph-scheduler.ts'
import type { GraphSet } from './graph-set.ts'
import type { TaskResults } from './index-messages.ts'

export interface FillOptions {
  readonly graphs: GraphSet
  readonly scheduler: GraphScheduler
  readonly rows: StoredRows
  /** Where the threads write the ids of live slots. */
  readonly ids: IdPages
}

/**
 * Fills an index with a store's points, on all index threads.
 *
 * @throws DatabaseError `internal` that names a damaged row; the reason of `signal` when it aborts
 */
export async function fillIndex(
  { graphs, scheduler, rows, ids }: FillOptions,
  signal?: AbortSignal,
): Promise<void> {
  const { index } = graphs
  const step = Math.max(1, Math.floor(fillBytes / index.layout.rowBytes))
  for (const { ordinal, firstSlot, layout } of index.segments) {
    signal?.throwIfAborted()
    const to = Math.min(rows.slotCount, firstSlot + layout.capacity)
    // Threads take ranges of slots from shared memory, not from the main thread, which is busy opening ports.
    const slots = shareRanges(firstSlot, to, step)
    const stop = (): void => stopRanges(slots)
    signal?.addEventListener('abort', stop, { once: true })
    try {
      await Promise.all(
        Array.from({ length: scheduler.threadCount }, async () => {
          while (!(await fillSome(graphs, scheduler, { ordinal, rows, slots, ids })));
        }),
      )
    } finally {
      signal?.removeEventListener('abort', stop)
    }
    signal?.throwIfAborted()
  }
}

/** @returns whether all slots have been taken */
async function fillSome(
  graphs: GraphSet,
  scheduler: GraphScheduler,
  slots: Omit<TaskResults['fill']['task'], 'isBounded'>,
): Promise<boolean> {
  const isBounded = scheduler.isShared
  const { points, isDone, fault } = await scheduler.submit({ kind: 'fill', ...slots, isBounded })
  if (fault !== undefined) throw new DatabaseError('internal', fault)
  graphs.index.filled(points)
  return isDone
}

/**
 * Fills an index on the calling thread. For a few points this is faster than sending them to threads, and no other
 * thread has to attach the index. It makes no codes, so graphs that are read from disk need `fillIndex`.
 *
 * @throws DatabaseError `internal` that names a damaged row
 */
export function fillHere(index: VectorIndex, rows: StoredRows, ids: IdPages): void {
  readRows(rows, 0, rows.slotCount, ({ slot, id, sequence, vector }) => {
    writePagedId(ids, slot, id)
    index.place(slot, vector, sequence)
  })
}

/** A millisecond or two of reading. */
export const fillHereBytes: number = 512 * 1024

/** A few milliseconds of filling. */
const fillBytes = 4 * 1024 * 1024
