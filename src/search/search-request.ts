import { HitLists, numbersPerHit, type PackedHits } from './hit-lists.ts'
import type { SearchWork } from './search-ring.ts'

/** Part of a request: some of its queries over some of the slots. */
export interface Piece extends SearchWork {
  /** The positions of the piece's queries in the request. */
  readonly positions: readonly number[]
}

/** A search in progress: its pieces, which are created when they are handed out, and its results so far. */
export class SearchRequest {
  readonly #pieces: Iterator<Piece, void>
  readonly #settle: (error?: unknown) => void
  /** The hits, one list per query. Complete when the request has settled without an error. */
  readonly hits: HitLists
  #next: Piece | undefined
  #handedOut = 0
  #done = 0
  #settled = false

  /**
   * @param queries the number of queries in all pieces
   * @param pieces at least one
   * @param settle called exactly once, with an error if the request failed
   */
  constructor(queries: number, pieces: Iterable<Piece>, settle: (error?: unknown) => void) {
    this.#pieces = pieces[Symbol.iterator]()
    this.#settle = settle
    this.hits = new HitLists(queries)
    this.#make()
  }

  get isSettled(): boolean {
    return this.#settled
  }

  /** The next piece to hand out; undefined when all have been handed out. */
  get next(): Piece | undefined {
    return this.#next
  }

  handOut(): void {
    this.#handedOut += 1
    this.#make()
  }

  complete({ queries, positions }: Piece, { numbers, counts }: PackedHits): void {
    let start = 0
    for (const [index, count] of counts.entries()) {
      const end = start + numbersPerHit * count
      this.hits.add(positions[index]!, numbers, start, end, queries[index]!.k)
      start = end
    }
    this.#done += 1
    if (this.#done === this.#handedOut && this.#next === undefined) this.#end()
  }

  fail(error: unknown): void {
    this.#end(error)
  }

  #make(): void {
    const made = this.#pieces.next()
    this.#next = made.done ? undefined : made.value
  }

  #end(error?: unknown): void {
    if (this.#settled) return
    this.#settled = true
    this.#settle(error)
  }
}
