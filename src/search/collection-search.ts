import type { BudgetShare } from '../base/budgets.ts'
import { DatabaseError, wrongDimension } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import type { SearchQuery, VectorQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'
import { inTurns, Turn } from '../base/turns.ts'
import { HitLists } from '../index/hit.ts'
import type { ReadCall } from '../points/database.ts'
import {
  type Answer,
  type FoundList,
  finish,
  foundIds,
  packed,
  plainResults,
  type Room,
  SearchAnswers,
  wantsAllFound,
} from './search-answers.ts'
import { type Run, type SearchedPoints, SearchRuns, searchedOf, TouchedSlots } from './search-runs.ts'

export interface CollectionSearchOptions {
  readonly points: SearchedPoints
  /** The results that searches in progress may return. */
  readonly results: BudgetShare
  /** The most results that one request may ask for. */
  readonly maxResults: number
  /** The most bytes of details that one request may return. */
  readonly maxDetailBytes: number
}

/**
 * Searches of a collection: turns queries that the api has checked into results.
 *
 *   query ──> vector of a stored point, bitmap of the filter ──> IndexSearches ──> settle ──> ids, distances, details
 *                                ^                                                   │
 *                                └────── a full list has lost hits ──────────────────┘
 *
 * Points change while threads search. In one turn of the event loop, hits are checked against the slots touched since
 * the search began. If a change may concern them, they are updated to the present (settled-hits.ts), or the search is
 * repeated. So a list shows a small request wholly or not at all, and is as long as the points allow.
 *
 * Main thread only.
 */
export class CollectionSearch {
  readonly #options: CollectionSearchOptions
  readonly #points: SearchedPoints
  readonly #runs: SearchRuns
  readonly #answers: SearchAnswers

  constructor(options: CollectionSearchOptions) {
    this.#options = options
    this.#points = options.points
    this.#runs = new SearchRuns(options.points)
    this.#answers = new SearchAnswers(options.points, options.maxDetailBytes)
  }

  /** See `Database.search`. */
  async search(queries: readonly SearchQuery[], call: ReadCall = {}): Promise<SearchResults> {
    const { results } = this.#options
    const held = this.#admit(queries)
    results.hold(held)
    try {
      this.#points.hideExpired()
      const plain = queries.every(isPlain)
      return plain
        ? await this.#searchPlainly(queries as readonly VectorQuery[], call)
        : await this.#search(queries, call)
    } finally {
      results.release(held)
    }
  }

  /** Searches for ids and distances without a filter. */
  async #searchPlainly(queries: readonly VectorQuery[], call: ReadCall): Promise<SearchResults> {
    const { searches, ids, attributes } = this.#points
    if (searches === undefined) {
      const none = queries.map(() => 0)
      return plainResults(queries, {
        ids: new IdLists(new Uint8Array(), none),
        distances: new Float64Array(),
        ranks: undefined,
      })
    }
    const { index } = searches
    checkDimension(queries, index.dimension)
    const { replacements } = index
    const touched = new TouchedSlots(attributes.journal)
    const hits = await searches.search(queries, call.signal)
    this.#points.hideExpired()
    const found = await inTurns(foundIds(hits, queries, ids, touched))
    if (found !== undefined && index.replacements === replacements) return plainResults(queries, found)
    const common = { near: -1, replacements, touched, filterUs: 0 }
    const runs = queries.map((query) => ({ query, slots: query, ...common }))
    return this.#assemble(runs, hits, runs.keys(), call)
  }

  async #search(queries: readonly SearchQuery[], call: ReadCall): Promise<SearchResults> {
    const runs: Run[] = []
    const turn = new Turn()
    for (const query of queries) {
      if (turn.isOver) await turn.next()
      runs.push(await inTurns(this.#runs.prepare(query)))
    }
    const searched = searchedOf(runs)
    const startMs = performance.now()
    const hits = await this.#find(
      searched.map((at) => runs[at]!),
      call.signal,
    )
    const searchMs = performance.now() - startMs
    for (const { slots } of runs) if (slots.report !== undefined) slots.report.elapsedUs = searchMs * 1000
    return this.#assemble(runs, hits, searched, call)
  }

  /** Returns empty lists before the first point is stored. */
  async #find(runs: readonly Run[], signal: AbortSignal | undefined): Promise<HitLists> {
    const { searches } = this.#points
    if (searches === undefined || runs.length === 0) return new HitLists(runs.length)
    const queries = runs.map(({ slots }) => slots)
    checkDimension(queries, searches.index.dimension)
    return searches.search(queries, signal)
  }

  /**
   * Assembles the answers, query by query, each in one turn.
   *
   * @param hits the lists of some of the runs
   * @param searched the runs that `hits` belongs to, in the same order; the others found nothing
   */
  async #assemble(
    runs: readonly Run[],
    hits: HitLists,
    searched: Iterable<number>,
    { signal, room: answerRoom }: ReadCall,
  ): Promise<SearchResults> {
    const listOf = new Map([...searched].map((at, list) => [at, list]))
    const room = this.#answers.room(answerRoom)
    const answers: Answer[] = []
    const turn = new Turn()
    for (const [at, run] of runs.entries()) {
      if (turn.isOver) await turn.next()
      const list = listOf.get(at)
      const found = list === undefined ? nothingFound : { hits, list }
      const answer = await inTurns(this.#answers.answer(run, found, room))
      answers.push(answer ?? (await this.#searchAgain(run, room, signal)))
    }
    return packed(answers)
  }

  /**
   * Repeats the search for a query until its answer is valid. The last attempts run without a pause in which points
   * could change.
   */
  async #searchAgain({ query }: Run, room: Room, signal: AbortSignal | undefined): Promise<Answer> {
    for (let attempt = 1; attempt < attemptsMax; attempt += 1) {
      const run = await inTurns(this.#runs.prepare(query))
      const hits = await this.#find(searchedOf([run]).length === 0 ? [] : [run], signal)
      const found = hits.length === 0 ? nothingFound : { hits, list: 0 }
      const answer = await inTurns(this.#answers.answer(run, found, room))
      if (answer !== undefined) return answer
    }
    // A filter can be so narrow that walking the graph takes longer than looking at each point.
    const last = query.filter === undefined ? query : { ...query, exact: true }
    for (;;) {
      const run = finish(this.#runs.prepare(last))
      const isEmpty = searchedOf([run]).length === 0 || this.#points.searches === undefined
      const found = isEmpty ? nothingFound : { hits: this.#points.searches!.searchNow([run.slots]), list: 0 }
      const answer = finish(this.#answers.answer(run, found, room))
      if (answer !== undefined) return answer
    }
  }

  /**
   * Returns how many results the queries can produce.
   *
   * @throws DatabaseError `request_too_large` or `overloaded` if there is no room for them
   */
  #admit(queries: readonly SearchQuery[]): number {
    const { results, maxResults } = this.#options
    const points = this.#points.ids.size
    const asked = queries.reduce((sum, { limit }) => sum + Math.min(limit, points), 0)
    if (asked > maxResults) {
      throw new DatabaseError(
        'request_too_large',
        `the queries ask for ${asked} ids in total, the maximum is ${maxResults}: ask for fewer at a time`,
      )
    }
    const refusal = results.refusal(asked)
    if (refusal !== undefined) throw refusal
    return asked
  }
}

/**
 * The dimension can have been fixed after the api had checked the queries, and on another node of a cluster.
 *
 * @throws DatabaseError `invalid_argument`
 */
function checkDimension(queries: readonly { readonly vector: Float32Array }[], dimension: number): void {
  for (const [at, { vector }] of queries.entries()) {
    const path = queries.length === 1 ? 'vector' : `queries[${at}].vector`
    if (vector.length !== dimension) throw wrongDimension(path, vector.length, dimension)
  }
}

/** Whether a query only asks for the nearest of all points. */
function isPlain(query: SearchQuery): boolean {
  const { filter, exact, profile } = query
  return wantsAllFound(query) && filter === undefined && exact !== true && profile !== true
}

const nothingFound: FoundList = { hits: new HitLists(1), list: 0 }

/**
 * Limits the searches for one query: the last one runs in a single turn, so that no change can invalidate its answer.
 */
const attemptsMax = 3
