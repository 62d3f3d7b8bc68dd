import { idBytes, writeIdBytes } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import type { NewPoint, Point, SearchQuery } from '../base/point.ts'
import type { Hit } from '../index/hit.ts'
import { VectorIndex } from '../index/vector-index.ts'
import { type KernelModule, loadKernels } from '../kernels/wasm-module.ts'
import type { Deletion, Insertion, Store, StoredRow } from '../storage/store.ts'
import type { Database } from './database.ts'
import { createExecutor, type SearchExecutor } from './executor.ts'
import { IdTable } from './id-table.ts'
import { SlotAllocator } from './slot-allocator.ts'
import { type ChangeTarget, WritePath } from './write-path.ts'

export interface EngineOptions {
  /** The engine reads it on opening and is its only writer; the caller closes it after the engine. */
  readonly store: Store
  readonly searchThreads: number
  readonly maxLimit: number
  readonly maxQueuedQueries: number
  readonly maxQueuedWriteBytes: number
  /** 0 for no limit. */
  readonly maxMemoryBytes: number
  readonly logger: Logger
}

/** Figures for metrics and people. */
export interface EngineStats {
  readonly points: number
  readonly dimension: number
  readonly segments: number
  readonly indexBytes: number
  readonly idTableBytes: number
  readonly queuedQueries: number
  readonly queuedWriteBytes: number
  readonly sequence: number
}

/**
 * Opens the engine over a store: loads every live point into memory and starts the search threads.
 *
 * @throws what `store.load` throws on damaged data
 */
export async function openEngine(options: EngineOptions): Promise<Engine> {
  const kernels = await loadKernels()
  const executor = createExecutor({
    kernels,
    threads: options.searchThreads,
    maxQueuedQueries: options.maxQueuedQueries,
    logger: options.logger,
  })
  try {
    return new Engine(options, await recover(options, kernels), kernels, executor)
  } catch (error) {
    await executor.close()
    throw error
  }
}

/**
 * The database: joins the write path, the index in memory, the id table and the search threads.
 *
 * All its state changes in `applyInsertion` and `applyDeletion`, whether a change comes from a caller or
 * from the disk at start-up. Main thread only; search threads read the index's shared memory.
 */
export class Engine implements Database, ChangeTarget, AsyncDisposable {
  readonly #store: Store
  readonly #options: EngineOptions
  readonly #kernels: KernelModule
  readonly #executor: SearchExecutor
  readonly #writePath: WritePath
  readonly #state: State
  #attached = false

  /** Use `openEngine`. */
  constructor(options: EngineOptions, state: State, kernels: KernelModule, executor: SearchExecutor) {
    this.#store = options.store
    this.#options = options
    this.#state = state
    this.#kernels = kernels
    this.#executor = executor
    this.#writePath = new WritePath({
      store: options.store,
      slots: state.slots,
      target: this,
      maxQueuedBytes: options.maxQueuedWriteBytes,
    })
    if (state.index !== undefined) this.#attach(state.index)
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
      queuedWriteBytes: this.#writePath.queuedBytes,
      sequence: this.#store.sequence,
    }
  }

  insert(points: readonly NewPoint[], signal?: AbortSignal): Promise<readonly string[]> {
    // Two first inserts of different lengths can be under way at once: the first one to come decides.
    this.#state.index ??= createIndex(this.#options, this.#kernels, points[0]!.vector.length)
    return this.#writePath.insert(points, signal)
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

  async search(
    queries: readonly SearchQuery[],
    signal?: AbortSignal,
  ): Promise<readonly (readonly string[])[]> {
    const hits = await this.#executor.search(queries, signal)
    return hits.map((each) => this.#idsOf(each))
  }

  /** Refuses new changes, lets those under way end, and stops the search threads. */
  async close(): Promise<void> {
    await this.#writePath.close()
    await this.#executor.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  find(id: string): number {
    return this.#state.ids.find(id)
  }

  reserve(slotCount: number): void {
    this.#state.index!.reserve(slotCount)
  }

  applyInsertion({ slot, id, sequence, point }: Insertion): void {
    writeIdBytes(id, idScratch, 0)
    applyRow(this.#state, { slot, id: idScratch, sequence, vector: point.vector })
    if (!this.#attached) this.#attach(this.#state.index!)
  }

  applyDeletion({ slot }: Deletion): void {
    this.#state.ids.delete(slot)
    this.#state.index!.remove(slot)
  }

  /** A first insert that failed has not fixed the dimension after all. */
  idle(): void {
    if (this.#store.dimension === undefined) this.#state.index = undefined
  }

  #attach(index: VectorIndex): void {
    this.#attached = true
    this.#executor.attach(index)
  }

  /** A slot that was deleted, or deleted and filled anew, while the search ran is no longer what was found. */
  #idsOf(hits: readonly Hit[]): string[] {
    const { index, ids } = this.#state
    return hits
      .filter(({ slot, sequence }) => index!.isLive(slot) && index!.sequenceOf(slot) === sequence)
      .map(({ slot }) => ids.idAt(slot))
  }
}

/** Everything in memory that is derived from the store. */
interface State {
  readonly ids: IdTable
  readonly slots: SlotAllocator
  /** Undefined until the first insert fixes the dimension. */
  index: VectorIndex | undefined
}

const idScratch = new Uint8Array(idBytes)

/** Reads the store into memory; afterwards every slot is live or free. */
async function recover(options: EngineOptions, kernels: KernelModule): Promise<State> {
  const { store } = options
  const state: State = {
    ids: new IdTable(),
    slots: new SlotAllocator(store.slotCount),
    index: store.dimension === undefined ? undefined : createIndex(options, kernels, store.dimension),
  }
  let nextSlot = 0
  await store.load((row) => {
    for (; nextSlot < row.slot; nextSlot += 1) state.slots.release(nextSlot)
    nextSlot = row.slot + 1
    applyRow(state, row)
  })
  for (; nextSlot < store.slotCount; nextSlot += 1) state.slots.release(nextSlot)
  return state
}

/** Puts one point into memory: the only way in, live or at recovery. */
function applyRow({ index, ids }: State, { slot, id, sequence, vector }: StoredRow): void {
  index!.place(slot, vector, sequence)
  ids.set(slot, id)
}

function createIndex(options: EngineOptions, kernels: KernelModule, dimension: number): VectorIndex {
  return new VectorIndex({
    dimension,
    kernels,
    maxThreads: options.searchThreads + 1,
    maxLimit: options.maxLimit,
    maxMemoryBytes: options.maxMemoryBytes,
  })
}
