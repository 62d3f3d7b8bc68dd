import { Worker } from 'node:worker_threads'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import {
  type FromIndexWorker,
  type IndexWorkerSetup,
  type Task,
  type TaskKind,
  type TaskResults,
  ThreadIndexes,
  type ToIndexWorker,
} from './index-messages.ts'

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

interface RunningTask extends PromiseWithResolvers<unknown> {
  readonly index: number
}

/** The main thread's side of one index thread, which serves every index, one task at a time. */
export class IndexThread {
  readonly #worker: Worker
  #task: RunningTask | undefined
  readonly #indexes = new ThreadIndexes((message) => this.#post(message))
  #fault: unknown

  /** @param onExit called when the thread has ended, after its task was rejected */
  constructor(setup: IndexWorkerSetup, onExit: (thread: IndexThread) => void) {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./index-worker.${extension}`, import.meta.url), {
      workerData: setup,
      // A start creates some garbage for each row that it reads. With young generations of 48 MiB, it would stay in
      // memory.
      resourceLimits: { maxYoungGenerationSizeMb: 6 },
    })
    this.#worker.on('message', (message: FromIndexWorker) => {
      if (message.kind === 'detached') {
        this.#indexes.detached(message.index)
        return
      }
      const task = this.#task
      this.#task = undefined
      // A thread that is being stopped can still answer. Its task was rejected then.
      if (message.kind === 'result') task?.resolve(message.result)
      else task?.reject(message.error)
    })
    this.#worker.on('error', (error) => this.#end(error))
    this.#worker.on('exit', (code) => {
      this.#end(new Error(`an index thread ended with code ${code}`))
      this.#indexes.end()
      onExit(this)
    })
  }

  /** Whether the thread can be given a task. */
  get isFree(): boolean {
    return this.#task === undefined && this.#fault === undefined
  }

  /** The index on which the thread works now. */
  get index(): number | undefined {
    return this.#task?.index
  }

  attach(index: number, segment: SegmentHandle): void {
    this.#indexes.attach(index, segment)
  }

  /** Resolves when the thread has dropped everything of an index, after its current task, or has ended. */
  detach(index: number): Promise<void> {
    return this.#indexes.detach(index)
  }

  /** Runs a task on an attached index; rejects when it fails or the thread has died. */
  run<Kind extends TaskKind>(index: number, task: Task<Kind>): Promise<TaskResults[Kind]['result']> {
    if (this.#fault !== undefined) return Promise.reject(this.#fault)
    this.#indexes.beforeWork(index)
    this.#task = { index, ...Promise.withResolvers<unknown>() }
    this.#post({ kind: 'task', index, task: task as Task })
    return this.#task.promise as Promise<TaskResults[Kind]['result']>
  }

  /** Rejects the current task, and ends the thread even in the middle of it. */
  stop(reason: unknown): void {
    this.#end(reason)
    void this.terminate()
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate()
  }

  #post(message: ToIndexWorker): void {
    this.#worker.postMessage(message)
  }

  #end(fault: unknown): void {
    this.#fault ??= fault
    this.#task?.reject(this.#fault)
    this.#task = undefined
  }
}
