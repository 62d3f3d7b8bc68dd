import { setImmediate as nextTurn } from 'node:timers/promises'
import { cancellation, DatabaseError } from '../base/errors.ts'
import { idBytes, writeIdBytes } from '../base/ids.ts'
import type { Metric, NewPoint, Point, SearchQuery, VectorQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'
import { inTurns } from '../base/turns.ts'
import { VectorIndex } from '../index/vector-index.ts'
import type { Change, Insertion, Snapshot, Store } from '../storage/store.ts'
import type { Database, Inserted, InsertOptions } from './database.ts'
import type { CollectionOptions, EngineParts } from './engine-options.ts'
import { foundIds } from './found-ids.ts'
import type { GraphMeasure } from './graph-measures.ts'
import { HitLists } from './hit-lists.ts'
import { IdTable, idTableBytesPerSlot } from './id-table.ts'
import type { IndexSearches } from './index-searches.ts'
import { Indexer } from './indexer.ts'
import type { MetricPlan } from './recall-plans.ts'
import type { BudgetShare } from './shared-budget.ts'
import { SlotAllocator } from './slot-allocator.ts'
import { type ChangeTarget, WritePath } from './write-path.ts'

/** Figures of a collection, for metrics and people. */
export interface CollectionStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
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

/** See `Engine.openCollection`. */
export async function openCollection(
  parts: EngineParts,
  store: Store,
  options: CollectionOptions,
): Promise<Collection> {
  const collection = new Collection(parts, store, options)
  try {
    await collection.load(options.signal)
    return collection
  } catch (error) {
    await collection.discard()
    throw error
  }
}

/**
 * One named set of points: joins the write path, the index in memory, the id table and the threads of the process.
 *
 * Once it has been filled from the disk, its state changes only in `apply`. Main thread only; search threads and
 * index threads read the index's shared memory.
 */
export class Collection implements Database, ChangeTarget, AsyncDisposable {
  readonly #parts: EngineParts
  readonly #store: Store
  readonly #options: CollectionOptions
  readonly #ids: IdTable
  readonly #slots: SlotAllocator
  readonly #indexer: Indexer
  readonly #writePath: WritePath
  readonly #results: BudgetShare
  readonly #ended = Promise.withResolvers<void>()
  /** There is none until the first insert is on its way to the disk, and none again where that has failed. */
  #index: VectorIndex | undefined
  /** From the first point on: the threads know the index. */
  #searches: IndexSearches | undefined
  #hasSnapshot = false
  #refusal: DatabaseError | undefined
  #ending: Promise<void> | undefined

  /** Use `Engine.openCollection`. */
  constructor(parts: EngineParts, store: Store, options: CollectionOptions) {
    this.#parts = parts
    this.#store = store
    this.#options = options
    this.#ids = new IdTable(store.slotCount)
    this.#slots = new SlotAllocator(store.slotCount)
    this.#results = parts.results.share()
    this.#indexer = new Indexer({
      ...parts.options,
      maxUnindexedBytes: parts.options.maxUnindexedBytes ?? unindexedBytesMax,
      threads: parts.indexThreads,
      directory: options.indexDirectory,
      sequence: () => store.sequence,
      onFree: (slot) => this.#slots.release(slot),
    })
    this.#writePath = new WritePath({
      store,
      slots: this.#slots,
      target: this,
      queuedBytes: parts.writes.share(),
    })
  }

  /** Reads the store into memory, before anything else is asked: see `Engine.openCollection`. */
  async load(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const { dimension } = this.#store
    if (dimension === undefined) {
      this.#parts.executor.start()
      return
    }
    const index = this.#createIndex(dimension)
    this.#index = index
    this.#indexer.attach(index)
    await this.#fill(index, signal)
    // Search threads not before: index threads are needed at once, and on few cores others would hold up their start.
    this.#searches = this.#attach(index)
    await Promise.all([this.#enterIds(index, signal), this.#indexer.load()])
    signal?.throwIfAborted()
  }

  /**
   * The first half of what `apply` did for the live points. A start cannot call `apply`: the disk holds the points, not
   * the changes that led to them. Index threads write vectors (`Slots.fill`, as in `apply`) and ids; `#enterIds` does
   * the rest.
   */
  async #fill(index: VectorIndex, signal: AbortSignal | undefined): Promise<void> {
    const rows = this.#store.rows()
    if (rows === undefined) return
    index.extend(rows.slotCount)
    if (index.isBeyondLimit) {
      const { maxMemoryBytes, logger } = this.#parts.options
      logger.warn(
        { maxMemoryBytes },
        'the stored points take more memory than MAX_MEMORY_BYTES: inserts are refused until points are deleted or it is raised',
      )
    }
    await this.#indexer.fill(rows, this.#ids.pages(rows.slotCount), signal)
  }

  /** The second half: afterwards every slot is live, and known by its id, or free. */
  async #enterIds(index: VectorIndex, signal: AbortSignal | undefined): Promise<void> {
    for (let slot = 0; slot < index.slotCount; slot += 1) {
      if (slot % idsPerTurn === 0) {
        await nextTurn()
        signal?.throwIfAborted()
      }
      if (index.isLive(slot)) this.#ids.enter(slot)
      else this.#slots.release(slot)
    }
  }

  get dimension(): number | undefined {
    return this.#searches?.index.dimension
  }

  /** Live points. */
  get points(): number {
    return this.#ids.size
  }

  /** Bytes of vectors, graphs and ids. */
  get memoryBytes(): number {
    return (this.#searches?.index.memoryBytes ?? 0) + this.#ids.memoryBytes
  }

  get stats(): CollectionStats {
    const index = this.#searches?.index
    return {
      points: this.#ids.size,
      dimension: index?.dimension ?? 0,
      segments: index?.segments.length ?? 0,
      indexBytes: index?.memoryBytes ?? 0,
      idTableBytes: this.#ids.memoryBytes,
      sequence: this.#store.sequence,
      unindexed: this.#indexer.unindexed,
      tombstones: this.#indexer.tombstones,
      isSettling: this.#indexer.isSettling,
      measuredOn: this.#indexer.measuredOn,
      plans: this.#indexer.plans,
    }
  }

  async insert(points: readonly NewPoint[], { signal, identity }: InsertOptions = {}): Promise<Inserted> {
    return { ids: await this.#writePath.insert(points, signal, identity), errors: [] }
  }

  put(): Promise<never> {
    throw new Error('being built')
  }

  patch(): Promise<never> {
    throw new Error('being built')
  }

  changeByFilter(): Promise<never> {
    throw new Error('being built')
  }

  list(): Promise<never> {
    throw new Error('being built')
  }

  count(): Promise<never> {
    throw new Error('being built')
  }

  facets(): Promise<never> {
    throw new Error('being built')
  }

  remove(id: string, signal?: AbortSignal): Promise<boolean> {
    return this.#writePath.remove(id, signal)
  }

  async get(id: string): Promise<Point | undefined> {
    if (this.#refusal !== undefined) throw this.#refusal
    const slot = this.find(id)
    if (slot === -1) return undefined
    // Between the commit of a deletion and its taking effect here the store has no payload any more.
    const payload = this.#store.record(slot, id)?.payload
    return payload && { id, payload, vector: this.#index!.read(slot), version: this.#index!.sequenceOf(slot) }
  }

  async search(given: readonly SearchQuery[], signal?: AbortSignal): Promise<SearchResults> {
    if (this.#refusal !== undefined) throw this.#refusal
    if (signal?.aborted) throw cancellation(signal)
    const queries = given as readonly VectorQuery[]
    const results = this.#admitResults(queries)
    this.#results.hold(results)
    const removals = this.#index?.removals ?? 0
    try {
      const hits = (await this.#searches?.search(queries, signal)) ?? new HitLists(queries.length)
      return {
        ...(await inTurns(foundIds(hits, queries, this.#ids, this.#index, removals))),
        details: queries.map(() => undefined),
        profiles: queries.map(() => undefined),
      }
    } finally {
      this.#results.release(results)
    }
  }

  snapshot(): Snapshot {
    if (this.#refusal !== undefined) throw this.#refusal
    if (this.#hasSnapshot) {
      throw new DatabaseError('overloaded', 'another snapshot is being read, one at a time: try again later')
    }
    const resume = this.#slots.hold()
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

  /** Resolves when it has been closed or discarded. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /**
   * Refuses new requests, lets those under way end, keeps the graphs for the next opening, and has all threads drop the
   * index. The collections beside it go on meanwhile. Idempotent.
   *
   * @param timeoutMs after which the graphs are not waited for any more; what is kept of them on disk is a cache
   */
  close(timeoutMs?: number): Promise<void> {
    this.#ending ??= this.#end(async () => {
      this.#indexer.letWritersPass()
      await this.#writePath.close()
      this.#refusal ??= new DatabaseError('shutting_down', 'the server is shutting down')
      await this.#searches?.close()
      await this.#indexer.close(timeoutMs)
    })
    return this.#ending
  }

  /**
   * The same without keeping anything: requests that wait, and searches under way, end with `collection_not_found`. For a collection
   * that is removed.
   */
  discard(): Promise<void> {
    this.#ending ??= this.#end(async () => {
      const removed = new DatabaseError('collection_not_found', 'the collection has been removed')
      this.#refusal = removed
      this.#indexer.letWritersPass()
      const searches = this.#searches?.discard(removed)
      await this.#writePath.discard(removed)
      // A first insert that was on its way to the disk has attached the index only now.
      await (searches ?? this.#searches?.discard(removed))
      await this.#indexer.discard()
    })
    return this.#ending
  }

  async #end(steps: () => Promise<void>): Promise<void> {
    try {
      await steps()
    } finally {
      this.#index?.close()
      this.#ended.resolve()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  find(id: string): number {
    return this.#ids.find(id)
  }

  reserve(slotCount: number, dimension: number): void {
    if (this.#index?.dimension !== dimension) {
      this.#index?.close()
      this.#index = this.#createIndex(dimension)
    }
    try {
      this.#index.reserve(slotCount)
    } catch (error) {
      // What was deleted makes room as soon as no graph leads to it any more: the next try may find some.
      this.#indexer.freeSoon()
      throw error
    }
  }

  commitFailed(): void {
    if (this.#searches !== undefined) return
    this.#index?.close()
    this.#index = undefined
  }

  apply(change: Change, slot: number): void {
    if (change.kind === 'insert') this.#place(change, slot)
    else this.#clear(slot)
  }

  #place({ id, sequence, point }: Insertion, slot: number): void {
    const index = this.#index!
    writeIdBytes(id, idScratch, 0)
    index.place(slot, point.vector, sequence)
    this.#ids.set(slot, idScratch)
    if (this.#searches === undefined) {
      this.#searches = this.#attach(index)
      this.#indexer.attach(index)
    }
    this.#indexer.inserted(slot)
  }

  #clear(slot: number): void {
    this.#ids.delete(slot)
    this.#index!.remove(slot)
    this.#indexer.removed(slot)
  }

  get comingBytesMax(): number {
    return this.#indexer.comingBytesMax
  }

  room(): Promise<boolean> | undefined {
    return this.#indexer.room()
  }

  #attach(index: VectorIndex): IndexSearches {
    return this.#parts.executor.attach(index, (metric) => this.#indexer.route(metric))
  }

  #createIndex(dimension: number): VectorIndex {
    const { options, kernels, memory } = this.#parts
    return new VectorIndex({
      dimension,
      kernels,
      maxThreads: 1 + options.searchThreads + options.indexThreads,
      maxLimit: options.maxLimit,
      m: this.#options.hnswM,
      efConstruction: this.#options.hnswEfConstruction,
      codeBits: options.hnswCodeBits,
      rowFile: options.vectorsOnDisk ? this.#store.vectorsOnDisk(dimension) : undefined,
      memoryBudget: memory,
      outsideBytes: idTableBytesPerSlot,
    })
  }

  /** How many ids the queries can bring, if there is room for them. */
  #admitResults(queries: readonly SearchQuery[]): number {
    const points = this.#ids.size
    const { max } = this.#parts.results
    const results = queries.reduce((sum, { limit }) => sum + Math.min(limit, points), 0)
    if (results > max) {
      throw new DatabaseError(
        'request_too_large',
        `the queries ask for ${results} ids together, the most is ${max} (MAX_QUEUED_RESULTS): ask for fewer at a time`,
      )
    }
    const refusal = this.#results.refusal(results)
    if (refusal !== undefined) throw refusal
    return results
  }
}

/**
 * Vectors that may wait to be linked: every search scans them. With 16 MiB, searches right after a load took two and
 * a half times as long, and the load itself took no less time.
 */
export const unindexedBytesMax: number = 2 * 1024 * 1024

/** Entering so many takes about two milliseconds. */
const idsPerTurn = 8192

const idScratch = new Uint8Array(idBytes)
