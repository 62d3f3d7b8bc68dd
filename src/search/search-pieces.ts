import type { Metric } from '../base/point.ts'
import { whyNoRoute } from '../graphs/graph-set.ts'
import type { FilteredAsk, RouteInForce } from '../graphs/recall-plans.ts'
import { Hits } from '../index/hits.ts'
import type { SearchedIndex } from '../index/index-view.ts'
import { isCheaperThanScan } from '../index/routes.ts'
import { type IndexQuery, rangesOf, type Searcher, type SlotRange } from '../index/searcher.ts'
import { efMax, queriesPerScanMax } from '../index/segment.ts'
import { countBits, type SlotBits, type SlotFilter } from '../index/slot-filter.ts'
import type { FilteredPlanCounts } from '../points/database.ts'
import type { BoardWork } from './board.ts'
import { type FilterPlan, FilterPlanner, type PlannedQuery } from './filter-planner.ts'

/** Returns the current route of a metric's searches, or of a search with a filter; undefined for the exact scan. */
export type RouteOf = (metric: Metric, ask?: FilteredAsk) => RouteInForce | undefined

interface SearchPiecesOptions {
  readonly index: SearchedIndex
  readonly routeOf: RouteOf
  /** Decides which queries one scan can answer together. */
  readonly searcher: Searcher
  /** The number of threads among which a single scan is divided. */
  readonly threads: number
}

/** Cuts the searches of one index into pieces for search threads. */
export class SearchPieces {
  readonly #options: SearchPiecesOptions
  readonly #index: SearchedIndex
  readonly #planner: FilterPlanner

  constructor(options: SearchPiecesOptions) {
    this.#options = options
    this.#index = options.index
    this.#planner = new FilterPlanner(options.index)
  }

  /** Returns a query for the index, with its route. */
  indexQuery(query: PlannedQuery): IndexQuery {
    const { vector, metric, ef, exact, matching, report } = query
    if (matching !== undefined) return this.#filteredQuery(query, matching)
    const route = this.plainRoute(query)
    if (report !== undefined) report.plan = plainPlan(this.#index, exact === true, route)
    return { vector, metric, ef, route, k: this.#roomOf(query), work: report?.work }
  }

  #filteredQuery(query: PlannedQuery, matching: SlotFilter): IndexQuery {
    const { vector, metric, ef, report } = query
    const k = this.#roomOf(query)
    const share = matching.count / Math.max(1, this.#index.liveCount)
    const usable = this.#options.routeOf(metric, { vector, k, matching, share })
    const plan = this.#planner.plan({ ...query, matching }, usable)
    if (report !== undefined) report.plan = plan
    const { route, comparedMax, codeScan } = plan
    return { vector, metric, ef, route, k, matching, comparedMax, codeScan, work: report?.work }
  }

  /** Returns the most hits that each query can have. */
  rooms(queries: readonly PlannedQuery[]): number[] {
    return queries.map((query) => this.#roomOf(query))
  }

  #roomOf({ limit, matching }: PlannedQuery): number {
    return Math.min(limit, Math.max(1, matching?.count ?? this.#index.liveCount))
  }

  /** The number of finished searches with a filter, by how they were carried out. */
  get filteredPlans(): FilteredPlanCounts {
    return this.#planner.counts
  }

  /** Learns from finished searches. */
  learn(queries: readonly PlannedQuery[]): void {
    for (const query of queries) {
      const { matching, report } = query
      if (matching === undefined || report?.plan === undefined) continue
      this.#planner.learn({ ...query, matching }, report.plan, report.work)
    }
  }

  /**
   * Returns the route of a query without a filter; undefined if it asks for a scan, without a usable graph, or if it is
   * so wide that a scan costs less.
   */
  plainRoute({ metric, limit, ef: asked, exact }: PlannedQuery): RouteInForce | undefined {
    const route = exact === true ? undefined : this.#options.routeOf(metric)
    const ef = Math.max(asked, limit)
    if (route === undefined || ef > efMax) return undefined
    return isCheaperThanScan(ef * route.efMultiplier, this.#index.liveCount) ? route : undefined
  }

  /**
   * Cuts a request into pieces. Queries that walk through a graph form groups of a few. Several queries that scan read
   * the rows together, and a single one is cut by slots. Pieces are created one by one, because creating thousands
   * would block the event loop.
   */
  *cut(queries: readonly PlannedQuery[]): Generator<Piece, void> {
    const scanning: Placed[] = []
    let walking: Placed[] = []
    for (let at = 0; at < queries.length; at += 1) {
      const query = this.indexQuery(queries[at]!)
      if (query.route === undefined) {
        scanning.push({ at, query })
        continue
      }
      if (query.codeScan === 'instead') {
        yield this.#codeScan({ at, query }, queries[at]!.matching!.count)
        continue
      }
      walking.push({ at, query })
      if (walking.length < walksPerPiece) continue
      yield this.#walk(walking)
      walking = []
    }
    if (walking.length > 0) yield this.#walk(walking)
    if (scanning.length === 1) {
      for (const ranges of this.#sharesOfSlots(queries[scanning[0]!.at]!.matching)) {
        yield this.#scan(scanning, ranges)
      }
      return
    }
    for (let first = 0; first < scanning.length; ) {
      const rest = scanning.slice(first, first + queriesPerScanMax)
      const together = rest.slice(
        0,
        this.#scansTogether(
          rest.map(({ query }) => query),
          queries[rest[0]!.at]!.matching,
        ),
      )
      yield this.#scan(together, this.ranges())
      first += together.length
    }
  }

  #walk(placed: readonly Placed[]): Piece {
    const cost = placed.reduce((sum, { query }) => sum + this.#costOfWalk(query.ef, query.route!), 0)
    return { ...this.#partsOf(placed), ranges: [], cost }
  }

  #costOfWalk(ef: number, { efMultiplier }: RouteInForce): number {
    return walkMicroseconds * ef * efMultiplier + (this.#index.layout.rows === 0 ? readMicroseconds : 0)
  }

  #codeScan(placed: Placed, count: number): Piece {
    const cost = codeMicroseconds * count + walkMicroseconds * placed.query.ef
    return { ...this.#partsOf([placed]), ranges: [], cost }
  }

  #scan(placed: readonly Placed[], ranges: readonly SlotRange[]): Piece {
    const slots = ranges.reduce((sum, range) => sum + this.#slotsIn(range, placed[0]!.query.matching), 0)
    const cost = (placed.length * slots * this.#index.layout.rowBytes) / bytesPerMicrosecond
    return { ...this.#partsOf(placed), ranges, cost }
  }

  #partsOf(placed: readonly Placed[]): Pick<Piece, 'index' | 'positions' | 'queries'> {
    return {
      index: this.#index.id,
      positions: placed.map(({ at }) => at),
      queries: placed.map(({ query }) => query),
    }
  }

  /** Returns how many of the first queries one scan can answer together. */
  #scansTogether(queries: readonly IndexQuery[], matching: SlotFilter | undefined): number {
    const other = queries.findIndex(
      (query) => query.matching?.id !== matching?.id || query.matching?.version !== matching?.version,
    )
    const alike = other === -1 ? queries.length : other
    let count = Math.max(1, Math.min(alike, Math.floor(pieceBytes / this.#bytesOf(matching))))
    while (count > 1 && !this.#options.searcher.fits(queries.slice(0, count))) count -= 1
    return count
  }

  /** Whether the searches are one walk of the usual breadth. */
  areShortWalk(queries: readonly PlannedQuery[]): boolean {
    const [query] = queries
    if (query === undefined || queries.length > 1 || query.matching !== undefined) return false
    const route = this.plainRoute(query)
    return route !== undefined && this.#costOfWalk(query.ef, route) <= shortMicroseconds
  }

  /** Returns all slots, by segment. */
  ranges(): SlotRange[] {
    return rangesOf(this.#index.segments, this.#index.slotCount)
  }

  /** Divides the slots to scan equally among the threads. */
  #sharesOfSlots(matching: SlotFilter | undefined): SlotRange[][] {
    const share = Math.ceil((matching?.count ?? this.#index.slotCount) / this.#options.threads)
    const shares: SlotRange[][] = [[]]
    let room = share
    for (const { ordinal, to } of this.ranges()) {
      for (let from = 0; from < to; ) {
        if (room <= 0) {
          shares.push([])
          room = share
        }
        const end = this.#endOf({ ordinal, from, to }, room, matching)
        room -= this.#slotsIn({ ordinal, from, to: end }, matching)
        shares.at(-1)!.push({ ordinal, from, to: end })
        from = end
      }
    }
    return shares
  }

  /** Returns the end of the first part of a range that has about `room` slots to scan. */
  #endOf({ ordinal, from, to }: SlotRange, room: number, matching: SlotFilter | undefined): number {
    if (matching === undefined) return Math.min(to, from + room)
    let end = from
    for (let left = room; end < to && left > 0; ) {
      const next = Math.min(to, end + slotsPerCount)
      left -= this.#slotsIn({ ordinal, from: end, to: next }, matching)
      end = next
    }
    return end
  }

  /** Returns how many slots of a range are scanned. */
  #slotsIn({ ordinal, from, to }: SlotRange, matching: SlotBits | undefined): number {
    if (matching === undefined) return to - from
    const first = ordinal * this.#index.layout.capacity
    return countBits(matching.words, first + from, first + to)
  }

  /** Returns about how many bytes scans for these queries would read. */
  bytesOf(queries: readonly PlannedQuery[]): number {
    return queries.reduce((sum, { matching }) => sum + this.#bytesOf(matching), 0)
  }

  #bytesOf(matching: SlotFilter | undefined): number {
    const { slotCount, layout } = this.#index
    const all = slotCount * layout.rowBytes
    // Reading single rows from disk takes as long as reading blocks of them.
    if (matching === undefined || layout.rows === 0) return all
    return Math.min(all, scatteredFactor * matching.count * layout.rowBytes + slotCount / 4)
  }
}

/** Rows at random addresses take this many times as long as adjacent ones. */
const scatteredFactor = 2

/** Matching slots are counted in blocks of this many slots. */
const slotsPerCount = 4096

/** A query and its position in the request. */
interface Placed {
  readonly at: number
  readonly query: IndexQuery
}

/** Nearly half a millisecond of walking; compared to this, the cost of sending a piece to a thread is negligible. */
export const walksPerPiece = 4

/** For each entry of the beam, with 512 dimensions. */
const walkMicroseconds = 0.8

/** A walk of the usual breadth takes less. */
export const shortMicroseconds = 150

/** Reading the rows that a walk has found, if they are on disk and not in the system's cache. */
const readMicroseconds = 500

/** For each code that a thread scans. */
const codeMicroseconds = 0.05

/** For rows that a thread scans. */
const bytesPerMicrosecond = 10_000

/** About 100 ms of scanning: the longest time that a query waits for a piece of a batch. */
const pieceBytes = 1024 * 1024 * 1024

/** Returns the plan of a query without a filter, with its reason for an operator. */
function plainPlan(index: SearchedIndex, isExact: boolean, route: RouteInForce | undefined): FilterPlan {
  const plan = { route, comparedMax: 0, recall: route?.recall }
  if (isExact) return { ...plan, reason: 'the query asks for exact results' }
  if (route !== undefined) return { ...plan, reason: 'the graph reaches the recall target' }
  return { ...plan, reason: `${whyNoRoute(index)}, or a scan costs less than a walk this wide` }
}

/** Part of a request: some of its queries over some of the slots. */
export interface Piece extends BoardWork {
  /** The positions of the piece's queries in the request. */
  readonly positions: readonly number[]
}

/** A search in progress: its pieces, which are created when they are handed out, and its results so far. */
export class SearchRequest {
  readonly #pieces: Iterator<Piece, void>
  readonly #settle: (error?: unknown) => void
  /** The hits, one list per query. Complete when the request has settled without an error. */
  readonly hits: Hits
  #next: Piece | undefined
  #handedOut = 0
  #done = 0
  #settled = false

  /**
   * @param rooms for each query, the most hits that it can have
   * @param pieces at least one
   * @param settle called exactly once, with an error if the request failed
   */
  constructor(rooms: readonly number[], pieces: Iterable<Piece>, settle: (error?: unknown) => void) {
    this.#pieces = pieces[Symbol.iterator]()
    this.#settle = settle
    this.hits = new Hits(rooms)
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

  complete({ positions }: Piece, hits: Hits): void {
    for (const [list, position] of positions.entries()) this.hits.add(position, hits, list)
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
