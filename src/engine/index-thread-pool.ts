import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { IndexThread } from './index-thread.ts'

/** An indexer, which has tasks for index threads. */
export interface IndexThreadUser {
  /** Gives an idle thread a task; returns whether there was one. */
  occupy(thread: IndexThread): boolean
  /** Called when a thread has died. The state that it left in shared memory is unknown. */
  onThreadDeath(fault: unknown): void
}

/**
 * The index threads of the process, which serve all indexes. Idle threads are given to the indexers in turn, task by
 * task. However much work one indexer has, the others wait for a few tasks only. Main thread only.
 */
export class IndexThreadPool {
  readonly #threads: readonly IndexThread[]
  /** The first user's turn is next. */
  #users: IndexThreadUser[] = []

  /** @param firstLane the lane of the first thread; the others follow */
  constructor(kernels: KernelModule, count: number, firstLane: number) {
    const onDeath = (fault: unknown): void => {
      for (const user of this.#users) user.onThreadDeath(fault)
    }
    this.#threads = Array.from(
      { length: count },
      (_, index) => new IndexThread({ kernels, lane: firstLane + index }, onDeath),
    )
  }

  /** The number of threads. */
  get size(): number {
    return this.#threads.length
  }

  /** The number of indexers that share the threads. */
  get users(): number {
    return this.#users.length
  }

  add(user: IndexThreadUser): void {
    this.#users.push(user)
  }

  /** Gives no more threads to this user. Idempotent. */
  remove(user: IndexThreadUser): void {
    this.#users = this.#users.filter((each) => each !== user)
  }

  attach(index: number, segment: SegmentHandle): void {
    for (const thread of this.#threads) thread.attach(index, segment)
  }

  /** Resolves when all threads have dropped an index, after their current tasks for it. */
  async detach(index: number): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.detach(index)))
  }

  /** Gives a task to every idle thread. */
  dispatch(): void {
    for (const thread of this.#threads) {
      if (thread.isBusy) continue
      const user = this.#users.find((each) => each.occupy(thread))
      if (user === undefined) return
      this.#users = [...this.#users.filter((each) => each !== user), user]
    }
  }

  /** Stops the threads, even in the middle of a task. */
  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
  }
}
