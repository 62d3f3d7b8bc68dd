import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { type SearchAnswer, timed } from './contender.ts'

/** The first message brings the queries, for the library to convert. The second starts the timed search. */
export type ToSearchThread<Search> =
  | { readonly kind: 'queries'; readonly queries: Float32Array }
  | ({ readonly kind: 'search' } & Search)

export type FromSearchThread =
  | { readonly kind: 'ready' }
  | { readonly kind: 'found'; readonly ids: Uint32Array }

/**
 * Threads of which each searches by itself, as serving threads do: each searches for all queries, so that what it costs
 * to start and collect them does not count.
 */
export class SearchThreads<Search extends object> {
  readonly #workers: readonly Worker[]

  /** @param setups what each thread is started with */
  constructor(module: URL, setups: readonly unknown[]) {
    this.#workers = setups.map((workerData) => new Worker(module, { workerData }))
  }

  get count(): number {
    return this.#workers.length
  }

  /** Returns the answers of one thread, and the time divided by the number of threads. */
  async search(queries: Float32Array, search: Search): Promise<SearchAnswer> {
    await this.#askAll({ kind: 'queries', queries })
    let found: readonly FromSearchThread[] = []
    const seconds = await timed(async () => {
      found = await this.#askAll({ kind: 'search', ...search })
    })
    const [first] = found
    return { ids: first?.kind === 'found' ? first.ids : new Uint32Array(), seconds: seconds / this.count }
  }

  async close(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
  }

  #askAll(question: ToSearchThread<Search>): Promise<FromSearchThread[]> {
    return Promise.all(
      this.#workers.map(async (worker) => {
        const answered = once(worker, 'message')
        worker.postMessage(question)
        const [answer] = await answered
        return answer as FromSearchThread
      }),
    )
  }
}
