import type { Metric } from '../../../src/base/point.ts'
import type { AttributeTable } from '../../shared/data/attribute-table.ts'
import type { FilteredAnswer, FilteredRequest } from './filtered.ts'

export { noId } from './no-id.ts'

/**
 * The benchmark's interface to every library under test. Each contender runs in its own process (contender-process.ts)
 * and handles one request at a time. It measures only the work itself, so messages between processes do not count.
 */
export interface Contender {
  /** Builds an index of all vectors; the row number is the id. Called once, or `load` instead. */
  build(request: BuildRequest): Promise<BuildAnswer>

  /** The `k` nearest ids of each query, nearest first. Called many times, with any `ef` and thread count. */
  search(request: SearchRequest): Promise<SearchAnswer>

  /** Like `search`, but only over points that match filters, and one query after the other. */
  searchFiltered?(request: FilteredRequest): Promise<FilteredAnswer>

  /** Memory in bytes as the library itself reports it. */
  ownBytes?(): number

  /** Deletes the ids and inserts them again with the same vectors, so that the exact answers stay the same. */
  reinsert?(ids: Uint32Array, vectors: Float32Array): Promise<void>

  /** Writes the built index into its folder, so that a later run can skip the build (`--reuse`). */
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
  /** The attributes of the rows, for filtered searches; undefined if there will be none. */
  readonly attributes?: AttributeTable | undefined
  /** The number of threads to build with. A library that supports only one says so in `Description.buildThreads`. */
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
  /** `k` ids per query, filled with `noId` if fewer were found. */
  readonly ids: Uint32Array
  readonly seconds: number
}

/** The facts about a contender that the report prints, so that readers know what was compared. */
export interface Description {
  readonly version: string
  /** Compiler flags, instruction sets, metric and data type. */
  readonly flags: string
  readonly buildThreads: 'one' | 'any'
  /** How a search uses all cores. */
  readonly searchThreads: string
  /** The metrics that it can build for. */
  readonly distanceMetrics: readonly Metric[]
}

/** A contender's file exports one of these for each of its variants. */
export interface ContenderVariant {
  readonly description: Description
  /** @param folder an existing folder for this contender, kept between runs with `--reuse` */
  create(folder: string): Contender
}

/** The time that `work` takes, in seconds. */
export async function timed(work: () => void | Promise<void>): Promise<number> {
  const start = process.hrtime.bigint()
  await work()
  return Number(process.hrtime.bigint() - start) / 1e9
}
