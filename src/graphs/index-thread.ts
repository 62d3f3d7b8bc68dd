import { Worker } from 'node:worker_threads'
import type { SegmentHandle } from '../index/segment.ts'
import type {
  FromIndexWorker,
  IndexWorkerSetup,
  Task,
  TaskKind,
  TaskResults,
  ToIndexWorker,
} from './index-messages.ts'
import { ThreadIndexes } from './thread-indexes.ts'

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
