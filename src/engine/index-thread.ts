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

/** The main thread's side of one index thread, which serves every index, one task at a time. */
export class IndexThread {
  readonly #worker: Worker
  #settle: PromiseWithResolvers<unknown> | undefined
  readonly #indexes = new ThreadIndexes((message) => this.#post(message))
  #fault: unknown

  /** @param onDeath called with the reason when the thread has ended, before its task is rejected */
  constructor(setup: IndexWorkerSetup, onDeath: (fault: unknown) => void) {
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
      const settle = this.#settle!
      this.#settle = undefined
      if (message.kind === 'result') settle.resolve(message.result)
      else settle.reject(message.error)
    })
    this.#worker.on('error', (error) => this.#die(error, onDeath))
    this.#worker.on('exit', (code) =>
      this.#die(new Error(`an index thread ended with code ${code}`), onDeath),
    )
  }

  get isBusy(): boolean {
    return this.#settle !== undefined
  }

  attach(index: number, segment: SegmentHandle): void {
    this.#indexes.attach(index, segment)
  }

  /** Resolves when the thread has dropped everything of an index, after its current task. */
  detach(index: number): Promise<void> {
    return this.#indexes.detach(index)
  }

  /** Runs a task on an attached index; rejects when it fails or the thread has died. */
  run<Kind extends TaskKind>(index: number, task: Task<Kind>): Promise<TaskResults[Kind]['result']> {
    if (this.#fault !== undefined) return Promise.reject(this.#fault)
    this.#indexes.beforeWork(index)
    this.#settle = Promise.withResolvers<unknown>()
    this.#post({ kind: 'task', index, task: task as Task })
    return this.#settle.promise as Promise<TaskResults[Kind]['result']>
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate()
  }

  #post(message: ToIndexWorker): void {
    this.#worker.postMessage(message)
  }

  #die(fault: unknown, onDeath: (fault: unknown) => void): void {
    if (this.#fault === undefined) {
      this.#fault = fault
      onDeath(fault)
    }
    this.#settle?.reject(this.#fault)
    this.#settle = undefined
    this.#indexes.end()
  }
}
