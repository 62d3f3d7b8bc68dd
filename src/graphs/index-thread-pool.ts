import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { IndexThread } from './index-thread.ts'

/** An indexer, which has tasks for index threads. */
export interface IndexThreadUser {
  /** Gives an idle thread a task; returns whether there was one. */
  occupy(thread: IndexThread): boolean
}

/**
 * The index threads of the process, which serve all indexes. Idle threads are given to the indexers in turn, task by
 * task. However much work one indexer has, the others wait for a few tasks only.
 *
 * A thread that dies is replaced, and its task is rejected. It leaves shared memory in an unknown state only where it
 * was working: each index has its own memory, and a thread writes to one only during a task for it. So the death
 * concerns the indexer of that task and no other.
 *
 * Main thread only.
 */
export class IndexThreadPool {
  readonly #kernels: KernelModule
  readonly #threads: IndexThread[]
  /** By index: its segments, for threads that are started later. */
  readonly #segments = new Map<number, SegmentHandle[]>()
  /** The first user's turn is next. */
  #users: IndexThreadUser[] = []
  #isClosed = false

  /** @param firstLane the lane of the first thread; the others follow */
  constructor(kernels: KernelModule, count: number, firstLane: number) {
    this.#kernels = kernels
    this.#threads = Array.from({ length: count }, (_, index) => this.#spawn(firstLane + index))
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
    const segments = this.#segments.get(index)
    if (segments === undefined) this.#segments.set(index, [segment])
    else segments.push(segment)
    for (const thread of this.#threads) thread.attach(index, segment)
  }

  /** Resolves when all threads have dropped an index, after their current tasks for it. */
  async detach(index: number): Promise<void> {
    this.#segments.delete(index)
    await Promise.all(this.#threads.map((thread) => thread.detach(index)))
  }

  /** Rejects the tasks that run for an index, and replaces their threads: a task may wait for a lock for ever. */
  stopTasks(index: number, reason: unknown): void {
    for (const thread of this.#threads) if (thread.index === index) thread.stop(reason)
  }

  /** Gives a task to every idle thread. */
  dispatch(): void {
    for (const thread of this.#threads) {
      if (!thread.isFree) continue
      const user = this.#users.find((each) => each.occupy(thread))
      if (user === undefined) return
      this.#users = [...this.#users.filter((each) => each !== user), user]
    }
  }

  /** Stops the threads, even in the middle of a task. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
  }

  #spawn(lane: number): IndexThread {
    return new IndexThread({ kernels: this.#kernels, lane }, (dead) => {
      // Later, because the rejection of its task must arrive first: its indexer then has no more tasks for threads.
      setImmediate(() => this.#replace(dead, lane))
    })
  }

  /** Call when the thread has ended, so that no two threads use the same lane. */
  #replace(dead: IndexThread, lane: number): void {
    if (this.#isClosed) return
    const thread = this.#spawn(lane)
    this.#threads[this.#threads.indexOf(dead)] = thread
    for (const [index, segments] of this.#segments) {
      for (const segment of segments) thread.attach(index, segment)
    }
    this.dispatch()
  }
}
