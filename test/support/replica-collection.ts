import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLogger } from '../../src/base/log.ts'
import type { PartitionSet } from '../../src/base/partitions.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { startEngine } from '../../src/collections/engine.ts'
import { openDataStore } from '../../src/storage/data-store.ts'
import type { Store } from '../../src/storage/store.ts'
import { HeldPartitions } from '../../src/write/replica.ts'

/** The collection of a node of a cluster without the node: a test applies the records of the log itself. */

const logger = createLogger({ level: 'silent', pretty: false })
const settings = {
  searchThreads: 1,
  indexThreads: 1,
  maxLimit: 100,
  hnswEf: 16,
  hnswM: 16,
  hnswEfConstruction: 16,
  recallTarget: 0.98,
  maxOpenCollections: 10,
  maxQueuedQueries: 100,
  maxQueuedResults: 10_000,
  maxBufferedBytes: 1024 * 1024,
  maxMemoryBytes: 0,
  attributePointsMin: 1,
  logger,
} as const

export interface ReplicaOptions {
  readonly dataDir: string
  /** The partitions that the node holds; absent: all. */
  readonly held?: PartitionSet | undefined
  readonly onVisible?: (position: number, store: Store) => void
  /** The cluster's clock up to which all collections have applied the log, in microseconds since 1970; 0 by default. */
  readonly clockUs?: number
}

export async function withDirectory(use: (dataDir: string) => Promise<void>): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'vicinal-held-'))
  try {
    await use(dataDir)
  } finally {
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** Opens a collection of vectors of one number, and closes it after `use`. */
export async function withReplica(
  { dataDir, held, onVisible, clockUs = 0 }: ReplicaOptions,
  use: (collection: Collection) => Promise<void>,
): Promise<void> {
  const engine = startEngine(settings)
  const store = await openDataStore({ dataDir, logger, dimension: 1 })
  try {
    const replica = {
      logId: '0f'.repeat(16),
      held: held && new HeldPartitions(held),
      floor: () => ({ position: 0, clockUs }),
      onVisible: (position: number) => onVisible?.(position, store.main),
      onDue: () => {},
      expire: () => new Promise<never>(() => {}),
      onStall: () => {},
    }
    const indexDirectory = join(dataDir, 'collections/0/index')
    const collection = await engine.openCollection(store.main, { ...settings, indexDirectory, replica })
    await use(collection)
    await collection.close()
  } finally {
    await engine.close(0)
    await store.close()
  }
}

/** Opens the same collection without a cluster, as it was before. The clock stands still. */
export async function withoutCluster(
  dataDir: string,
  nowUs: number,
  use: (collection: Collection) => Promise<void>,
): Promise<void> {
  const engine = startEngine({ ...settings, nowUs: () => nowUs })
  const store = await openDataStore({ dataDir, logger, dimension: 1 })
  try {
    const collection = await engine.openCollection(store.main, settings)
    await use(collection)
    await collection.close()
  } finally {
    await engine.close(0)
    await store.close()
  }
}
