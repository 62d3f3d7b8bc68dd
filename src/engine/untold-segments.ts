import type { SegmentHandle } from '../index/segment.ts'

/**
 * The segments of indexes that a thread has not been told of. It is told when it first works on the index: small
 * collections, searched on the main thread, then cost the other threads nothing.
 */
export class UntoldSegments {
  /** By index, until the thread first works on it. */
  readonly #untold = new Map<number, SegmentHandle[]>()

  /** A segment has been added to an index. @returns whether the thread has to be told now */
  add(index: number, segment: SegmentHandle): boolean {
    const untold = this.#untold.get(index)
    if (untold !== undefined) untold.push(segment)
    else if (segment.ordinal === 0) this.#untold.set(index, [segment])
    else return true
    return false
  }

  /** What the thread has to be told before it works on an index. */
  take(index: number): readonly SegmentHandle[] {
    const untold = this.#untold.get(index)
    if (untold === undefined) return none
    this.#untold.delete(index)
    return untold
  }

  /** An index is dropped. @returns whether the thread knows of it */
  drop(index: number): boolean {
    return !this.#untold.delete(index)
  }
}

const none: readonly SegmentHandle[] = []
