import type { BulkOptions } from './call-options.ts'
import type { PointsClient, PointToInsert } from './client.ts'

/**
 * Inserts points in batches. Reads points only as fast as requests finish. Yields the ids of each batch, in the order
 * of the points. After a failure, the yielded batches are stored; later batches may be.
 */
export async function* insertInBatches(
  insertBatch: PointsClient['insertBatch'],
  points: AsyncIterable<PointToInsert> | Iterable<PointToInsert>,
  { batchSize = 500, concurrency = 2, signal }: BulkOptions = {},
): AsyncGenerator<readonly string[]> {
  const underWay: Promise<readonly string[]>[] = []
  try {
    for await (const batch of batchesOf(points, batchSize)) {
      if (underWay.length >= concurrency) yield await underWay.shift()!
      const inserted = insertBatch(batch, signal === undefined ? {} : { signal })
      // The failure is thrown later, when this batch is the first in the queue.
      inserted.catch(() => {})
      underWay.push(inserted)
    }
    while (underWay.length > 0) yield await underWay.shift()!
  } finally {
    await Promise.allSettled(underWay)
  }
}

async function* batchesOf<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  size: number,
): AsyncGenerator<Item[]> {
  let batch: Item[] = []
  for await (const item of items) {
    batch.push(item)
    if (batch.length < size) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}
