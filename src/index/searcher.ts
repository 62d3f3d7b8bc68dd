import { assert } from '../base/errors.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { FlatScanner, type ScanQuery } from './flat-scanner.ts'
import { GraphAccess } from './graph.ts'
import { GraphState } from './graph-state.ts'
import { type Hit, Hits } from './hits.ts'
import type { Route } from './routes.ts'
import { efMax, liveStates, type SegmentHandle, type SegmentLayout } from './segment.ts'
import { countBits, LaneFilter, type SlotBits } from './slot-filter.ts'

/** Slots [from, to) of a segment, numbered within it. */
export interface SlotRange {
  readonly ordinal: number
  readonly from: number
  readonly to: number
}

/** A scan query with the parameters of a graph search: its ef and its route. */
export interface IndexQuery extends ScanQuery {
  readonly ef: number
  /** Undefined for the exact scan. */
  readonly route: Route | undefined
  /** A slot that the search ignores. For queries with a route. */
  readonly hidden?: number | undefined
  /** The matching slots; undefined for all. */
  readonly matching?: SlotBits | undefined
  /**
   * A walk that has compared more slots is replaced by a scan of the matching slots. For queries with route and filter.
   */
  readonly comparedMax?: number | undefined
  /** Whether the matching slots may be scanned by their codes. For queries with a filter and a route on codes. */
  readonly codeScan?: CodeScanUse | undefined
  /** The work done for the query is added to this object. */
  readonly work?: QueryWork | undefined
}

/** The matching slots are scanned by their codes instead of a walk, or after a walk that gave up. */
export type CodeScanUse = 'instead' | 'after'

/** The work that all threads have done for a query. */
export interface QueryWork {
  /** Number of slots whose distance was computed, from codes or vectors. */
  compared: number
  /** How many of them were measured by their vectors. */
  measured: number
  microseconds: number
  /** Whether a walk ended in a scan of the matching slots. */
  hasGivenUp: boolean
}

/** Returns the work of a query that has not been started. */
export function noWork(): QueryWork {
  return { compared: 0, measured: 0, microseconds: 0, hasGivenUp: false }
}

/** A search that is done piece by piece. All of its queries have a route, or none has. */
export interface SomeSearch {
  readonly queries: readonly IndexQuery[]
  /** Queries without a route search the slots from this one on. */
  readonly from: number
  readonly slotCount: number
}

export interface SearchedSome {
  /** The hits of the first queries. */
  readonly hits: readonly (readonly Hit[])[]
  /** Where these queries must continue; undefined if they are answered. */
  readonly from: number | undefined
}

/** Searches for one thread. It has a scanner and the graphs of each segment, over the thread's own lane of scratch. */
export class Searcher {
  readonly #kernels: KernelModule
  readonly #lane: number
  readonly #segments: SegmentHandle[] = []
  readonly #scanners: FlatScanner[] = []
  readonly #graphs: GraphAccess[][] = []
  readonly #filters: LaneFilter[] = []

  constructor(kernels: KernelModule, lane: number) {
    this.#kernels = kernels
    this.#lane = lane
  }

  attach(segment: SegmentHandle): void {
    const { ordinal, layout } = segment
    this.#segments[ordinal] = segment
    this.#scanners[ordinal] = new FlatScanner(segment, this.#kernels, this.#lane)
    this.#filters[ordinal] = new LaneFilter(segment, this.#lane)
    this.#graphs[ordinal] = layout.graphs.map(
      (_, graph) => new GraphAccess(segment, this.#kernels, this.#lane, graph),
    )
  }

  /** Closes the files that are open. */
  close(): void {
    for (const scanner of this.#scanners) scanner.close()
    for (const graph of this.#graphs.flat()) graph.close()
  }

  /** This thread's access to a graph. */
  graph(ordinal: number, graph: number): GraphAccess {
    return this.#graphs[ordinal]![graph]!
  }

  /** Whether these queries fit into one scan. */
  fits(queries: readonly ScanQuery[]): boolean {
    return this.#scanners[0]?.fits(queries) ?? false
  }

  /**
   * Finds the nearest live slots of each query. A query without a route searches `ranges`; a query with a route searches
   * all segments. All queries without a route must have the same filter.
   *
   * @param isCancelled called every few milliseconds; once it returns true, the hits found so far are returned
   * @param hits where to add what is found, with an empty list for each query; by default, lists of `k`
   */
  search(
    queries: readonly IndexQuery[],
    ranges: readonly SlotRange[],
    isCancelled: () => boolean,
    hits: Hits = new Hits(queries.map(({ k }) => k)),
  ): Hits {
    const scanned = [...queries.keys()].filter((list) => queries[list]!.route === undefined)
    if (scanned.length > 0) {
      const together = scanned.map((list) => queries[list]!)
      timed(together, () => this.#scan(together, ranges, isCancelled, hits, scanned))
    }
    for (const [list, query] of queries.entries()) {
      const { route, codeScan } = query
      if (route === undefined || isCancelled()) continue
      assert(this.#segments.length === 0 || this.fits([query]), 'the hits of a walk fit into its lane')
      timed([query], () => {
        if (codeScan === 'instead' && query.matching !== undefined)
          this.#scanCodes(query, query.matching, route, isCancelled, hits, list)
        else this.#walk(query, route, isCancelled, hits, list)
      })
    }
    return hits
  }

  /**
   * Searches until it is over, at least a little: for one query with a route after the other, or for all queries together
   * from slot to slot.
   */
  searchSome(
    { queries, from, slotCount }: SomeSearch,
    isOver: () => boolean,
    isCancelled: () => boolean,
  ): SearchedSome {
    if (queries[0]!.route !== undefined) {
      const hits: Hit[][] = []
      do hits.push(this.search([queries[hits.length]!], [], isCancelled).list(0))
      while (hits.length < queries.length && !isOver())
      return { hits, from: undefined }
    }
    const hits = new Hits(queries.map(({ k }) => k))
    const step = slotsPerLook(this.#segments[0]!.layout, queries.length)
    let at = from
    do {
      this.search(queries, rangesOf(this.#segments, Math.min(at + step, slotCount), at), isCancelled, hits)
      at += step
    } while (at < slotCount && !isOver())
    return { hits: hits.lists(), from: at < slotCount ? at : undefined }
  }

  /** Scans the matching slots by their codes, and measures the nearest of them exactly. */
  #scanCodes(
    query: IndexQuery,
    matching: SlotBits,
    { graph, distanceKind }: Route,
    isCancelled: () => boolean,
    hits: Hits,
    list: number,
  ): void {
    const breadth = Math.min(efMax, Math.max(query.ef, query.k + beyondMin))
    for (const [ordinal, graphs] of this.#graphs.entries()) {
      const each = graphs[graph]!
      const bitmap = this.#filters[ordinal]!.place(matching)
      const { slotCount: to } = new GraphState(this.#segments[ordinal]!, 0)
      hits.add(list, each.scanCodes(query, { breadth, distanceKind, bitmap, to }, isCancelled))
      countWork(query.work, each.work)
    }
  }

  /**
   * Searches a graph. Scans a segment instead if its walk found fewer than `k` points. A walk can find too few after
   * removals, until the graph is repaired, or among identical points. The hits of other segments must not hide that:
   * the missed points may be nearer. Scans all segments if a walk gave up because a scan is cheaper.
   */
  #walk(query: IndexQuery, route: Route, isCancelled: () => boolean, hits: Hits, list: number): void {
    const { graph, distanceKind, efMultiplier } = route
    const ef = Math.min(efMax, query.ef * efMultiplier)
    const { matching, work, comparedMax = Number.MAX_SAFE_INTEGER } = query
    let left = comparedMax
    for (const [ordinal, graphs] of this.#graphs.entries()) {
      const each = graphs[graph]!
      const bitmap = matching && this.#filters[ordinal]!.place(matching)
      const limits = bitmap === undefined ? undefined : { bitmap, comparedMax: left }
      const found = each.search(query, ef, distanceKind, query.hidden, limits)
      if (work !== undefined || limits !== undefined) left -= countWork(work, each.work)
      if (limits !== undefined && each.hasGivenUp) {
        hits.clear(list)
        if (work !== undefined) work.hasGivenUp = true
        if (query.codeScan !== undefined && matching !== undefined)
          this.#scanCodes(query, matching, route, isCancelled, hits, list)
        else this.#scan([query], this.#allSlots(), isCancelled, hits, [list])
        return
      }
      // A segment can really have fewer than `k` points. A scan with a filter then costs little, because it only reads
      // matching rows. A scan without one would read all rows if they are on disk.
      const count = found.total
      const isAll =
        count === query.k || (matching === undefined && this.#areAll(found, query.hidden, ordinal))
      if (isAll) {
        hits.add(list, found)
        continue
      }
      const scanned = new Hits([query.k])
      this.#scan([query], [this.#slotsOf(ordinal)], isCancelled, scanned, [0])
      hits.add(list, scanned)
      if (work !== undefined && scanned.total > count) work.hasGivenUp = true
    }
  }

  /** Whether a segment has no live slots but these. Reads one byte a slot, only until it finds another live slot. */
  #areAll({ slots }: Hits, hidden: number | undefined, ordinal: number): boolean {
    const { memory, layout, firstSlot } = this.#segments[ordinal]!
    // The search of a buffer is many times as fast as a loop.
    const live = Buffer.from(memory.buffer, layout.live, this.#slotsOf(ordinal).to)
    const known = new Set<number | undefined>(slots).add(hidden)
    return [liveStates.live, liveStates.unread].every((state) => {
      let at = live.indexOf(state)
      while (at >= 0 && known.has(firstSlot + at)) at = live.indexOf(state, at + 1)
      return at < 0
    })
  }

  #allSlots(): SlotRange[] {
    return this.#segments.map(({ ordinal }) => this.#slotsOf(ordinal))
  }

  #slotsOf(ordinal: number): SlotRange {
    const { slotCount } = new GraphState(this.#segments[ordinal]!, 0)
    return { ordinal, from: 0, to: slotCount }
  }

  /** Scans ranges of slots for queries with the same filter, and adds what it finds to their lists. */
  #scan(
    queries: readonly IndexQuery[],
    ranges: readonly SlotRange[],
    isCancelled: () => boolean,
    hits: Hits,
    lists: readonly number[],
  ): void {
    const { matching } = queries[0]!
    countScan(queries, ranges, this.#segments)
    for (const { ordinal, from, to } of ranges) {
      const scanner = this.#scanners[ordinal]!
      scanner.begin(queries, matching && this.#filters[ordinal]!.place(matching))
      const step = slotsPerLook(this.#segments[ordinal]!.layout, queries.length)
      for (let at = from; at < to && !isCancelled(); at += step) {
        scanner.scanRange(at, Math.min(at + step, to))
      }
      for (const [at, found] of scanner.finish().entries()) hits.add(lists[at]!, found)
    }
  }
}

/**
 * Searches piece by piece.
 *
 * @param some searches a piece; returns undefined to end the search
 */
export async function searchByPieces(
  queries: readonly IndexQuery[],
  slotCount: number,
  some: (piece: SomeSearch) => SearchedSome | undefined | Promise<SearchedSome | undefined>,
): Promise<Hit[][] | undefined> {
  const found = new Hits(queries.map(({ k }) => k))
  let from: number | undefined
  for (let done = 0; done < queries.length; ) {
    const piece = await some({ queries: queries.slice(done), from: from ?? 0, slotCount })
    if (piece === undefined) return undefined
    const hits = Hits.of(piece.hits)
    for (let list = 0; list < hits.length; list += 1) found.add(done + list, hits, list)
    from = piece.from
    if (from === undefined) done += hits.length
  }
  return found.lists()
}

/** Runs a search, and adds its time to the work of its queries. */
function timed(queries: readonly IndexQuery[], search: () => void): void {
  if (!queries.some(({ work }) => work !== undefined)) {
    search()
    return
  }
  const startMs = performance.now()
  search()
  const microseconds = ((performance.now() - startMs) * 1000) / queries.length
  for (const { work } of queries) if (work !== undefined) work.microseconds += microseconds
}

/** Adds the work of a walk to the work of its query. Returns the number of slots that the walk compared. */
function countWork(
  work: QueryWork | undefined,
  { compared, measured }: Pick<QueryWork, 'compared' | 'measured'>,
): number {
  if (work !== undefined) {
    work.compared += compared
    work.measured += measured
  }
  return compared
}

/** Adds the slots of a scan to the work of its queries. */
function countScan(
  queries: readonly IndexQuery[],
  ranges: readonly SlotRange[],
  segments: readonly SegmentHandle[],
): void {
  for (const { work, matching } of queries) {
    if (work === undefined) continue
    for (const { ordinal, from, to } of ranges) {
      const { firstSlot } = segments[ordinal]!
      const slots =
        matching === undefined ? to - from : countBits(matching.words, firstSlot + from, firstSlot + to)
      work.compared += slots
      work.measured += slots
    }
  }
}

/** Returns the slots of [from, to) as a range for each segment. */
export function rangesOf(segments: readonly SegmentHandle[], to: number, from = 0): SlotRange[] {
  return segments.map(({ ordinal, firstSlot, layout }) => {
    const within = (slot: number): number => Math.max(0, Math.min(layout.capacity, slot - firstSlot))
    return { ordinal, from: within(from), to: within(to) }
  })
}

/** Returns how many slots take a few milliseconds to scan, however long their vectors are. */
export function slotsPerLook({ rowBytes }: SegmentLayout, queries: number): number {
  return Math.max(1, Math.min(rowsPerLook, Math.floor(bytesPerLook / (rowBytes * queries))))
}

/** A scan by codes has at least this many candidates beyond k for exact measurement, more than a walk has. */
const beyondMin = 64

/** On disk, matching rows that lie apart are read one by one. */
const rowsPerLook = 4096
/** Rows of so many bytes are scanned in a few milliseconds, short enough to notice soon that the caller disconnected. */
const bytesPerLook = 16 * 1024 * 1024
