import { Hits } from '../../../src/index/hits.ts'
import type { IndexQuery } from '../../../src/index/searcher.ts'
import type { SearchExecutor } from '../../../src/search/executor.ts'
import type { IndexSearches } from '../../../src/search/index-searches.ts'
import type { VicinalIndex } from '../../shared/vicinal-index.ts'
import { noId, timed } from './contender.ts'

/** The service's search threads. They receive all queries as one batch. */
export class VicinalThreads {
  readonly #executor: SearchExecutor
  readonly #searches: IndexSearches
  #route: IndexQuery['route']

  constructor(threads: number, index: VicinalIndex) {
    const { executor, searches } = index.startExecutor(threads, () => this.#route)
    this.#executor = executor
    this.#searches = searches
  }

  /** @param asked queries with the same route */
  async search(
    asked: readonly IndexQuery[],
    k: number,
  ): Promise<{ readonly slots: Uint32Array; readonly seconds: number }> {
    this.#route = asked[0]?.route
    const queries = asked.map(({ vector, metric, ef }) => ({ vector, metric, ef, limit: k }))
    let found = new Hits([])
    const seconds = await timed(async () => {
      found = await this.#searches.search(queries)
    })
    const slots = new Uint32Array(asked.length * k).fill(noId)
    for (let place = 0; place < found.length; place += 1) {
      for (let rank = 0; rank < found.lengthOf(place); rank += 1) {
        slots[place * k + rank] = found.slots[found.startOf(place) + rank]!
      }
    }
    return { slots, seconds }
  }

  async close(): Promise<void> {
    await this.#executor.close()
  }
}
