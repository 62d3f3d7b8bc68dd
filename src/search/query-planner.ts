import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Highlight, Payload, SearchQuery, WordCounts, WordQuery, WordStatistics } from '../base/point.ts'
import { noWork } from '../index/searcher.ts'
import { newFilterId, type SlotFilter } from '../index/slot-filter.ts'
import type { IdTable } from '../points/id-table.ts'
import type { PlannedQuery, SearchReport } from './filter-planner.ts'
import type { IndexSearches } from './index-searches.ts'
import { type Journal, TouchedSlots } from './one-moment.ts'

/** A query in progress: what was asked, what is searched for, and what shows whether that is still the answer. */
export interface Run {
  readonly query: SearchQuery
  readonly planned: PlannedQuery
  /** The slot of the stored point that is searched near; -1 if the query has a vector. */
  readonly near: number
  /** The slots touched since the search began. */
  readonly touched: TouchedSlots
  /** The index's count of replacements when the search began. */
  readonly replacements: number
  readonly filterUs: number
}

/** Whether a query wants all its hits, without details. */
export function wantsAllFound({ vector, maxDistance, include }: SearchQuery): boolean {
  return typeof vector !== 'string' && maxDistance === undefined && include === undefined
}

/** Plans queries that the api has checked. Main thread only. */
export class QueryPlanner {
  readonly #points: SearchedPoints
  /** Numbers the bitmaps of filters for search threads. The shared memory of a bitmap identifies it. */
  readonly #filterIds = new WeakMap<SharedArrayBuffer, number>()

  constructor(points: SearchedPoints) {
    this.#points = points
  }

  /** Begins to search for the nearest of all points, without a plan; undefined if a query asks for anything else. */
  plain(queries: readonly SearchQuery[]): Run[] | undefined {
    const { searches, attributes } = this.#points
    const touched = new TouchedSlots(attributes.journal, this.#points.start)
    const common = { near: -1, touched, replacements: searches?.index.replacements ?? 0, filterUs: 0 }
    const runs: Run[] = []
    for (const query of queries) {
      const { vector, filter, exact, profile } = query
      const isPlain = wantsAllFound(query) && filter === undefined && exact !== true && profile !== true
      if (!isPlain || typeof vector === 'string') return undefined
      runs.push({ query, planned: query as SearchQuery & { readonly vector: Float32Array }, ...common })
    }
    return runs
  }

  /**
   * Plans a query: its vector, and the slots to search.
   *
   * @param before the touched slots of the query before, which this one shares
   */
  *plan(query: SearchQuery, before?: TouchedSlots): Generator<void, Run> {
    const startMs = performance.now()
    const { metric, ef, exact, filter, profile } = query
    const matching = filter && (yield* this.#points.attributes.matching(filter))
    const { searches, attributes } = this.#points
    // Read in the same turn: later changes are in the journal after this position.
    const start = matching?.position ?? this.#points.start
    const isShared = before !== undefined && before.start <= start
    const touched = isShared ? before : new TouchedSlots(attributes.journal, start)
    const near = typeof query.vector === 'string' ? this.#slotOf(query.vector, query.keyFilter) : -1
    const vector = typeof query.vector === 'string' ? searches!.index.read(near) : query.vector
    // The point itself is also found, and left out.
    const limit = query.limit + Number(near !== -1)
    const slots = matching && this.#slotFilter(matching)
    const hasReport = slots !== undefined || profile === true
    const report: SearchReport | undefined = hasReport ? { work: noWork(), elapsedUs: 0 } : undefined
    return {
      query,
      planned: { vector, metric, limit, ef: Math.max(ef, limit), exact, matching: slots, report },
      near,
      touched,
      replacements: searches?.index.replacements ?? 0,
      filterUs: (performance.now() - startMs) * 1000,
    }
  }

  #slotOf(id: string, keyFilter: Filter | undefined): number {
    const { searches, ids } = this.#points
    const slot = searches === undefined ? -1 : ids.find(id)
    const isHidden = slot !== -1 && keyFilter !== undefined && !this.#points.canMatch(slot, keyFilter)
    if (slot === -1 || isHidden) throw new DatabaseError('not_found', `point ${id} to search near not found`)
    return slot
  }

  #slotFilter({ id: known, words, count, position }: MatchingSlots): SlotFilter {
    const id = known ?? this.#filterIds.get(words.buffer) ?? newFilterId()
    this.#filterIds.set(words.buffer, id)
    // Only touched slots change in a bitmap. The low bits of the position tell the versions apart that a thread has
    // copied.
    const version = (position ?? this.#points.attributes.journal.position) & 0x7fff_ffff
    return { id, version, words, count }
  }
}

/** What searches need from a collection. */
export interface SearchedPoints {
  /** Undefined before the first point is stored. */
  readonly searches: Pick<IndexSearches, 'index' | 'search' | 'searchNow'> | undefined
  readonly ids: Pick<IdTable, 'find' | 'copyId' | 'size'>
  readonly attributes: SlotAttributes
  /** Absent where queries with words are left to another thread. */
  readonly words?: SearchedWords | undefined
  /**
   * The journal position of a search that starts now: the present one on the main thread, which changes points only
   * between searches; the settled one on other threads.
   */
  readonly start: number
  /** Hides points that have expired. */
  hideExpired(): void
  /**
   * Returns the stored payload of a visible point. A committed change of the point takes effect first; undefined if
   * that removes it. Other threads than the main thread throw instead.
   */
  payload(slot: number, id: string): Payload | undefined
  /** Whether a touched slot has a point that matches; true where a thread cannot know. */
  canMatch(slot: number, filter: Filter | undefined): boolean
  versionOf(slot: number): number
  /**
   * Called before a search is repeated; the last attempt runs without a pause. Throws where that is left to the caller,
   * because points can change during each attempt: on another thread than the main thread.
   */
  beforeRepetition?(query: SearchQuery, isLast: boolean): void
}

/** The words of the points, as searches see them. */
export interface SearchedWords {
  /** Differs after each change of the points, and between two declarations. */
  readonly state: { readonly of: object | undefined; readonly changes: number }
  /** @throws DatabaseError `invalid_argument` if the collection has none, `not_ready` while they are indexed */
  ready(): Promise<void>
  /** Returns the best k points, the highest score first. */
  search(words: WordQuery, k: number, filter?: MatchingSlots): readonly WordHit[]
  /** Returns the scores of the points in some slots; 0 where no word is. */
  scores(words: WordQuery, slots: Uint32Array): Float64Array
  /** Called after each search. */
  searched(seconds: number): void
  /**
   * Returns a function that finds the words of a text in a point's texts, in steps.
   *
   * @param languages the number of points by language, in place of those of all
   */
  highlighter(
    text: string,
    languages?: readonly number[],
  ): (payload: Payload) => Generator<void, readonly Highlight[]>
  /** Returns the terms of a text, each with its weight. @param languages the number of points by language */
  wanted(text: string, languages?: readonly number[]): WordStatistics['wanted']
  /** Counts the points of a bitmap. @param key names what it is of: the same key, the same points */
  countsWithin(terms: readonly string[], key: string, slots: MatchingSlots): Generator<void, WordCounts>
}

export interface WordHit {
  readonly slot: number
  readonly score: number
}

/** What searches need from the attribute index. */
interface SlotAttributes {
  readonly journal: Journal
  /**
   * Returns the slots that match at the moment of the return. Later calls may change the set, but only for slots
   * touched after this one.
   */
  matching(filter: Filter): Generator<void, MatchingSlots>
}

/** A bitmap of the slots that match a filter. */
export interface MatchingSlots {
  readonly words: Uint32Array<SharedArrayBuffer>
  readonly count: number
  /** The journal position of which the bitmap is, where that is not the present one. */
  readonly position?: number
  /** By which search threads know it, if the main thread has told them. */
  readonly id?: number
}
