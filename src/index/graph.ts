import { distanceMetrics, type Metric } from '../base/point.ts'
import { instantiateKernels, type KernelExports, type KernelModule } from '../kernels/wasm-module.ts'
import type { ScanQuery } from './flat-scanner.ts'
import { type ReachScan, reach, reachAll } from './graph-check.ts'
import { GraphState } from './graph-state.ts'
import type { Hits } from './hits.ts'
import {
  distanceKindOf,
  graphDistanceMetrics,
  isExpressed,
  measuredBreadths,
  poolEnd,
  reachEnd,
  type WalkEnd,
  walkEnd,
} from './routes.ts'
import { type SegmentHandle, SlotColumns } from './segment.ts'
import { RowReader, ScratchLane } from './slots.ts'

/** Walks for some queries that all end alike; each ignores the slot that its query was read from. */
export interface SampleWalks {
  readonly queries: readonly ScanQuery[]
  readonly hidden: readonly number[]
  readonly ef: number
  readonly end: WalkEnd
}

/** For how many queries there was a walk, and how many slots these walks compared. */
export interface WalksDone {
  readonly walked: number
  readonly compared: number
}

/**
 * One thread's access to one graph of one segment. Concurrency: searches may run at any time; `link` may run
 * concurrently with links and repairs of other threads; `repair` may run concurrently with repairs of other ranges;
 * `release` must run alone, except for searches.
 */
export class GraphAccess {
  readonly #segment: SegmentHandle
  readonly #graph: number
  readonly #kernels: KernelExports
  readonly #lane: ScratchLane
  readonly #columns: SlotColumns
  readonly #reader: RowReader | undefined
  /** Shared with all threads; see `WalkEnd`. */
  readonly #reaches: Float32Array
  /** The distance kind used to select links. */
  readonly distanceKind: number

  /** @param thread the number of this thread's own lane of scratch */
  constructor(segment: SegmentHandle, kernels: KernelModule, thread: number, graph: number) {
    this.#segment = segment
    this.#graph = graph
    this.#kernels = instantiateKernels(kernels, segment.memory)
    const { layout } = segment
    this.#lane = new ScratchLane(segment, thread)
    const { lane, graphs } = layout
    this.#kernels.attachGraph(
      graphs[graph]!.header,
      this.#lane.address + lane.graph,
      this.#lane.address + lane.beam,
      this.#lane.address + lane.visited,
    )
    this.#columns = new SlotColumns(segment)
    this.#reaches = new GraphState(segment, graph).reaches
    this.#reader = segment.rowFile && new RowReader(segment)
    this.distanceKind = distanceKindOf(graphDistanceMetrics[graph]!, layout)
  }

  /** Closes the row file if it is open. */
  close(): void {
    this.#reader?.[Symbol.dispose]()
  }

  /**
   * Searches the graph and the waiting slots. Returns the nearest in ascending order of (distance, sequence).
   *
   * @param hidden a slot of any segment that the search ignores
   * @param filter limits the search to matching slots; `hasGivenUp` then shows whether the walk gave up
   */
  search(query: ScanQuery, ef: number, distanceKind: number, hidden?: number, filter?: WalkFilter): Hits {
    const breadth = ef / this.#wanted(query, ef)
    if (filter === undefined) {
      return this.#search(query, ef, walkEnd(this.#reaches, distanceKind, ef, breadth), distanceKind, hidden)
    }
    this.#kernels.setFilter(filter.bitmap, Math.min(filter.comparedMax, comparedLimit))
    try {
      return this.#search(query, ef, poolEnd(distanceKind, ef, breadth), distanceKind, hidden)
    } finally {
      // Everything else that this thread does with the graph must run without a filter.
      this.#kernels.setFilter(0, comparedLimit)
    }
  }

  /** Walks for one query after the other until it is over, at least for one, and returns what that cost. */
  walk({ queries, hidden, ef, end }: SampleWalks, distanceKind: number, isOver: () => boolean): WalksDone {
    let [walked, compared] = [0, 0]
    do {
      this.#search(queries[walked]!, ef, end, distanceKind, hidden[walked])
      compared += this.work.compared
      walked += 1
    } while (walked < queries.length && !isOver())
    return { walked, compared }
  }

  /** Number of slots that the last search compared, and how many of them it measured exactly. */
  get work(): { readonly compared: number; readonly measured: number } {
    return { compared: this.#kernels.comparedCount(), measured: this.#kernels.measuredCount() }
  }

  /** Whether the last search with a filter ended because a scan of the matching slots is cheaper. */
  get hasGivenUp(): boolean {
    return this.#kernels.hasGivenUp() !== 0
  }

  /**
   * Returns the number of nearest slots that a walk must find. If codes cannot express the metric, any reranked entry may
   * turn out to be the nearest.
   */
  #wanted({ metric, k }: ScanQuery, ef: number): number {
    return isExpressed(metric, this.#segment.layout) ? k : rerankOf(k, ef)
  }

  #search(
    { vector, metric, k }: ScanQuery,
    ef: number,
    { width, reach }: WalkEnd,
    distanceKind: number,
    hidden: number | undefined,
  ): Hits {
    const { layout } = this.#segment
    const { address } = this.#lane
    this.#lane.placeQuery(address, vector)
    const norm = this.#kernels.dot64(address, address, layout.paddedDimension)
    const pool = address + layout.lane.pool
    const query = {
      metric: distanceMetrics.indexOf(metric),
      norm,
      distanceKind,
      width,
      wanted: this.#wanted({ vector, metric, k }, ef),
      reach,
      rerank: rerankOf(k, ef),
      pool,
      k,
      hidden: this.#localOf(hidden),
    }
    const count = layout.rows === 0 ? this.#searchOnDisk(query) : this.#searchInMemory(query)
    this.#kernels.sortPool(pool, k, count)
    return this.#lane.hitsOf(pool, k, count)
  }

  /**
   * Scans the codes of the matching slots below `to`, and measures the `breadth` nearest by code exactly, as far as
   * needed. Returns the nearest in ascending order of (distance, sequence). `distanceKind` must use codes.
   *
   * @param isCancelled called every few milliseconds; once it returns true, the hits found so far are returned
   */
  scanCodes(
    { vector, metric, k }: ScanQuery,
    { breadth, distanceKind, bitmap, to }: CodeScan,
    isCancelled: () => boolean,
  ): Hits {
    const { layout } = this.#segment
    const { address } = this.#lane
    this.#lane.placeQuery(address, vector)
    const norm = this.#kernels.dot64(address, address, layout.paddedDimension)
    const pool = address + layout.lane.pool
    const metricNumber = distanceMetrics.indexOf(metric)
    let count = 0
    this.#kernels.setFilter(bitmap, comparedLimit)
    try {
      this.#kernels.beginCodeScan(metricNumber, distanceKind, address, norm, breadth)
      for (let at = 0; at < to && !isCancelled(); at += slotsPerScan) {
        const end = Math.min(to, at + slotsPerScan)
        count = this.#kernels.scanCodes(metricNumber, address, norm, at, end, breadth, pool, k, count)
      }
      if (layout.rows === 0) count = this.#rerankFromDisk({ metric: metricNumber, norm, pool, k }, count)
      else count = this.#kernels.finishCodeScan(metricNumber, address, norm, pool, k, count)
    } finally {
      this.#kernels.setFilter(0, comparedLimit)
    }
    this.#kernels.sortPool(pool, k, count)
    return this.#lane.hitsOf(pool, k, count)
  }

  #localOf(slot: number | undefined): number {
    const { firstSlot, layout } = this.#segment
    return slot !== undefined && slot >= firstSlot && slot < firstSlot + layout.capacity
      ? slot - firstSlot
      : -1
  }

  #searchInMemory({ metric, distanceKind, norm, width, reach, rerank, pool, k, hidden }: GraphQuery): number {
    const { address } = this.#lane
    return this.#kernels.searchGraph(
      metric,
      distanceKind,
      address,
      norm,
      width,
      reach,
      rerank,
      pool,
      k,
      hidden,
    )
  }

  /** Walks on codes, then reads the rows of the nearest from disk. */
  #searchOnDisk(query: GraphQuery): number {
    const { metric, distanceKind, norm, width, wanted, reach, rerank, hidden } = query
    this.#kernels.walkGraph(
      metric,
      distanceKind,
      this.#lane.address,
      norm,
      width,
      reach,
      rerank,
      wanted,
      hidden,
    )
    return this.#rerankFromDisk(query, 0)
  }

  /**
   * Measures the walk's candidates with rows from disk. Reads a sequence before its row, as `scan` of the kernels does.
   */
  #rerankFromDisk(
    { metric, norm, pool, k }: Pick<GraphQuery, 'metric' | 'norm' | 'pool' | 'k'>,
    found: number,
  ): number {
    const { memory, layout } = this.#segment
    const { nextToRerank, offerRow } = this.#kernels
    const { address } = this.#lane
    const { sequences } = this.#columns
    const n = layout.paddedDimension
    const at = address + layout.lane.block
    const row = new Float32Array(memory.buffer, at, n)
    let count = found
    for (let slot = nextToRerank(pool, k, count); slot >= 0; slot = nextToRerank(pool, k, count)) {
      const sequence = sequences[slot]!
      this.#reader!.read(slot, 1, row, n)
      count = offerRow(metric, address, norm, at, sequence, slot, pool, k, count)
    }
    return count
  }

  /**
   * Links local slots, except those that are no longer live.
   *
   * @param distanceKind used to select links
   * @param isOver called after each slot; once it returns true, the remaining slots are left
   * @returns the number of processed slots
   */
  link(
    slots: Iterable<number>,
    distanceKind: number = this.distanceKind,
    isOver: () => boolean = () => false,
  ): number {
    const { m } = this.#segment.layout
    let done = 0
    for (const slot of slots) {
      if (this.#columns.isLive(slot)) this.#kernels.insertSlot(slot, levelOf(slot, m), distanceKind)
      done += 1
      if (isOver()) break
    }
    return done
  }

  /**
   * Repairs the lists of slots [from, to) that contain a leaving slot.
   *
   * @param isOver called after every few lists; once it returns true, the remaining slots are left
   * @returns the slot to continue from; `to` when all are repaired
   */
  repair(from: number, to: number, distanceKind: number, isOver: () => boolean): number {
    let at = from
    while (at < to) {
      at = this.#kernels.repairRange(at, Math.min(to, at + slotsPerLook), distanceKind, listsPerLook)
      if (isOver()) break
    }
    return at
  }

  /** Makes leaving slots absent. Every range must have been repaired. */
  release(): void {
    this.#kernels.releaseLeaving()
  }

  /**
   * Reconnects unreachable slots. Most of them can be reached from a few others. Once one of those has a link, the
   * slots behind it need no new link.
   *
   * @param scan the scan that found the slots; it is updated
   * @param isOver called after each slot; once it returns true, the remaining slots are left
   * @returns the number of processed slots, and how many of them got a link
   */
  reconnect(
    slots: readonly number[],
    scan: ReachScan,
    distanceKind: number,
    isOver: () => boolean,
  ): { readonly seen: number; readonly linked: number } {
    let seen = 0
    let linked = 0
    for (const slot of slots) {
      if (!reachAll(this.#segment, this.#graph, scan, isOver)) break
      if (scan.reached[slot] === 0) {
        linked += this.#kernels.reconnect(slot, distanceKind)
        reach(scan, slot)
      }
      seen += 1
      if (isOver()) break
    }
    return { seen, linked }
  }

  /** Encodes slots whose rows are in memory, as `link` does. */
  encode(slots: readonly number[]): void {
    if (this.#segment.layout.codeBytes === 0) return
    for (const slot of slots) this.#kernels.encodeSlot(slot)
  }

  /** Returns the distances from a slot to others by a distance kind, in float32. */
  distances(slot: number, others: readonly number[], distanceKind: number): Float32Array {
    const { memory, layout } = this.#segment
    const list = this.#lane.address + layout.lane.pool
    const most = Math.floor(layout.lane.poolBytes / 8)
    const found = new Float32Array(others.length)
    for (let at = 0; at < others.length; at += most) {
      const some = others.slice(at, at + most)
      new Uint32Array(memory.buffer, list, some.length).set(some)
      const out = list + 4 * some.length
      this.#kernels.distancesFrom(slot, distanceKind, list, some.length, out)
      found.set(new Float32Array(memory.buffer, out, some.length), at)
    }
    return found
  }

  /** Returns the exact (float64) distance of two slots whose rows are in memory. */
  exactDistance(a: number, b: number, metric: Metric): number {
    return this.#kernels.exactDistance(distanceMetrics.indexOf(metric), a, b)
  }
}

/** Slots checked and lists repaired between two calls of `isOver`, which takes a few tenths of a millisecond. */
const slotsPerLook = 1024
const listsPerLook = 4

/** The limits of a walk with a filter. */
interface WalkFilter {
  /** The address of the bitmap of matching slots. */
  readonly bitmap: number
  /** The walk gives up once it has compared more slots. */
  readonly comparedMax: number
}

/** The parameters of a scan of a segment by codes. */
interface CodeScan {
  /** Number of slots nearest by code that are candidates for exact measurement. */
  readonly breadth: number
  readonly distanceKind: number
  /** The address of the bitmap of matching slots. */
  readonly bitmap: number
  /** One more than the last slot to scan. */
  readonly to: number
}

/** Scanning this many codes takes a few milliseconds if all slots match. */
const slotsPerScan = 32_768

/** The greatest i32: no limit. */
const comparedLimit = 0x7fff_ffff

interface GraphQuery {
  readonly metric: number
  /** Squared norm of the query. */
  readonly norm: number
  readonly distanceKind: number
  /** The most entries of the walk's pool. */
  readonly width: number
  /** The k of the walk, which stops beyond `reach` x the k-th distance; see `beam` of the kernels. */
  readonly wanted: number
  readonly reach: number
  readonly rerank: number
  readonly pool: number
  readonly k: number
  /** A local slot, or -1. */
  readonly hidden: number
}

/** Returns how many of a walk's nearest slots are measured exactly at most. */
function rerankOf(k: number, ef: number): number {
  return Math.min(ef, k + Math.max(rerankMin, ef >> 2))
}

/** At least this many candidates beyond k are reranked, because codes order near candidates only roughly. */
const rerankMin = 32

/**
 * Returns the highest level of a slot's node. Levels have a geometric distribution with ratio 1/m, as in Malkov and
 * Yashunin (arXiv:1603.09320, section 4). The level depends on the slot alone, so that a reused slot keeps its upper
 * lists.
 */
export function levelOf(slot: number, m: number): number {
  return Math.min(levelMax, Math.floor(-Math.log(uniform(slot)) / Math.log(m)))
}

const levelMax = 15

/** Returns a pseudo-random number in (0, 1], by the finalizer of MurmurHash3. */
function uniform(slot: number): number {
  let hash = Math.imul(slot ^ (slot >>> 16) ^ 0x9e3779b9, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (((hash ^ (hash >>> 16)) >>> 0) + 1) / 4294967296
}

/**
 * Measures how far walks of a distance kind must reach, and writes it where they read it when all is measured.
 *
 * @param k the results of a query
 * @param comparedBy returns how many slots the walks of a sample compare; undefined ends the measurement
 */
export async function measureReaches(
  { segment, graph, distanceKind }: { segment: SegmentHandle; graph: number; distanceKind: number },
  { metric, k }: { metric: Metric; k: number },
  comparedBy: (ef: number, end: WalkEnd) => Promise<number | undefined>,
): Promise<void> {
  // The breadth of a walk is then not ef / k, and the reaches are those of the metric that the codes express.
  if (!isExpressed(metric, segment.layout)) return
  const measured: number[] = []
  for (const breadth of measuredBreadths) {
    const ef = k * breadth
    const pool = poolEnd(distanceKind, ef, breadth)
    const wanted = await comparedBy(ef, pool)
    let [low, high] = [1, pool.reach]
    for (let step = 0; step < bisections; step += 1) {
      const reach = (low + high) / 2
      const compared = await comparedBy(ef, reachEnd(ef, reach))
      if (wanted === undefined || compared === undefined) return
      if (compared > wanted) high = reach
      else low = reach
    }
    measured.push(low)
  }
  new GraphState(segment, graph).reaches.set(measured, distanceKind * measuredBreadths.length)
}

/** The reach is then known to a hundredth of what it exceeds 1 by. */
const bisections = 7
