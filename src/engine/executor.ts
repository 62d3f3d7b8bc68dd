import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { Metric, SearchQuery } from '../base/point.ts'
import type { Route } from '../index/graph.ts'
import type { Hit } from '../index/hit.ts'
import { type IndexQuery, Searcher, type SlotRange } from '../index/searcher.ts'
import { efMax, poolEntryBytes, queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { Doorbell } from './doorbell.ts'
import { HitLists } from './hit-lists.ts'
import { type Piece, SearchRequest } from './search-request.ts'
import { recordBytes } from './search-ring.ts'
import { SearchThread } from './search-thread.ts'

export interface ExecutorOptions {
  readonly kernels: KernelModule
  readonly threads: number
  /** Queries, those of batches counted singly, that may wait or run. */
  readonly maxQueuedQueries: number
  readonly logger: Logger
  /** The way that a metric's searches take now; undefined for the exact scan. */
  readonly routeOf?: (metric: Metric) => Route | undefined
  /** Searches of at most this many bytes of rows run on the calling thread; for tests of the threads, 0. */
  readonly inlineBytesMax?: number
}

/**
 * Runs searches on worker threads, so that no scan ever holds up the event loop.
 *
 *   search ──> requests, each cut into pieces ──> a ring for each thread ──> merged ──> resolved
 *
 * A single scan is cut by slots, so that every core works on it; a batch is cut by queries, and those that scan
 * go through the rows together. Requests take turns piece by piece, and a thread has about a millisecond of
 * work ahead, so that it need not wait for the next piece: a query that comes beside a batch of thousands waits
 * for two or three pieces, not for the batch. A scan too small to be worth the hand-over runs at once, on the
 * calling thread.
 */
export class SearchExecutor implements AsyncDisposable {
  readonly #options: ExecutorOptions
  readonly #inline: Searcher
  readonly #threads: SearchThread[]
  readonly #doorbell: Doorbell = new Doorbell()
  /** Requests with pieces that no thread has yet; the first one's turn is next. */
  #waiting: SearchRequest[] = []
  #index: VectorIndex | undefined
  #queuedQueries = 0
  #isListening = false
  #closed = false
  #drained: (() => void) | undefined

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#inline = new Searcher(options.kernels, 0)
    this.#threads = Array.from({ length: options.threads }, (_, index) => this.#spawn(index + 1))
  }

  /** Queries that wait or run. */
  get queuedQueries(): number {
    return this.#queuedQueries
  }

  /** Pieces of searches that each thread has worked on since it started. */
  get completedPieces(): readonly number[] {
    return this.#threads.map(({ completedPieces }) => completedPieces)
  }

  /** Gives the executor the index to search, once; segments that it grows later are followed. */
  attach(index: VectorIndex): void {
    this.#index = index
    for (const thread of this.#threads) thread.start(recordBytesMax(index), this.#doorbell)
    index.onSegment((segment) => {
      this.#inline.attach(segment)
      for (const thread of this.#threads) thread.attach(segment)
    })
  }

  /**
   * The `limit` nearest live slots of each query, ascending by (distance, sequence).
   *
   * @throws DatabaseError `overloaded` when too many queries wait (a batch larger than the whole bound is
   *   let in when none does), `cancelled` when `signal` aborts, `shutting_down` after `close`
   */
  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<HitLists> {
    if (this.#closed) throw new DatabaseError('shutting_down', 'the server is shutting down')
    if (signal?.aborted) throw cancellation(signal)
    if (this.#index === undefined) return new HitLists(queries.length)
    this.#admit(queries.length)
    if (this.#bytesOf(queries.length) <= (this.#options.inlineBytesMax ?? inlineBytesMax)) {
      const search = (query: SearchQuery): readonly Hit[] =>
        this.#inline.search([this.#asked(query)], this.#ranges(), () => false)[0]!
      return HitLists.of(queries.map(search))
    }
    return this.#enqueue(queries, signal)
  }

  /** Lets what runs and waits end, then stops the threads. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#queuedQueries > 0) await new Promise<void>((resolve) => (this.#drained = resolve))
    await Promise.all(this.#threads.map((thread) => thread.terminate()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #admit(count: number): void {
    const { maxQueuedQueries } = this.#options
    if (this.#queuedQueries === 0 || this.#queuedQueries + count <= maxQueuedQueries) return
    throw new DatabaseError(
      'overloaded',
      `${this.#queuedQueries} queries are waiting, the most is ${maxQueuedQueries} (MAX_QUEUED_QUERIES): try again later`,
    )
  }

  #enqueue(queries: readonly SearchQuery[], signal: AbortSignal | undefined): Promise<HitLists> {
    return new Promise((resolve, reject) => {
      const request = new SearchRequest(queries.length, this.#pieces(queries), (error) => {
        signal?.removeEventListener('abort', cancel)
        if (error !== undefined) this.#withdraw(request)
        this.#queuedQueries -= queries.length
        if (this.#queuedQueries === 0) this.#drained?.()
        if (error === undefined) resolve(request.hits)
        else reject(error)
      })
      const cancel = (): void => request.fail(cancellation(signal!))
      signal?.addEventListener('abort', cancel, { once: true })
      this.#queuedQueries += queries.length
      this.#waiting.push(request)
      this.#dispatch()
    })
  }

  #withdraw(request: SearchRequest): void {
    this.#waiting = this.#waiting.filter((each) => each !== request)
    for (const thread of this.#threads) thread.cancel(request)
  }

  /** Takes in what is done, hands out what waits, and sees to it that this happens again. */
  #dispatch(): void {
    this.#exchange()
    if (this.#isListening || !this.#threads.some(({ isBusy }) => isBusy)) return
    this.#isListening = true
    this.#doorbell.listen(() => {
      this.#isListening = false
      this.#dispatch()
    })
    // What was done before the doorbell could ring for it.
    this.#exchange()
  }

  #exchange(): void {
    for (const thread of this.#threads) thread.collect()
    while (this.#waiting.length > 0) {
      const thread = this.#threads.reduce((least, each) => (each.cost < least.cost ? each : least))
      const request = this.#waiting[0]!
      if (thread.cost >= aheadMicroseconds || !thread.run(request, request.next!)) return
      this.#waiting.shift()
      request.handOut()
      if (request.next !== undefined) this.#waiting.push(request)
    }
  }

  /** A query as the index takes it, with the way that it goes from now on. */
  #asked({ vector, metric, limit, ef }: SearchQuery): IndexQuery {
    const route = this.#routeOf(metric, Math.max(ef, limit))
    return { vector, metric, ef, route, k: Math.min(limit, Math.max(1, this.#index!.liveCount)) }
  }

  /** Where there is a graph wide enough for the query, and the query is not so wide that a scan costs less. */
  #routeOf(metric: Metric, ef: number): Route | undefined {
    const route = this.#options.routeOf?.(metric)
    if (route === undefined || ef > efMax || ef * scanFactor > this.#index!.liveCount) return undefined
    return route
  }

  /**
   * Queries that walk through a graph go a few together; of those that scan, several go through the rows
   * together, and a single one is cut by slots. Made one by one, as making thousands would hold the event loop.
   */
  *#pieces(queries: readonly SearchQuery[]): Generator<Piece, void> {
    const scanning: Placed[] = []
    let walking: Placed[] = []
    for (let at = 0; at < queries.length; at += 1) {
      const query = this.#asked(queries[at]!)
      if (query.route === undefined) {
        scanning.push({ at, query })
        continue
      }
      walking.push({ at, query })
      if (walking.length < walksPerPiece) continue
      yield walkOf(walking)
      walking = []
    }
    if (walking.length > 0) yield walkOf(walking)
    if (scanning.length === 1) {
      for (const ranges of this.#sharesOfSlots()) yield this.#scan(scanning, ranges)
      return
    }
    for (let first = 0; first < scanning.length; ) {
      const rest = scanning.slice(first, first + queriesPerScanMax)
      const together = rest.slice(0, this.#scansTogether(rest.map(({ query }) => query)))
      yield this.#scan(together, this.#ranges())
      first += together.length
    }
  }

  #scan(placed: readonly Placed[], ranges: readonly SlotRange[]): Piece {
    const slots = ranges.reduce((sum, { from, to }) => sum + to - from, 0)
    const cost = (placed.length * slots * this.#rowBytes) / bytesPerMicrosecond
    return { ...partsOf(placed), ranges, cost }
  }

  /** How many of the first queries can go through the rows together. */
  #scansTogether(queries: readonly IndexQuery[]): number {
    let count = Math.max(1, Math.min(queriesPerScanMax, Math.floor(pieceBytes / this.#bytesOf(1))))
    while (!this.#inline.fits(queries.slice(0, count))) count -= 1
    return count
  }

  /** All the slots, by segment. */
  #ranges(): SlotRange[] {
    const index = this.#index!
    return index.segments.map(({ ordinal, firstSlot, layout }) => ({
      ordinal,
      from: 0,
      to: Math.max(0, Math.min(layout.capacity, index.slotCount - firstSlot)),
    }))
  }

  /** All the slots, dealt out to the workers in equal shares. */
  #sharesOfSlots(): SlotRange[][] {
    const share = Math.ceil(this.#index!.slotCount / this.#threads.length)
    const shares: SlotRange[][] = [[]]
    let room = share
    for (const { ordinal, to } of this.#ranges()) {
      for (let from = 0; from < to; ) {
        if (room === 0) {
          shares.push([])
          room = share
        }
        const end = Math.min(to, from + room)
        shares.at(-1)!.push({ ordinal, from, to: end })
        room -= end - from
        from = end
      }
    }
    return shares
  }

  #bytesOf(queries: number): number {
    return queries * this.#index!.slotCount * this.#rowBytes
  }

  get #rowBytes(): number {
    return this.#index!.layout.rowBytes
  }

  #spawn(lane: number): SearchThread {
    const setup = { kernels: this.#options.kernels, lane }
    return new SearchThread(setup, this.#options.logger, (dead) => this.#replace(dead, lane))
  }

  #replace(dead: SearchThread, lane: number): void {
    if (this.#closed) return
    const thread = this.#spawn(lane)
    this.#threads[this.#threads.indexOf(dead)] = thread
    if (this.#index === undefined) return
    thread.start(recordBytesMax(this.#index), this.#doorbell)
    for (const segment of this.#index.segments) thread.attach(segment)
    this.#dispatch()
  }
}

/** Starts the search threads. */
export function createExecutor(options: ExecutorOptions): SearchExecutor {
  return new SearchExecutor(options)
}

/** Bytes of the largest piece: a full scan of one query or several, or a few walks, as wide as they may be. */
function recordBytesMax(index: VectorIndex): number {
  const { dimension, lane } = index.layout
  const hits = Math.max(Math.ceil(lane.poolBytes / poolEntryBytes), walksPerPiece * efMax)
  return recordBytes({ dimension, queries: queriesPerScanMax, hits, ranges: segmentsMax })
}

/** About 100 microseconds of scanning: below, a second thread saves less than the transport's own work. */
const inlineBytesMax = 1024 * 1024

/** A query, and where it stands in its request. */
interface Placed {
  readonly at: number
  readonly query: IndexQuery
}

function walkOf(placed: readonly Placed[]): Piece {
  let cost = 0
  for (const { query } of placed) cost += walkMicroseconds * query.ef * query.route!.widening
  return { ...partsOf(placed), ranges: [], cost }
}

function partsOf(placed: readonly Placed[]): Pick<Piece, 'positions' | 'queries'> {
  return { positions: placed.map(({ at }) => at), queries: placed.map(({ query }) => query) }
}

/** A walk of a beam of ef measures some twenty vectors a place, out of order: a scan of so many costs less. */
const scanFactor = 4

/** Nearly half a millisecond of walking: what the hand-over costs vanishes in it. */
const walksPerPiece = 4

/** For each place of the beam, over 512 dimensions. */
const walkMicroseconds = 0.8

/** Of rows that a thread scans. */
const bytesPerMicrosecond = 10_000

/** A thread that has more work than this ahead gets no more: enough to bridge a busy event loop. */
const aheadMicroseconds = 1000

/** About 100 ms of scanning: the longest that a waiting query waits for a piece of a batch. */
const pieceBytes = 1024 * 1024 * 1024

/** 16 TiB of segments: the ranges of a scan have room in a record. */
const segmentsMax = 4096
