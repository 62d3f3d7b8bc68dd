import type { Payload } from '../base/point.ts'
import type { Change } from '../storage/store.ts'
import type { CurrentPoints } from './decision.ts'

/** Applies committed changes, and answers the write path's questions about the state that they change. */
export interface ChangeTarget extends CurrentPoints {
  /** Reserves memory for vectors of this dimension up to this slot count; throws `memory_full` if they do not fit. */
  reserve(slotCount: number, dimension: number): void
  /**
   * Starts a check that the payloads of a request fit in memory: `add` throws `memory_full` for the first that does
   * not.
   */
  roomCheck(): { add(payload: Payload): void }
  /** Runs an attempt again after `memory_full` if memory that nobody uses could be freed. */
  withRoom<Result>(attempt: () => Result | Promise<Result>): Promise<Result>
  /** Call when the dimension for which memory was last reserved is on disk. */
  fixDimension(): void
  /** Call when nothing was stored of what memory was last reserved for. */
  commitFailed(): void
  /**
   * Applies a change that is on disk; its point is in `slot`. The slot of a deleted point is returned to the allocator
   * when no graph leads to it any more.
   */
  apply(change: Change, slot: number): void
  /** Call when a decided change has failed: its point expires as before. */
  endPostponement(slot: number): void
  /** Like `endPostponement`, for all changes of a group that have not taken effect. */
  endPostponements(): Promise<void>
  /** A group is closed when it exceeds this many bytes, to limit how much reaches the index together. */
  readonly comingBytesMax: number
  /** Whether a graph is being rebuilt, which slows inserts down: see `WriterRoom`. */
  readonly isRebuilding: boolean
  /**
   * Undefined when the index can take more points now; otherwise resolves with whether it can, as soon as that is
   * known.
   */
  room(): Promise<boolean> | undefined
}
