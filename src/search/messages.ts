import type { DetachedMessage, FaultMessage, IndexMessage } from '../graphs/engine-thread.ts'

/**
 * The messages between the main thread and the search workers.
 *
 *   main thread                                     worker n (lane n of every segment's scratch)
 *   ───────────                                     ─────────────────────────────────────────────
 *   new Worker(workerData: ThreadSetup) ──────────> instantiate nothing yet
 *   StartMessage ─────────────────────────────────> from here on asleep in Atomics.wait, or at work
 *   IndexMessage, announced  in the ring ────────> instantiate the kernels over the segment's memory
 *   FilterMessage, announced in the ring ─────────> keep the bitmap of a filter, or drop it
 *   record in the ring ···························> search, one record after another
 *   cancelled, in the record ·····················> seen between two ranges or two queries: stops early
 *        <········································· hits in the record, and the doorbell
 *        <───────────────────────────────────────── FaultMessage, if the search has thrown
 *   IndexMessage, announced in the ring ─────────> drop everything of the index
 *        <───────────────────────────────────────── DetachedMessage
 *
 *   ───> a message       ···> shared memory: search-ring.ts, and the doorbell below
 *
 * Every worker serves every index; messages and records identify theirs by its id, which is unique in the process.
 * Vectors of points are never posted: workers read them in place, in the segments' shared memory.
 *
 * A thread that sleeps in Atomics.wait receives no messages. Each message posted after the start is therefore counted
 * in the ring, which wakes the thread. A record never overtakes the message of its segment or filter. A request to
 * drop an index can overtake records of its index; their hits are no longer needed, and they are completed without any.
 */

export interface StartMessage {
  readonly kind: 'start'
  /** The buffer of this worker's own `SearchRing`. */
  readonly ring: SharedArrayBuffer
  /** The buffer of the `Doorbell` that all workers share. */
  readonly doorbell: SharedArrayBuffer
}

/** The messages about filters to a search thread. */
export type FilterMessage =
  | { readonly kind: 'filter'; readonly filter: number; readonly words: SharedArrayBuffer }
  | { readonly kind: 'drop-filter'; readonly filter: number }

export type ToSearchThread = StartMessage | FilterMessage | IndexMessage
export type FromSearchThread = DetachedMessage | FaultMessage

/**
 * Wakes the main thread when a search thread has completed work. The main thread's event loop must never block, so it
 * listens with `Atomics.waitAsync`. While it does not listen, ringing costs nothing, and it later collects everything
 * that several threads have completed meanwhile.
 */
export class Doorbell {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  /** Search threads: reports completed work. */
  ring(): void {
    if (Atomics.exchange(this.#words, armedWord, 0) === 0) return
    Atomics.add(this.#words, bellWord, 1)
    Atomics.notify(this.#words, bellWord)
  }

  /**
   * Main thread: the next ring calls `listener` once. Afterwards, check for work that was completed before this call.
   */
  listen(listener: () => void): void {
    const bell = Atomics.load(this.#words, bellWord)
    Atomics.store(this.#words, armedWord, 1)
    const rung = Atomics.waitAsync(this.#words, bellWord, bell)
    if (rung.async) rung.value.then(listener)
    else queueMicrotask(listener)
  }
}

const armedWord = 0
const bellWord = 1
