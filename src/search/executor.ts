import { performance } from 'node:perf_hooks'
import type { BudgetSetup, SharedBudget } from '../base/budgets.ts'
import type { Logger } from '../base/log.ts'
import { dimensionMax, foundMax } from '../base/point.ts'
import { EngineThread, ThreadGroup, type ThreadSetup } from '../graphs/engine-thread.ts'
import { efMax, poolEntryBytes, queriesPerScanMax } from '../index/segment.ts'
import type { SlotBits } from '../index/slot-filter.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { type Board, createBoard, recordBytes } from './board.ts'
import { IndexSearches, queryBudget } from './index-searches.ts'
import { type FromSearchThread, PoolState, type ToSearchThread } from './messages.ts'
import { type Piece, type RouteOf, walksPerPiece } from './search-pieces.ts'
import { Submitter } from './submitter.ts'

export interface ExecutorOptions {
  readonly kernels: KernelModule
  readonly threads: number
  /** Other threads that submit searches. */
  readonly readingThreads?: number | undefined
  /** Queries of all indexes that may wait or run; each query of a batch counts. */
  readonly maxQueuedQueries: number
  /** The most results of a query. */
  readonly maxLimit: number
  readonly logger: Logger
  /** Searches of at most this many bytes of rows run on the calling thread; tests of the threads use 0. Without threads, all do. */
  readonly inlineBytesMax?: number | undefined
}

/**
 * Runs searches on worker threads, so that no scan blocks the event loop. Every thread serves every index, and takes
 * pieces of searches from the boards of all threads that have some.
 *
 * A single scan is cut by slots, so that every core works on it. A batch is cut by queries; those that scan read the
 * rows together. A scan too small to be worth sending to a thread runs immediately, on the calling thread.
 */
export class SearchExecutor implements AsyncDisposable {
  readonly #options: ExecutorOptions
  readonly #queries: SharedBudget
  readonly #group: ThreadGroup<SearchThread>
  readonly #pool: PoolState
  /** By the number of their owner; the main thread has 0. */
  readonly #boards = new Map<number, Board>()
  readonly #submitter: Submitter
  readonly #filters = new KnownFilters((message) => this.#postToAll(message))
  readonly #attached = new Set<IndexSearches>()
  /** The indexes that the threads have work for. */
  readonly #used = new Set<number>()
  /** How many threads should have started. */
  #wanted = 0
  /** How long the event loop had waited when a search last began. */
  #idleMs = 0
  /** How sure it is that there is one caller: grows with each search that was alone, and falls with others. */
  #alone = 0

  constructor(options: ExecutorOptions) {
    const { kernels, threads, readingThreads = 0, maxQueuedQueries: max, maxLimit, logger } = options
    this.#options = options
    this.#queries = queryBudget({ max, threads: 1 + readingThreads })
    const board = createBoard(recordBytesMax(maxLimit))
    this.#boards.set(0, board)
    const pool = new PoolState(PoolState.memory(threads))
    this.#pool = pool
    this.#submitter = new Submitter({
      board,
      pool,
      threads,
      beforeWork: (piece, count) => this.#beforeWork(piece, count),
      afterWork: ({ queries }) => {
        for (const { matching } of queries) if (matching !== undefined) this.#filters.afterWork(matching)
      },
    })
    this.#group = new ThreadGroup(
      (lane, onEnd) => {
        const ended = (thread: SearchThread, error: Error): void => {
          for (const each of this.#boards.values()) each.abandon(lane, error)
          onEnd(thread)
        }
        return new SearchThread({ kernels, lane, pool, logger, onEnd: ended })
      },
      () => this.#startThreads(),
    )
    this.#group.start(threads, 1)
  }

  /** The number of queries of all threads that wait or run. */
  get queuedQueries(): number {
    return this.#queries.used
  }

  /** The pieces that each thread has processed. */
  get completedPieces(): readonly number[] {
    return this.#group.threads.map(({ lane }) => this.#pool.pieces(lane))
  }

  /** Makes an index searchable on every thread, including segments added later. */
  attach(index: VectorIndex, routeOf: RouteOf = () => undefined): IndexSearches {
    const { kernels, threads } = this.#options
    const searches: IndexSearches = new IndexSearches({
      index,
      kernels,
      routeOf,
      threads,
      lane: 0,
      isShort: (queries, pieces, isBeside) =>
        this.#options.threads === 0 ||
        pieces.bytesOf(queries) <= (this.#options.inlineBytesMax ?? inlineBytesMax) ||
        (!isBeside && this.#isAlone() && pieces.areShortWalk(queries)),
      queries: this.#queries.share(),
      submitter: this.#submitter,
      detach: () => this.#detach(searches),
    })
    this.#attached.add(searches)
    index.onSegment((segment) => this.#group.attach(index.id, segment))
    return searches
  }

  /**
   * Returns what another thread needs for a `Submitter` of its own. It replaces a thread with the same number that has
   * ended.
   *
   * @param owner from 1
   */
  addOwner(owner: number): SubmitterSetup {
    const { threads, maxLimit } = this.#options
    const board = createBoard(recordBytesMax(maxLimit))
    this.#boards.set(owner, board)
    this.#queries.drop(owner)
    this.#postToAll({ kind: 'board', owner, board: board.buffer })
    return { board: board.buffer, pool: this.#pool.buffer, threads, queries: this.#queries.setupOf(owner) }
  }

  /** Lets the threads know what another thread will submit: an index, unless it was detached, and filters. */
  prepare(index: number, filters: readonly Pick<SlotBits, 'id' | 'words'>[]): void {
    if (![...this.#attached].some((searches) => searches.index.id === index)) return
    this.#use(index)
    for (const filter of filters) {
      this.#filters.beforeWork(index, filter)
      this.#filters.afterWork(filter)
    }
    this.#startThreads(this.#options.threads)
  }

  /** Waits for all searches, then stops the threads. */
  async close(): Promise<void> {
    await Promise.all([...this.#attached].map((searches) => searches.close()))
    await this.#group.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #detach(searches: IndexSearches): Promise<void> {
    const { id } = searches.index
    this.#attached.delete(searches)
    this.#used.delete(id)
    this.#filters.detach(id)
    await this.#group.detach(id)
  }

  /**
   * Whether there seems to be one caller, whose walk takes less time here than it takes to wake another thread: most
   * searches of late found no other under way, and this thread had waited for them.
   */
  #isAlone(): boolean {
    if (this.#options.inlineBytesMax !== undefined) return false
    const { idleTime } = performance.nodeTiming
    const isAlone = idleTime - this.#idleMs >= waitedMsMin && this.#queries.used === 0
    this.#idleMs = idleTime
    this.#alone = isAlone ? Math.min(this.#alone + 1, aloneMax) : Math.max(0, this.#alone - aloneLoss)
    return isAlone && this.#alone > aloneMin
  }

  /** Lets the threads know what a piece needs, and starts one more if all have work. */
  #beforeWork({ index, queries }: Piece, count: number): void {
    this.#use(index)
    for (const { matching } of queries) if (matching !== undefined) this.#filters.beforeWork(index, matching)
    this.#startThreads(count)
  }

  #use(index: number): void {
    if (this.#used.has(index)) return
    this.#used.add(index)
    for (const thread of this.#group.threads) if (thread.hasStarted) thread.beforeWork(index)
  }

  #startThreads(count: number = 0): void {
    this.#wanted = Math.max(this.#wanted, Math.min(count, this.#options.threads))
    for (const thread of this.#group.threads.slice(0, this.#wanted))
      if (!thread.hasStarted) this.#start(thread)
  }

  #start(thread: SearchThread): void {
    for (const [owner, { buffer: board }] of this.#boards) thread.post({ kind: 'board', owner, board })
    for (const index of this.#used) thread.beforeWork(index)
    this.#filters.postTo(thread)
  }

  #postToAll(message: ToSearchThread): void {
    for (const thread of this.#group.threads) if (thread.hasStarted) thread.post(message)
  }
}

/** What a thread needs to submit searches: see `SearchExecutor.addOwner`. */
export interface SubmitterSetup {
  readonly board: SharedArrayBuffer
  readonly pool: SharedArrayBuffer
  readonly threads: number
  readonly queries: BudgetSetup
}

/** Returns the bytes of the largest piece of any index: a scan of one or several queries, or the widest walks. */
function recordBytesMax(maxLimit: number): number {
  // A lane's pool bounds the results of queries that scan together; its size is rounded up.
  const scanned = foundMax(maxLimit) + Math.ceil(64 / poolEntryBytes)
  const hits = Math.max(scanned, walksPerPiece * efMax)
  return recordBytes({ dimension: dimensionMax, queries: queriesPerScanMax, hits, ranges: segmentsMax })
}

/** About 100 microseconds of scanning. For less, a second thread saves less than the transport's own work costs. */
const inlineBytesMax = 1024 * 1024

/** A loop that finds something to do at once waits for some microseconds. */
const waitedMsMin = 0.02

/** Two callers often meet within so many searches; one may meet other work of this thread. */
const aloneMin = 16
const aloneMax = 32
const aloneLoss = 8

/** 16 TiB of segments; a record has room for that many ranges of a scan. */
const segmentsMax = 4096

interface SearchThreadOptions extends ThreadSetup {
  readonly pool: PoolState
  readonly logger: Logger
  /** Called when the thread has ended, with the reason. */
  readonly onEnd: (thread: SearchThread, error: Error) => void
}

/** The main thread's side of one search thread. It starts with its first message. */
class SearchThread extends EngineThread<ToSearchThread, FromSearchThread> {
  readonly lane: number
  readonly #options: SearchThreadOptions

  constructor({ kernels, lane, ...rest }: SearchThreadOptions) {
    super(new URL('./search-worker', import.meta.url), { kernels, lane })
    this.lane = lane
    this.#options = { kernels, lane, ...rest }
  }

  /** Posts a message and wakes the thread. */
  override post(message: ToSearchThread): void {
    const { pool } = this.#options
    if (!this.hasStarted) super.post({ kind: 'start', pool: pool.buffer, received: pool.messages(this.lane) })
    super.post(message)
    pool.announce(this.lane)
  }

  protected override onMessage(): void {}

  protected override onError(error: unknown): void {
    this.#options.logger.error({ err: error }, 'a search thread failed')
  }

  protected override onEnd(code: number): void {
    this.#options.onEnd(this, new Error(`a search thread ended with code ${code}`))
  }
}

interface KnownFilter {
  readonly index: number
  readonly words: SlotBits['words']
  /** The number of submitted queries with the filter. */
  uses: number
}

/**
 * The filters that all search threads know. A bitmap is posted once to each, before the first query that uses it; a
 * query's record contains only its number. The most recently used filters are kept.
 */
export class KnownFilters {
  readonly #post: (message: ToSearchThread) => void
  /** In the order of last use, the oldest first. */
  readonly #known = new Map<number, KnownFilter>()

  /** @param post to all threads that have started */
  constructor(post: (message: ToSearchThread) => void) {
    this.#post = post
  }

  /** Call before a query of an index is submitted. */
  beforeWork(index: number, { id, words }: Pick<SlotBits, 'id' | 'words'>): void {
    const known = this.#known.get(id)
    if (known === undefined) this.#post({ kind: 'filter', filter: id, words: words.buffer })
    this.#known.delete(id)
    this.#known.set(id, { index, words, uses: (known?.uses ?? 0) + 1 })
    if (this.#known.size > filtersMax) this.#dropOldest()
  }

  /** Call when a query has ended. */
  afterWork({ id }: Pick<SlotBits, 'id'>): void {
    const known = this.#known.get(id)
    if (known !== undefined) known.uses -= 1
  }

  /** Posts all filters to a thread that starts. */
  postTo(thread: Pick<SearchThread, 'post'>): void {
    for (const [filter, { words }] of this.#known)
      thread.post({ kind: 'filter', filter, words: words.buffer })
  }

  /** Drops the filters of an index that the threads are about to drop. */
  detach(index: number): void {
    for (const [id, known] of this.#known) if (known.index === index) this.#drop(id)
  }

  #dropOldest(): void {
    for (const [id, { uses }] of this.#known) {
      if (uses > 0) continue
      this.#drop(id)
      return
    }
  }

  #drop(filter: number): void {
    this.#known.delete(filter)
    this.#post({ kind: 'drop-filter', filter })
  }
}

/**
 * The most bitmaps that threads keep, besides those of submitted queries. For ten million slots each takes 1.25 MB,
 * which threads share.
 */
const filtersMax = 64
