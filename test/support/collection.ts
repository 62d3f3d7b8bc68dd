import { join } from 'node:path'
import { createLogger, type Logger } from '../../src/base/log.ts'
import { CollectionSet } from '../../src/collections/collection-set.ts'
import {
  type Collection,
  type CollectionOptions,
  type Engine,
  type EngineOptions,
  startEngine,
} from '../../src/collections/engine.ts'
import { openDataStore, openStore } from '../../src/storage/data-store.ts'
import type { DataStore, Store } from '../../src/storage/store.ts'

/** A collection with its own engine over a real store, without transports. */
export interface OpenedCollection extends AsyncDisposable {
  readonly collection: Collection
  readonly engine: Engine
  readonly store: Store
  /** Closes all three. Idempotent. */
  close(): Promise<void>
}

export type CollectionSettings = Omit<EngineOptions, 'logger'> &
  CollectionOptions & { readonly logger?: Logger }

/** On a busy machine, the graphs take longer to be saved than the service waits. The next start must find them. */
const closeMs = 120_000

/** Opens the collection in a directory. Graphs are stored next to the points unless `indexDirectory` is undefined. */
export async function openCollection(
  dataDir: string,
  settings: CollectionSettings,
): Promise<OpenedCollection> {
  const logger = settings.logger ?? createLogger({ level: 'silent', pretty: false })
  const options = { indexDirectory: join(dataDir, 'collections/0/index'), ...settings, logger }
  await using opened = new AsyncDisposableStack()
  const store = await openStore({ dataDir, logger })
  opened.defer(() => store.close())
  const engine = startEngine(options)
  opened.defer(() => engine.close(closeMs))
  const collection = await engine.openCollection(store, options)
  const parts = opened.move()
  const close = (): Promise<void> => parts.disposeAsync()
  return { collection, engine, store, close, [Symbol.asyncDispose]: close }
}

/** Opens the collection in a directory, runs `work` on it and closes it. */
export async function withCollection<Result>(
  dataDir: string,
  settings: CollectionSettings,
  work: (collection: Collection) => Promise<Result>,
): Promise<Result> {
  await using opened = await openCollection(dataDir, settings)
  return await work(opened.collection)
}

/** Settings with which a set of collections works in a test. */
export const settingsOfSet: EngineOptions & CollectionOptions & { readonly maxOpenCollections: number } = {
  searchThreads: 1,
  indexThreads: 1,
  maxLimit: 100,
  hnswEf: 128,
  hnswM: 16,
  hnswEfConstruction: 128,
  recallTarget: 0.98,
  maxOpenCollections: 100,
  maxQueuedQueries: 1000,
  maxQueuedResults: 100_000,
  maxBufferedBytes: 16 * 1024 * 1024,
  maxMemoryBytes: 0,
  logger: createLogger({ level: 'silent', pretty: false }),
}

export interface OpenedCollections extends AsyncDisposable {
  readonly set: CollectionSet
  readonly store: DataStore
}

/** Opens all collections of a data directory as the service does, without transports. */
export async function openCollections(
  dataDir: string,
  options: Partial<CollectionSettings> & {
    readonly maxOpenCollections?: number
    readonly idleMs?: number
  } = {},
): Promise<OpenedCollections> {
  const config = { ...settingsOfSet, ...options }
  const engine = startEngine(config)
  const store = await openDataStore({ dataDir, logger: config.logger })
  const main = await engine.openCollection(store.main, {
    ...config,
    indexDirectory: join(dataDir, 'collections/0/index'),
    words: store.wordsOf(0),
  })
  const set = new CollectionSet({ ...config, engine, store, main })
  return {
    set,
    store,
    async [Symbol.asyncDispose]() {
      await set.close()
      await engine.close()
      await store.close()
    },
  }
}
