import { SharedBudget } from '../base/budgets.ts'
import type { WordSettings } from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { type Meter, Meters } from '../base/quotas.ts'
import { collectGarbage } from '../base/runtime.ts'
import { IndexThreadPool } from '../graphs/index-thread-pool.ts'
import type { CodeBits } from '../index/segment.ts'
import { MemoryBudget } from '../index/vector-index.ts'
import { type KernelModule, loadKernels } from '../kernels/wasm-module.ts'
import { resultBudget } from '../search/collection-search.ts'
import { SearchExecutor } from '../search/executor.ts'
import type { Store } from '../storage/store.ts'
import type { ReplicaHooks } from '../write/replica.ts'
import { type Collection, openCollection } from './collection.ts'
import { Readers } from './readers.ts'

export type { Collection }

/** Figures of the process, for metrics and operators. */
interface EngineStats {
  readonly queuedQueries: number
  /** Pieces of searches that each search thread has worked on since it started. */
  readonly searchedPieces: readonly number[]
  readonly queuedWriteBytes: number
}

/** Creates the engine and its index threads, which start up while a store is being opened. */
export function startEngine(options: EngineOptions): Engine {
  const kernels = loadKernels()
  options.logger.debug({ variant: kernels.variant, isWide: kernels.isWide }, 'kernels compiled')
  return new Engine({
    options,
    kernels,
    executor: new SearchExecutor({ ...options, kernels, threads: options.searchThreads }),
    indexThreads: new IndexThreadPool(kernels, options.indexThreads, 1 + options.searchThreads),
    firstReadingLane: 1 + options.searchThreads + options.indexThreads,
    results: resultBudget({
      // A single search with the largest limit must be accepted.
      max: Math.max(options.maxQueuedResults, options.maxLimit),
      threads: 1 + (options.readingThreads ?? 0),
    }),
    writes: new SharedBudget({
      max: options.maxBufferedBytes,
      setting: 'MAX_BUFFERED_BYTES',
      inWords: (bytes) => `${bytes} bytes of changes are waiting for the disk`,
    }),
    memory: new MemoryBudget(options.maxMemoryBytes),
    meters: new Meters('collection', 1 + (options.readingThreads ?? 0)),
  })
}

/**
 * What all collections of the process share (kernels, search threads, index threads and limits), and the open
 * collections. Main thread only.
 */
export class Engine implements AsyncDisposable {
  readonly #parts: EngineParts
  readonly #open = new Set<Collection>()
  readonly #opening = new Set<Promise<Collection>>()
  /** Aborts collections that are being opened. */
  readonly #stop = new AbortController()
  /** The threads that search by themselves. */
  readonly readers: Readers
  #closing: Promise<void> | undefined
  #collecting: NodeJS.Timeout | undefined
  /** When that timer is due, by `performance.now()`. */
  #collectingMs = 0
  /** Memory of closed collections that was not freed yet. */
  #uncollectedBytes = 0

  /** Use `startEngine`. */
  constructor(parts: EngineParts) {
    this.#parts = parts
    const { kernels, executor, results, options } = parts
    this.readers = new Readers({
      kernels,
      executor,
      results,
      maxDetailBytes: options.maxBufferedBytes,
      inlineBytesMax: options.inlineBytesMax,
      firstLane: parts.firstReadingLane,
    })
  }

  /** The build of the kernels that is in use. */
  get kernelVariant(): string {
    return this.#parts.kernels.variant
  }

  /** The memory that all open collections use together. */
  get memory(): MemoryBudget {
    return this.#parts.memory
  }

  /** Of the collections that have quotas. */
  get meters(): Meters {
    return this.#parts.meters
  }

  get stats(): EngineStats {
    const { executor, writes } = this.#parts
    return {
      queuedQueries: executor.queuedQueries,
      searchedPieces: executor.completedPieces,
      queuedWriteBytes: writes.used,
    }
  }

  /**
   * Opens a collection: loads every live point of its store into memory. Index threads have work before this first
   * awaits. The caller closes the store after the collection.
   *
   * @param store must have no other writer
   * @throws DatabaseError `internal` that names the damage; the reason of `signal` when it aborts; `shutting_down` when
   *   the engine is being closed
   */
  async openCollection(store: Store, options: CollectionOptions): Promise<Collection> {
    const signals = [this.#stop.signal, ...(options.signal === undefined ? [] : [options.signal])]
    const opening = openCollection(this.#parts, store, { ...options, signal: AbortSignal.any(signals) })
    this.#opening.add(opening)
    try {
      const collection = await opening
      this.#open.add(collection)
      void collection.ended.then(() => this.#remove(collection))
      return collection
    } finally {
      this.#opening.delete(opening)
    }
  }

  #remove(collection: Collection): void {
    this.#open.delete(collection)
    // A process that is about to end frees everything anyway.
    if (this.#closing !== undefined) return
    this.#uncollectedBytes += collection.claimedBytes
    // Delayed, because the caller still references the collection. One run serves all collections closed meanwhile.
    const delayMs = this.#uncollectedBytes < uncollectedBytesMax ? collectGarbageMs : collectSoonMs
    const dueMs = performance.now() + delayMs
    if (this.#collecting !== undefined && this.#collectingMs <= dueMs) return
    clearTimeout(this.#collecting)
    this.#collectingMs = dueMs
    this.#collecting = setTimeout(() => {
      this.#collecting = undefined
      this.#uncollectedBytes = 0
      collectGarbage()
    }, delayMs).unref()
  }

  /**
   * Closes the open collections, then stops the threads.
   *
   * @param timeoutMs after this time, index threads are stopped even if they are busy; their files are only a cache
   */
  close(timeoutMs?: number): Promise<void> {
    this.#closing ??= this.#close(timeoutMs)
    return this.#closing
  }

  async #close(timeoutMs: number | undefined): Promise<void> {
    this.#stop.abort(new DatabaseError('shutting_down', 'the server is shutting down'))
    await Promise.allSettled(this.#opening)
    await Promise.all([...this.#open].map((collection) => collection.close(timeoutMs)))
    this.readers[Symbol.dispose]()
    await this.#parts.executor.close()
    await this.#parts.indexThreads.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** The delay between closing a collection and freeing its memory, and the delay when much memory can be freed. */
const collectGarbageMs = 1000
const collectSoonMs = 50
const uncollectedBytesMax = 64 * 1024 * 1024

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
  /** The lane of the first thread that searches by itself; the other threads have those before. */
  readonly firstReadingLane: number
  /** The results that searches in progress may return. */
  readonly results: SharedBudget
  /** The bytes of changes that wait for the disk. */
  readonly writes: SharedBudget
  readonly memory: MemoryBudget
  /** Of the collections that have quotas. */
  readonly meters: Meters
}
