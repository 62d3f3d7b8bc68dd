import type { Logger } from '../base/log.ts'
import {
  EngineThread,
  type FaultMessage,
  type IndexMessage,
  type ThreadSetup,
} from '../graphs/engine-thread.ts'
import type { SlotBits } from '../index/slot-filter.ts'
import type { Doorbell, FilterMessage, StartMessage } from './messages.ts'
import type { Piece, SearchRequest } from './search-pieces.ts'
import {
  createRing,
  RecordSpace,
  recordBytes,
  recordsMax,
  type SearchRing,
  sizeOf,
  usualRingBytes,
} from './search-ring.ts'

interface Assignment {
  readonly request: SearchRequest
  readonly piece: Piece
  /** The address of the piece's record in the ring. */
  readonly record: number
}

/** The main thread's side of one search thread. */
export class SearchThread extends EngineThread<StartMessage | FilterMessage, FaultMessage> {
  readonly #logger: Logger
  readonly #onEnd: (thread: SearchThread) => void
  #doorbell: Doorbell | undefined
  #ring: SearchRing | undefined
  #space: RecordSpace | undefined
  /** In the order in which the thread processes them. */
  readonly #assignments: Assignment[] = []
  /** Requests that failed in the thread and whose errors have not arrived yet. */
  readonly #failed: SearchRequest[] = []
  readonly #filters = new ThreadFilters((message) => this.post(message))
  #collected = 0
  #completedPieces = 0
  #cost = 0
  /** Whether the thread has ended. Nothing can be collected then: its requests have failed. */
  #hasEnded = false

  /** @param onEnd called when the thread has ended, after its requests have failed */
  constructor(setup: ThreadSetup, logger: Logger, onEnd: (thread: SearchThread) => void) {
    super(new URL('./search-worker', import.meta.url), setup)
    this.#logger = logger
    this.#onEnd = onEnd
  }

  /** Gives the thread its ring. Call before anything else. */
  start(recordBytesMax: number, doorbell: Doorbell): void {
    this.#ring = createRing(recordBytesMax)
    this.#space = new RecordSpace(this.#ring.capacity, usualRingBytes)
    this.#doorbell = doorbell
  }

  /** Posts a message and wakes the thread. */
  protected override post(message: FilterMessage | IndexMessage): void {
    if (!this.hasStarted) {
      super.post({ kind: 'start', ring: this.#ring!.buffer, doorbell: this.#doorbell!.buffer })
    }
    super.post(message)
    this.#ring!.announceMessage()
  }

  protected override onMessage({ error }: FaultMessage): void {
    this.collect()
    this.#failed.shift()!.fail(error)
  }

  protected override onError(error: unknown): void {
    this.#logger.error({ err: error }, 'a search thread failed')
  }

  protected override onEnd(code: number): void {
    const error = new Error(`a search thread ended with code ${code}`)
    this.#hasEnded = true
    for (const { request } of this.#assignments.splice(0)) request.fail(error)
    for (const request of this.#failed.splice(0)) request.fail(error)
    this.#onEnd(this)
  }

  /** Resolves when the thread has dropped everything of an index. Hits of that index must no longer be needed. */
  override detach(index: number): Promise<void> {
    this.#filters.detach(index)
    return super.detach(index)
  }

  /** The microseconds of work that the thread has queued. */
  get cost(): number {
    return this.#cost
  }

  /** The pieces that the thread has processed since it started. */
  get completedPieces(): number {
    return this.#completedPieces
  }

  get isBusy(): boolean {
    return this.#assignments.length > 0
  }

  /** Puts a piece into the ring; returns false if there is no room until a record is completed. */
  run(request: SearchRequest, piece: Piece): boolean {
    if (this.#hasEnded || this.#assignments.length === recordsMax) return false
    const offset = this.#space!.take(recordBytes(sizeOf(piece)))
    if (offset === undefined) return false
    this.beforeWork(piece.index)
    for (const { matching } of piece.queries) {
      if (matching !== undefined) this.#filters.beforeWork(piece.index, matching)
    }
    this.#assignments.push({ request, piece, record: this.#ring!.submit(offset, piece) })
    this.#cost += piece.cost
    return true
  }

  /** Collects the pieces that the thread has completed. */
  collect(): void {
    if (this.#ring === undefined || this.#hasEnded) return
    for (const { completed } = this.#ring; this.#collected !== completed; ) {
      const { request, piece, record } = this.#assignments.shift()!
      const failed = this.#ring.hasFailed(record)
      const hits = failed || request.isSettled ? undefined : this.#ring.hits(record)
      if (hits !== undefined) this.#ring.addWork(record, piece.queries)
      for (const { matching } of piece.queries) {
        if (matching !== undefined) this.#filters.afterWork(matching)
      }
      this.#collected = (this.#collected + 1) | 0
      this.#completedPieces += 1
      this.#cost -= piece.cost
      if (failed) this.#failed.push(request)
      else if (hits !== undefined) request.complete(piece, hits)
      this.#space!.release()
    }
  }

  /** Cancels the thread's pieces of a request. */
  cancel(request: SearchRequest): void {
    for (const each of this.#assignments) if (each.request === request) this.#ring!.cancel(each.record)
  }
}

interface KnownFilter {
  readonly index: number
  /** The number of queries with the filter in the thread's ring. */
  uses: number
}

/**
 * The main thread's record of the filters that one search thread has received. A bitmap is posted once, before the
 * first query that uses it; a query's record contains only its number. The most recently used filters are kept.
 */
export class ThreadFilters {
  readonly #post: (message: FilterMessage) => void
  /** In the order of last use, the oldest first. */
  readonly #known = new Map<number, KnownFilter>()

  constructor(post: (message: FilterMessage) => void) {
    this.#post = post
  }

  /** Call before a query of an index is sent to the thread. */
  beforeWork(index: number, { id, words }: SlotBits): void {
    const known = this.#known.get(id)
    if (known === undefined) this.#post({ kind: 'filter', filter: id, words: words.buffer })
    this.#known.delete(id)
    this.#known.set(id, { index, uses: (known?.uses ?? 0) + 1 })
    if (this.#known.size > filtersMax) this.#dropOldest()
  }

  /** Call when the thread has finished a query. */
  afterWork({ id }: SlotBits): void {
    const known = this.#known.get(id)
    if (known !== undefined) known.uses -= 1
  }

  /** Drops the filters of an index that the thread is about to drop. */
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
 * The most bitmaps that a thread keeps, besides those of queries in its ring. For ten million slots each takes 1.25 MB,
 * which threads share.
 */
const filtersMax = 64
