import type { Hit } from '../../../src/index/hits.ts'
import type { Route } from '../../../src/index/routes.ts'
import { type IndexQuery, noWork, type QueryWork, type Searcher } from '../../../src/index/searcher.ts'
import { efMax } from '../../../src/index/segment.ts'
import type { SlotBits } from '../../../src/index/slot-filter.ts'
import { loadKernels } from '../../../src/kernels/wasm-module.ts'
import type { MatchingRows } from '../../shared/data/matching-rows.ts'
import { rowsOf } from '../../shared/data/rows.ts'
import { type IndexingOptions, VicinalIndex } from '../../shared/vicinal-index.ts'
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
} from './contender.ts'
import { type FilteredAnswer, type FilteredRequest, timedQueries } from './filtered.ts'
import { SearchThreads } from './search-threads.ts'
import type { Lever } from './vicinal-levers.ts'
import type { VicinalSearch } from './vicinal-worker.ts'

const common: Pick<Description, 'version' | 'searchThreads' | 'distanceMetrics'> = {
  version: 'this working tree',
  searchThreads: 'threads that search one index by themselves, as the service does',
  distanceMetrics: ['Euclidean', 'Cosine', 'Manhattan', 'Hamming'],
}

/** The service's index: its index threads build it, and its searcher answers, with one call per query. */
export const vicinal: ContenderVariant = {
  description: {
    ...common,
    flags:
      'WebAssembly with relaxed SIMD, graph on codes of 4 or 7 bits as usual at the dimension, the best re-ranked with float32 and float64',
    buildThreads: 'any',
  },
  create: () => new Vicinal('graph'),
}

/** The same with a given kernel build and code width. */
export function vicinalWith(lever: Lever): ContenderVariant {
  return {
    description: { ...common, flags: `graph, ${lever.title}`, buildThreads: 'any' },
    create: () => new Vicinal('graph', lever),
  }
}

/** The exact scan, which the service uses for collections that are too small for a graph. */
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
  readonly #bits = new WeakMap<MatchingRows, SlotBits>()
  #bitmaps = 0
  #request!: Omit<BuildRequest, 'vectors'>
  #index!: VicinalIndex
  #searcher!: Searcher
  #threads: SearchThreads<VicinalSearch> | undefined

  constructor(way: 'graph' | 'scan', lever?: Lever) {
    this.#way = way
    this.#lever = lever
  }

  async build(request: BuildRequest): Promise<BuildAnswer> {
    const { vectors, ...rest } = request
    this.#request = rest
    const { dimension, m, efConstruction, threads, count } = request
    const kernels = loadKernels(this.#lever?.variant, this.#lever?.isWide)
    const maxLimit = request.attributes === undefined ? usualLimit : efMax
    const options = { kernels, dimension, m, efConstruction, maxLimit, codeBits: this.#lever?.codeBits }
    const rows = rowsOf(vectors, dimension)
    const seconds = await timed(async () => {
      this.#index = new VicinalIndex(options)
      this.#index.reserve(count)
      if (this.#way === 'graph') this.#index.startIndexing({ ...indexing, threads })
      for (const [id, row] of rows.entries()) this.#place(row, id)
      if (this.#way === 'scan') return
      await this.#index.caughtUp()
      await this.#index.stopIndexing()
    })
    this.#searcher = this.#index.createSearcher()
    return { seconds }
  }

  async search({ queries, k, ef, threads }: SearchRequest): Promise<SearchAnswer> {
    const { dimension, metric } = this.#request
    const route = this.#route()
    if (threads === 1) {
      const rows = rowsOf(queries, dimension)
      return this.#searchAlone(
        rows.map((vector): IndexQuery => ({ vector, metric, k, ef, route })),
        k,
      )
    }
    if (this.#threads?.count !== threads) {
      await this.#threads?.close()
      const setups = Array.from({ length: threads }, (_, thread) => {
        return { ...this.#index.searcherSetup(1 + thread), dimension }
      })
      this.#threads = new SearchThreads(new URL('./vicinal-worker.ts', import.meta.url), setups)
    }
    const { ranges } = this.#index
    const { ids: slots, seconds } = await this.#threads.search(queries, { metric, k, ef, route, ranges })
    return { ids: slots.map((slot) => (slot === noId ? noId : this.#idOfSlot[slot]!)), seconds }
  }

  /**
   * Searches without the engine and its planner. `scan` searches the matching slots exactly. `walk` searches the graph
   * and excludes other slots from the results. `post` runs an unfiltered search for `ef` results and keeps those that
   * match.
   */
  async searchFiltered({ queries, matching, k, ef, mode }: FilteredRequest): Promise<FilteredAnswer> {
    const { dimension, metric } = this.#request
    const route = mode === 'scan' ? undefined : this.#route()
    const rows = rowsOf(queries, dimension)
    const wanted = rows.map((_, query) => matching(query))
    const asked = rows.map((vector, query): IndexQuery & { readonly work: QueryWork } => {
      const common = { vector, metric, ef, route, work: noWork() }
      if (mode === 'post') return { ...common, k: ef }
      const limit = Math.max(1, Math.min(k, wanted[query]!.count))
      return { ...common, k: limit, matching: this.#bitsOf(wanted[query]!) }
    })
    const { ranges } = this.#index
    const search = (query: number): Uint32Array => {
      if (wanted[query]!.count === 0) return new Uint32Array()
      const hits = this.#searcher.search([asked[query]!], ranges, () => false).list(0)
      return this.#matchingIds(hits!, mode === 'post' ? wanted[query]! : undefined, k)
    }
    const found = await timedQueries(asked.length, k, search, (ids) => ids)
    const profiles = asked.map(({ work: { compared, hasGivenUp } }) => {
      return { plan: hasGivenUp ? `${mode}, then scan` : mode, compared }
    })
    return { ...found, profiles }
  }

  #matchingIds(hits: readonly Hit[], matching: MatchingRows | undefined, k: number): Uint32Array {
    const ids = new Uint32Array(Math.min(k, hits.length))
    let count = 0
    for (const { slot } of hits) {
      const id = this.#idOfSlot[slot]!
      if (matching !== undefined && matching.isMatching[id] === 0) continue
      ids[count] = id
      count += 1
      if (count === k) break
    }
    return ids.subarray(0, count)
  }

  /** The bitmap of the slots of rows, cached while the same rows are used. */
  #bitsOf(rows: MatchingRows): SlotBits {
    const known = this.#bits.get(rows)
    if (known !== undefined) return known
    const words = new Uint32Array(new SharedArrayBuffer(Math.ceil(rows.isMatching.length / 32) * 4))
    for (const [id, isMatching] of rows.isMatching.entries()) {
      const slot = this.#slotOfId[id]!
      if (isMatching === 1) words[slot >>> 5]! |= 1 << (slot & 31)
    }
    this.#bitmaps += 1
    const bits: SlotBits = { id: this.#bitmaps, version: 1, words }
    this.#bits.set(rows, bits)
    return bits
  }

  /** Works as in the service: marks the points as removed, repairs the links to them and reuses their slots. */
  async reinsert(ids: Uint32Array, vectors: Float32Array): Promise<void> {
    const { threads, dimension } = this.#request
    if (!this.#index.isIndexing) this.#index.startIndexing({ ...indexing, threads })
    for (const id of ids) this.#index.remove(this.#slotOfId[id]!)
    for (const [place, row] of rowsOf(vectors, dimension).entries()) this.#place(row, ids[place]!)
    await this.#index.caughtUp()
  }

  ownBytes(): number {
    return this.#index.memoryBytes
  }

  async close(): Promise<void> {
    await this.#threads?.close()
    await this.#index.stopIndexing()
  }

  #searchAlone(asked: readonly IndexQuery[], k: number): SearchAnswer {
    const ids = new Uint32Array(asked.length * k).fill(noId)
    const { ranges } = this.#index
    const start = process.hrtime.bigint()
    for (const [place, query] of asked.entries()) {
      const hits = this.#searcher.search([query], ranges, () => false).list(0)
      for (const [rank, { slot }] of hits!.entries()) ids[place * k + rank] = this.#idOfSlot[slot]!
    }
    return { ids, seconds: Number(process.hrtime.bigint() - start) / 1e9 }
  }

  #place(row: Float32Array, id: number): void {
    const slot = this.#index.place(row)
    this.#idOfSlot[slot] = id
    this.#slotOfId[id] = slot
  }

  #route(): Route | undefined {
    return this.#way === 'scan' ? undefined : this.#index.cheapestRoute(this.#request.metric)
  }
}

const usualLimit = 1024

const indexing: Omit<IndexingOptions, 'threads'> = {
  // A negative value keeps the indexer from counting as caught up. Otherwise it would measure its recall, which is not
  // part of a build.
  maxUnindexedBytes: -1,
  recallTarget: 0.98,
  hnswEf: 128,
  graphBytesMin: 0,
}
