import type { Filter } from '../base/filter.ts'
import type { Payload } from '../base/point.ts'
import type { Expirations } from '../points/expirations.ts'
import type { OrderedSlot } from '../points/insertion-order.ts'
import type { PointTable } from '../points/point-table.ts'
import type { Change, PointRecord } from '../storage/store.ts'
import type { Stamp } from './requests.ts'

/** What decisions depend on: the points as of the changes that have taken effect. */
export interface CurrentPoints {
  /** Fixed by the first insertion that took effect; undefined before that. */
  readonly dimension: number | undefined
  readonly table: Pick<PointTable, 'find' | 'slotOf' | 'idOf' | 'versionOf' | 'orderOf' | 'isVisible'>
  readonly expirations: Pick<
    Expirations,
    'hideDue' | 'hasExpired' | 'postpone' | 'endPostponement' | 'endPostponements'
  >
  /** On a node of a cluster: moves the clock forward to at least the time of a record. Reads can see what expires by it. */
  advanceTo(stamp: Stamp): void
  record(slot: number, id: string): PointRecord
  matches(slot: number, filter: Filter): boolean
  /** Finds the visible points that match now. */
  matching(filter: Filter): Promise<MatchingPoints>
}

/** Points that match a filter, as of one moment. */
export interface MatchingPoints {
  readonly count: number
  /** Returns the first `limit` matching points with a higher order than `after`, in the order of insertion. */
  page(after: number, limit: number): Promise<readonly OrderedSlot[]>
}

/** Applies committed changes, and answers the write path's questions about the state that they change. */
export interface ChangeTarget extends CurrentPoints {
  /** Reserves memory for vectors of this dimension up to this slot count; throws `memory_full` if they do not fit. */
  reserve(slotCount: number, dimension: number): void
  /**
   * Starts a check that the payloads of a request fit in memory: `add` throws `memory_full` for the first that does
   * not.
   */
  memoryCheck(): { add(payload: Payload): void }
  /** Runs an attempt again after `memory_full` if memory that nobody uses could be freed. */
  withMemory<Result>(attempt: () => Result | Promise<Result>): Promise<Result>
  /** Call when the dimension for which memory was last reserved is on disk. */
  fixDimension(): void
  /** Call when nothing was stored of what memory was last reserved for. */
  commitFailed(): void
  /**
   * Applies a change that is on disk; its point is in `slot`. The slot of a deleted point is returned to the allocator
   * when no graph leads to it any more.
   */
  apply(change: Change, slot: number): void
  /** Call when all changes of a small request, or some of a larger one, have been applied. */
  applied(): void
  /** Call when all changes that are stored have been applied. */
  allApplied(): void
  /** A group is closed when it exceeds this many bytes, to limit how much reaches the index together. */
  readonly comingBytesMax: number
  /** Whether a graph is being rebuilt, which slows inserts down: see `WriterRoom`. */
  readonly isRebuilding: boolean
  /**
   * Undefined when the index can take more points now; otherwise resolves with whether it can, as soon as that is
   * known.
   */
  whenIndexReady(): Promise<boolean> | undefined
}
