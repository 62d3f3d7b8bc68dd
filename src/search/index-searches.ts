import { type BudgetShare, SharedBudget, type SharedBudgetOptions } from '../base/budgets.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import { Hits } from '../index/hits.ts'
import type { SearchedIndex } from '../index/index-view.ts'
import { Searcher } from '../index/searcher.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { FilteredPlanCounts } from '../points/database.ts'
import type { PlannedQuery } from './filter-planner.ts'
import { type Piece, type RouteOf, SearchPieces, SearchRequest } from './search-pieces.ts'
import type { Submitter, WaitingSearches } from './submitter.ts'

/** Creates the limit on the queries of all threads that wait or run. */
export function queryBudget(options: Omit<SharedBudgetOptions, 'inWords'>): SharedBudget {
  return new SharedBudget({ ...options, inWords: (queries) => `${queries} queries are waiting` })
}

interface IndexSearchesOptions {
  readonly index: SearchedIndex
  readonly kernels: KernelModule
  /** The lane of the calling thread. */
  readonly lane: number
  readonly routeOf: RouteOf
  /** The number of threads among which a single scan would be divided. */
  readonly threads: number
  /**
   * Whether a request is so short that it runs on the calling thread immediately.
   *
   * @param isBeside whether the caller works on something else meanwhile
   */
  readonly isShort: (queries: readonly PlannedQuery[], pieces: SearchPieces, isBeside: boolean) => boolean
  /** Called before queries are submitted. */
  readonly prepare?: (queries: readonly PlannedQuery[]) => Promise<void> | undefined
  /** The queries that wait or run, of this index on all threads. */
  readonly queries: BudgetShare
  readonly submitter: Submitter
  /** Resolves when all search threads have dropped the index. */
  readonly detach: () => Promise<void>
}

/** The searches of one index: its waiting requests, in the order of their turns. Use `SearchExecutor.attach`. */
export class IndexSearches implements WaitingSearches {
  readonly index: SearchedIndex
  /** Those that wait or run. */
  readonly queries: BudgetShare
  readonly #options: IndexSearchesOptions
  readonly #pieces: SearchPieces
  readonly #searcher: Searcher
  /** Requests that have not settled. */
  readonly #unsettled = new Set<SearchRequest>()
  /** The requests with pieces that were not handed out yet; the first one's turn is next. */
  #waiting: SearchRequest[] = []
  #refusal: Error | undefined
  #drained: (() => void) | undefined
  #ending: Promise<void> | undefined

  constructor(options: IndexSearchesOptions) {
    const { index, kernels, lane } = options
    this.#options = options
    this.index = index
    this.queries = options.queries
    this.#searcher = new Searcher(kernels, lane)
    this.#pieces = new SearchPieces({ ...options, searcher: this.#searcher })
    index.onSegment((segment) => this.#searcher.attach(segment))
  }

  /**
   * Returns the `limit` nearest live slots of each query, ascending by (distance, sequence).
   *
   * @param isBeside whether the caller works on something else meanwhile
   * @throws DatabaseError `overloaded` when too many queries wait (a batch larger than the whole limit is accepted if
   *   no query to its index waits); `cancelled` when `signal` aborts; `shutting_down` after `close`; the error of
   *   `discard` after that
   */
  async search(
    queries: readonly PlannedQuery[],
    signal?: AbortSignal,
    isBeside: boolean = false,
  ): Promise<Hits> {
    if (this.#refusal !== undefined) throw this.#refusal
    if (signal?.aborted) throw cancellation(signal)
    const { queries: share, isShort, prepare } = this.#options
    const pieces = this.#pieces
    if (isShort(queries, pieces, isBeside)) {
      const hits = this.searchNow(queries)
      pieces.learn(queries)
      return hits
    }
    const refusal = share.refusal(queries.length)
    if (refusal !== undefined) throw refusal
    share.hold(queries.length)
    try {
      const prepared = prepare?.(queries)
      if (prepared !== undefined) await prepared
      const hits = await this.#enqueue(queries, signal)
      pieces.learn(queries)
      return hits
    } finally {
      share.release(queries.length)
    }
  }

  /** Like `search`, but in this turn of the event loop, however long that takes, and learns nothing from it. */
  searchNow(queries: readonly PlannedQuery[]): Hits {
    const pieces = this.#pieces
    const hits = new Hits(pieces.rooms(queries))
    for (const [list, query] of queries.entries()) {
      hits.add(list, this.run({ queries: [pieces.indexQuery(query)], ranges: pieces.ranges() }))
    }
    return hits
  }

  run({ queries, ranges }: Pick<Piece, 'queries' | 'ranges'>): Hits {
    return this.#searcher.search(queries, ranges, () => false)
  }

  /** The number of searches with a filter, by how they were carried out. */
  get filteredPlans(): FilteredPlanCounts {
    return this.#pieces.filteredPlans
  }

  /** The waiting request whose turn is next. */
  get next(): SearchRequest | undefined {
    return this.#waiting[0]
  }

  /** Call after the next piece of the next request has been handed out. */
  handOut(): void {
    const request = this.#waiting.shift()!
    request.handOut()
    if (request.next !== undefined) this.#waiting.push(request)
  }

  /** Refuses new searches, waits for those in progress, and makes the threads drop the index. */
  close(): Promise<void> {
    this.#refusal ??= new DatabaseError('shutting_down', 'the server is shutting down')
    this.#ending ??= this.#end()
    return this.#ending
  }

  /** Like `close`, but searches in progress fail immediately with this error. */
  discard(error: Error): Promise<void> {
    this.#refusal = error
    for (const request of [...this.#unsettled]) request.fail(error)
    return this.close()
  }

  async #end(): Promise<void> {
    if (this.#unsettled.size > 0) await new Promise<void>((resolve) => (this.#drained = resolve))
    this.#searcher.close()
    await this.#options.detach()
  }

  #enqueue(queries: readonly PlannedQuery[], signal: AbortSignal | undefined): Promise<Hits> {
    const { submitter } = this.#options
    const pieces = this.#pieces
    return new Promise((resolve, reject) => {
      const request = new SearchRequest(pieces.rooms(queries), pieces.cut(queries), (error) => {
        signal?.removeEventListener('abort', cancel)
        if (error !== undefined) {
          this.#waiting = this.#waiting.filter((each) => each !== request)
          submitter.cancel(request)
        }
        this.#unsettled.delete(request)
        if (this.#unsettled.size === 0) this.#drained?.()
        if (error === undefined) resolve(request.hits)
        else reject(error)
      })
      const cancel = (): void => request.fail(cancellation(signal!))
      signal?.addEventListener('abort', cancel, { once: true })
      this.#unsettled.add(request)
      this.#waiting.push(request)
      submitter.enqueue(this)
    })
  }
}
