import { bitmapChangesMax, ChangeJournal } from '../attributes/change-journal.ts'
import { type BudgetShare, LruCache } from '../base/budgets.ts'
import type { Filter } from '../base/filter.ts'
import { filterKey } from '../base/filter-key.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { idBytes } from '../base/ids.ts'
import type { Metric, Payload, Point, SearchQuery } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { RouteInForce } from '../graphs/recall-plans.ts'
import { IndexView } from '../index/index-view.ts'
import { type FilteredPlanCounts, filteredPlanNames, type ReadCall } from '../points/database.ts'
import { IdTableView } from '../points/id-table.ts'
import { CollectionSearch } from '../search/collection-search.ts'
import { noPlanCounts, type PlannedQuery, whyScan } from '../search/filter-planner.ts'
import { IndexSearches } from '../search/index-searches.ts'
import { TouchedSlots } from '../search/one-moment.ts'
import type { MatchingSlots, SearchedPoints } from '../search/query-planner.ts'
import type { SearchPieces } from '../search/search-pieces.ts'
import type { Submitter } from '../search/submitter.ts'
import type { StoredRecords } from '../storage/records.ts'
import type { PointRecord, StoredPlace } from '../storage/store.ts'
import {
  type FilteredQuery,
  type MatchingAnswer,
  type ReaderSetup,
  ReadState,
  type ToReader,
} from './readers.ts'

/** This thread cannot answer: the engine can. */
export class NotHere extends Error {}

/** Points have changed meanwhile: another attempt may succeed. */
export class Changed extends NotHere {}

/** A collection on a thread that searches by itself. */
export class CollectionView implements SearchedPoints {
  readonly index: IndexView
  readonly searches: IndexSearches
  readonly ids: IdsOfView
  readonly attributes: SearchedPoints['attributes']
  readonly #state: ReadState
  readonly #journal: ChangeJournal
  readonly #place: StoredPlace
  readonly #records: () => StoredRecords | undefined
  /** The settled position up to which records can be read. */
  #renewed = -1
  /** The plans of searches that the engine knows of. */
  #counted: FilteredPlanCounts = noPlanCounts()
  readonly #search: CollectionSearch
  /** The touched slots that were measured since a search began. */
  #measured = 0
  /** By filter key. */
  readonly #filters = new LruCache<ViewedFilter>(filterBytes, ({ words }) => words.byteLength + entryBytes)
  /** By filter, and by the memory of its bitmap. */
  readonly #viewed = new WeakMap<Filter | SharedArrayBuffer, ViewedFilter>()

  constructor(
    { kernels, lane, maxDetailBytes, inlineBytesMax, submitter: { threads } }: ReaderSetup,
    { index, state, journal, layout, segments, pages, entries, place }: Extract<ToReader, { kind: 'view' }>,
    { results, records, queries, submitter, prepare }: ViewParts,
  ) {
    this.#place = place
    this.#records = records
    this.#state = new ReadState(state)
    this.#journal = new ChangeJournal(journal)
    this.index = new IndexView(index, layout, () => this.#state.points)
    for (const segment of segments) this.index.add(segment)
    this.ids = new IdsOfView(pages, entries, this.#state, (slot) => this.#isFound(slot))
    const viewed = this.#viewed
    this.attributes = {
      journal: this.#journal,
      // biome-ignore lint/correctness/useYield: the engine has evaluated the filter
      *matching(filter) {
        return viewed.get(filter)!
      },
    }
    this.searches = new IndexSearches({
      index: this.index,
      kernels,
      lane,
      threads,
      isShort: (asked, pieces) =>
        inlineBytesMax === undefined
          ? this.#areShort(asked, pieces)
          : pieces.bytesOf(asked) <= inlineBytesMax,
      queries,
      submitter,
      prepare,
      detach: async () => {},
      routeOf: (metric, ask) =>
        ask === undefined ? this.#state.routeOf(metric) : this.#filteredRoute(ask.matching, metric),
    })
    this.#search = new CollectionSearch({ points: this, results, maxDetailBytes })
  }

  get hasEnded(): boolean {
    return this.#state.hasEnded
  }

  /** Returns the number of points that match; undefined if points must be hidden first, or the engine must be asked. */
  async count(filter: Filter | undefined, ask: () => Promise<MatchingAnswer>): Promise<number | undefined> {
    try {
      const matching = filter && (await this.#prepare(filter, ask))
      if (this.#isDue || this.hasEnded) return undefined
      this.#state.noteRead()
      return matching?.count ?? this.#state.points
    } catch (error) {
      if (error instanceof NotHere) return undefined
      throw error
    }
  }

  /**
   * Returns the answer to queries for vectors.
   *
   * @param isRepeated whether points have changed during a former attempt
   * @throws NotHere, or Changed
   */
  async search(
    queries: readonly SearchQuery[],
    call: ReadCall,
    ask: (filter: Filter, query: FilteredQuery) => Promise<MatchingAnswer>,
    isRepeated: boolean,
  ): Promise<SearchResults> {
    const { signal, room } = call
    let bytes = 0
    const counted = room && {
      add(more: number): void {
        room.add(more)
        bytes += more
      },
    }
    try {
      for (const { filter, vector, metric, limit } of queries) {
        if (filter === undefined) continue
        const query = { metric, limit, vector: typeof vector === 'string' ? this.#vectorOf(vector) : vector! }
        await this.#prepare(filter, () => ask(filter, query), { metric, limit, isRepeated })
      }
      if (this.#state.segments !== this.index.segments.length) return this.#leave()
      this.#state.noteRead()
      this.#measured = 0
      const results = await this.#search.search(queries, { signal, room: counted })
      if (queries.some(({ filter }) => filter !== undefined)) this.#countPlans()
      return results
    } catch (error) {
      // What was read is dropped.
      if (error instanceof NotHere) room?.add(-bytes)
      throw error
    }
  }

  #countPlans(): void {
    const counts = { ...this.searches.filteredPlans }
    const added = { ...counts }
    for (const name of filteredPlanNames) added[name] -= this.#counted[name]
    this.#counted = counts
    this.#state.addPlans(added)
  }

  /** Whether searches take no longer than a turn of the event loop should. */
  #areShort(queries: readonly PlannedQuery[], pieces: SearchPieces): boolean {
    return queries.length <= queriesMax && queries.every((query) => this.#isShort(query, pieces))
  }

  #isShort(query: PlannedQuery, pieces: SearchPieces): boolean {
    const { metric, matching } = query
    const { layout, slotCount } = this.index
    if (matching === undefined)
      return pieces.plainRoute(query) !== undefined || slotCount * layout.rowBytes <= scanBytesMax
    return (
      matching.count * layout.rowBytes <= scanBytesMax ||
      whyScan(this.index, query, this.#filteredRoute(matching, metric)) === undefined
    )
  }

  #filteredRoute({ words }: Pick<MatchingSlots, 'words'>, metric: Metric): RouteInForce | undefined {
    return this.#viewed.get(words.buffer)?.routes.get(metric)
  }

  /** The vector of a stored point, perhaps of one that changes now: searches read it again. */
  #vectorOf(id: string): Float32Array {
    const slot = this.ids.find(id)
    return this.index.has(slot) ? this.index.read(slot) : this.#leave()
  }

  /**
   * Gets the bitmap of a filter from the engine, unless it is known. For a search it may be a few changes old: then the
   * slots touched since are measured with those touched during the search. So few that one in four searches is repeated:
   * a touched slot is nearer than the last hit as often as the hits are among the matching points.
   *
   * @param query a query whose route is needed, too
   */
  async #prepare(
    filter: Filter,
    ask: () => Promise<MatchingAnswer>,
    query?: Pick<FilteredQuery, 'metric' | 'limit'> & { readonly isRepeated: boolean },
  ): Promise<ViewedFilter> {
    const key = await inTurns(filterKey(filter))
    const known = this.#filters.get(key)
    let viewed = known
    const changes = this.#journal.position - (known?.position ?? Number.NEGATIVE_INFINITY)
    const changesMax =
      query === undefined || query.isRepeated
        ? 0
        : Math.min(bitmapChangesMax, (known?.count ?? 0) / (4 * query.limit))
    const hasRoute =
      query === undefined ||
      (known?.routes.has(query.metric) === true && known.askedMs >= performance.now() - routeMs)
    if (changes > changesMax || !hasRoute) {
      viewed = viewedFilter(await ask().catch(() => this.#leave()), query?.metric, known)
      this.#filters.set(key, viewed)
    }
    this.#viewed.set(filter, viewed!).set(viewed!.words.buffer, viewed!)
    return viewed!
  }

  get #isDue(): boolean {
    return this.#state.nextExpiryUs <= Date.now() * 1000
  }

  get start(): number {
    return this.#journal.settled
  }

  hideExpired(): void {
    if (this.#isDue) this.#leave()
  }

  canMatch(slot: number): boolean {
    // The engine knows when it need not measure touched slots for each query of a batch.
    this.#measured += 1
    return (this.#measured <= measuredMax && this.index.has(slot)) || this.#leave()
  }

  beforeRepetition({ filter }: SearchQuery, isLast: boolean): void {
    // The bitmap is of the past.
    if (isLast || filter !== undefined) throw new Changed()
  }

  payload(slot: number): Payload {
    return this.#record(slot).payload
  }

  versionOf(slot: number): number {
    return this.#record(slot).version
  }

  /**
   * Reads the record of a hit. Disk is ahead of memory: a change is stored first, then noted in the journal, then takes
   * effect. So the record is that of the hit if its change has taken effect, and if nobody notes the slot until the
   * answer is checked.
   */
  #record(slot: number): PointRecord {
    const records = this.#records() ?? this.#leave()
    const { settled } = this.#journal
    // LMDB shows what was stored when its transaction began.
    if (settled !== this.#renewed) records.renew()
    this.#renewed = settled
    const id = new Uint8Array(idBytes)
    this.ids.copyId(slot, id, 0)
    let record: PointRecord | undefined
    try {
      record = records.read(this.#place, slot, id)
    } catch {
      // The engine knows why, or can read it.
      this.#leave()
    }
    if (record === undefined || record.version > this.#state.sequence) throw new Changed()
    return record
  }

  #leave(): never {
    throw new NotHere()
  }

  /** Whether a visible point is in the slot. */
  #isFound(slot: number): boolean {
    const { expiresAtUs = Number.POSITIVE_INFINITY } = this.#record(slot).payload
    return expiresAtUs > Date.now() * 1000
  }

  /** Returns the point with this id; undefined if there is none, or only the engine can know. */
  get(id: string): Point | undefined {
    const { start } = this
    try {
      if (this.#isDue) return undefined
      const slot = this.ids.find(id)
      if (!this.index.has(slot)) return undefined
      const { payload, version } = this.#record(slot)
      const vector = this.index.read(slot)
      const touched = new TouchedSlots(this.#journal, start).now()
      if (touched === undefined || touched.has(slot)) return undefined
      this.#state.noteRead()
      return { id, payload, vector, version }
    } catch (error) {
      if (error instanceof NotHere || this.hasEnded) return undefined
      throw error
    }
  }

  close(): void {
    void this.searches.discard(new NotHere())
    this.index.close()
  }
}

/** The ids of a collection on a thread that searches by itself. */
class IdsOfView extends IdTableView {
  readonly #state: ReadState
  readonly #isVisible: (slot: number) => boolean

  constructor(
    pages: readonly SharedArrayBuffer[],
    entries: readonly SharedArrayBuffer[],
    state: ReadState,
    isVisible: (slot: number) => boolean,
  ) {
    super(pages, entries)
    this.#state = state
    this.#isVisible = isVisible
  }

  get size(): number {
    return this.#state.points
  }

  /** @throws NotHere if no point is found: it may have been missed */
  override find(id: string): number {
    const slot = super.find(id)
    if (slot === -1 || !this.#isVisible(slot)) throw new NotHere()
    return slot
  }

  /** @throws NotHere */
  override copyId(slot: number, target: Uint8Array, at: number): true {
    if (!super.copyId(slot, target, at)) throw new NotHere()
    return true
  }
}

/** What the views of a thread share. */
interface ViewParts {
  readonly results: BudgetShare
  readonly records: () => StoredRecords | undefined
  readonly queries: BudgetShare
  readonly submitter: Submitter
  /** Lets the search threads know this collection, and the filters of queries. */
  readonly prepare: (queries: readonly PlannedQuery[]) => Promise<void> | undefined
}

/** A filter as this thread knows it. */
interface ViewedFilter extends Required<MatchingSlots> {
  readonly id: number
  readonly routes: Map<Metric, RouteInForce | undefined>
  readonly askedMs: number
}

function viewedFilter(
  { id, words, count, position, route }: MatchingAnswer,
  metric: Metric | undefined,
  known: ViewedFilter | undefined,
): ViewedFilter {
  // A message has an object of its own for the same memory, by which the bitmap could not be recognized.
  const isSame = known?.id === id
  return {
    id,
    words: isSame ? known.words : new Uint32Array(words),
    count,
    position,
    routes: new Map([
      ...(isSame && position === known.position ? known.routes : []),
      ...(metric === undefined ? [] : [[metric, route] as const]),
    ]),
    askedMs: performance.now(),
  }
}

/** More are searched on all cores. */
const queriesMax = 4
/** Some tenths of a second. */
const measuredMax = 1_000_000
/** A millisecond of scanning. */
const scanBytesMax = 8 * 1024 * 1024
/** Routes of searches with filters change when their recall has been measured. */
const routeMs = 1000
/** Of the bitmaps of filters: 500 filters over 250,000 points. The engine keeps four times as many. */
const filterBytes = 16 * 1024 * 1024
/** About what a filter takes besides its bitmap. */
const entryBytes = 800
