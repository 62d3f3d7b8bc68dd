import { type BudgetShare, SharedBudget, type SharedBudgetOptions } from '../base/budgets.ts'
import { cancellation, DatabaseError, wrongDimension } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import { joinResults, type SearchResults } from '../base/id-lists.ts'
import type { SearchQuery, WordCounts } from '../base/point.ts'
import { atOnce, inTurns, Turn } from '../base/turns.ts'
import { Hits } from '../index/hits.ts'
import type { ReadCall } from '../points/database.ts'
import { PinnedPages } from './pinned-pages.ts'
import { QueryPlanner, type Run, type SearchedPoints } from './query-planner.ts'
import { SearchAnswers } from './search-answers.ts'
import { type NodeLegs, WordSearch } from './word-search.ts'

interface CollectionSearchOptions {
  readonly points: SearchedPoints
  /** The results that searches in progress may return; a request may ask for all of them. */
  readonly results: BudgetShare
  /** The most bytes of details that one request may return. */
  readonly maxDetailBytes: number
  /** Absent: a list of its own. */
  readonly pages?: PinnedPages | undefined
}

/** Creates the limit on the results of all threads' searches in progress. */
export function resultBudget(options: Omit<SharedBudgetOptions, 'inWords'>): SharedBudget {
  return new SharedBudget({ ...options, inWords: (ids) => `the searches under way ask for ${ids} ids` })
}

/**
 * Searches of a collection: turns queries that the api has checked into results.
 *
 *   query ──> vector of a stored point, bitmap of the filter ──> IndexSearches ──> check ──> ids, distances, details
 *                                ^                                                   │
 *                                └────── a change may concern the hits ──────────────┘
 *
 * Points change while threads search. In one turn of the event loop, hits are checked against the slots touched since
 * the search began. If a change may concern them, the search is repeated (one-moment.ts). So a list shows a small
 * request wholly or not at all, and is as long as the points allow.
 *
 * Main thread only.
 */
export class CollectionSearch {
  readonly #options: CollectionSearchOptions
  readonly #points: SearchedPoints
  readonly #planner: QueryPlanner
  readonly #words: WordSearch

  constructor(options: CollectionSearchOptions) {
    this.#options = options
    this.#points = options.points
    this.#planner = new QueryPlanner(options.points)
    this.#words = new WordSearch({
      ...options,
      pages: options.pages ?? new PinnedPages(),
      planner: this.#planner,
      find: async (run, signal) => (isSearched(run) ? await this.#find([run], signal, true) : noHits),
      findNow: (run) => this.#findNow(run),
    })
  }

  /** See `Database.search`. */
  async search(queries: readonly SearchQuery[], call: ReadCall = {}): Promise<SearchResults> {
    const { results } = this.#options
    const held = this.#admit(queries)
    results.hold(held)
    try {
      if (queries.some(({ words }) => words !== undefined)) return await this.#searchEach(queries, call)
      return await this.#search(queries, call)
    } finally {
      results.release(held)
    }
  }

  /** See `WordSearch.counts`. */
  wordCounts(terms: readonly string[], filter: Filter, signal?: AbortSignal): Promise<WordCounts> {
    return this.#words.counts(terms, filter, signal)
  }

  /** See `WordSearch.legs`. */
  async legs(query: SearchQuery, without: string | undefined, signal?: AbortSignal): Promise<NodeLegs> {
    const { results } = this.#options
    const held = this.#admit([query])
    results.hold(held)
    try {
      return await this.#words.legs(query, without, signal)
    } finally {
      results.release(held)
    }
  }

  /** Answers queries of which some have words. */
  async #searchEach(queries: readonly SearchQuery[], call: ReadCall): Promise<SearchResults> {
    const lists: SearchResults[] = []
    for (const query of queries) {
      if (call.signal?.aborted) throw cancellation(call.signal)
      this.#points.hideExpired()
      lists.push(
        query.words === undefined
          ? await this.#search([query], call)
          : await this.#words.search(query, call.signal, call.room),
      )
    }
    return joinResults(lists)
  }

  #findNow(run: Run): Hits {
    const { searches } = this.#points
    return isSearched(run) && searches !== undefined ? searches.searchNow([run.planned]) : noHits
  }

  async #search(queries: readonly SearchQuery[], { signal, room }: ReadCall): Promise<SearchResults> {
    this.#points.hideExpired()
    const runs = this.#planner.plain(queries) ?? (await this.#plan(queries, signal))
    const startMs = performance.now()
    const hits = await this.#find(runs, signal)
    const searchUs = (performance.now() - startMs) * 1000
    this.#points.hideExpired()
    const answers = new SearchAnswers(this.#points, hits.total, this.#options.maxDetailBytes, room)
    const turn = new Turn()
    let list = 0
    for (const run of runs) {
      if (turn.isOver) {
        await turn.next()
        this.#points.hideExpired()
      }
      if (run.planned.report !== undefined) run.planned.report.elapsedUs = searchUs
      const [found, at] = isSearched(run) ? [hits, list++] : [noHits, 0]
      if (answers.addUntouched(run, found, at) || (await inTurns(answers.add(run, found, at)))) continue
      await this.#searchAgain(run, answers, signal)
    }
    return answers.results()
  }

  async #plan(queries: readonly SearchQuery[], signal: AbortSignal | undefined): Promise<Run[]> {
    const runs: Run[] = []
    const turn = new Turn()
    for (const query of queries) {
      if (turn.isOver) await turn.next()
      runs.push(await inTurns(this.#planner.plan(query, runs.at(-1)?.touched), signal))
    }
    return runs
  }

  /** Returns a list of hits for each run that can find anything; empty ones before the first point is stored. */
  async #find(runs: readonly Run[], signal: AbortSignal | undefined, isBeside?: boolean): Promise<Hits> {
    const { searches } = this.#points
    const queries = runs.filter(isSearched).map(({ planned }) => planned)
    if (searches === undefined || queries.length === 0) return new Hits(queries.map(() => 0))
    checkDimension(queries, searches.index.dimension)
    return searches.search(queries, signal, isBeside)
  }

  /**
   * Repeats the search for a query until its answer is valid. The last attempts run without a pause in which points
   * could change.
   */
  async #searchAgain({ query }: Run, answers: SearchAnswers, signal: AbortSignal | undefined): Promise<void> {
    for (let attempt = 1; attempt < attemptsMax; attempt += 1) {
      this.#points.beforeRepetition?.(query, false)
      const run = await inTurns(this.#planner.plan(query), signal)
      const hits = await this.#find([run], signal)
      if (await inTurns(answers.add(run, hits.length === 0 ? noHits : hits, 0))) return
    }
    this.#points.beforeRepetition?.(query, true)
    // A filter can be so narrow that walking the graph takes longer than looking at each point.
    const last = query.filter === undefined ? query : { ...query, exact: true }
    for (;;) {
      const run = atOnce(this.#planner.plan(last))
      if (atOnce(answers.add(run, this.#findNow(run), 0))) return
    }
  }

  /**
   * Returns how many results the queries can produce.
   *
   * @throws DatabaseError `request_too_large` or `overloaded` if there is no room for them
   */
  #admit(queries: readonly SearchQuery[]): number {
    const { results } = this.#options
    const points = this.#points.ids.size
    // A refusal must not tell how many points there are besides those that the caller's key may see.
    const asked = queries.reduce(
      (sum, { limit, keyFilter }) => sum + (keyFilter === undefined ? Math.min(limit, points) : limit),
      0,
    )
    if (asked > results.max) {
      throw new DatabaseError(
        'request_too_large',
        `the queries ask for ${asked} ids in total, the maximum is ${results.max}: ask for fewer at a time`,
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

/** Whether anything matches. */
function isSearched({ planned }: Run): boolean {
  return planned.matching?.count !== 0
}

const noHits = new Hits([0])

/**
 * Limits the searches for one query: the last one runs in a single turn, so that no change can invalidate its answer.
 */
const attemptsMax = 3
