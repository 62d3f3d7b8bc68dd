import { assert } from '../base/errors.ts'
import { distanceMetrics, type Metric } from '../base/point.ts'
import { instantiateKernels, type KernelExports, type KernelModule } from '../kernels/wasm-module.ts'
import type { Hits } from './hits.ts'
import { blockBytes, poolEntryBytes, queriesPerScanMax, type SegmentHandle } from './segment.ts'
import { RowReader, ScratchLane } from './slots.ts'

/** One query of a scan. `k` is at most `foundMax` of the segment's MAX_LIMIT. */
export interface ScanQuery {
  readonly vector: Float32Array
  readonly metric: Metric
  readonly k: number
}

/**
 * The exact scan of one segment by one thread. Several queries scan the rows together, one block of rows at a time.
 * A scan is bound by memory bandwidth, and a block that one query has brought into the cache serves all queries.
 *
 * Call `begin`, then `scanRange` any number of times, then `finish`. Check for cancellation between the ranges.
 */
export class FlatScanner {
  readonly #segment: SegmentHandle
  readonly #kernels: KernelExports
  readonly #lane: ScratchLane
  readonly #reader: RowReader | undefined
  #running: Running[] = []
  #filter = 0

  /** @param thread the number of this thread's own lane of scratch */
  constructor(segment: SegmentHandle, kernels: KernelModule, thread: number) {
    this.#segment = segment
    this.#kernels = instantiateKernels(kernels, segment.memory)
    this.#kernels.attachColumns(segment.layout.graphs[0]!.header)
    this.#lane = new ScratchLane(segment, thread)
    this.#reader = segment.rowFile && new RowReader(segment)
  }

  /** Closes the row file if it is open. */
  close(): void {
    this.#reader?.[Symbol.dispose]()
  }

  /** Whether these queries fit into one scan: there are few enough, and their pools fit into the lane. */
  fits(queries: readonly ScanQuery[]): boolean {
    const poolBytes = queries.reduce((sum, { k }) => sum + poolSize(k), 0)
    return queries.length <= queriesPerScanMax && poolBytes <= this.#poolBytes
  }

  /**
   * Begins a scan.
   *
   * @param filter the address of the bitmap of the slots to scan; 0 for all slots
   */
  begin(queries: readonly ScanQuery[], filter = 0): void {
    assert(this.fits(queries), 'the queries of a scan fit into its lane')
    const { layout } = this.#segment
    this.#filter = filter
    this.#kernels.setFilter(filter, comparedMax)
    let pool = this.#lane.address + layout.lane.pool
    this.#running = queries.map(({ vector, metric, k }, index) => {
      const query = this.#lane.address + index * layout.rowBytes
      this.#lane.placeQuery(query, vector)
      const running = {
        metric: distanceMetrics.indexOf(metric),
        query,
        norm: this.#kernels.dot64(query, query, layout.paddedDimension),
        pool,
        k,
        count: 0,
      }
      pool += poolSize(k)
      return running
    })
  }

  /** Offers the live slots of [from, to), local to the segment, to every query's pool. */
  scanRange(from: number, to: number): void {
    const { layout } = this.#segment
    // Matching slots are sparse, so a whole range serves as one block.
    const isSparse = this.#filter !== 0 && layout.rows !== 0
    const step = isSparse ? to - from : Math.max(1, Math.floor(blockBytes / layout.rowBytes))
    for (let block = from; block < to; block += step) this.#scanBlock(block, Math.min(block + step, to))
  }

  #scanBlock(from: number, to: number): void {
    const { layout } = this.#segment
    const matching = this.#filter === 0 ? to - from : this.#kernels.countMatching(from, to)
    if (matching === 0) return
    if (layout.rows === 0 && matching * readRowsFactor < to - from) this.#scanSingly(from, to)
    else this.#scanRows(layout.rows === 0 ? this.#readBlock(from, to) : layout.rows, from, to)
  }

  /** Reads the rows of the matching slots one by one. */
  #scanSingly(from: number, to: number): void {
    for (let slot = from; slot < to; slot += 1) {
      if (this.#kernels.countMatching(slot, slot + 1) === 1) {
        this.#scanRows(this.#readBlock(slot, slot + 1), slot, slot + 1)
      }
    }
  }

  /** @param rows the address of row 0, or where it would be */
  #scanRows(rows: number, from: number, to: number): void {
    const scan = this.#filter === 0 ? this.#kernels.scan : this.#kernels.scanMatching
    for (const running of this.#running) {
      running.count = scan(
        running.metric,
        running.query,
        running.norm,
        rows,
        from,
        to,
        running.pool,
        running.k,
        running.count,
      )
    }
  }

  /** Reads rows from disk. Returns the address that row 0 would have if the preceding rows were in memory too. */
  #readBlock(from: number, to: number): number {
    const { memory, layout } = this.#segment
    const at = this.#lane.address + layout.lane.block
    const reader = this.#reader!
    for (let slot = from; slot < to; slot += reader.rowsPerRead) {
      const count = Math.min(reader.rowsPerRead, to - slot)
      const target = new Float32Array(
        memory.buffer,
        at + (slot - from) * layout.rowBytes,
        count * layout.paddedDimension,
      )
      reader.read(slot, count, target, layout.paddedDimension)
    }
    return at - from * layout.rowBytes
  }

  /**
   * Returns the hits of each query, one list a query, with slot numbers of the whole index. Valid until this thread next
   * searches the segment.
   */
  finish(): Hits[] {
    return this.#running.map(({ pool, k, count }) => {
      this.#kernels.sortPool(pool, k, count)
      return this.#lane.hitsOf(pool, k, count)
    })
  }

  get #poolBytes(): number {
    return this.#segment.layout.lane.poolBytes
  }
}

/** Reading one row alone costs as much as reading this many rows of a block, because of the system call. */
const readRowsFactor = 8

/** A scan has no limit of comparisons. */
const comparedMax = 0x7fff_ffff

interface Running {
  readonly metric: number
  readonly query: number
  readonly norm: number
  readonly pool: number
  readonly k: number
  count: number
}

/** Pools start at 8-byte boundaries. */
function poolSize(k: number): number {
  return Math.ceil((k * poolEntryBytes) / 8) * 8
}
