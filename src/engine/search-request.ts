import type { Hit } from '../index/hit.ts'
import { type IndexQuery, mergeHits } from '../index/searcher.ts'
import type { SearchWork } from './search-ring.ts'

/** Part of a request: some of its queries over some of the slots. */
export interface Piece extends SearchWork {
  /** Where the piece's queries stand in the request. */
  readonly positions: readonly number[]
}

/** A search under way: its pieces, handed out in order, and what came back of them. */
export class SearchRequest {
  readonly #queries: readonly IndexQuery[]
  readonly #pieces: readonly Piece[]
  readonly #settle: (error?: unknown) => void
  /** By query: the hits of each piece that held it. */
  readonly #found: (readonly Hit[])[][]
  #handedOut = 0
  #done = 0
  #settled = false

  /** @param settle called exactly once, with an error or without */
  constructor(queries: readonly IndexQuery[], pieces: readonly Piece[], settle: (error?: unknown) => void) {
    this.#queries = queries
    this.#pieces = pieces
    this.#settle = settle
    this.#found = queries.map(() => [])
  }

  get isSettled(): boolean {
    return this.#settled
  }

  /** The next piece to be handed out; undefined when all are. */
  get next(): Piece | undefined {
    return this.#pieces[this.#handedOut]
  }

  handOut(): void {
    this.#handedOut += 1
  }

  complete({ positions }: Piece, hits: readonly (readonly Hit[])[]): void {
    for (const [index, each] of hits.entries()) this.#found[positions[index]!]!.push(each)
    this.#done += 1
    if (this.#done === this.#pieces.length) this.#end()
  }

  fail(error: unknown): void {
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
