import type { Logger } from '../base/log.ts'
import { EngineThread, type ThreadSetup } from '../graphs/engine-thread.ts'
import type { SlotBits } from '../index/slot-filter.ts'
import type { FromSearchThread, PoolState, ToSearchThread } from './messages.ts'

interface SearchThreadOptions extends ThreadSetup {
  readonly pool: PoolState
  readonly logger: Logger
  /** Called when the thread has ended, with the reason. */
  readonly onEnd: (thread: SearchThread, error: Error) => void
}

/** The main thread's side of one search thread. It starts with its first message. */
export class SearchThread extends EngineThread<ToSearchThread, FromSearchThread> {
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
