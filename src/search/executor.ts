import type { Logger } from '../base/log.ts'
import { dimensionMax } from '../base/point.ts'
import { SharedBudget } from '../base/shared-budget.ts'
import { efMax, poolEntryBytes, queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { Doorbell } from './doorbell.ts'
import { IndexSearches } from './index-searches.ts'
import { type RouteOf, walksPerPiece } from './search-pieces.ts'
import type { SearchRequest } from './search-request.ts'
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
  readonly #threads: SearchThread[] = []
  readonly #doorbell: Doorbell = new Doorbell()
  readonly #attached = new Set<IndexSearches>()
  /** Indexes with waiting requests; the first one's turn is next. */
  #waiting: IndexSearches[] = []
  #isListening = false
  #closed = false

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#queries = new SharedBudget({
      max: options.maxQueuedQueries,
      setting: 'MAX_QUEUED_QUERIES',
      inWords: (queries) => `${queries} queries are waiting`,
    })
  }

  /**
   * Starts the threads. Idempotent. Call it only once the points are loaded, so that search threads do not delay the
   * loading.
   */
  start(): void {
    while (this.#threads.length < this.#options.threads) {
      this.#threads.push(this.#spawn(this.#threads.length + 1))
    }
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
    this.start()
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
    index.onSegment((segment) => {
      for (const thread of this.#threads) thread.attach(index.id, segment)
    })
    return searches
  }

  /** Waits for all searches, then stops the threads. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#attached].map((searches) => searches.close()))
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
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
    await Promise.all(this.#threads.map((thread) => thread.detach(searches.index.id)))
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

  #spawn(lane: number): SearchThread {
    const { kernels, maxLimit, logger } = this.#options
    const thread = new SearchThread({ kernels, lane }, logger, (dead) => this.#replace(dead, lane))
    thread.start(recordBytesMax(maxLimit), this.#doorbell)
    return thread
  }

  #replace(dead: SearchThread, lane: number): void {
    if (this.#closed) return
    const thread = this.#spawn(lane)
    this.#threads[this.#threads.indexOf(dead)] = thread
    for (const { index } of this.#attached) {
      for (const segment of index.segments) thread.attach(index.id, segment)
    }
    this.#dispatch()
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
