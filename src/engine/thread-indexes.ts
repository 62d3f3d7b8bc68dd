import type { SegmentHandle } from '../index/segment.ts'

/** What a thread is told of indexes, whatever its work. */
export type IndexMessage =
  | { readonly kind: 'segment'; readonly index: number; readonly segment: SegmentHandle }
  | { readonly kind: 'detach'; readonly index: number }

/**
 * The main thread's record of the indexes that one thread knows. A thread is told of an index when it first works on it:
 * small collections, searched on the main thread, then cost the other threads nothing.
 */
export class ThreadIndexes {
  readonly #tell: (message: IndexMessage) => void
  /** By index, its segments until the thread first works on it. */
  readonly #untold = new Map<number, SegmentHandle[]>()
  /** By index, what waits for the thread to have dropped it. */
  readonly #detaching = new Map<number, () => void>()
  #hasEnded = false

  constructor(tell: (message: IndexMessage) => void) {
    this.#tell = tell
  }

  /** A segment has been added to an index. */
  attach(index: number, segment: SegmentHandle): void {
    const untold = this.#untold.get(index)
    if (untold !== undefined) untold.push(segment)
    else if (segment.ordinal === 0) this.#untold.set(index, [segment])
    else this.#tell({ kind: 'segment', index, segment })
  }

  /** Call before the thread gets work on an index. */
  beforeWork(index: number): void {
    const untold = this.#untold.get(index)
    if (untold === undefined) return
    this.#untold.delete(index)
    for (const segment of untold) this.#tell({ kind: 'segment', index, segment })
  }

  /** Resolves when the thread has dropped everything of an index, after what it may be working on. */
  detach(index: number): Promise<void> {
    if (this.#untold.delete(index) || this.#hasEnded) return Promise.resolve()
    return new Promise((resolve) => {
      this.#detaching.set(index, resolve)
      this.#tell({ kind: 'detach', index })
    })
  }

  /** The thread says that it has dropped an index. */
  detached(index: number): void {
    this.#detaching.get(index)?.()
    this.#detaching.delete(index)
  }

  /** The thread has ended, and everything that it knew with it. */
  end(): void {
    this.#hasEnded = true
    for (const index of [...this.#detaching.keys()]) this.detached(index)
  }
}
