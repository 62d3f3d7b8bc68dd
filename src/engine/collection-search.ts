import { DatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import { idBytes, idFromBytes } from '../base/ids.ts'
import type { Payload, SearchQuery, VectorQuery } from '../base/point.ts'
import type { Profile } from '../base/profile.ts'
import type { HitDetails, SearchResults } from '../base/search-results.ts'
import { inTurns, Turn } from '../base/turns.ts'
import type { Hit } from '../index/hit.ts'
import { noWork } from '../index/searcher.ts'
import { foundIds, inUnits } from './found-ids.ts'
import { detailBytes, detailsOf, wantsDetails } from './hit-details.ts'
import { HitLists } from './hit-lists.ts'
import type { IdTable } from './id-table.ts'
import type { IndexSearches } from './index-searches.ts'
import type { SearchReport, SlotQuery } from './search-pieces.ts'
import { profileOf } from './search-profile.ts'
import { settledHits } from './settled-hits.ts'
import type { BudgetShare } from './shared-budget.ts'
import { type SlotAttributes, SlotFilters } from './slot-filters.ts'

/** What searches ask of a collection. */
export interface SearchedPoints {
  /** Undefined before the first point. */
  readonly searches: IndexSearches | undefined
  readonly ids: Pick<IdTable, 'find' | 'copyId' | 'size'>
  readonly attributes: SlotAttributes
  /** Removes from memory what has expired by now. */
  hideExpired(): void
  /** What is stored of a visible point. A change of it that is on disk takes effect first; undefined if it was removed by that. */
  payload(slot: number, id: string): Payload | undefined
  versionOf(slot: number): number
}

export interface CollectionSearchOptions {
  readonly points: SearchedPoints
  /** Results that searches in progress may return. */
  readonly results: BudgetShare
  /** The most results of one request. */
  readonly maxResults: number
  /** The most bytes of details of one request. */
  readonly maxDetailBytes: number
}

/**
 * Searches of a collection: from queries as the api has checked them to results.
 *
 *   query ──> vector of a stored point, bitmap of the filter ──> IndexSearches ──> settle ──> ids, distances, details
 *                                ^                                                   │
 *                                └────── a full list has lost hits ──────────────────┘
 *
 * Points change while threads search. The moment of an answer is when it is put together: in one turn of the event loop,
 * hits are checked against what was touched since the search began (settled-hits.ts). Searches that want nothing of that,
 * ids and distances without a filter, only check that their hits are still there, unless a vector was replaced meanwhile.
 * Main thread only.
 */
export class CollectionSearch {
  readonly #options: CollectionSearchOptions
  readonly #points: SearchedPoints
  readonly #filters: SlotFilters

  constructor(options: CollectionSearchOptions) {
    this.#options = options
    this.#points = options.points
    this.#filters = new SlotFilters(options.points.attributes)
  }

  /** See `Database.search`. */
  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<SearchResults> {
    const { results } = this.#options
    const held = this.#admit(queries)
    results.hold(held)
    try {
      this.#points.hideExpired()
      const plain = queries.every(isPlain)
      return plain
        ? await this.#searchPlainly(queries as readonly VectorQuery[], signal)
        : await this.#search(queries, signal)
    } finally {
      results.release(held)
    }
  }

  /** Ids and distances without a filter. */
  async #searchPlainly(
    queries: readonly VectorQuery[],
    signal: AbortSignal | undefined,
  ): Promise<SearchResults> {
    const { searches, ids, attributes } = this.#points
    if (searches === undefined)
      return plainResults(
        queries,
        new IdLists(
          noBytes,
          queries.map(() => 0),
        ),
        new Float64Array(),
      )
    const { index } = searches
    const { removals, replacements } = index
    const { position } = attributes.journal
    const hits = await searches.search(queries, signal)
    this.#points.hideExpired()
    const found = await inTurns(foundIds(hits, queries, ids, index, removals))
    if (index.replacements === replacements) return plainResults(queries, found.ids, found.distances)
    const runs = queries.map((query) => ({ query, slots: query, replacements, position, filterUs: 0 }))
    return this.#assemble(runs, hits, runs.keys(), signal)
  }

  async #search(queries: readonly SearchQuery[], signal: AbortSignal | undefined): Promise<SearchResults> {
    const runs: Run[] = []
    for (const query of queries) runs.push(await inTurns(this.#prepare(query)))
    const searched = searchedOf(runs)
    const startMs = performance.now()
    const hits = await this.#find(
      searched.map((at) => runs[at]!),
      signal,
    )
    const searchMs = performance.now() - startMs
    for (const { slots } of runs) if (slots.report !== undefined) slots.report.elapsedUs = searchMs * 1000
    return this.#assemble(runs, hits, searched, signal)
  }

  /** Nothing is found before the first point. */
  async #find(runs: readonly Run[], signal: AbortSignal | undefined): Promise<HitLists> {
    const { searches } = this.#points
    if (searches === undefined || runs.length === 0) return new HitLists(runs.length)
    return searches.search(
      runs.map(({ slots }) => slots),
      signal,
    )
  }

  /** What a query searches near, and for which slots. */
  *#prepare(query: SearchQuery): Generator<void, Run> {
    const startMs = performance.now()
    const { metric, ef, exact, filter, profile } = query
    const isNear = typeof query.vector === 'string'
    const vector = typeof query.vector === 'string' ? this.#vectorOf(query.vector) : query.vector
    // The point itself is found too, and left out.
    const limit = query.limit + Number(isNear)
    const matching = filter && (yield* this.#filters.matching(filter))
    const hasReport = matching !== undefined || profile === true
    const report: SearchReport | undefined = hasReport ? { work: noWork(), elapsedUs: 0 } : undefined
    return {
      query,
      slots: { vector, metric, limit, ef: Math.max(ef, limit), exact, matching: matching?.slots, report },
      position: matching?.position ?? this.#points.attributes.journal.position,
      replacements: this.#points.searches?.index.replacements ?? 0,
      filterUs: (performance.now() - startMs) * 1000,
    }
  }

  #vectorOf(id: string): Float32Array {
    const { searches, ids } = this.#points
    const slot = searches === undefined ? -1 : ids.find(id)
    if (slot === -1) throw new DatabaseError('not_found', `point ${id} to search near not found`)
    return searches!.index.read(slot)
  }

  /**
   * Puts the answer together, query by query, each in one turn.
   *
   * @param hits lists of some of the runs
   * @param searched the runs that they are of; the others found nothing
   */
  async #assemble(
    runs: readonly Run[],
    hits: HitLists,
    searched: Iterable<number>,
    signal: AbortSignal | undefined,
  ): Promise<SearchResults> {
    const listOf = new Map([...searched].map((at, list) => [at, list]))
    const room = { detailBytes: this.#options.maxDetailBytes }
    const answers: Answer[] = []
    const turn = new Turn()
    for (const [at, run] of runs.entries()) {
      if (turn.isOver) await turn.next()
      const list = listOf.get(at)
      const answer = this.#answer(run, list === undefined ? [] : hits.list(list), room)
      answers.push(answer ?? (await this.#searchAgain(run, room, signal)))
    }
    return packed(answers)
  }

  /** Searches for a query until its answer holds; at last without a pause in which points could change. */
  async #searchAgain({ query }: Run, room: Room, signal: AbortSignal | undefined): Promise<Answer> {
    for (let attempt = 1; attempt < attemptsMax; attempt += 1) {
      const run = await inTurns(this.#prepare(query))
      const hits = await this.#find(searchedOf([run]).length === 0 ? [] : [run], signal)
      const answer = this.#answer(run, hits.length === 0 ? [] : hits.list(0), room)
      if (answer !== undefined) return answer
    }
    for (;;) {
      const run = finish(this.#prepare({ ...query, exact: true }))
      const isEmpty = searchedOf([run]).length === 0 || this.#points.searches === undefined
      const hits = isEmpty ? [] : this.#points.searches!.searchNow([run.slots]).list(0)
      const answer = this.#answer(run, hits, room)
      if (answer !== undefined) return answer
    }
  }

  /** The answer to a query as of now; undefined if it has to be searched for again. */
  #answer(run: Run, found: readonly Hit[], room: Room): Answer | undefined {
    this.#points.hideExpired()
    const { journal } = this.#points.attributes
    for (;;) {
      const hits = this.#settled(run, found)
      if (hits === undefined) return undefined
      const { position } = journal
      const answer = this.#read(run, this.#cut(run.query, hits), room)
      // To read a payload can bring a change into effect.
      if (journal.position === position) return answer
    }
  }

  #settled(
    { query: { filter }, slots, position, replacements }: Run,
    hits: readonly Hit[],
  ): readonly Hit[] | undefined {
    const { searches, attributes } = this.#points
    if (searches === undefined) return []
    const { index } = searches
    return settledHits({
      ...{ hits, limit: slots.limit, index },
      touched: attributes.journal.since(position),
      offersTouched: filter !== undefined || index.replacements !== replacements,
      matches: filter && ((slot) => attributes.matches(filter, slot)),
      hitAt: (slot) => searches.hitAt(slot, slots),
    })
  }

  /** Without the point that is searched near, and what is too far away. */
  #cut({ vector, metric, limit, maxDistance }: SearchQuery, hits: readonly Hit[]): readonly Hit[] {
    const own = typeof vector === 'string' ? this.#points.ids.find(vector) : -1
    const isIn = ({ slot, distance }: Hit): boolean =>
      slot !== own && (maxDistance === undefined || inUnits(metric, distance) <= maxDistance)
    return hits.filter(isIn).slice(0, limit)
  }

  #read({ query, slots, filterUs }: Run, hits: readonly Hit[], room: Room): Answer {
    const { ids, searches } = this.#points
    const bytes = new Uint8Array(hits.length * idBytes)
    for (const [rank, { slot }] of hits.entries()) ids.copyId(slot, bytes, rank * idBytes)
    const points = searches?.index.liveCount ?? 0
    return {
      ids: bytes,
      distances: hits.map(({ distance }) => inUnits(query.metric, distance)),
      details: this.#details(query, hits, bytes, room),
      profile: query.profile === true ? profileOf({ query, slots, points, filterUs }) : undefined,
    }
  }

  #details(
    { include }: SearchQuery,
    hits: readonly Hit[],
    ids: Uint8Array,
    room: Room,
  ): readonly HitDetails[] | undefined {
    if (include === undefined) return undefined
    if (!wantsDetails(include)) return hits.map(() => noDetails)
    // Where nothing was ever stored there is nothing to search.
    if (hits.length === 0) return []
    const { index } = this.#points.searches!
    let left = room.detailBytes
    const details = hits.map(({ slot }, rank) => {
      const each = detailsOf(
        {
          payload: () => this.#points.payload(slot, idFromBytes(ids, rank * idBytes)),
          vector: () => index.read(slot),
          version: () => this.#points.versionOf(slot),
        },
        include,
      )
      left -= detailBytes(each)
      if (left < 0) throw this.#tooManyDetails()
      return each
    })
    room.detailBytes = left
    return details
  }

  #tooManyDetails(): DatabaseError {
    const { maxDetailBytes } = this.#options
    return new DatabaseError(
      'request_too_large',
      `what include asks for takes more than ${maxDetailBytes} bytes, the most of one answer (MAX_BUFFERED_BYTES): ask for fewer results or less of each`,
    )
  }

  /** How many results the queries can bring, if there is room for them. */
  #admit(queries: readonly SearchQuery[]): number {
    const { results, maxResults } = this.#options
    const points = this.#points.ids.size
    const asked = queries.reduce((sum, { limit }) => sum + Math.min(limit, points), 0)
    if (asked > maxResults) {
      throw new DatabaseError(
        'request_too_large',
        `the queries ask for ${asked} ids together, the most is ${maxResults} (MAX_QUEUED_RESULTS): ask for fewer at a time`,
      )
    }
    const refusal = results.refusal(asked)
    if (refusal !== undefined) throw refusal
    return asked
  }
}

/** A query and what it is searched with. */
interface Run {
  readonly query: SearchQuery
  readonly slots: SlotQuery
  /** Of the journal, and replacements of the index, when the search began. */
  readonly position: number
  readonly replacements: number
  readonly filterUs: number
}

/** What is found for one query. */
interface Answer {
  readonly ids: Uint8Array
  readonly distances: readonly number[]
  readonly details: readonly HitDetails[] | undefined
  readonly profile: Profile | undefined
}

/** What an answer may still hold. */
interface Room {
  detailBytes: number
}

/** Whether a query wants nothing but the nearest of all points. */
function isPlain({ vector, filter, exact, maxDistance, include, profile }: SearchQuery): boolean {
  const wantsNothing = filter === undefined && maxDistance === undefined && include === undefined
  return typeof vector !== 'string' && wantsNothing && exact !== true && profile !== true
}

/** The runs that can find anything. */
function searchedOf(runs: readonly Run[]): number[] {
  return [...runs.keys()].filter((at) => runs[at]!.slots.matching?.count !== 0)
}

function plainResults(queries: readonly unknown[], ids: IdLists, distances: Float64Array): SearchResults {
  return { ids, distances, details: queries.map(() => undefined), profiles: queries.map(() => undefined) }
}

function packed(answers: readonly Answer[]): SearchResults {
  const bytes = Buffer.concat(answers.map(({ ids }) => ids))
  const distances = new Float64Array(bytes.length / idBytes)
  let end = 0
  const ends = answers.map((answer) => {
    distances.set(answer.distances, end)
    end += answer.distances.length
    return end
  })
  return {
    ids: new IdLists(bytes, ends),
    distances,
    details: answers.map(({ details }) => details),
    profiles: answers.map(({ profile }) => profile),
  }
}

function finish<Result>(work: Iterator<void, Result>): Result {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}

const noBytes = new Uint8Array()
const noDetails: HitDetails = {}

/** Searches of a query whose answers did not hold, but for the last one, which nothing can change. */
const attemptsMax = 3
