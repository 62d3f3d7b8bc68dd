import { setImmediate as nextTurn } from 'node:timers/promises'
import { DatabaseError } from '../base/errors.ts'
import { IdLists } from '../base/id-lists.ts'
import { idBytes, writeIdBytes } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import type { Metric, NewPoint, Point, SearchQuery } from '../base/point.ts'
import { inTurns } from '../base/turns.ts'
import type { CodeBits } from '../index/segment.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { type KernelModule, loadKernels } from '../kernels/wasm-module.ts'
import type { Deletion, Insertion, Snapshot, Store } from '../storage/store.ts'
import type { Database, RequestIdentity } from './database.ts'
import { createExecutor, type SearchExecutor } from './executor.ts'
import type { GraphMeasure } from './graph-measures.ts'
import type { HitLists } from './hit-lists.ts'
import { IdTable, idTableBytesPerSlot } from './id-table.ts'
import { type IndexThread, startIndexThreads } from './index-thread.ts'
import { Indexer } from './indexer.ts'
import type { MetricPlan } from './recall-plans.ts'
import { SlotAllocator } from './slot-allocator.ts'
import { type ChangeTarget, WritePath } from './write-path.ts'

export interface EngineOptions {
  /** The engine reads it on opening and is its only writer; the caller closes it after the engine. */
  readonly store: Store
  readonly searchThreads: number
  readonly indexThreads: number
  /** The engine's threads, when they were started ahead. */
  readonly threads?: EngineThreads | undefined
  /** Where graphs are kept between starts; undefined to keep none. */
  readonly indexDirectory?: string | undefined
  readonly maxLimit: number
  /** Links of a graph's node on each upper level; level 0 has twice as many. */
  readonly hnswM: number
  readonly hnswEfConstruction: number
  /** Bits of a code; undefined for what is usual at the dimension. */
  readonly hnswCodeBits?: CodeBits | undefined
  /** The ef of a search that states none. */
  readonly hnswEf: number
  readonly recallTarget: number
  readonly maxUnindexedBytes: number
  /** Rows of fewer bytes are always scanned; for tests of small graphs, 0. */
  readonly graphBytesMin?: number | undefined
  /** Without a change for so long the index is tidied and written to disk; for tests, a few. */
  readonly quietMs?: number | undefined
  /** Keeps codes and links in memory and reads vectors from the store's file. */
  readonly vectorsOnDisk?: boolean
  readonly maxQueuedQueries: number
  readonly maxQueuedResults: number
  readonly maxQueuedWriteBytes: number
  readonly idempotencyKeyLifeMs?: number
  /** 0 for no limit. */
  readonly maxMemoryBytes: number
  readonly logger: Logger
  /** Breaks off the opening, while points are being loaded. */
  readonly signal?: AbortSignal | undefined
}

/** Figures for metrics and people. */
export interface EngineStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
  readonly queuedQueries: number
  /** Pieces of searches that each search thread has worked on since it started. */
  readonly searchedPieces: readonly number[]
  readonly queuedWriteBytes: number
  readonly sequence: number
  /** Points that are not in the graph yet. */
  readonly unindexed: number
  /** Slots whose points were removed and that are still in a graph. */
  readonly tombstones: number
  /** Whether a graph is being built or recall measured: the plans may change by that. */
  readonly isSettling: boolean
  /** By the metric of each graph: what its distances are measured on. */
  readonly measuredOn: Readonly<Record<string, GraphMeasure>>
  /** By metric: which way searches take, and with what measured recall. */
  readonly plans: Readonly<Record<Metric, MetricPlan>>
}

/** What an engine needs whatever is stored. */
export interface EngineThreads {
  readonly kernels: KernelModule
  readonly indexThreads: readonly IndexThread[]
}

/**
 * Starts the threads that fill an engine: they can come up while its store is being opened. The engine that gets them
 * stops them.
 */
export function startEngineThreads(
  options: Pick<EngineOptions, 'searchThreads' | 'indexThreads' | 'logger'>,
): EngineThreads {
  const kernels = loadKernels()
  options.logger.debug({ variant: kernels.variant, isWide: kernels.isWide }, 'kernels compiled')
  return {
    kernels,
    indexThreads: startIndexThreads(kernels, options.indexThreads, 1 + options.searchThreads),
  }
}

/** Stops threads that no engine has got; harmless to those that are stopped already. */
export async function stopEngineThreads({ indexThreads }: EngineThreads): Promise<void> {
  await Promise.all(indexThreads.map((thread) => thread.terminate()))
}

/**
 * Opens the engine over a store: loads every live point into memory and starts the search threads. Index threads are
 * at work when it first waits.
 *
 * @throws DatabaseError `internal` that names what is damaged; the reason of `signal` when that aborts
 */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const { kernels, indexThreads } = options.threads ?? startEngineThreads(options)
  const { dimension, slotCount } = options.store
  const state: State = {
    ids: new IdTable(slotCount),
    slots: new SlotAllocator(slotCount),
    index: dimension === undefined ? undefined : createIndex(options, kernels, dimension),
  }
  await using opened = new AsyncDisposableStack()
  const indexer = new Indexer({
    ...options,
    threads: indexThreads,
    directory: options.indexDirectory,
    sequence: () => options.store.sequence,
    onFree: (slot) => state.slots.release(slot),
  })
  opened.defer(() => indexer.close())
  if (state.index !== undefined) {
    indexer.attach(state.index)
    await recover(options, state.index, state, indexer)
  }
  // Not before: index threads are needed at once, and on few cores others would hold up their start.
  const executor = createExecutor({
    kernels,
    threads: options.searchThreads,
    maxQueuedQueries: options.maxQueuedQueries,
    logger: options.logger,
    routeOf: (metric) => indexer.route(metric),
  })
  opened.defer(() => executor.close())
  if (state.index !== undefined) {
    executor.attach(state.index)
    await Promise.all([enterIds(options, state.index, state), indexer.load()])
  }
  opened.move()
  return new Engine(options, state, kernels, executor, indexer)
}

/** Reads the store into memory: what `enterIds` does is left. */
async function recover(
  { store, signal, maxMemoryBytes, logger }: EngineOptions,
  index: VectorIndex,
  { ids }: State,
  indexer: Indexer,
): Promise<void> {
  const rows = store.rows()
  if (rows === undefined) return
  index.extend(rows.slotCount)
  if (index.isBeyondLimit) {
    logger.warn(
      { maxMemoryBytes },
      'the stored points take more memory than MAX_MEMORY_BYTES: inserts are refused until points are deleted or it is raised',
    )
  }
  await indexer.fill(rows, ids.pages(rows.slotCount), signal)
}

/** Afterwards every slot is live, and known by its id, or free. */
async function enterIds({ signal }: EngineOptions, index: VectorIndex, { ids, slots }: State): Promise<void> {
  for (let slot = 0; slot < index.slotCount; slot += 1) {
    if (slot % idsPerTurn === 0) {
      await nextTurn()
      signal?.throwIfAborted()
    }
    if (index.isLive(slot)) ids.enter(slot)
    else slots.release(slot)
  }
}

/**
 * The database: joins the write path, the index in memory, the id table and the search threads.
 *
 * All its state changes in `applyInsertion` and `applyDeletion`, once `openEngine` has filled it from the disk. Main
 * thread only; search threads read the index's shared memory.
 */
export class Engine implements Database, ChangeTarget, AsyncDisposable {
  readonly #store: Store
  readonly #options: EngineOptions
  readonly #kernels: KernelModule
  readonly #executor: SearchExecutor
  readonly #indexer: Indexer
  readonly #writePath: WritePath
  readonly #state: State
  /** Whether the threads know of the index. */
  #attached: boolean
  /** Ids that the searches under way may bring. */
  #queuedResults = 0
  #hasSnapshot = false

  /** Use `openEngine`. */
  constructor(
    options: EngineOptions,
    state: State,
    kernels: KernelModule,
    executor: SearchExecutor,
    indexer: Indexer,
  ) {
    this.#store = options.store
    this.#options = options
    this.#state = state
    this.#kernels = kernels
    this.#executor = executor
    this.#indexer = indexer
    this.#writePath = new WritePath({
      store: options.store,
      slots: state.slots,
      target: this,
      maxQueuedBytes: options.maxQueuedWriteBytes,
      keyLifeMs: options.idempotencyKeyLifeMs,
    })
    this.#attached = state.index !== undefined
  }

  get dimension(): number | undefined {
    return this.#state.index?.dimension
  }

  get stats(): EngineStats {
    const { index, ids } = this.#state
    return {
      points: ids.size,
      dimension: index?.dimension ?? 0,
      segments: index?.segments.length ?? 0,
      indexBytes: index?.memoryBytes ?? 0,
      idTableBytes: ids.memoryBytes,
      queuedQueries: this.#executor.queuedQueries,
      searchedPieces: this.#executor.completedPieces,
      queuedWriteBytes: this.#writePath.queuedBytes,
      sequence: this.#store.sequence,
      unindexed: this.#indexer.unindexed,
      tombstones: this.#indexer.tombstones,
      isSettling: this.#indexer.isSettling,
      measuredOn: this.#indexer.measuredOn,
      plans: this.#indexer.plans,
    }
  }

  insert(
    points: readonly NewPoint[],
    signal?: AbortSignal,
    identity?: RequestIdentity,
  ): Promise<readonly string[]> {
    // Two first inserts of different lengths can be under way at once: the first one to come decides.
    this.#state.index ??= createIndex(this.#options, this.#kernels, points[0]!.vector.length)
    return this.#writePath.insert(points, signal, identity)
  }

  remove(id: string, signal?: AbortSignal): Promise<boolean> {
    return this.#writePath.remove(id, signal)
  }

  get(id: string): Point | undefined {
    const slot = this.find(id)
    if (slot === -1) return undefined
    // Between the commit of a deletion and its taking effect here the store has no payload any more.
    const payload = this.#store.payload(slot, id)
    return payload && { id, payload, vector: this.#state.index!.read(slot) }
  }

  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<IdLists> {
    const results = this.#admitResults(queries)
    this.#queuedResults += results
    const removals = this.#state.index?.removals ?? 0
    try {
      return await inTurns(this.#idSteps(await this.#executor.search(queries, signal), removals))
    } finally {
      this.#queuedResults -= results
    }
  }

  snapshot(): Snapshot {
    if (this.#hasSnapshot) {
      throw new DatabaseError('overloaded', 'another snapshot is being read, one at a time: try again later')
    }
    const resume = this.#state.slots.hold()
    const onClose = (): void => {
      this.#hasSnapshot = false
      resume()
    }
    try {
      const snapshot = this.#store.snapshot(onClose)
      this.#hasSnapshot = true
      return snapshot
    } catch (error) {
      onClose()
      throw error
    }
  }

  /**
   * Refuses new changes, lets those under way end, and stops the threads.
   *
   * @param indexTimeoutMs after which index threads are stopped whatever they do; what they keep on disk is a cache
   */
  async close(indexTimeoutMs?: number): Promise<void> {
    this.#indexer.letWritersPass()
    await this.#writePath.close()
    await this.#executor.close()
    await this.#indexer.close(indexTimeoutMs)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  find(id: string): number {
    return this.#state.ids.find(id)
  }

  reserve(slotCount: number): void {
    try {
      this.#state.index!.reserve(slotCount)
    } catch (error) {
      // What was deleted makes room as soon as no graph leads to it any more: the next try may find some.
      this.#indexer.freeSoon()
      throw error
    }
  }

  applyInsertion({ slot, id, sequence, point }: Insertion): void {
    writeIdBytes(id, idScratch, 0)
    this.#state.index!.place(slot, point.vector, sequence)
    this.#state.ids.set(slot, idScratch)
    if (!this.#attached) this.#attach(this.#state.index!)
    this.#indexer.inserted(slot)
  }

  applyDeletion({ slot }: Deletion): void {
    this.#state.ids.delete(slot)
    this.#state.index!.remove(slot)
    this.#indexer.removed(slot)
  }

  get comingBytesMax(): number {
    return this.#indexer.comingBytesMax
  }

  room(): Promise<boolean> | undefined {
    return this.#indexer.room()
  }

  /** A first insert that failed has not fixed the dimension after all. */
  idle(): void {
    if (this.#store.dimension === undefined) this.#state.index = undefined
  }

  #attach(index: VectorIndex): void {
    this.#attached = true
    this.#executor.attach(index)
    this.#indexer.attach(index)
  }

  /** How many ids the queries can bring, if there is room for them. */
  #admitResults(queries: readonly SearchQuery[]): number {
    const { maxQueuedResults, maxLimit } = this.#options
    const points = this.#state.ids.size
    const results = queries.reduce((sum, { limit }) => sum + Math.min(limit, points), 0)
    const most = Math.max(maxQueuedResults, maxLimit)
    if (results > most) {
      throw new DatabaseError(
        'request_too_large',
        `the queries ask for ${results} ids together, the most is ${most} (MAX_QUEUED_RESULTS): ask for fewer at a time`,
      )
    }
    if (this.#queuedResults > 0 && this.#queuedResults + results > most) {
      throw new DatabaseError(
        'overloaded',
        `the searches under way ask for ${this.#queuedResults} ids, the most is ${most} (MAX_QUEUED_RESULTS): try again later`,
      )
    }
    return results
  }

  /**
   * The ids of all hits, in turns where there are many. A slot that was deleted, or deleted and filled anew, while the
   * search ran is no longer what was found.
   *
   * @param removals those of the index before the search
   */
  *#idSteps(hits: HitLists, removals: number): Generator<void, IdLists> {
    const { index, ids } = this.#state
    const bytes = Buffer.allocUnsafe(hits.total * idBytes)
    const ends: number[] = []
    let copied = 0
    let seen = 0
    for (let list = 0; list < hits.length; list += 1) {
      const length = hits.lengthOf(list)
      for (let rank = 0; rank < length; rank += 1) {
        seen += 1
        if (seen % idsPerStep === 0) yield
        const slot = hits.slot(list, rank)
        // Looking at every slot is two cache misses a hit.
        const isFound =
          index?.removals === removals ||
          (index!.isLive(slot) && index!.sequenceOf(slot) === hits.sequence(list, rank))
        if (!isFound) continue
        ids.copyId(slot, bytes, copied * idBytes)
        copied += 1
      }
      ends.push(copied)
    }
    return new IdLists(bytes, ends)
  }
}

/** Everything in memory that is derived from the store. */
interface State {
  readonly ids: IdTable
  readonly slots: SlotAllocator
  /** Undefined until the first insert fixes the dimension. */
  index: VectorIndex | undefined
}

/** Copying so many takes a tenth of a millisecond, as memory has to be waited for with each. */
const idsPerStep = 512

/** Entering so many takes about two milliseconds. */
const idsPerTurn = 8192

const idScratch = new Uint8Array(idBytes)

function createIndex(options: EngineOptions, kernels: KernelModule, dimension: number): VectorIndex {
  return new VectorIndex({
    dimension,
    kernels,
    maxThreads: 1 + options.searchThreads + options.indexThreads,
    maxLimit: options.maxLimit,
    m: options.hnswM,
    efConstruction: options.hnswEfConstruction,
    codeBits: options.hnswCodeBits,
    rowFile: options.vectorsOnDisk ? options.store.vectorsOnDisk(dimension) : undefined,
    maxMemoryBytes: options.maxMemoryBytes,
    outsideBytes: idTableBytesPerSlot,
  })
}
