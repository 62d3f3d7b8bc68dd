import type { SharedBudget } from '../base/budgets.ts'
import type { WordSettings } from '../base/collection.ts'
import type { Logger } from '../base/log.ts'
import type { Meter, Meters } from '../base/quotas.ts'
import type { IndexThreadPool } from '../graphs/index-thread-pool.ts'
import type { CodeBits } from '../index/segment.ts'
import type { MemoryBudget } from '../index/vector-index.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { SearchExecutor } from '../search/executor.ts'
import type { ReplicaHooks } from '../write/replica.ts'

/**
 * Settings of the process: its threads, the limits that all collections share, and what applies to every collection.
 */
export interface EngineOptions {
  readonly searchThreads: number
  readonly indexThreads: number
  /** Other threads that search by themselves: see readers.ts. */
  readonly readingThreads?: number | undefined
  readonly maxLimit: number
  /** Bits per component of a code; undefined for `usualCodeBits`. */
  readonly hnswCodeBits?: CodeBits | undefined
  /** The default ef of searches. */
  readonly hnswEf: number
  readonly recallTarget: number
  /** A collection whose rows take fewer bytes is always scanned; tests of small graphs use 0. */
  readonly graphBytesMin?: number | undefined
  /** A collection with fewer points does not save its attribute index; tests of few points use 0. */
  readonly attributePointsMin?: number | undefined
  /** Bytes of a collection's vectors that may wait to be linked; tests use few. */
  readonly maxUnindexedBytes?: number | undefined
  /** After this time without a change, the index is repaired and written to disk; tests use a few milliseconds. */
  readonly quietMs?: number | undefined
  /** Returns the time by which points expire, in microseconds since 1970; undefined for the system's clock. */
  readonly nowUs?: (() => number) | undefined
  /** Searches of at most this many bytes of rows run on the main thread; tests of the search threads use 0. */
  readonly inlineBytesMax?: number | undefined
  /** Keeps only codes and links in memory, and reads vectors from the store's file. */
  readonly vectorsOnDisk?: boolean
  readonly maxQueuedQueries: number
  readonly maxQueuedResults: number
  /** Bytes of changes that may wait for the disk. */
  readonly maxBufferedBytes: number
  /** 0 for no limit. */
  readonly maxMemoryBytes: number
  readonly logger: Logger
}

export interface CollectionOptions {
  /** The directory where graphs are saved; undefined to save none. */
  readonly indexDirectory?: string | undefined
  /** The links of a node on each upper level; level 0 has twice as many. */
  readonly hnswM: number
  readonly hnswEfConstruction: number
  /** The words that the collection declares. */
  readonly words?: WordSettings | undefined
  /** Counts against the quotas of the collection, if it has some now. */
  readonly meter?: (() => Meter | undefined) | undefined
  /** On a node of a cluster: changes and the time come from its log. */
  readonly replica?: ReplicaHooks | undefined
  /** Aborts the opening while points are loaded. */
  readonly signal?: AbortSignal | undefined
}

/** What the collections of a process share. */
export interface EngineParts {
  readonly options: EngineOptions
  readonly kernels: KernelModule
  readonly executor: SearchExecutor
  readonly indexThreads: IndexThreadPool
  /** The results that searches in progress may return. */
  readonly results: SharedBudget
  /** The bytes of changes that wait for the disk. */
  readonly writes: SharedBudget
  readonly memory: MemoryBudget
  /** Of the collections that have quotas. */
  readonly meters: Meters
}

/** Returns the lane of the first thread that searches by itself; the other threads have those before. */
export function firstReadingLane({ searchThreads, indexThreads }: EngineOptions): number {
  return 1 + searchThreads + indexThreads
}
