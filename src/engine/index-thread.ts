import { Worker } from 'node:worker_threads'
import type { SegmentHandle } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type {
  FromIndexWorker,
  IndexWorkerSetup,
  Task,
  TaskKind,
  TaskResults,
  ToIndexWorker,
} from './index-messages.ts'

/** The main thread's side of one index thread. One task at a time. */
export class IndexThread {
  readonly #worker: Worker
  #settle: PromiseWithResolvers<unknown> | undefined
  #fault: unknown

  constructor(setup: IndexWorkerSetup) {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./index-worker.${extension}`, import.meta.url), {
      workerData: setup,
      // A start leaves some rubbish for each row that it reads: heaps of 48 MiB would keep it in memory.
      resourceLimits: { maxYoungGenerationSizeMb: 6 },
    })
    this.#worker.on('message', (message: FromIndexWorker) => {
      const settle = this.#settle!
      this.#settle = undefined
      if (message.kind === 'result') settle.resolve(message.result)
      else settle.reject(message.error)
    })
    this.#worker.on('error', (error) => this.#die(error))
    this.#worker.on('exit', (code) => this.#die(new Error(`an index thread ended with code ${code}`)))
  }

  get isBusy(): boolean {
    return this.#settle !== undefined
  }

  attach(segment: SegmentHandle): void {
    this.#post({ kind: 'segment', segment })
  }

  /** Rejects when the task fails or the thread has died. */
  run<Kind extends TaskKind>(task: Task<Kind>): Promise<TaskResults[Kind]['result']> {
    if (this.#fault !== undefined) return Promise.reject(this.#fault)
    this.#settle = Promise.withResolvers<unknown>()
    this.#post(task as Task)
    return this.#settle.promise as Promise<TaskResults[Kind]['result']>
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate()
  }

  #post(message: ToIndexWorker): void {
    this.#worker.postMessage(message)
  }

  #die(fault: unknown): void {
    this.#fault ??= fault
    this.#settle?.reject(this.#fault)
    this.#settle = undefined
  }
}

/** @param firstLane lane of the first thread; the others follow */
export function startIndexThreads(kernels: KernelModule, count: number, firstLane: number): IndexThread[] {
  return Array.from({ length: count }, (_, index) => new IndexThread({ kernels, lane: firstLane + index }))
}
