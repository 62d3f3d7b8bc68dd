import { type BudgetShare, SharedBudget } from '../base/budgets.ts'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { dimensionMax } from '../base/point.ts'
import { ThreadGroup } from '../graphs/engine-thread.ts'
import { Hits } from '../index/hits.ts'
import type { SearchedIndex } from '../index/index-view.ts'
import { Searcher } from '../index/searcher.ts'
import { efMax, poolEntryBytes, queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { FilteredPlanCounts } from '../points/collection-stats.ts'
import type { PlannedQuery } from './filter-planner.ts'
import { Doorbell } from './messages.ts'
import { type RouteOf, SearchPieces, SearchRequest, walksPerPiece } from './search-pieces.ts'
import { recordBytes } from './search-ring.ts'
import { SearchThread } from './search-thread.ts'

export interface ExecutorOptions {
  readonly kernels: KernelModule
  readonly threads: number
  /** Queries of all indexes that may wait or run; each query of a batch counts. */
  readonly maxQueuedQueries: number
  /** The most results of a query. */
  readonly maxLimit: number
  readonly logger: Logger
  /** Searches of at most this many bytes of rows run on the calling thread; tests of the threads use 0. */
  readonly inlineBytesMax?: number | undefined
}

/**
 * Runs searches on worker threads, so that no scan blocks the event loop. Every thread serves every index.
 *
 *   search ──> requests of its index, each cut into pieces ──> a ring for each thread ──> merged ──> resolved
 *
 * A single scan is cut by slots, so that every core works on it. A batch is cut by queries; those that scan read the
 * rows together. Indexes take turns, piece by piece, and so do the requests of one index.
 *
 * Each thread has about a millisecond of work queued, so that it need not wait for its next piece. A query that arrives
 * during a batch of thousands, or during thousands of requests to another index, therefore waits for two or three
 * pieces only. A scan too small to be worth sending to a thread runs immediately, on the calling thread.
 */
export class SearchExecutor implements AsyncDisposable {
  readonly #options: ExecutorOptions
  readonly #queries: SharedBudget
  readonly #group: ThreadGroup<SearchThread>
  readonly #doorbell: Doorbell = new Doorbell()
  readonly #attached = new Set<IndexSearches>()
  /** Indexes with waiting requests; the first one's turn is next. */
  #waiting: IndexSearches[] = []
  #isListening = false

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#queries = new SharedBudget({
      max: options.maxQueuedQueries,
      inWords: (queries) => `${queries} queries are waiting`,
    })
    this.#group = new ThreadGroup(
      (lane, onEnd) => {
        const { kernels, maxLimit, logger } = options
        const thread = new SearchThread({ kernels, lane }, logger, onEnd)
        thread.start(recordBytesMax(maxLimit), this.#doorbell)
        return thread
      },
      () => this.#dispatch(),
    )
    this.#group.start(options.threads, 1)
  }

  get #threads(): readonly SearchThread[] {
    return this.#group.threads
  }

  /** The number of queries that wait or run. */
  get queuedQueries(): number {
    return this.#queries.used
  }

  /** The pieces that each thread has processed since it started. */
  get completedPieces(): readonly number[] {
    return this.#threads.map(({ completedPieces }) => completedPieces)
  }

  /** Makes an index searchable on every thread, including segments added later. */
  attach(index: VectorIndex, routeOf: RouteOf = () => undefined): IndexSearches {
    const { kernels, threads } = this.#options
    const searches = new IndexSearches({
      index,
      kernels,
      routeOf,
      threads,
      inlineBytesMax: this.#options.inlineBytesMax ?? inlineBytesMax,
      queries: this.#queries.share(),
      executor: {
        dispatch: (each) => this.#enqueue(each),
        cancel: (request) => this.#cancel(request),
        detach: (each) => this.#detach(each),
      },
    })
    this.#attached.add(searches)
    index.onSegment((segment) => this.#group.attach(index.id, segment))
    return searches
  }

  /** Waits for all searches, then stops the threads. */
  async close(): Promise<void> {
    await Promise.all([...this.#attached].map((searches) => searches.close()))
    await this.#group.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Adds an index with a new request to the waiting ones. */
  #enqueue(searches: IndexSearches): void {
    if (!this.#waiting.includes(searches)) this.#waiting.push(searches)
    this.#dispatch()
  }

  #cancel(request: SearchRequest): void {
    this.#waiting = this.#waiting.filter(({ next }) => next !== undefined)
    for (const thread of this.#threads) thread.cancel(request)
  }

  async #detach(searches: IndexSearches): Promise<void> {
    this.#attached.delete(searches)
    await this.#group.detach(searches.index.id)
  }

  /** Collects completed pieces, hands out waiting ones, and listens for the next completion. */
  #dispatch(): void {
    this.#collectAndHandOut()
    if (this.#isListening || !this.#threads.some(({ isBusy }) => isBusy)) return
    this.#isListening = true
    this.#doorbell.listen(() => {
      this.#isListening = false
      this.#dispatch()
    })
    // Repeated for pieces that were completed before the doorbell was armed.
    this.#collectAndHandOut()
  }

  #collectAndHandOut(): void {
    for (const thread of this.#threads) thread.collect()
    while (this.#waiting.length > 0) {
      const thread = this.#threads.reduce((least, each) => (each.cost < least.cost ? each : least))
      const searches = this.#waiting[0]!
      const request = searches.next!
      if (thread.cost >= aheadMicroseconds || !thread.run(request, request.next!)) return
      this.#waiting.shift()
      searches.handOut()
      if (searches.next !== undefined) this.#waiting.push(searches)
    }
  }
}

/** Creates the executor of a process. */
export function createExecutor(options: ExecutorOptions): SearchExecutor {
  return new SearchExecutor(options)
}

/** Returns the bytes of the largest piece of any index: a scan of one or several queries, or the widest walks. */
function recordBytesMax(maxLimit: number): number {
  // A lane's pool bounds the results of queries that scan together; its size is rounded up.
  const scanned = maxLimit + Math.ceil(64 / poolEntryBytes)
  const hits = Math.max(scanned, walksPerPiece * efMax)
  return recordBytes({ dimension: dimensionMax, queries: queriesPerScanMax, hits, ranges: segmentsMax })
}

/** About 100 microseconds of scanning. For less, a second thread saves less than the transport's own work costs. */
const inlineBytesMax = 1024 * 1024

/** A thread with more queued work than this gets no more: enough for the time that the event loop is busy. */
const aheadMicroseconds = 1000

/** 16 TiB of segments; a record has room for that many ranges of a scan. */
const segmentsMax = 4096

interface LocalSearchesOptions {
  readonly index: SearchedIndex
  readonly kernels: KernelModule
  /** The lane of the calling thread. */
  readonly lane: number
  readonly routeOf: RouteOf
  /** The number of threads among which a single scan would be divided. */
  readonly threads: number
}

/** The searches of one index on the calling thread, however long they take. */
export class LocalSearches {
  readonly index: SearchedIndex
  readonly pieces: SearchPieces
  readonly #searcher: Searcher

  constructor({ index, kernels, lane, routeOf, threads }: LocalSearchesOptions) {
    this.index = index
    this.#searcher = new Searcher(kernels, lane)
    this.pieces = new SearchPieces({ index, routeOf, threads, searcher: this.#searcher })
    index.onSegment((segment) => this.#searcher.attach(segment))
  }

  /** See `IndexSearches.search`. */
  async search(queries: readonly PlannedQuery[], signal?: AbortSignal): Promise<Hits> {
    if (signal?.aborted) throw cancellation(signal)
    const hits = this.searchNow(queries)
    this.pieces.learn(queries)
    return hits
  }

  /** Like `search`, but in this turn of the event loop, and learns nothing from it. */
  searchNow(queries: readonly PlannedQuery[]): Hits {
    const hits = new Hits(this.pieces.rooms(queries))
    for (const [list, query] of queries.entries()) {
      const planned = this.pieces.indexQuery(query)
      hits.add(
        list,
        this.#searcher.search([planned], this.pieces.ranges(), () => false),
      )
    }
    return hits
  }

  close(): void {
    this.#searcher.close()
  }
}

interface IndexSearchesOptions extends Omit<LocalSearchesOptions, 'lane'> {
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
  readonly index: SearchedIndex
  readonly #options: IndexSearchesOptions
  readonly #local: LocalSearches
  /** Requests that have not settled. */
  readonly #unsettled = new Set<SearchRequest>()
  /** The requests with pieces that were not handed out yet; the first one's turn is next. */
  #waiting: SearchRequest[] = []
  #refusal: DatabaseError | undefined
  #drained: (() => void) | undefined
  #ending: Promise<void> | undefined

  constructor(options: IndexSearchesOptions) {
    this.#options = options
    this.index = options.index
    this.#local = new LocalSearches({ ...options, lane: 0 })
  }

  /**
   * Returns the `limit` nearest live slots of each query, ascending by (distance, sequence).
   *
   * @throws DatabaseError `overloaded` when too many queries wait (a batch larger than the whole limit is accepted if
   *   no query to its index waits); `cancelled` when `signal` aborts; `shutting_down` after `close`; the error of
   *   `discard` after that
   */
  async search(queries: readonly PlannedQuery[], signal?: AbortSignal): Promise<Hits> {
    if (this.#refusal !== undefined) throw this.#refusal
    if (signal?.aborted) throw cancellation(signal)
    const refusal = this.#options.queries.refusal(queries.length)
    if (refusal !== undefined) throw refusal
    const { pieces } = this.#local
    if (pieces.bytesOf(queries) <= this.#options.inlineBytesMax) return await this.#local.search(queries)
    const hits = await this.#enqueue(queries, signal)
    pieces.learn(queries)
    return hits
  }

  /** Like `search`, but in this turn of the event loop, however long that takes. */
  searchNow(queries: readonly PlannedQuery[]): Hits {
    return this.#local.searchNow(queries)
  }

  /** The number of searches with a filter, by how they were carried out. */
  get filteredPlans(): FilteredPlanCounts {
    return this.#local.pieces.filteredPlans
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
    this.#local.close()
    await this.#options.executor.detach(this)
  }

  #enqueue(queries: readonly PlannedQuery[], signal: AbortSignal | undefined): Promise<Hits> {
    const { queries: share, executor } = this.#options
    const { pieces } = this.#local
    return new Promise((resolve, reject) => {
      const request = new SearchRequest(pieces.rooms(queries), pieces.cut(queries), (error) => {
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
