import { availableParallelism } from 'node:os'
import { setTimeout } from 'node:timers/promises'
import { createLogger } from '../../../src/base/log.ts'
import { IndexThreadPool } from '../../../src/engine/index-thread-pool.ts'
import { Indexer } from '../../../src/engine/indexer.ts'
import { SlotAllocator } from '../../../src/engine/slot-allocator.ts'
import { type Route, routesFor } from '../../../src/index/graph.ts'
import { type IndexQuery, Searcher, type SlotRange } from '../../../src/index/searcher.ts'
import { VectorIndex } from '../../../src/index/vector-index.ts'
import { type KernelModule, loadKernels } from '../../../src/kernels/wasm-module.ts'
import {
  type BuildAnswer,
  type BuildRequest,
  type Contender,
  type ContenderVariant,
  type Description,
  noId,
  type SearchAnswer,
  type SearchRequest,
  timed,
} from '../contender.ts'
import { rowsOf } from './support.ts'
import type { Lever } from './vicinal-levers.ts'
import { VicinalThreads } from './vicinal-threads.ts'

const common: Pick<Description, 'version' | 'searchThreads' | 'metrics'> = {
  version: 'this working tree',
  searchThreads: "the service's search threads over one index",
  metrics: ['Euclidean', 'Cosine', 'Manhattan', 'Hamming'],
}

/** The service's index as it is: its indexer's threads build, its searcher answers, one call a query. */
export const vicinal: ContenderVariant = {
  description: {
    ...common,
    flags:
      'WebAssembly with relaxed SIMD, graph on codes of 4 or 7 bits as usual at the dimension, the best re-ranked with float32 and float64',
    buildThreads: 'any',
  },
  create: () => new Vicinal('graph'),
}

/** The same with a build of the kernels and a width of codes that are chosen. */
export function vicinalWith(lever: Lever): ContenderVariant {
  return {
    description: { ...common, flags: `graph, ${lever.title}`, buildThreads: 'any' },
    create: () => new Vicinal('graph', lever),
  }
}

/** Its exact scan, as collections that are too small for a graph are searched: the line to beat at any size. */
export const vicinalExact: ContenderVariant = {
  description: {
    ...common,
    flags: 'WebAssembly with relaxed SIMD, exact scan: float32 filters, float64 judges',
    buildThreads: 'one',
  },
  create: () => new Vicinal('scan'),
}

class Vicinal implements Contender {
  readonly #way: 'graph' | 'scan'
  readonly #lever: Lever | undefined
  readonly #idOfSlot: number[] = []
  readonly #slotOfId: number[] = []
  #kernels!: KernelModule
  #request!: Omit<BuildRequest, 'vectors'>
  #index!: VectorIndex
  #searcher!: Searcher
  #threads: VicinalThreads | undefined
  #slots!: SlotAllocator
  #indexThreads: IndexThreadPool | undefined
  #keeper: Indexer | undefined
  #sequence = 0

  constructor(way: 'graph' | 'scan', lever?: Lever) {
    this.#way = way
    this.#lever = lever
  }

  async build(request: BuildRequest): Promise<BuildAnswer> {
    const { vectors, ...rest } = request
    this.#request = rest
    const { dimension, m, efConstruction, threads, count } = request
    this.#kernels = loadKernels(this.#lever?.variant, this.#lever?.isWide)
    const maxThreads = 1 + 2 * searchThreadsMax
    const codeBits = this.#lever?.codeBits
    const sizes = { codeBits, dimension, m, efConstruction, maxThreads, maxLimit }
    const rows = rowsOf(vectors, dimension)
    const seconds = await timed(async () => {
      this.#index = new VectorIndex({ ...sizes, kernels: this.#kernels })
      this.#slots = new SlotAllocator(0)
      this.#index.reserve(count)
      if (this.#way === 'scan') return this.#placeAll(rows, () => undefined)
      const indexer = this.#indexer(threads)
      this.#placeAll(rows, (slot) => indexer.inserted(slot))
      while (indexer.unindexed > 0) await setTimeout(1)
      await this.#closeIndexer(indexer)
    })
    this.#searcher = new Searcher(this.#kernels, 0)
    this.#index.onSegment((segment) => this.#searcher.attach(segment))
    return { seconds }
  }

  async search({ queries, k, ef, threads }: SearchRequest): Promise<SearchAnswer> {
    const { dimension, metric } = this.#request
    const route = this.#route()
    const asked = rowsOf(queries, dimension).map((vector): IndexQuery => ({ vector, metric, k, ef, route }))
    if (threads === 1) return this.#searchAlone(asked, k)
    this.#threads ??= new VicinalThreads(threads, this.#kernels, this.#index, maxLimit)
    const { slots, seconds } = await this.#threads.search(asked, k)
    return { ids: slots.map((slot) => (slot === noId ? noId : this.#idOfSlot[slot]!)), seconds }
  }

  /** As the service does it: tombstones, then repaired links and slots that are used again. */
  async reinsert(ids: Uint32Array, vectors: Float32Array): Promise<void> {
    this.#keeper ??= this.#indexer(this.#request.threads)
    const keeper = this.#keeper
    for (const id of ids) {
      const slot = this.#slotOfId[id]!
      this.#index.remove(slot)
      keeper.removed(slot)
    }
    for (const [place, row] of rowsOf(vectors, this.#request.dimension).entries()) {
      keeper.inserted(this.#place(row, ids[place]!))
    }
    while (keeper.unindexed > 0 || keeper.tombstones > 0) await setTimeout(1)
  }

  ownBytes(): number {
    return this.#index.memoryBytes
  }

  async close(): Promise<void> {
    await this.#threads?.close()
    if (this.#keeper !== undefined) await this.#closeIndexer(this.#keeper)
  }

  #searchAlone(asked: readonly IndexQuery[], k: number): SearchAnswer {
    const ids = new Uint32Array(asked.length * k).fill(noId)
    const ranges = this.#ranges()
    const start = process.hrtime.bigint()
    for (const [place, query] of asked.entries()) {
      const [hits] = this.#searcher.search([query], ranges, () => false)
      for (const [rank, { slot }] of hits!.entries()) ids[place * k + rank] = this.#idOfSlot[slot]!
    }
    return { ids, seconds: Number(process.hrtime.bigint() - start) / 1e9 }
  }

  #placeAll(rows: readonly Float32Array[], placed: (slot: number) => void): void {
    for (const [id, row] of rows.entries()) placed(this.#place(row, id))
  }

  #place(row: Float32Array, id: number): number {
    const slot = this.#slots.take()
    this.#index.place(slot, row, this.#sequence)
    this.#sequence += 1
    this.#idOfSlot[slot] = id
    this.#slotOfId[id] = slot
    return slot
  }

  /**
   * Without files. The bound below nothing keeps it from ever having caught up, which is when it would measure
   * its recall: that is no part of a build.
   */
  #indexer(threads: number): Indexer {
    this.#indexThreads = new IndexThreadPool(this.#kernels, threads, 1 + searchThreadsMax)
    const indexer = new Indexer({
      threads: this.#indexThreads,
      directory: undefined,
      maxUnindexedBytes: -1,
      recallTarget: 0.98,
      hnswEf: 128,
      graphBytesMin: 0,
      logger: createLogger({ level: 'warn', pretty: false }),
      sequence: () => this.#sequence,
      onFree: (slot) => this.#slots.release(slot),
    })
    indexer.attach(this.#index)
    return indexer
  }

  async #closeIndexer(indexer: Indexer): Promise<void> {
    await indexer.close()
    await this.#indexThreads!.close()
  }

  #route(): Route | undefined {
    if (this.#way === 'scan') return undefined
    return routesFor(this.#request.metric, this.#index.layout, [true, false])[0]
  }

  #ranges(): SlotRange[] {
    const { slotCount, segments } = this.#index
    return segments.map(({ ordinal, firstSlot, layout }) => {
      return { ordinal, from: 0, to: Math.min(layout.capacity, slotCount - firstSlot) }
    })
  }
}

const maxLimit = 1024

/** Lanes of scratch that are set aside: as many again for the threads that build. */
const searchThreadsMax = availableParallelism()
