import type { DetachedMessage, IndexMessage } from '../graphs/engine-thread.ts'

/**
 * How search threads get work, and what the main thread tells them.
 *
 *   threads with searches                             search thread of lane n (its scratch in every segment)
 *   ─────────────────────                             ──────────────────────────────────────────────────────
 *   submit work to their own board ················> asleep in Atomics.wait, or at work: take work of any board
 *   withdraw, cancel ······························> seen between two ranges or two queries: stop early
 *        <·········································· hits in the record, and the board's bell
 *
 *   main thread
 *   ───────────
 *   new Worker(workerData: ThreadSetup) ───────────> instantiate nothing yet
 *   StartMessage, BoardMessage ────────────────────> search from here on
 *   IndexMessage ──────────────────────────────────> instantiate the kernels over the segment's memory
 *   FilterMessage ─────────────────────────────────> keep the bitmap of a filter, or drop it
 *   IndexMessage ──────────────────────────────────> drop everything of the index
 *        <────────────────────────────────────────── DetachedMessage
 *
 *   ───> a message       ···> shared memory: board.ts, and the state of the pool below
 *
 * Every thread serves every index; messages and records identify theirs by its id, which is unique in the process.
 * Vectors of points are never posted: threads read them in place, in the segments' shared memory.
 *
 * A thread that sleeps in Atomics.wait receives no messages. Each message is therefore announced in the state of the
 * pool, which wakes the thread. A thread that has taken work first reads what was announced, so work never overtakes
 * the message of its segment or filter. A request to drop an index, or a filter, can overtake work: the thread then
 * gives the work up.
 */

interface StartMessage {
  readonly kind: 'start'
  /** The buffer of the `PoolState`. */
  readonly pool: SharedArrayBuffer
  /** The messages that were announced to former threads of the lane. */
  readonly received: number
}

/** The work of another thread; replaces that of a thread with the same number. */
interface BoardMessage {
  readonly kind: 'board'
  readonly owner: number
  readonly board: SharedArrayBuffer
}

/** The messages about filters to a search thread. */
export type FilterMessage =
  | { readonly kind: 'filter'; readonly filter: number; readonly words: SharedArrayBuffer }
  | { readonly kind: 'drop-filter'; readonly filter: number }

export type ToSearchThread = StartMessage | BoardMessage | FilterMessage | IndexMessage
export type FromSearchThread = DetachedMessage

/** What all search threads, and all threads with work for them, share. Lanes of search threads start at 1. */
export class PoolState {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  static memory(threads: number): SharedArrayBuffer {
    return new SharedArrayBuffer((1 + threads) * wordsPerLane * Int32Array.BYTES_PER_ELEMENT)
  }

  /**
   * Wakes a thread that sleeps, if there is one. Call after work was submitted.
   *
   * A thread that is woken counts as awake at once, not when it gets a processor. Otherwise all that is submitted until
   * then would cost a system call each. The number of sleepers is never too low: it falls only by those that were woken.
   */
  wakeOne(): void {
    Atomics.add(this.#words, bellWord, 1)
    if (Atomics.load(this.#words, asleepWord) === 0) return
    Atomics.sub(this.#words, asleepWord, Atomics.notify(this.#words, bellWord, 1))
  }

  /** Main thread: makes a thread read its port. Call after posting to it. */
  announce(lane: number): void {
    Atomics.add(this.#words, lane * wordsPerLane + messagesWord, 1)
    Atomics.add(this.#words, bellWord, 1)
    Atomics.sub(this.#words, asleepWord, Atomics.notify(this.#words, bellWord))
  }

  /** The number of messages that were announced to a thread, modulo 2^32. */
  messages(lane: number): number {
    return Atomics.load(this.#words, lane * wordsPerLane + messagesWord)
  }

  get bell(): number {
    return Atomics.load(this.#words, bellWord)
  }

  /** Search thread: sleeps until something happens; returns immediately if it has since `bell` was read. */
  sleep(bell: number): void {
    Atomics.add(this.#words, asleepWord, 1)
    const woken = Atomics.wait(this.#words, bellWord, bell)
    if (woken !== 'ok') Atomics.sub(this.#words, asleepWord, 1)
  }

  /** Search thread: counts a piece that it has worked on. */
  countPiece(lane: number): void {
    Atomics.add(this.#words, lane * wordsPerLane + piecesWord, 1)
  }

  /** The pieces that the threads of a lane have worked on since the start. */
  pieces(lane: number): number {
    return Atomics.load(this.#words, lane * wordsPerLane + piecesWord) >>> 0
  }
}

/** A cache line each. */
const wordsPerLane = 16
/** Of the first line; no search thread has lane 0. */
const bellWord = 0
const asleepWord = 1
/** Of the line of a lane. */
const messagesWord = 0
const piecesWord = 1
