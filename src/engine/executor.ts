import { Worker } from 'node:worker_threads'
import { cancellation, DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { Metric, SearchQuery } from '../base/point.ts'
import type { Route } from '../index/graph.ts'
import type { Hit } from '../index/hit.ts'
import { type IndexQuery, mergeHits, Searcher, type SlotRange } from '../index/searcher.ts'
import { efMax, queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { type FromWorker, type TaskMessage, type ToWorker, unpackHits, type WorkerSetup } from './messages.ts'

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
 *   search ──> requests, each cut into pieces ──> one piece a worker at a time ──> merged ──> resolved
 *
 * A single query is cut by slots, so that every core works on it; a batch is cut by queries, a few of which
 * go through the rows together. Requests take turns piece by piece: a query that comes beside a batch of
 * thousands waits for the pieces that are running, not for the batch. A search too small to be worth the
 * two messages runs at once, on the calling thread.
 */
export class SearchExecutor implements AsyncDisposable {
  readonly #options: ExecutorOptions
  readonly #inline: Searcher
  readonly #workers: SearchWorker[]
  /** Requests with pieces that no worker has yet; the first one's turn is next. */
  #waiting: Request[] = []
  #index: VectorIndex | undefined
  #queuedQueries = 0
  #nextTask = 0
  #closed = false
  #drained: (() => void) | undefined

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#inline = new Searcher(options.kernels, 0)
    this.#workers = Array.from({ length: options.threads }, (_, index) => this.#spawn(index + 1))
  }

  /** Queries that wait or run. */
  get queuedQueries(): number {
    return this.#queuedQueries
  }

  /** Gives the executor the index to search, once; segments that it grows later are followed. */
  attach(index: VectorIndex): void {
    this.#index = index
    index.onSegment((segment) => {
      this.#inline.attach(segment)
      for (const worker of this.#workers) worker.post({ kind: 'segment', segment })
    })
  }

  /**
   * The `limit` nearest live slots of each query, ascending by (distance, sequence).
   *
   * @throws DatabaseError `overloaded` when too many queries wait (a batch larger than the whole bound is
   *   let in when none does), `cancelled` when `signal` aborts, `shutting_down` after `close`
   */
  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<readonly (readonly Hit[])[]> {
    if (this.#closed) throw new DatabaseError('shutting_down', 'the server is shutting down')
    if (signal?.aborted) throw cancellation(signal)
    if (this.#index === undefined) return queries.map(() => [])
    this.#admit(queries.length)
    const scans = queries.map(({ vector, metric, limit, ef }) => ({
      vector,
      metric,
      ef,
      route: this.#routeOf(metric, Math.max(ef, limit)),
      k: Math.min(limit, Math.max(1, this.#index!.liveCount)),
    }))
    if (this.#bytesOf(scans.length) <= (this.#options.inlineBytesMax ?? inlineBytesMax)) {
      return scans.map((scan) => this.#inline.search([scan], this.#ranges(), () => false)[0]!)
    }
    return this.#enqueue(scans, signal)
  }

  /** Lets what runs and waits end, then stops the threads. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#queuedQueries > 0) await new Promise<void>((resolve) => (this.#drained = resolve))
    await Promise.all(this.#workers.map((worker) => worker.terminate()))
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

  #enqueue(
    queries: readonly IndexQuery[],
    signal: AbortSignal | undefined,
  ): Promise<readonly (readonly Hit[])[]> {
    return new Promise((resolve, reject) => {
      const request = new Request(queries, this.#pieces(queries), (error) => {
        signal?.removeEventListener('abort', cancel)
        this.#waiting = this.#waiting.filter((each) => each !== request)
        this.#queuedQueries -= queries.length
        if (this.#queuedQueries === 0) this.#drained?.()
        if (error === undefined) resolve(request.merged())
        else reject(error)
      })
      const cancel = (): void => request.fail(cancellation(signal!))
      signal?.addEventListener('abort', cancel, { once: true })
      this.#queuedQueries += queries.length
      this.#waiting.push(request)
      this.#dispatch()
    })
  }

  #dispatch(): void {
    for (const worker of this.#workers) {
      if (this.#waiting.length === 0) return
      if (worker.isBusy) continue
      const request = this.#waiting.shift()!
      const piece = request.next()!
      if (request.hasMore) this.#waiting.push(request)
      this.#nextTask += 1
      worker.run({ request, piece, task: this.#nextTask })
    }
  }

  /** Where there is a graph wide enough for the query, and the query is not so wide that a scan costs less. */
  #routeOf(metric: Metric, ef: number): Route | undefined {
    const route = this.#options.routeOf?.(metric)
    if (route === undefined || ef > efMax || ef * scanFactor > this.#index!.liveCount) return undefined
    return route
  }

  /**
   * Queries that walk through a graph go a few together; of those that scan, several go through the rows
   * together, and a single one is cut by slots.
   */
  #pieces(queries: readonly IndexQuery[]): Piece[] {
    const positions = [...queries.keys()]
    const walking = positions.filter((at) => queries[at]!.route !== undefined)
    const scanning = positions.filter((at) => queries[at]!.route === undefined)
    const walks = chunksOf(walking, () => walksPerPiece).map((chunk) =>
      this.#piece(queries, chunk, this.#ranges()),
    )
    if (scanning.length === 1) {
      return [...walks, ...this.#sharesOfSlots().map((ranges) => this.#piece(queries, scanning, ranges))]
    }
    const scans = chunksOf(scanning, (rest) => this.#scansTogether(rest.map((at) => queries[at]!)))
    return [...walks, ...scans.map((chunk) => this.#piece(queries, chunk, this.#ranges()))]
  }

  #piece(queries: readonly IndexQuery[], positions: readonly number[], ranges: readonly SlotRange[]): Piece {
    return { positions, queries: positions.map((at) => queries[at]!), ranges }
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
    const share = Math.ceil(this.#index!.slotCount / this.#workers.length)
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
    const rowBytes = this.#index!.segments[0]?.layout.rowBytes ?? 0
    return queries * this.#index!.slotCount * rowBytes
  }

  #spawn(lane: number): SearchWorker {
    return new SearchWorker({ kernels: this.#options.kernels, lane }, this.#options.logger, {
      idle: () => this.#dispatch(),
      died: (dead) => this.#replace(dead, lane),
    })
  }

  #replace(dead: SearchWorker, lane: number): void {
    if (this.#closed) return
    const worker = this.#spawn(lane)
    this.#workers[this.#workers.indexOf(dead)] = worker
    for (const segment of this.#index?.segments ?? []) worker.post({ kind: 'segment', segment })
    this.#dispatch()
  }
}

/** Starts the search threads. */
export function createExecutor(options: ExecutorOptions): SearchExecutor {
  return new SearchExecutor(options)
}

/** Part of a request: some of its queries over some of the slots. */
interface Piece {
  /** Where the piece's queries stand in the request. */
  readonly positions: readonly number[]
  readonly queries: readonly IndexQuery[]
  readonly ranges: readonly SlotRange[]
}

/** A search under way. `settle` is called exactly once. */
class Request {
  readonly cancelled: Int32Array = new Int32Array(new SharedArrayBuffer(4))
  readonly #queries: readonly IndexQuery[]
  readonly #pieces: readonly Piece[]
  readonly #settle: (error?: unknown) => void
  /** By query: the hits of each piece that held it. */
  readonly #found: (readonly Hit[])[][]
  #handedOut = 0
  #done = 0
  #settled = false

  constructor(queries: readonly IndexQuery[], pieces: readonly Piece[], settle: (error?: unknown) => void) {
    this.#queries = queries
    this.#pieces = pieces
    this.#settle = settle
    this.#found = queries.map(() => [])
  }

  get hasMore(): boolean {
    return this.#handedOut < this.#pieces.length
  }

  next(): Piece | undefined {
    this.#handedOut += 1
    return this.#pieces[this.#handedOut - 1]
  }

  complete(piece: Piece, hits: readonly (readonly Hit[])[]): void {
    for (const [index, each] of hits.entries()) this.#found[piece.positions[index]!]!.push(each)
    this.#done += 1
    if (this.#done === this.#pieces.length) this.#end()
  }

  /** Ends the request; pieces that run notice it between two ranges. */
  fail(error: unknown): void {
    Atomics.store(this.cancelled, 0, 1)
    this.#end(error)
  }

  merged(): readonly (readonly Hit[])[] {
    return this.#queries.map(({ k }, index) => mergeHits(this.#found[index]!, k))
  }

  #end(error?: unknown): void {
    if (this.#settled) return
    this.#settled = true
    this.#settle(error)
  }
}

interface Assignment {
  readonly request: Request
  readonly piece: Piece
  readonly task: number
}

/** The main thread's side of one worker. */
class SearchWorker {
  readonly #worker: Worker
  #assignment: Assignment | undefined

  constructor(
    setup: WorkerSetup,
    logger: Logger,
    on: { readonly idle: () => void; readonly died: (worker: SearchWorker) => void },
  ) {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#worker = new Worker(new URL(`./search-worker.${extension}`, import.meta.url), { workerData: setup })
    this.#worker.on('message', (message: FromWorker) => {
      const { request, piece } = this.#assignment!
      this.#assignment = undefined
      if (message.kind === 'result') request.complete(piece, message.hits.map(unpackHits))
      else request.fail(message.error)
      on.idle()
    })
    this.#worker.on('error', (error) => logger.error({ err: error }, 'a search thread failed'))
    this.#worker.on('exit', (code) => {
      this.#assignment?.request.fail(new Error(`a search thread ended with code ${code}`))
      on.died(this)
    })
  }

  get isBusy(): boolean {
    return this.#assignment !== undefined
  }

  run(assignment: Assignment): void {
    const { request, piece, task } = assignment
    this.#assignment = assignment
    const { queries, ranges } = piece
    const message: TaskMessage = { kind: 'task', task, queries, ranges, cancelled: request.cancelled }
    this.post(message)
  }

  post(message: ToWorker): void {
    this.#worker.postMessage(message)
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate()
  }
}

/** About 100 microseconds of scanning, what the messages to a worker and back cost under load. */
const inlineBytesMax = 1024 * 1024

/** Cuts a list into runs, each as long as `lengthOf` says of what is left. */
function chunksOf<Item>(
  items: readonly Item[],
  lengthOf: (rest: readonly Item[]) => number,
): (readonly Item[])[] {
  const chunks: (readonly Item[])[] = []
  for (let first = 0; first < items.length; first += chunks.at(-1)!.length) {
    chunks.push(items.slice(first, first + lengthOf(items.slice(first, first + queriesPerScanMax))))
  }
  return chunks
}

/** A walk of a beam of ef measures some twenty vectors a place, out of order: a scan of so many costs less. */
const scanFactor = 4

/** A few milliseconds of walking. */
const walksPerPiece = 16

/** About 100 ms of scanning: the longest that a waiting query waits for a piece of a batch. */
const pieceBytes = 1024 * 1024 * 1024
