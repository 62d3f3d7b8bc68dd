import type { Filter } from '../../../src/base/filter.ts'
import type { Metric } from '../../../src/base/point.ts'
import type { Description } from '../contenders/contender.ts'

/** What the benchmark asks of a contender's process; each question has one answer. */
export type Question =
  | { readonly kind: 'open'; readonly name: string; readonly folder: string }
  | ({ readonly kind: 'build' } & BuildQuestion)
  | ({ readonly kind: 'load' } & BuildQuestion)
  | { readonly kind: 'save' }
  | ({ readonly kind: 'search' } & SearchQuestion)
  | ({ readonly kind: 'filtered' } & FilteredQuestion)
  | { readonly kind: 'callCost'; readonly k: number }
  | { readonly kind: 'reinsert'; readonly ids: Uint32Array }
  | { readonly kind: 'close' }

export interface BuildQuestion {
  readonly basePath: string
  readonly queryPath: string
  readonly count: number
  readonly dimension: number
  readonly queryCount: number
  readonly metric: Metric
  readonly m: number
  readonly efConstruction: number
  readonly threads: number
  /** The file of the rows' attributes, for searches with filters. */
  readonly attributesPath?: string | undefined
}

export interface SearchQuestion {
  readonly k: number
  readonly ef: number
  readonly threads: number
  /** All queries are searched repeatedly for at least this long. */
  readonly minSeconds: number
}

/** Queries [from, to), by their numbers. */
export interface QueryRange {
  readonly from: number
  readonly to: number
}

/** Searches with filters, one query after the other. */
export interface FilteredQuestion {
  readonly mode: string
  /** One for all queries, or one for each. */
  readonly filters: readonly Filter[]
  readonly k: number
  readonly ef: number
  readonly queries: QueryRange
  /** All queries are searched repeatedly for at least this long. */
  readonly minSeconds: number
  /** After this long, queries that were not searched yet are left out, but for so many. */
  readonly maxSeconds: number
  readonly queriesMin: number
}

export interface Built {
  readonly seconds: number
  /** Resident memory after the build less that before it, when the vectors were already loaded. */
  readonly memoryBytes: number
  /** The peak of the same while building, where the system reports it. */
  readonly peakBytes: number | undefined
  readonly ownBytes: number | undefined
}

export interface Found {
  /** From the last pass over the queries. */
  readonly ids: Uint32Array
  readonly queriesPerSecond: number
  /** Processor seconds per second; shows whether one thread was really one. */
  readonly coresUsed: number
}

export interface FilteredFound {
  /** From the first pass over the queries, `k` a query; of fewer queries where time ran out. */
  readonly ids: Uint32Array
  /** Of every search. */
  readonly microseconds: Float64Array
  /** How many searches were answered by each plan, where the contender says it. */
  readonly plans: Readonly<Record<string, number>>
  /** Means of the first pass, where the contender says it. */
  readonly compared?: number | undefined
  readonly filterUs?: number | undefined
}

export interface Answers {
  readonly open: Description
  readonly build: Built
  readonly load: undefined
  /** Whether it can be loaded again. */
  readonly save: boolean
  readonly search: Found
  readonly filtered: FilteredFound
  /** Seconds a query. */
  readonly callCost: number
  /** Seconds; undefined where the contender does not support it. */
  readonly reinsert: number | undefined
  readonly close: undefined
}

export type Answer = { readonly answer: Answers[keyof Answers] } | { readonly fault: string }
