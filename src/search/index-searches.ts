import { cancellation, DatabaseError } from '../base/errors.ts'
import type { BudgetShare } from '../base/shared-budget.ts'
import type { Hit } from '../index/hit.ts'
import { Searcher } from '../index/searcher.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { FilteredPlanCounts } from './filter-planner.ts'
import { HitLists } from './hit-lists.ts'
import { type RouteOf, SearchPieces, type SlotQuery } from './search-pieces.ts'
import { SearchRequest } from './search-request.ts'

export interface IndexSearchesOptions {
  readonly index: VectorIndex
  readonly kernels: KernelModule
  readonly routeOf: RouteOf
  /** Search threads. */
  readonly threads: number
  /** Searches of at most this many bytes of rows run on the calling thread. */
  readonly inlineBytesMax: number
  /** The queries that wait or run. */
  readonly queries: BudgetShare
  /** What the executor does for the index. */
  readonly executor: {
    /** Called when a search starts to wait. */
    dispatch(searches: IndexSearches): void
    /** Cancels a request. */
    cancel(request: SearchRequest): void
    /** Resolves when all search threads have dropped the index. */
    detach(searches: IndexSearches): Promise<void>
  }
}

/** The searches of one index: its waiting requests, in the order of their turns. Use `SearchExecutor.attach`. */
export class IndexSearches {
  readonly index: VectorIndex
  readonly #options: IndexSearchesOptions
  readonly #inline: Searcher
  readonly #pieces: SearchPieces
  /** Requests that have not settled. */
  readonly #unsettled = new Set<SearchRequest>()
  /** The requests with pieces that were not handed out yet; the first one's turn is next. */
  #waiting: SearchRequest[] = []
  #refusal: DatabaseError | undefined
  #drained: (() => void) | undefined
  #ending: Promise<void> | undefined

  constructor(options: IndexSearchesOptions) {
    const { index, kernels, routeOf, threads } = options
    this.#options = options
    this.index = index
    this.#inline = new Searcher(kernels, 0)
    this.#pieces = new SearchPieces({ index, routeOf, threads, searcher: this.#inline })
    index.onSegment((segment) => this.#inline.attach(segment))
  }

  /**
   * Returns the `limit` nearest live slots of each query, ascending by (distance, sequence).
   *
   * @throws DatabaseError `overloaded` when too many queries wait (a batch larger than the whole limit is accepted if
   *   no query to its index waits); `cancelled` when `signal` aborts; `shutting_down` after `close`; the error of
   *   `discard` after that
   */
  async search(queries: readonly SlotQuery[], signal?: AbortSignal): Promise<HitLists> {
    if (this.#refusal !== undefined) throw this.#refusal
    if (signal?.aborted) throw cancellation(signal)
    const refusal = this.#options.queries.refusal(queries.length)
    if (refusal !== undefined) throw refusal
    const isSmall = this.#pieces.bytesOf(queries) <= this.#options.inlineBytesMax
    const hits = isSmall ? this.searchNow(queries) : await this.#enqueue(queries, signal)
    this.#pieces.learn(queries)
    return hits
  }

  /** Like `search`, but in this turn of the event loop, however long that takes. */
  searchNow(queries: readonly SlotQuery[]): HitLists {
    const search = (query: SlotQuery): readonly Hit[] =>
      this.#inline.search([this.#pieces.indexQuery(query)], this.#pieces.ranges(), () => false)[0]!
    return HitLists.of(queries.map(search))
  }

  /** The number of searches with a filter, by how they were carried out. */
  get filteredPlans(): FilteredPlanCounts {
    return this.#pieces.filteredPlans
  }

  /** Returns a slot as a hit with its exact distance; undefined if the slot is not live. */
  hitAt(slot: number, { vector, metric }: Pick<SlotQuery, 'vector' | 'metric'>): Hit | undefined {
    const { ordinal, local } = this.index.locate(slot)
    const query = { vector, metric, k: 1, ef: 1, route: undefined }
    return this.#inline.search([query], [{ ordinal, from: local, to: local + 1 }], () => false)[0]![0]
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
  discard(error: DatabaseError): Promise<void> {
    this.#refusal = error
    for (const request of [...this.#unsettled]) request.fail(error)
    return this.close()
  }

  async #end(): Promise<void> {
    if (this.#unsettled.size > 0) await new Promise<void>((resolve) => (this.#drained = resolve))
    this.#inline.close()
    await this.#options.executor.detach(this)
  }

  #enqueue(queries: readonly SlotQuery[], signal: AbortSignal | undefined): Promise<HitLists> {
    const { queries: share, executor } = this.#options
    return new Promise((resolve, reject) => {
      const request = new SearchRequest(queries.length, this.#pieces.cut(queries), (error) => {
        signal?.removeEventListener('abort', cancel)
        if (error !== undefined) {
          this.#waiting = this.#waiting.filter((each) => each !== request)
          executor.cancel(request)
        }
        share.release(queries.length)
        this.#unsettled.delete(request)
        if (this.#unsettled.size === 0) this.#drained?.()
        if (error === undefined) resolve(request.hits)
        else reject(error)
      })
      const cancel = (): void => request.fail(cancellation(signal!))
      signal?.addEventListener('abort', cancel, { once: true })
      share.hold(queries.length)
      this.#unsettled.add(request)
      this.#waiting.push(request)
      executor.dispatch(this)
    })
  }
}
