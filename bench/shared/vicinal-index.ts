import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLogger } from '../../src/base/log.ts'
import type { Metric } from '../../src/base/point.ts'
import { IndexThreadPool } from '../../src/graphs/index-thread-pool.ts'
import { Indexer, type IndexerOptions } from '../../src/graphs/indexer.ts'
import { type Route, routesFor } from '../../src/index/routes.ts'
import { rangesOf, Searcher, type SlotRange } from '../../src/index/searcher.ts'
import type { CodeBits, SegmentHandle } from '../../src/index/segment.ts'
import { VectorIndex } from '../../src/index/vector-index.ts'
import type { KernelModule } from '../../src/kernels/wasm-module.ts'
import { SlotAllocator } from '../../src/points/point-table.ts'

export interface IndexOptions {
  readonly kernels: KernelModule
  readonly dimension: number
  readonly m: number
  readonly efConstruction: number
  /** The maximum number of results per query. */
  readonly maxLimit: number
  /** Undefined for the service's default at the dimension. */
  readonly codeBits?: CodeBits | undefined
}

export type IndexingOptions = Pick<
  IndexerOptions,
  'maxUnindexedBytes' | 'recallTarget' | 'hnswEf' | 'graphBytesMin'
> & { readonly threads: number }

/** The data that a thread needs to search. It can be posted to a worker. */
export interface SearcherSetup {
  readonly kernels: KernelModule
  /** The scratch memory of the thread: 0 for the main thread, 1 to the number of cores for the others. */
  readonly lane: number
  readonly segments: readonly SegmentHandle[]
}

const cores = availableParallelism()
const logger = createLogger({ level: 'warn', pretty: false })

/**
 * Vicinal's index in memory, without a store or a server. This is the only file of the benchmarks that constructs parts
 * of the engine. It assembles them as the engine does.
 *
 *   startIndexing ──> place, remove ──> caughtUp ──> stopIndexing
 *
 * Without `startIndexing`, points are placed but never linked, so searches must scan.
 */
export class VicinalIndex {
  readonly #kernels: KernelModule
  readonly #index: VectorIndex
  readonly #slots: SlotAllocator = new SlotAllocator(0)
  #indexer: Indexer | undefined
  #indexThreads: IndexThreadPool | undefined
  #sequence = 0

  constructor(options: IndexOptions) {
    this.#kernels = options.kernels
    // Lanes of scratch memory: the main thread, search threads, index threads.
    this.#index = new VectorIndex({ ...options, maxThreads: 1 + 2 * cores })
  }

  get memoryBytes(): number {
    return this.#index.memoryBytes
  }

  /** All slots in use, for an exact scan. */
  get ranges(): SlotRange[] {
    return rangesOf(this.#index.segments, this.#index.slotCount)
  }

  /** Allocates memory for the given number of points. */
  reserve(count: number): void {
    this.#index.reserve(count)
  }

  /** Starts index threads. They link points that are placed from now on, and write no files. */
  startIndexing(options: IndexingOptions): void {
    this.#indexThreads = new IndexThreadPool(this.#kernels, options.threads, 1 + cores)
    this.#indexer = new Indexer({
      ...options,
      threads: this.#indexThreads,
      directory: undefined,
      logger,
      moment: () => undefined,
      ids: () => [],
      onFree: (slot) => this.#slots.release(slot),
    })
    this.#indexer.attach(this.#index)
  }

  get isIndexing(): boolean {
    return this.#indexer !== undefined
  }

  /** @returns the slot of the point */
  place(row: Float32Array): number {
    const slot = this.#slots.take()
    this.#index.place(slot, row, this.#sequence)
    this.#sequence += 1
    this.#indexer?.inserted(slot)
    return slot
  }

  remove(slot: number): void {
    this.#index.remove(slot)
    this.#indexer?.removed(slot)
  }

  /** Resolves when all points are linked and the slots of removed points are free. */
  async caughtUp(): Promise<void> {
    const indexer = this.#indexer!
    while (indexer.unindexed > 0 || indexer.tombstones > 0) await sleep(1)
  }

  async stopIndexing(): Promise<void> {
    await this.#indexer?.close()
    await this.#indexThreads?.close()
    this.#indexer = undefined
  }

  /** The cheapest graph search, regardless of its recall. */
  cheapestRoute(metric: Metric): Route | undefined {
    return routesFor(metric, this.#index.layout, [true, false])[0]
  }

  /** The service's search, which the indexer chooses by measuring recall. Undefined for an exact scan. */
  async chosenRoute(metric: Metric): Promise<Route | undefined> {
    const indexer = this.#indexer!
    while (indexer.isSettling) await sleep(10)
    // It is known shortly after everything is linked. An index that is too small for a graph has none.
    for (let round = 0; round < 100 && indexer.route(metric) === undefined; round += 1) await sleep(20)
    return indexer.route(metric)
  }

  /** Searches on the main thread, also in segments that are added later. */
  createSearcher(): Searcher {
    const searcher = createSearcher({ kernels: this.#kernels, lane: 0, segments: [] })
    this.#index.onSegment((segment) => searcher.attach(segment))
    return searcher
  }

  /** The setup for `createSearcher` on another thread. */
  searcherSetup(lane: number): SearcherSetup {
    return { kernels: this.#kernels, lane, segments: this.#index.segments }
  }
}

export function createSearcher({ kernels, lane, segments }: SearcherSetup): Searcher {
  const searcher = new Searcher(kernels, lane)
  for (const segment of segments) searcher.attach(segment)
  return searcher
}
