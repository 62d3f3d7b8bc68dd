import type { KernelModule } from '../kernels/wasm-module.ts'
import { FlatScanner, type ScanQuery } from './flat-scanner.ts'
import { GraphAccess } from './graph.ts'
import { GraphState } from './graph-state.ts'
import type { Hit } from './hit.ts'
import type { Route } from './routes.ts'
import { efMax, type SegmentHandle } from './segment.ts'
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
  readonly work?: SearchWork | undefined
}

/** The matching slots are scanned by their codes instead of a walk, or after a walk that gave up. */
export type CodeScanUse = 'instead' | 'after'

/** The work that all threads have done for a query. */
export interface SearchWork {
  /** Number of slots whose distance was computed, from codes or vectors. */
  compared: number
  /** How many of them were measured by their vectors. */
  measured: number
  microseconds: number
  /** Whether a walk ended in a scan of the matching slots. */
  hasGivenUp: boolean
}

/** Returns the work of a query that has not been started. */
export function noWork(): SearchWork {
  return { compared: 0, measured: 0, microseconds: 0, hasGivenUp: false }
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
   * Returns the nearest live slots for each query in ascending order of (distance, sequence). A query without a route
   * searches `ranges`; a query with a route searches all segments. All queries without a route must have the same
   * filter.
   *
   * @param isCancelled called every few milliseconds; once it returns true, the hits found so far are returned
   */
  search(
    queries: readonly IndexQuery[],
    ranges: readonly SlotRange[],
    isCancelled: () => boolean,
  ): readonly (readonly Hit[])[] {
    const scanned = queries.filter(({ route }) => route === undefined)
    const exact = scanned.length > 0 ? this.#scan(scanned, ranges, isCancelled) : []
    let next = 0
    return queries.map((query) => {
      const { route } = query
      if (route === undefined) return exact[next++]!
      return isCancelled() ? [] : this.#timed([query], () => this.#searchBy(route, query, isCancelled))
    })
  }

  #searchBy(route: Route, query: IndexQuery, isCancelled: () => boolean): readonly Hit[] {
    const { codeScan, matching } = query
    return codeScan === 'instead' && matching !== undefined
      ? this.#scanCodes(query, matching, route, isCancelled)
      : this.#walk(query, route, isCancelled)
  }

  /** Scans the matching slots by their codes, and measures the nearest of them exactly. */
  #scanCodes(
    query: IndexQuery,
    matching: SlotBits,
    { graph, distanceKind }: Route,
    isCancelled: () => boolean,
  ): readonly Hit[] {
    const breadth = Math.min(efMax, Math.max(query.ef, query.k + beyondMin))
    const lists = this.#graphs.map((graphs, ordinal) => {
      const each = graphs[graph]!
      const bitmap = this.#filters[ordinal]!.place(matching)
      const { slotCount: to } = new GraphState(this.#segments[ordinal]!, 0)
      const hits = each.scanCodes(query, { breadth, distanceKind, bitmap, to }, isCancelled)
      countWork(query.work, each.work)
      return hits
    })
    return mergeHits(lists, query.k)
  }

  /**
   * Searches a graph. Scans a segment instead if its walk found fewer than `k` points. A walk can find too few after
   * removals, until the graph is repaired, or among identical points. The hits of other segments must not hide that:
   * the missed points may be nearer. Scans all segments if a walk gave up because a scan is cheaper.
   */
  #walk(query: IndexQuery, route: Route, isCancelled: () => boolean): readonly Hit[] {
    const { graph, distanceKind, efMultiplier } = route
    const ef = Math.min(efMax, query.ef * efMultiplier)
    const { matching, work, comparedMax = Number.MAX_SAFE_INTEGER } = query
    let left = comparedMax
    let hasGivenUp = false
    const lists = this.#graphs.map((graphs, ordinal) => {
      const each = graphs[graph]!
      if (hasGivenUp) return []
      const bitmap = matching && this.#filters[ordinal]!.place(matching)
      const limits = bitmap === undefined ? undefined : { bitmap, comparedMax: left }
      const hits = each.search(query, ef, distanceKind, query.hidden, limits)
      if (limits !== undefined) hasGivenUp = each.hasGivenUp
      if (work !== undefined || limits !== undefined) left -= countWork(work, each.work)
      if (hits.length === query.k || hasGivenUp) return hits
      return this.#completed(hits, query, ordinal, isCancelled)
    })
    if (!hasGivenUp) return mergeHits(lists, query.k)
    if (work !== undefined) work.hasGivenUp = true
    if (query.codeScan !== undefined && matching !== undefined)
      return this.#scanCodes(query, matching, route, isCancelled)
    return this.#scanSlots([query], this.#allSlots(), isCancelled)[0]!
  }

  /** Returns the nearest slots of a segment in which a walk found only these, fewer than `k`. */
  #completed(
    hits: readonly Hit[],
    query: IndexQuery,
    ordinal: number,
    isCancelled: () => boolean,
  ): readonly Hit[] {
    // A segment can really have fewer than `k` points. A scan with a filter then costs little, because it only reads
    // matching rows. A scan without one would read all rows if they are on disk.
    if (query.matching === undefined && this.#areAll(hits, query.hidden, ordinal)) return hits
    const [scanned] = this.#scanSlots([query], [this.#slotsOf(ordinal)], isCancelled)
    if (query.work !== undefined && scanned!.length > hits.length) query.work.hasGivenUp = true
    return scanned!
  }

  /** Whether a segment has no live slots but these. Reads one byte a slot, only until it finds another live slot. */
  #areAll(hits: readonly Hit[], hidden: number | undefined, ordinal: number): boolean {
    const { memory, layout, firstSlot } = this.#segments[ordinal]!
    // The search of a buffer is many times as fast as a loop.
    const live = Buffer.from(memory.buffer, layout.live, this.#slotsOf(ordinal).to)
    const known = new Set<number | undefined>(hits.map(({ slot }) => slot)).add(hidden)
    let at = live.indexOf(1)
    while (at >= 0 && known.has(firstSlot + at)) at = live.indexOf(1, at + 1)
    return at < 0
  }

  /** Runs a search, and adds its time to the work of its queries. */
  #timed<Found>(queries: readonly IndexQuery[], search: () => Found): Found {
    if (!queries.some(({ work }) => work !== undefined)) return search()
    const startMs = performance.now()
    const found = search()
    const microseconds = ((performance.now() - startMs) * 1000) / queries.length
    for (const { work } of queries) if (work !== undefined) work.microseconds += microseconds
    return found
  }

  #allSlots(): SlotRange[] {
    return this.#segments.map(({ ordinal }) => this.#slotsOf(ordinal))
  }

  #slotsOf(ordinal: number): SlotRange {
    const { slotCount } = new GraphState(this.#segments[ordinal]!, 0)
    return { ordinal, from: 0, to: slotCount }
  }

  #scan(
    queries: readonly IndexQuery[],
    ranges: readonly SlotRange[],
    isCancelled: () => boolean,
  ): readonly (readonly Hit[])[] {
    return this.#timed(queries, () => this.#scanSlots(queries, ranges, isCancelled))
  }

  #scanSlots(
    queries: readonly IndexQuery[],
    ranges: readonly SlotRange[],
    isCancelled: () => boolean,
  ): readonly (readonly Hit[])[] {
    const { matching } = queries[0]!
    countScan(queries, ranges, this.#segments)
    const parts = ranges.map(({ ordinal, from, to }) => {
      const scanner = this.#scanners[ordinal]!
      scanner.begin(queries, matching && this.#filters[ordinal]!.place(matching))
      for (let at = from; at < to && !isCancelled(); at += rowsBetweenChecks) {
        scanner.scanRange(at, Math.min(at + rowsBetweenChecks, to))
      }
      return scanner.finish()
    })
    if (parts.length === 1) return parts[0]!
    return queries.map(({ k }, index) =>
      mergeHits(
        parts.map((part) => part[index]!),
        k,
      ),
    )
  }
}

/** Adds the work of a walk to the work of its query. Returns the number of slots that the walk compared. */
function countWork(
  work: SearchWork | undefined,
  { compared, measured }: Pick<SearchWork, 'compared' | 'measured'>,
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

/** Returns the slots below `slotCount` as a range for each segment. */
export function rangesOf(segments: readonly SegmentHandle[], slotCount: number): SlotRange[] {
  return segments.map(({ ordinal, firstSlot, layout }) => ({
    ordinal,
    from: 0,
    to: Math.max(0, Math.min(layout.capacity, slotCount - firstSlot)),
  }))
}

/** Merges several ascending lists. Returns the first `k` hits in ascending order. */
export function mergeHits(lists: readonly (readonly Hit[])[], k: number): readonly Hit[] {
  const filled = lists.length === 1 ? lists : lists.filter((list) => list.length > 0)
  if (filled.length <= 1) {
    const [only = []] = filled
    return only.length <= k ? only : only.slice(0, k)
  }
  return filled
    .flat()
    .sort((a, b) => a.distance - b.distance || a.sequence - b.sequence)
    .slice(0, k)
}

/** A scan by codes has at least this many candidates beyond k for exact measurement, more than a walk has. */
const beyondMin = 64

/** Scanning this many rows takes a few milliseconds, short enough to notice soon that the caller disconnected. */
const rowsBetweenChecks = 4096
