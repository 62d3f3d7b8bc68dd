import type { Metric } from '../../../src/base/point.ts'
import type { AttributeTable } from '../../shared/data/attribute-table.ts'
import type { FilteredAnswer, FilteredRequest } from './filtered.ts'

export { noId } from './no-id.ts'

/**
 * What every library under test looks like to the benchmark. A contender lives in a process of its own
 * (contender-process.ts) and is asked one thing at a time; the times it reports are its own, taken around
 * nothing but the work, so that messages between processes cost nothing.
 */
export interface Contender {
  /** Builds an index of all vectors; the row number is the id. Called once, or `load` instead. */
  build(request: BuildRequest): Promise<BuildAnswer>

  /** The `k` nearest ids of each query, nearest first. Called many times, with any `ef` and thread count. */
  search(request: SearchRequest): Promise<SearchAnswer>

  /** As `search`, of the points that match filters, one query after the other. */
  searchFiltered?(request: FilteredRequest): Promise<FilteredAnswer>

  /** Memory in bytes as the library itself reports it. */
  ownBytes?(): number

  /** Deletes the ids and inserts them again with the same vectors, so that the exact answers stay the same. */
  reinsert?(ids: Uint32Array, vectors: Float32Array): Promise<void>

  /** Writes the built index into its folder, so that a later run can leave out the build (`--reuse`). */
  save?(): Promise<void>

  /** Reads what `save` wrote, instead of building. */
  load?(request: Omit<BuildRequest, 'vectors'>): Promise<void>

  close(): Promise<void>
}

export interface BuildRequest {
  /** Row-major, `count * dimension` components. */
  readonly vectors: Float32Array
  readonly count: number
  readonly dimension: number
  readonly metric: Metric
  readonly m: number
  readonly efConstruction: number
  /** Of the rows, for searches with filters; undefined where there will be none. */
  readonly attributes?: AttributeTable | undefined
  /** Threads to build with; a library with only one says so in `Description.buildThreads`. */
  readonly threads: number
}

export interface BuildAnswer {
  readonly seconds: number
}

export interface SearchRequest {
  /** Row-major. */
  readonly queries: Float32Array
  readonly k: number
  readonly ef: number
  readonly threads: number
}

export interface SearchAnswer {
  /** `k` ids a query; `noId` where fewer were found. */
  readonly ids: Uint32Array
  readonly seconds: number
}

/** What the report prints about a contender, so that readers know what was compared. */
export interface Description {
  readonly version: string
  /** Compiler flags, instruction sets, metric and data type. */
  readonly flags: string
  readonly buildThreads: 'one' | 'any'
  /** How all cores are used by a search. */
  readonly searchThreads: string
  /** Those that it can build for. */
  readonly distanceMetrics: readonly Metric[]
}

/** A contender's file exports one of these for each of its variants. */
export interface ContenderVariant {
  readonly description: Description
  /** @param folder an existing folder of its own, kept between runs with `--reuse` */
  create(folder: string): Contender
}

/** Seconds that `work` takes. */
export async function timed(work: () => void | Promise<void>): Promise<number> {
  const start = process.hrtime.bigint()
  await work()
  return Number(process.hrtime.bigint() - start) / 1e9
}
