import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Payload, SearchQuery } from '../base/point.ts'
import { noWork } from '../index/searcher.ts'
import { newFilterId, type SlotFilter } from '../index/slot-filter.ts'
import type { IdTable } from '../points/id-table.ts'
import type { IndexSearches } from './executor.ts'
import type { SearchReport, SlotQuery } from './search-pieces.ts'

/** A query, and what is searched for to answer it. */
export interface Run {
  readonly query: SearchQuery
  readonly slots: SlotQuery
  /** The slot of the stored point that is searched near; -1 if the query has a vector. */
  readonly near: number
  /** The slots touched since the search began. */
  readonly touched: TouchedSlots
  /** The index's count of replacements when the search began. */
  readonly replacements: number
  readonly filterUs: number
}

/** Turns queries that the api has checked into queries for slots of the index. Main thread only. */
export class SearchRuns {
  readonly #points: SearchedPoints
  readonly #filters: SlotFilters

  constructor(points: SearchedPoints) {
    this.#points = points
    this.#filters = new SlotFilters(points.attributes)
  }

  /** Prepares a query: its vector, and the slots to search. */
  *prepare(query: SearchQuery): Generator<void, Run> {
    const startMs = performance.now()
    const { metric, ef, exact, filter, profile } = query
    const matching = filter && (yield* this.#filters.matching(filter))
    const { searches, attributes } = this.#points
    const touched = new TouchedSlots(attributes.journal, matching?.position)
    const near = typeof query.vector === 'string' ? this.#slotOf(query.vector) : -1
    const vector = typeof query.vector === 'string' ? searches!.index.read(near) : query.vector
    // The point itself is also found, and left out.
    const limit = query.limit + Number(near !== -1)
    const hasReport = matching !== undefined || profile === true
    const report: SearchReport | undefined = hasReport ? { work: noWork(), elapsedUs: 0 } : undefined
    return {
      query,
      slots: { vector, metric, limit, ef: Math.max(ef, limit), exact, matching: matching?.slots, report },
      ...{ near, touched },
      replacements: searches?.index.replacements ?? 0,
      filterUs: (performance.now() - startMs) * 1000,
    }
  }

  #slotOf(id: string): number {
    const { searches, ids } = this.#points
    const slot = searches === undefined ? -1 : ids.find(id)
    if (slot === -1) throw new DatabaseError('not_found', `point ${id} to search near not found`)
    return slot
  }
}

/** Returns the positions of the runs that can find anything. */
export function searchedOf(runs: readonly Run[]): number[] {
  return [...runs.keys()].filter((at) => runs[at]!.slots.matching?.count !== 0)
}

/** What searches need from a collection. */
export interface SearchedPoints {
  /** Undefined before the first point is stored. */
  readonly searches: IndexSearches | undefined
  readonly ids: Pick<IdTable, 'find' | 'copyId' | 'size'>
  readonly attributes: SlotAttributes
  /** Hides points that have expired. */
  hideExpired(): void
  /**
   * Returns the stored payload of a visible point. A committed change of the point takes effect first; undefined if
   * that removes it.
   */
  payload(slot: number, id: string): Payload | undefined
  versionOf(slot: number): number
}

/** What searches need from the attribute index. */
export interface SlotAttributes {
  /** The slots whose points were inserted, removed or changed, in order. */
  readonly journal: {
    readonly position: number
    /** Returns the slots touched since a position; undefined if the journal does not reach back that far. */
    since(position: number): readonly number[] | undefined
  }
  /** Whether the point in a slot matches; false for an empty slot. */
  matches(filter: Filter, slot: number): boolean
  /**
   * Returns the slots that match at the moment of the return. Later calls may change the set, but only for slots
   * touched after this one.
   */
  matching(
    filter: Filter,
  ): Generator<void, { readonly words: Uint32Array<SharedArrayBuffer>; readonly count: number }>
}

/** The slots that match a filter, and the journal position at which they do. */
export interface MatchingSlots {
  readonly slots: SlotFilter
  readonly position: number
}

/** Numbers the bitmaps of filters for search threads. The shared memory of a bitmap identifies it. */
export class SlotFilters {
  readonly #attributes: SlotAttributes
  readonly #ids = new WeakMap<SharedArrayBuffer, number>()

  constructor(attributes: SlotAttributes) {
    this.#attributes = attributes
  }

  *matching(filter: Filter): Generator<void, MatchingSlots> {
    const { words, count } = yield* this.#attributes.matching(filter)
    // Read in the same turn: later changes are in the journal after this position.
    const { position } = this.#attributes.journal
    // Only touched slots change in a bitmap. The low bits of the position tell the versions apart that a thread has
    // copied.
    return {
      slots: { id: this.#idOf(words.buffer), version: position & 0x7fff_ffff, words, count },
      position,
    }
  }

  #idOf(buffer: SharedArrayBuffer): number {
    const known = this.#ids.get(buffer)
    if (known !== undefined) return known
    const id = newFilterId()
    this.#ids.set(buffer, id)
    return id
  }
}

/**
 * The slots touched since a journal position. Collects them when asked, so that the queries of a batch share one set.
 */
export class TouchedSlots {
  readonly #journal: SlotAttributes['journal']
  readonly #start: number
  /** The journal position up to which the set is complete. */
  #end: number
  /** Undefined after too many changes. */
  #slots: Set<number> | undefined = noSlots

  /** @param position where to begin; the journal's present position by default */
  constructor(journal: SlotAttributes['journal'], position: number = journal.position) {
    this.#journal = journal
    this.#start = position
    this.#end = position
  }

  /** Whether no slot was touched. */
  get isNone(): boolean {
    return this.#journal.position === this.#start
  }

  /** Returns the slots touched up to now; undefined if they are too many to look at. Later calls add to the same set. */
  now(): ReadonlySet<number> | undefined {
    const { position } = this.#journal
    if (this.#slots === undefined || position === this.#end) return this.#slots
    const added = position - this.#start <= touchedMax ? this.#journal.since(this.#end) : undefined
    // Most searches end before anything is touched, and need no set of their own.
    if (this.#slots === noSlots) this.#slots = new Set()
    if (added === undefined) this.#slots = undefined
    else for (const slot of added) this.#slots.add(slot)
    this.#end = position
    return this.#slots
  }
}

const noSlots = new Set<number>()

/** Collecting this many takes a fraction of a millisecond. */
const touchedMax = 8192
