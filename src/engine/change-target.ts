import type { Payload } from '../base/point.ts'
import type { Change } from '../storage/store.ts'
import type { CurrentPoints } from './decision.ts'

/** Where committed changes take effect, and what the write path asks of the state it changes. */
export interface ChangeTarget extends CurrentPoints {
  /** Makes sure that vectors of this dimension up to this slot count fit in memory, or throws `memory_full`. */
  reserve(slotCount: number, dimension: number): void
  /** A check that the payloads of a request fit in memory: `add` throws `memory_full` for the first one that does not. */
  roomCheck(): { add(payload: Payload): void }
  /** The dimension for which memory was reserved last is on the disk. */
  fixDimension(): void
  /** Nothing of what memory was reserved for last is stored. */
  commitFailed(): void
  /**
   * Carries out a change that is on the disk, its point in `slot`. The slot of a deleted point is handed back to the
   * allocator when nothing leads to it any more.
   */
  apply(change: Change, slot: number): void
  /** Bytes after which a group is closed, so that not too much comes to the index at once. */
  readonly comingBytesMax: number
  /** Resolves with whether the index can take more points after all, when that is known; undefined when it can now. */
  room(): Promise<boolean> | undefined
}
