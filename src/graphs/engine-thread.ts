import { type ResourceLimits, Worker } from 'node:worker_threads'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'

/** What a search thread or an index thread is started with. */
export interface ThreadSetup {
  readonly kernels: KernelModule
  /** The thread's lane of scratch memory in every segment; lane 0 is the main thread's. */
  readonly lane: number
}

/** The messages about indexes, which are identified by their ids; these are unique in the process. */
export type IndexMessage =
  | { readonly kind: 'segment'; readonly index: number; readonly segment: SegmentHandle }
  | { readonly kind: 'detach'; readonly index: number }

/** The thread has dropped the index; `left` is the number of indexes that it still serves. */
export interface DetachedMessage {
  readonly kind: 'detached'
  readonly index: number
  readonly left: number
}

/** The work that the thread was given has failed. */
export interface FaultMessage {
  readonly kind: 'fault'
  readonly error: unknown
}

/**
 * The main thread's side of a search thread or an index thread. Every thread serves every index. It starts with its
 * first work, and receives an index when it first works on it. Small collections, which are searched on the main
 * thread and have no graph, therefore need no other thread.
 */
export abstract class EngineThread<ToThread, FromThread extends { readonly kind: string }> {
  readonly #start: () => Worker
  /** Undefined until the thread has work. */
  #worker: Worker | undefined
  /** By index: the segments to send when the thread first works on it. */
  readonly #unsent = new Map<number, SegmentHandle[]>()
  /** By index: called when the thread has dropped it. */
  readonly #detaching = new Map<number, () => void>()
  #hasEnded = false

  /** @param module the worker's module, without its extension */
  constructor(module: URL, setup: ThreadSetup, resourceLimits: ResourceLimits = {}) {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#start = () => {
      const worker = new Worker(new URL(`${module.href}.${extension}`), { workerData: setup, resourceLimits })
      worker.on('message', (message: FromThread | DetachedMessage) => {
        if (isDetached(message)) this.#detached(message.index)
        else this.onMessage(message)
      })
      worker.on('error', (error) => this.onError(error))
      worker.on('exit', (code) => {
        this.#hasEnded = true
        for (const index of [...this.#detaching.keys()]) this.#detached(index)
        this.onEnd(code)
      })
      return worker
    }
  }

  /** Whether the thread has had work. */
  get hasStarted(): boolean {
    return this.#worker !== undefined
  }

  protected abstract onMessage(message: FromThread): void

  protected abstract onError(error: unknown): void

  /** Called when the thread has ended, whether it was asked to or not. */
  protected abstract onEnd(code: number): void

  protected post(message: ToThread | IndexMessage): void {
    this.#worker ??= this.#start()
    this.#worker.postMessage(message)
  }

  /** Call when a segment was added to an index. */
  attach(index: number, segment: SegmentHandle): void {
    const unsent = this.#unsent.get(index)
    if (unsent !== undefined) unsent.push(segment)
    else if (segment.ordinal === 0) this.#unsent.set(index, [segment])
    else this.post({ kind: 'segment', index, segment })
  }

  /** Call before the thread gets work on an index. */
  beforeWork(index: number): void {
    const unsent = this.#unsent.get(index)
    if (unsent === undefined) return
    this.#unsent.delete(index)
    for (const segment of unsent) this.post({ kind: 'segment', index, segment })
  }

  /** Resolves when the thread has dropped everything of an index, after its current work, or has ended. */
  detach(index: number): Promise<void> {
    if (this.#unsent.delete(index) || !this.hasStarted || this.#hasEnded) return Promise.resolve()
    return new Promise((resolve) => {
      this.#detaching.set(index, resolve)
      this.post({ kind: 'detach', index })
    })
  }

  #detached(index: number): void {
    this.#detaching.get(index)?.()
    this.#detaching.delete(index)
  }

  async terminate(): Promise<void> {
    await this.#worker?.terminate()
  }
}

function isDetached(message: { readonly kind: string }): message is DetachedMessage {
  return message.kind === 'detached'
}

/** What a group needs from its threads. */
interface GroupedThread {
  attach(index: number, segment: SegmentHandle): void
  detach(index: number): Promise<void>
  terminate(): Promise<void>
}

/** The threads of one kind. A thread that dies is replaced. */
export class ThreadGroup<Thread extends GroupedThread> {
  readonly threads: Thread[] = []
  readonly #spawn: (lane: number, onEnd: (dead: Thread) => void) => Thread
  readonly #onReplaced: () => void
  /** By index: its segments, for threads that are started later. */
  readonly #segments = new Map<number, SegmentHandle[]>()
  #isClosed = false

  constructor(spawn: (lane: number, onEnd: (dead: Thread) => void) => Thread, onReplaced: () => void) {
    this.#spawn = spawn
    this.#onReplaced = onReplaced
  }

  /** Starts threads until there are so many; they have this lane and the following ones. */
  start(count: number, firstLane: number): void {
    while (this.threads.length < count) this.threads.push(this.#started(firstLane + this.threads.length))
  }

  /** Call when a segment was added to an index. */
  attach(index: number, segment: SegmentHandle): void {
    const segments = this.#segments.get(index)
    if (segments === undefined) this.#segments.set(index, [segment])
    else segments.push(segment)
    for (const thread of this.threads) thread.attach(index, segment)
  }

  /** Resolves when all threads have dropped an index, after their current work for it. */
  async detach(index: number): Promise<void> {
    this.#segments.delete(index)
    await Promise.all(this.threads.map((thread) => thread.detach(index)))
  }

  /** Stops the threads, even in the middle of their work. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.threads.map((thread) => thread.terminate()))
  }

  #started(lane: number): Thread {
    const thread = this.#spawn(lane, (dead) => {
      // Later, because the rejection of its work must arrive first: whoever asked for it then asks for no more.
      setImmediate(() => this.#replace(dead, lane))
    })
    for (const [index, segments] of this.#segments) {
      for (const segment of segments) thread.attach(index, segment)
    }
    return thread
  }

  /** Call when the thread has ended, so that no two threads use the same lane. */
  #replace(dead: Thread, lane: number): void {
    if (this.#isClosed) return
    this.threads[this.threads.indexOf(dead)] = this.#started(lane)
    this.#onReplaced()
  }
}

/** Ranges of slots shared by several threads, each taken once. Can be posted to threads. */
export interface SharedRanges {
  readonly from: number
  readonly to: number
  /** The slots of a range; the last one may have fewer. */
  readonly step: number
  /** The number of slots taken so far. */
  readonly taken: Int32Array
}

/** Supports at most 2^31 slots, including one step beyond the end for each thread. */
export function shareRanges(from: number, to: number, step: number): SharedRanges {
  return { from, to, step, taken: new Int32Array(new SharedArrayBuffer(4)) }
}

/** Takes ranges until all are taken or `stopRanges` is called. */
export function* takeRanges({ from, to, step, taken }: SharedRanges): Generator<{
  readonly from: number
  readonly to: number
}> {
  for (;;) {
    const first = from + Atomics.add(taken, 0, step)
    if (first >= to) return
    yield { from: first, to: Math.min(to, first + step) }
  }
}

/** Prevents all threads from taking further ranges. */
export function stopRanges({ from, to, taken }: SharedRanges): void {
  Atomics.store(taken, 0, to - from)
}
