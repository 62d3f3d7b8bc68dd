import type { Filter } from '../../../src/base/filter.ts'
import type { Metric } from '../../../src/base/point.ts'
import type { Description } from '../contenders/contender.ts'

/** The requests to the process of a contender. Each has one answer. */
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
  /** The file with the attributes of the rows, for filtered searches. */
  readonly attributesPath?: string | undefined
}

export interface SearchQuestion {
  readonly k: number
  readonly ef: number
  readonly threads: number
  /** All queries are repeated for at least this long. */
  readonly minSeconds: number
}

/** The queries [from, to), by number. */
export interface QueryRange {
  readonly from: number
  readonly to: number
}

/** Filtered searches, one query after the other. */
export interface FilteredQuestion {
  readonly mode: string
  /** One filter for all queries, or one per query. */
  readonly filters: readonly Filter[]
  readonly k: number
  readonly ef: number
  readonly queries: QueryRange
  /** All queries are repeated for at least this long. */
  readonly minSeconds: number
  /** After this long, the remaining queries are skipped, except for a minimum number. */
  readonly maxSeconds: number
  readonly queriesMin: number
}

export interface Built {
  readonly seconds: number
  /** Resident memory after the build minus that before the build, when the vectors were already loaded. */
  readonly memoryBytes: number
  /** The peak of the same figure during the build, if the system reports it. */
  readonly peakBytes: number | undefined
  readonly ownBytes: number | undefined
}

export interface Found {
  /** The results of the last pass over the queries. */
  readonly ids: Uint32Array
  readonly queriesPerSecond: number
  /** CPU seconds per second: shows whether one thread was really one. */
  readonly coresUsed: number
}

export interface FilteredFound {
  /** The results of the first pass, `k` per query. They cover fewer queries if the time ran out. */
  readonly ids: Uint32Array
  /** The time of every search. */
  readonly microseconds: Float64Array
  /** How many searches each plan answered, if the contender reports it. */
  readonly plans: Readonly<Record<string, number>>
  /** Means of the first pass, if the contender reports them. */
  readonly compared?: number | undefined
  readonly filterUs?: number | undefined
}

export interface Answers {
  readonly open: Description
  readonly build: Built
  readonly load: undefined
  /** Whether the index can be loaded again. */
  readonly save: boolean
  readonly search: Found
  readonly filtered: FilteredFound
  /** Seconds per query. */
  readonly callCost: number
  /** Seconds; undefined if the contender does not support it. */
  readonly reinsert: number | undefined
  readonly close: undefined
}

export type Answer = { readonly answer: Answers[keyof Answers] } | { readonly fault: string }
