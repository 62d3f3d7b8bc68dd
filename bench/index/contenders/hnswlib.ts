import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { HierarchicalNSW } from 'hnswlib-node'
import { rowsOf } from '../../shared/data/rows.ts'
import {
  type BuildAnswer,
  type BuildRequest,
  type Contender,
  type ContenderVariant,
  type SearchAnswer,
  type SearchRequest,
  timed,
} from './contender.ts'
import { type FilteredAnswer, type FilteredRequest, timedQueries } from './filtered.ts'
import { type HnswlibSearch, type HnswlibSetup, openHnswlib, searchHnswlib } from './hnswlib-worker.ts'
import { versionOf } from './package-version.ts'
import { nativeVariable } from './registry.ts'
import { SearchThreads } from './search-threads.ts'

/**
 * hnswlib as installed by `npm install hnswlib-node`. It is compiled at install time with the flags of its binding.gyp.
 * These name no instruction set, so hnswlib uses its SSE kernels. The binding requires vectors as plain arrays, which
 * are created before the timed part.
 */
export const hnswlibNode: ContenderVariant = {
  description: {
    version: `hnswlib-node ${versionOf('hnswlib-node')} (hnswlib 0.8.0)`,
    flags:
      "-O3 without -march, so SSE kernels (node-gyp's and its binding.gyp's defaults), float32, space l2",
    buildThreads: 'one',
    searchThreads: 'worker threads, each with its own copy of the index: the binding has no threads',
    distanceMetrics: ['Euclidean'],
  },
  create: (folder) => new Hnswlib(folder, 'hnswlib-node'),
}

/**
 * The same package, compiled by the caller for this machine's own instruction set, as docs/decisions/benchmarks.md
 * describes. Its call cost is in the table, so that what hnswlib itself takes is known.
 *
 * @throws Error if the folder has no such package
 */
export function hnswlibNative(): ContenderVariant {
  const folder = process.env[nativeVariable]
  if (folder === undefined) throw new Error('hnswlib-native needs --native PATH')
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }
  return {
    description: {
      ...hnswlibNode.description,
      version: `hnswlib-node ${version} of --native`,
      flags: 'compiled outside the repository, for this machine, float32, space l2',
    },
    create: (files) => new Hnswlib(files, folder),
  }
}

class Hnswlib implements Contender {
  readonly #path: string
  readonly #library: string
  #index!: HierarchicalNSW
  #dimension = 0
  #isSaved = false
  #threads: SearchThreads<HnswlibSearch> | undefined

  /** @param library the package, or the folder of one */
  constructor(folder: string, library: string) {
    this.#path = join(folder, 'index.bin')
    this.#library = library
  }

  async build(request: BuildRequest): Promise<BuildAnswer> {
    const { vectors, count: maxElements, dimension, m, efConstruction } = request
    this.#open(dimension)
    let seconds = await timed(() =>
      this.#index.initIndex({ maxElements, m, efConstruction, randomSeed: 100 }),
    )
    for (let from = 0; from < maxElements; from += rowsAtOnce) {
      const rows = rowsOf(vectors.subarray(from * dimension, (from + rowsAtOnce) * dimension), dimension)
      const points = rows.map((row) => Array.from(row))
      seconds += await timed(() => {
        for (const [place, point] of points.entries()) this.#index.addPoint(point, from + place)
      })
    }
    return { seconds }
  }

  async search({ queries, k, ef, threads }: SearchRequest): Promise<SearchAnswer> {
    if (threads === 1) return searchHnswlib(this.#index, rowsOf(queries, this.#dimension), k, ef)
    await this.save()
    if (this.#threads?.count !== threads) {
      await this.#threads?.close()
      const setup: HnswlibSetup = { library: this.#library, path: this.#path, dimension: this.#dimension }
      const setups = new Array<HnswlibSetup>(threads).fill(setup)
      this.#threads = new SearchThreads(new URL('./hnswlib-worker.ts', import.meta.url), setups)
    }
    return this.#threads.search(queries, { k, ef })
  }

  /** Its walk calls our filter function for each point. The answers are precomputed to keep the call cheap. */
  async searchFiltered({ queries, matching, k, ef }: FilteredRequest): Promise<FilteredAnswer> {
    const points = rowsOf(queries, this.#dimension).map((row) => Array.from(row))
    const filters = points.map((_, query) => {
      const { isMatching } = matching(query)
      return (label: number): boolean => isMatching[label] === 1
    })
    this.#index.setEf(ef)
    return await timedQueries(
      points.length,
      k,
      (query) => this.#index.searchKnn(points[query]!, k, filters[query]!),
      ({ neighbors }) => neighbors,
    )
  }

  async save(): Promise<void> {
    if (this.#isSaved) return
    this.#index.writeIndexSync(this.#path)
    this.#isSaved = true
  }

  async load({ dimension }: Omit<BuildRequest, 'vectors'>): Promise<void> {
    this.#open(dimension)
    this.#index.readIndexSync(this.#path)
    this.#isSaved = true
  }

  async close(): Promise<void> {
    await this.#threads?.close()
  }

  #open(dimension: number): void {
    this.#dimension = dimension
    this.#index = openHnswlib(this.#library, dimension)
  }
}

/** A small number, so that the plain arrays do not affect the measured memory of the index. */
const rowsAtOnce = 200
