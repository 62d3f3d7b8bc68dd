import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { noId, type SearchAnswer, timed } from './contender.ts'
import type { FromHnswlibWorker, HnswlibSetup, ToHnswlibWorker } from './hnswlib-worker.ts'

/**
 * Searches with several threads. Each thread loads its own copy of a saved index and searches its share of the queries.
 */
export class HnswlibThreads {
  readonly #dimension: number
  readonly #workers: readonly Worker[]

  constructor(threads: number, workerData: HnswlibSetup) {
    this.#dimension = workerData.dimension
    const url = new URL('./hnswlib-worker.ts', import.meta.url)
    this.#workers = Array.from({ length: threads }, () => new Worker(url, { workerData }))
  }

  async search(queries: Float32Array, k: number, ef: number): Promise<SearchAnswer> {
    const count = queries.length / this.#dimension
    const share = Math.ceil(count / this.#workers.length)
    await this.#askAll((place) => {
      const from = place * share * this.#dimension
      return { kind: 'queries', queries: queries.slice(from, from + share * this.#dimension) }
    })
    const ids = new Uint32Array(count * k).fill(noId)
    const seconds = await timed(async () => {
      const answers = await this.#askAll(() => ({ kind: 'search', k, ef }))
      for (const [place, answer] of answers.entries()) {
        if (answer.kind === 'found') ids.set(answer.ids, place * share * k)
      }
    })
    return { ids, seconds }
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  #askAll(question: (place: number) => ToHnswlibWorker): Promise<FromHnswlibWorker[]> {
    return Promise.all(
      this.#workers.map(async (worker, place) => {
        const answered = once(worker, 'message')
        worker.postMessage(question(place))
        const [answer] = await answered
        return answer as FromHnswlibWorker
      }),
    )
  }
}
