import { Turn } from '../base/turns.ts'
import type { Hits } from '../index/hits.ts'
import { type Board, type Outcome, placesMax, RecordSpace, recordBytes, sizeOf } from './board.ts'
import type { PoolState } from './messages.ts'
import { type Piece, type SearchRequest, shortMicroseconds } from './search-pieces.ts'

interface SubmitterOptions {
  readonly board: Board
  readonly pool: PoolState
  /** The number of search threads. */
  readonly threads: number
  /** Called before a piece is submitted; `count` pieces have not ended. */
  readonly beforeWork?: (piece: Piece, count: number) => void
  /** Called when a submitted piece has ended, however it has. */
  readonly afterWork?: (piece: Piece) => void
  /** The lane of this thread if it takes pieces of its own, and those that search threads give up. */
  readonly lane?: number
}

/** Searches of an index: its requests take turns. */
export interface WaitingSearches {
  /** The request whose turn is next; undefined if none has pieces left. */
  readonly next: SearchRequest | undefined
  /** Call after the next piece of the next request has been submitted. */
  handOut(): void
  /** Searches for a piece on this thread. */
  run(piece: Piece): Hits
}

interface Submitted {
  readonly searches: WaitingSearches
  readonly request: SearchRequest
  readonly piece: Piece
  /** Where its record lies. */
  readonly offset: number
}

/**
 * Submits the searches of a thread to its board, and collects their hits.
 *
 *   search ──> requests of its index, each cut into pieces ──> the board ──> merged ──> resolved
 *
 * Indexes take turns, piece by piece, and so do the requests of one index. About a millisecond of work for each search
 * thread is open, so that none need wait for its next piece. What waits beyond that can be counted, refused and
 * cancelled. A query that arrives during a batch of thousands, or during thousands of requests to another index, waits
 * for two or three pieces only.
 *
 * A thread that serves requests also takes pieces, for a millisecond at a time, and short ones only: between them, it
 * answers other requests.
 */
export class Submitter {
  readonly #options: SubmitterOptions
  readonly #board: Board
  readonly #space: RecordSpace
  /** By place. */
  readonly #submitted: (Submitted | undefined)[] = new Array<undefined>(placesMax).fill(undefined)
  #count = 0
  /** Those with waiting requests; the first one's turn is next. */
  #waiting: WaitingSearches[] = []
  #isListening = false
  #isHelping = false

  constructor(options: SubmitterOptions) {
    this.#options = options
    this.#board = options.board
    this.#space = new RecordSpace(options.board.capacity)
  }

  /** Call when searches have a new request. */
  enqueue(searches: WaitingSearches): void {
    if (!this.#waiting.includes(searches)) this.#waiting.push(searches)
    this.dispatch()
  }

  /** Drops the pieces of a request that has failed. */
  cancel(request: SearchRequest): void {
    this.#waiting = this.#waiting.filter(({ next }) => next !== undefined)
    for (const [place, each] of this.#submitted.entries()) {
      if (each?.request !== request) continue
      if (this.#board.withdraw(place)) this.#release(place, each)
      else this.#board.cancel(place)
    }
    // Nobody else reports that there is room for others.
    queueMicrotask(() => this.dispatch())
  }

  /** Collects completed pieces, submits waiting ones, and listens for the next completion. */
  dispatch(): void {
    this.#collectAndSubmit()
    if (this.#count === 0) return
    this.#help()
    if (this.#isListening) return
    this.#isListening = true
    this.#board.bell.listen(() => {
      this.#isListening = false
      this.dispatch()
    })
    // Repeated for pieces that were completed before the bell was armed.
    this.#collectAndSubmit()
  }

  /** Takes pieces when this turn of the event loop is over, as long as there are open ones. */
  #help(): void {
    const { lane } = this.#options
    if (lane === undefined || this.#isHelping) return
    this.#isHelping = true
    setImmediate(() => {
      this.#isHelping = false
      const turn = new Turn()
      let place = this.#board.take(lane, turnMicroseconds)
      if (place === undefined) return
      for (;;) {
        const submitted = this.#submitted[place]!
        this.#run(submitted)
        this.#end(place, submitted)
        if (turn.isOver) break
        place = this.#board.take(lane, turnMicroseconds)
        if (place === undefined) break
      }
      this.dispatch()
    })
  }

  #run({ searches, request, piece }: Submitted): void {
    if (request.isSettled) return
    try {
      request.complete(piece, searches.run(piece))
    } catch (error) {
      request.fail(error)
    }
  }

  #collectAndSubmit(): void {
    let open = 0
    let left = this.#count
    for (let place = 0; place < placesMax && left > 0; place += 1) {
      const each = this.#submitted[place]
      if (each === undefined) continue
      left -= 1
      const state = this.#board.stateOf(place)
      if (state === 'open') open += each.piece.cost
      else if (state !== 'free' && state !== 'taken') this.#collect(place, each, state)
    }
    while (this.#waiting.length > 0 && open < aheadMicroseconds * this.#options.threads) {
      const searches = this.#waiting[0]!
      const request = searches.next!
      const piece = request.next!
      if (!this.#submit(searches, request, piece)) return
      open += piece.cost
      this.#waiting.shift()
      searches.handOut()
      if (searches.next !== undefined) this.#waiting.push(searches)
    }
  }

  /** Returns false if there is no room until a piece has ended. */
  #submit(searches: WaitingSearches, request: SearchRequest, piece: Piece): boolean {
    const place = this.#count === placesMax ? -1 : this.#submitted.indexOf(undefined)
    const offset = place === -1 ? undefined : this.#space.take(recordBytes(sizeOf(piece)))
    if (offset === undefined) return false
    this.#submitted[place] = { searches, request, piece, offset }
    this.#count += 1
    this.#options.beforeWork?.(piece, this.#count)
    this.#board.submit(place, offset, piece)
    if (!this.#isTakenSoon()) this.#options.pool.wakeOne()
    return true
  }

  /**
   * Whether threads that work on short pieces of this board will take what is open. That is about as soon as a thread
   * that sleeps would, and saves the system call that wakes it: 10 to 20 us of this thread.
   */
  #isTakenSoon(): boolean {
    let working = 0
    let left = this.#count
    for (let place = 0; left > 0; place += 1) {
      const each = this.#submitted[place]
      if (each === undefined) continue
      left -= 1
      const state = this.#board.stateOf(place)
      if (state === 'open') working -= 1
      else if (state === 'taken' && each.piece.cost <= shortMicroseconds) working += 1
    }
    return working >= 0
  }

  #collect(place: number, submitted: Submitted, outcome: Outcome): void {
    const { request, piece } = submitted
    if (!request.isSettled) {
      if (outcome === 'done') {
        this.#board.addWork(place, piece.queries)
        request.complete(piece, this.#board.hits(place))
      } else if (outcome === 'failed') request.fail(this.#board.errorOf(place))
      else if (this.#options.lane === undefined) request.fail(new Error('the index is gone'))
      else this.#run(submitted)
    }
    this.#end(place, submitted)
  }

  #end(place: number, submitted: Submitted): void {
    this.#board.free(place)
    this.#release(place, submitted)
  }

  #release(place: number, { piece, offset }: Submitted): void {
    this.#submitted[place] = undefined
    this.#count -= 1
    this.#space.release(offset)
    this.#options.afterWork?.(piece)
  }
}

/** Enough for the time that the event loop is busy. */
const aheadMicroseconds = 1000

/** Longer pieces are left to search threads. */
const turnMicroseconds = 1000
