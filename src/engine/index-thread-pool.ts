import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { IndexThread } from './index-thread.ts'

/** Whoever has something for index threads to do. */
export interface IndexThreadUser {
  /** Gives an idle thread something to do, and returns whether there was anything. */
  occupy(thread: IndexThread): boolean
  /** A thread has died, and nobody knows what it has left in shared memory. */
  onThreadDeath(fault: unknown): void
}

/**
 * The index threads of the process, which serve all indexes. Idle threads are dealt out to the indexers in turn, task by
 * task: however much one of them has to do, each of the others has the next task but a few. Main thread only.
 */
export class IndexThreadPool {
  readonly #threads: readonly IndexThread[]
  /** The first one's turn is next. */
  #users: IndexThreadUser[] = []

  /** @param firstLane lane of the first thread; the others follow */
  constructor(kernels: KernelModule, count: number, firstLane: number) {
    const onDeath = (fault: unknown): void => {
      for (const user of this.#users) user.onThreadDeath(fault)
    }
    this.#threads = Array.from(
      { length: count },
      (_, index) => new IndexThread({ kernels, lane: firstLane + index }, onDeath),
    )
  }

  /** How many threads there are. */
  get size(): number {
    return this.#threads.length
  }

  /** How many share the threads. */
  get users(): number {
    return this.#users.length
  }

  add(user: IndexThreadUser): void {
    this.#users.push(user)
  }

  /** It gets no thread any more. Idempotent. */
  remove(user: IndexThreadUser): void {
    this.#users = this.#users.filter((each) => each !== user)
  }

  attach(index: number, segment: SegmentHandle): void {
    for (const thread of this.#threads) thread.attach(index, segment)
  }

  /** Resolves when no thread knows an index any more; what they do for it ends before. */
  async detach(index: number): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.detach(index)))
  }

  /** Gives every idle thread something to do. */
  dispatch(): void {
    for (const thread of this.#threads) {
      if (thread.isBusy) continue
      const user = this.#users.find((each) => each.occupy(thread))
      if (user === undefined) return
      this.#users = [...this.#users.filter((each) => each !== user), user]
    }
  }

  /** Stops the threads whatever they do. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
  }
}
