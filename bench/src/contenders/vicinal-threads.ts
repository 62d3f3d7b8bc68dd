import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { type FromWorker, type ToWorker, unpackHits, type WorkerSetup } from '../../../src/engine/messages.ts'
import type { IndexQuery, SlotRange } from '../../../src/index/searcher.ts'
import type { VectorIndex } from '../../../src/index/vector-index.ts'
import type { KernelModule } from '../../../src/kernels/wasm-module.ts'
import { noId, timed } from '../contender.ts'

/** The service's search threads, each taking the next few queries when it has answered. */
export class VicinalThreads {
  readonly #workers: readonly Worker[]

  constructor(threads: number, kernels: KernelModule, index: VectorIndex) {
    const url = new URL('../../../src/engine/search-worker.ts', import.meta.url)
    this.#workers = Array.from({ length: threads }, (_, place) => {
      const workerData: WorkerSetup = { kernels, lane: place + 1 }
      return new Worker(url, { workerData })
    })
    index.onSegment((segment) => {
      for (const worker of this.#workers) post(worker, { kind: 'segment', segment })
    })
  }

  async search(
    asked: readonly IndexQuery[],
    ranges: readonly SlotRange[],
    k: number,
  ): Promise<{ readonly slots: Uint32Array; readonly seconds: number }> {
    // A view of a large matrix would be posted with all of it.
    const queries = asked.map((query) => ({ ...query, vector: query.vector.slice() }))
    const slots = new Uint32Array(asked.length * k).fill(noId)
    const cancelled = new Int32Array(new SharedArrayBuffer(4))
    let next = 0
    const seconds = await timed(async () => {
      const drain = async (worker: Worker): Promise<void> => {
        while (next < queries.length) {
          const from = next
          next += queriesPerTask
          const some = queries.slice(from, from + queriesPerTask)
          const answered = once(worker, 'message')
          post(worker, { kind: 'task', task: from, queries: some, ranges, cancelled })
          const [answer] = (await answered) as [FromWorker]
          if (answer.kind === 'fault') throw answer.error
          for (const [place, packed] of answer.hits.entries()) {
            for (const [rank, { slot }] of unpackHits(packed).entries())
              slots[(from + place) * k + rank] = slot
          }
        }
      }
      await Promise.all(this.#workers.map(drain))
    })
    return { slots, seconds }
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }
}

/** As many as go through an exact scan together. */
const queriesPerTask = 16

function post(worker: Worker, message: ToWorker): void {
  worker.postMessage(message)
}
