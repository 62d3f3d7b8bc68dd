import type { SegmentHandle } from '../index/segment.ts'

/** The messages about indexes to a thread of either kind. */
export type IndexMessage =
  | { readonly kind: 'segment'; readonly index: number; readonly segment: SegmentHandle }
  | { readonly kind: 'detach'; readonly index: number }

/**
 * The main thread's record of the indexes that one thread has received. A thread receives an index when it first works
 * on it. Small collections, which are searched on the main thread, therefore cost the other threads nothing.
 */
export class ThreadIndexes {
  readonly #post: (message: IndexMessage) => void
  /** By index: the segments to send when the thread first works on it. */
  readonly #unsent = new Map<number, SegmentHandle[]>()
  /** By index: called when the thread has dropped it. */
  readonly #detaching = new Map<number, () => void>()
  #hasEnded = false

  constructor(post: (message: IndexMessage) => void) {
    this.#post = post
  }

  /** Call when a segment was added to an index. */
  attach(index: number, segment: SegmentHandle): void {
    const unsent = this.#unsent.get(index)
    if (unsent !== undefined) unsent.push(segment)
    else if (segment.ordinal === 0) this.#unsent.set(index, [segment])
    else this.#post({ kind: 'segment', index, segment })
  }

  /** Call before the thread gets work on an index. */
  beforeWork(index: number): void {
    const unsent = this.#unsent.get(index)
    if (unsent === undefined) return
    this.#unsent.delete(index)
    for (const segment of unsent) this.#post({ kind: 'segment', index, segment })
  }

  /** Resolves when the thread has dropped everything of an index, after its current work. */
  detach(index: number): Promise<void> {
    if (this.#unsent.delete(index) || this.#hasEnded) return Promise.resolve()
    return new Promise((resolve) => {
      this.#detaching.set(index, resolve)
      this.#post({ kind: 'detach', index })
    })
  }

  /** Call when the thread reports that it has dropped an index. */
  detached(index: number): void {
    this.#detaching.get(index)?.()
    this.#detaching.delete(index)
  }

  /** Call when the thread has ended; everything that it had received is gone. */
  end(): void {
    this.#hasEnded = true
    for (const index of [...this.#detaching.keys()]) this.detached(index)
  }
}
