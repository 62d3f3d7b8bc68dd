import type { Logger } from '../../src/base/log.ts'
import { type OpenedCollection, openCollection } from '../support/collection.ts'

/** The real collection over the real store, without transports. */
export function openPoints(dataDir: string, logger: Logger): Promise<OpenedCollection> {
  return openCollection(dataDir, {
    logger,
    searchThreads: 1,
    indexThreads: 1,
    maxLimit: 100_000,
    hnswM: 16,
    hnswEfConstruction: 64,
    hnswEf: 64,
    recallTarget: 0.9,
    maxUnindexedBytes: 16 * 1024 * 1024,
    maxQueuedQueries: 1000,
    maxQueuedResults: 100_000,
    maxBufferedBytes: 64 * 1024 * 1024,
    maxMemoryBytes: 0,
    // A graph from the first point on, so that a small collection has checkpoints.
    graphBytesMin: 0,
    // The same for the attribute file.
    attributePointsMin: 0,
  })
}
