import { defaultCollection } from '../base/collection.ts'
import { assert, type DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { CollectionStats } from '../points/database.ts'
import { mainNumber } from '../storage/catalog.ts'
import { openDataStore, type StoreOptions } from '../storage/data-store.ts'
import type { DataStore } from '../storage/store.ts'
import type { ReplicaHooks } from '../write/replica.ts'
import { CollectionSet } from './collection-set.ts'
import type { Collection, Engine } from './engine.ts'
import type { OpenCollectionsOptions } from './open-collections.ts'

interface ServedDataOptions
  extends Pick<OpenCollectionsOptions, 'hnswM' | 'hnswEfConstruction' | 'maxOpenCollections'> {
  readonly engine: Engine
  readonly store: StoreOptions
  /** The index directory of the default collection. */
  readonly indexDirectory: string
  readonly logger: Logger
}

/** The open data, once the points of the default collection are in memory. */
export interface Loaded {
  readonly store: DataStore
  readonly main: Collection
  readonly set: CollectionSet
}

/** Figures for metrics. */
interface Figures {
  /** Figures of the default collection. */
  readonly stats: CollectionStats
  readonly keyedRequests: number
  readonly diskBytes: number
  readonly keepsChanges: boolean
}

/**
 * The data that a process serves: the directory, the default collection, and the named ones. A node of a cluster can
 * discard all of it and load another node's data while the process keeps running:
 *
 *   openStore ─> load ─> loaded ─> close
 *       ^                  │
 *       └──── replaced ────┴─ unload
 */
export class ServedData {
  readonly #options: ServedDataOptions
  readonly #stop = new AbortController()
  #store: DataStore | undefined
  #main: Collection | undefined
  #set: CollectionSet | undefined
  #loading: Promise<unknown> = Promise.resolve()
  #figures: Figures | undefined

  constructor(options: ServedDataOptions) {
    this.#options = options
  }

  /** The current figures; while nothing is loaded, the last ones before `unload`. */
  get figures(): Figures {
    const { loaded } = this
    if (loaded === undefined) {
      assert(this.#figures !== undefined, 'something was loaded once')
      return this.#figures
    }
    const { main, store } = loaded
    const { diskBytes, keepsChanges } = store
    return { stats: main.stats, keyedRequests: store.main.keyedRequestCount, diskBytes, keepsChanges }
  }

  get dataDir(): string {
    return this.#options.store.dataDir
  }

  /** The options with which the store is opened. */
  get storeOptions(): StoreOptions {
    return this.#options.store
  }

  /** The open directory; undefined while it is closed. */
  get opened(): DataStore | undefined {
    return this.#store
  }

  get loaded(): Loaded | undefined {
    if (this.#store === undefined || this.#main === undefined || this.#set === undefined) return undefined
    return { store: this.#store, main: this.#main, set: this.#set }
  }

  /**
   * Opens the directory unless it is open.
   *
   * @throws what `openDataStore` throws
   */
  async openStore(): Promise<DataStore> {
    this.#store ??= await openDataStore(this.#options.store)
    return this.#store
  }

  /**
   * Loads the points of the default collection.
   *
   * @param replicaOf on a node of a cluster: returns the hooks of a collection
   * @throws DatabaseError that names the damage; `shutting_down` after `stop`
   */
  async load(replicaOf: ((name: string) => ReplicaHooks) | undefined): Promise<Loaded> {
    const loading = this.#load(replicaOf)
    this.#loading = loading.catch(() => {})
    return await loading
  }

  async #load(replicaOf: ((name: string) => ReplicaHooks) | undefined): Promise<Loaded> {
    const { engine, indexDirectory } = this.#options
    const store = await this.openStore()
    const main = await engine.openCollection(store.main, {
      ...this.#options,
      indexDirectory,
      signal: this.#stop.signal,
      words: store.wordsOf(mainNumber),
      meter: () => engine.meters.get(defaultCollection),
      replica: replicaOf?.(defaultCollection),
    })
    const set = new CollectionSet({ ...this.#options, store, main, replicaOf })
    this.#main = main
    this.#set = set
    return { store, main, set }
  }

  /**
   * Discards everything without saving any graph, and releases the directory. Calls in progress fail with the error.
   */
  async unload(error: DatabaseError): Promise<void> {
    if (this.loaded !== undefined) this.#figures = this.figures
    const [store, main, set] = [this.#store, this.#main, this.#set]
    this.#store = undefined
    this.#main = undefined
    this.#set = undefined
    await set?.discardAll(error)
    await main?.discard(error)
    await store?.close()
  }

  /**
   * Prevents further loading and opening of collections. Then the engine closes the open ones, and `close` is called.
   */
  async stop(error: DatabaseError): Promise<void> {
    this.#stop.abort(error)
    await this.#loading
    await this.#set?.close()
  }

  async close(): Promise<void> {
    await this.#store?.close()
  }
}
