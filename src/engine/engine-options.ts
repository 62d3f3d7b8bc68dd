import type { Logger } from '../base/log.ts'
import type { MemoryBudget } from '../index/memory-budget.ts'
import type { CodeBits } from '../index/segment.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import type { SearchExecutor } from './executor.ts'
import type { IndexThreadPool } from './index-thread-pool.ts'
import type { ReplicaHooks } from './replica-hooks.ts'
import type { SharedBudget } from './shared-budget.ts'

/** Settings of the process: of its threads, of the limits that all collections share, and of every collection. */
export interface EngineOptions {
  readonly searchThreads: number
  readonly indexThreads: number
  readonly maxLimit: number
  /** Bits of a code; undefined for `usualCodeBits`. */
  readonly hnswCodeBits?: CodeBits | undefined
  /** The default ef of searches. */
  readonly hnswEf: number
  readonly recallTarget: number
  /** Rows of fewer bytes are always scanned; for tests of small graphs, 0. */
  readonly graphBytesMin?: number | undefined
  /** Attributes of fewer points are not kept on disk for the next start; for tests of few points, 0. */
  readonly attributePointsMin?: number | undefined
  /** Vectors of a collection, in bytes, that may wait to be linked; for tests, few. */
  readonly maxUnindexedBytes?: number | undefined
  /** After this long without a change, the index is repaired and written to disk; for tests, a few. */
  readonly quietMs?: number | undefined
  /** The time, in microseconds since 1970: points expire by it. Undefined for the system's clock. */
  readonly nowUs?: (() => number) | undefined
  /** Searches of at most this many bytes of rows run on the main thread; for tests of the search threads, 0. */
  readonly inlineBytesMax?: number | undefined
  /** Keeps codes and links in memory and reads vectors from the store's file. */
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
  /** Where graphs are kept between starts; undefined to keep none. */
  readonly indexDirectory?: string | undefined
  /** Links of a graph's node on each upper level; level 0 has twice as many. */
  readonly hnswM: number
  readonly hnswEfConstruction: number
  /** On a node of a cluster: changes come from its log, and time is the log's. */
  readonly replica?: ReplicaHooks | undefined
  /** Aborts the opening while points are being loaded. */
  readonly signal?: AbortSignal | undefined
}

/** What the collections of a process share. */
export interface EngineParts {
  readonly options: EngineOptions
  readonly kernels: KernelModule
  readonly executor: SearchExecutor
  readonly indexThreads: IndexThreadPool
  /** Results that all searches in progress may return. */
  readonly results: SharedBudget
  /** Bytes of changes that wait for the disk. */
  readonly writes: SharedBudget
  readonly memory: MemoryBudget
}
