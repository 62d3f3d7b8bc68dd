import { join } from 'node:path'
import type { Logger } from '../../src/base/log.ts'
import { type Engine, openEngine } from '../../src/engine/engine.ts'
import { openStore } from '../../src/storage/lmdb-store.ts'
import type { Store } from '../../src/storage/store.ts'

/** The real engine over the real store, without transports. */
export async function openPoints(
  dataDir: string,
  logger: Logger,
): Promise<AsyncDisposable & { readonly engine: Engine; readonly store: Store }> {
  const store = await openStore({ dataDir, logger })
  try {
    const options = {
      store,
      logger,
      searchThreads: 1,
      indexThreads: 1,
      indexDirectory: join(dataDir, 'index'),
      maxLimit: 100_000,
      hnswM: 16,
      hnswEfConstruction: 64,
      hnswEf: 64,
      recallTarget: 0.9,
      maxUnindexedBytes: 16 * 1024 * 1024,
      maxQueuedQueries: 1000,
      maxQueuedResults: 100_000,
      maxQueuedWriteBytes: 64 * 1024 * 1024,
      maxMemoryBytes: 0,
      // A graph from the first point on, so that there are checkpoints of a small collection.
      graphBytesMin: 0,
    }
    const engine = await openEngine(options)
    return {
      engine,
      store,
      async [Symbol.asyncDispose]() {
        await engine.close()
        await store.close()
      },
    }
  } catch (error) {
    await store.close()
    throw error
  }
}
