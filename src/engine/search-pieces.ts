import type { Metric, VectorQuery } from '../base/point.ts'
import { isCheaperThanScan, type Route } from '../index/graph.ts'
import type { IndexQuery, Searcher, SlotRange } from '../index/searcher.ts'
import { efMax, queriesPerScanMax } from '../index/segment.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { Piece } from './search-request.ts'

/** The current route of a metric's searches; undefined for the exact scan. */
export type RouteOf = (metric: Metric) => Route | undefined

export interface SearchPiecesOptions {
  readonly index: VectorIndex
  readonly routeOf: RouteOf
  /** Tells which queries one scan can answer together. */
  readonly searcher: Searcher
  /** Threads among which a single scan is divided. */
  readonly threads: number
}

/** Cuts the searches of one index into pieces for search threads. */
export class SearchPieces {
  readonly #options: SearchPiecesOptions
  readonly #index: VectorIndex

  constructor(options: SearchPiecesOptions) {
    this.#options = options
    this.#index = options.index
  }

  /** A query for the index, with its route. */
  indexQuery({ vector, metric, limit, ef }: VectorQuery): IndexQuery {
    const route = this.#routeOf(metric, Math.max(ef, limit))
    return { vector, metric, ef, route, k: Math.min(limit, Math.max(1, this.#index.liveCount)) }
  }

  /** The route of a query; undefined without a usable graph, or if the query is so wide that a scan costs less. */
  #routeOf(metric: Metric, ef: number): Route | undefined {
    const route = this.#options.routeOf(metric)
    if (route === undefined || ef > efMax) return undefined
    return isCheaperThanScan(ef * route.widening, this.#index.liveCount) ? route : undefined
  }

  /**
   * Queries that walk through a graph are grouped by a few; several queries that scan read the rows together, and
   * a single one is cut by slots. Pieces are created one by one, because creating thousands would block the event loop.
   */
  *cut(queries: readonly VectorQuery[]): Generator<Piece, void> {
    const scanning: Placed[] = []
    let walking: Placed[] = []
    for (let at = 0; at < queries.length; at += 1) {
      const query = this.indexQuery(queries[at]!)
      if (query.route === undefined) {
        scanning.push({ at, query })
        continue
      }
      walking.push({ at, query })
      if (walking.length < walksPerPiece) continue
      yield this.#walk(walking)
      walking = []
    }
    if (walking.length > 0) yield this.#walk(walking)
    if (scanning.length === 1) {
      for (const ranges of this.#sharesOfSlots()) yield this.#scan(scanning, ranges)
      return
    }
    for (let first = 0; first < scanning.length; ) {
      const rest = scanning.slice(first, first + queriesPerScanMax)
      const together = rest.slice(0, this.#scansTogether(rest.map(({ query }) => query)))
      yield this.#scan(together, this.ranges())
      first += together.length
    }
  }

  #walk(placed: readonly Placed[]): Piece {
    let cost = 0
    for (const { query } of placed) cost += walkMicroseconds * query.ef * query.route!.widening
    return { ...this.#partsOf(placed), ranges: [], cost }
  }

  #scan(placed: readonly Placed[], ranges: readonly SlotRange[]): Piece {
    const slots = ranges.reduce((sum, { from, to }) => sum + to - from, 0)
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

  /** How many of the first queries one scan can answer together. */
  #scansTogether(queries: readonly IndexQuery[]): number {
    let count = Math.max(1, Math.min(queriesPerScanMax, Math.floor(pieceBytes / this.bytesOf(1))))
    while (!this.#options.searcher.fits(queries.slice(0, count))) count -= 1
    return count
  }

  /** All the slots, by segment. */
  ranges(): SlotRange[] {
    const index = this.#index
    return index.segments.map(({ ordinal, firstSlot, layout }) => ({
      ordinal,
      from: 0,
      to: Math.max(0, Math.min(layout.capacity, index.slotCount - firstSlot)),
    }))
  }

  /** All slots, divided equally among the threads. */
  #sharesOfSlots(): SlotRange[][] {
    const share = Math.ceil(this.#index.slotCount / this.#options.threads)
    const shares: SlotRange[][] = [[]]
    let room = share
    for (const { ordinal, to } of this.ranges()) {
      for (let from = 0; from < to; ) {
        if (room === 0) {
          shares.push([])
          room = share
        }
        const end = Math.min(to, from + room)
        shares.at(-1)!.push({ ordinal, from, to: end })
        room -= end - from
        from = end
      }
    }
    return shares
  }

  /** Bytes of rows that this many exact scans read. */
  bytesOf(queries: number): number {
    return queries * this.#index.slotCount * this.#index.layout.rowBytes
  }
}

/** A query and its position in the request. */
interface Placed {
  readonly at: number
  readonly query: IndexQuery
}

/** Nearly half a millisecond of walking: compared to it, the cost of a hand-over is negligible. */
export const walksPerPiece = 4

/** For each place of the beam, over 512 dimensions. */
const walkMicroseconds = 0.8

/** Of rows that a thread scans. */
const bytesPerMicrosecond = 10_000

/** About 100 ms of scanning: the longest that a waiting query waits for a piece of a batch. */
const pieceBytes = 1024 * 1024 * 1024
