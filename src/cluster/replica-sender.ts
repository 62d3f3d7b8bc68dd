import type { Collection } from '../collections/collection.ts'
import type { Loaded } from '../collections/served-data.ts'
import type { ClusterNode } from './cluster-node.ts'
import type { CommitLog } from './commit-log.ts'
import { shortIdOf } from './log-id.ts'
import { type ReplicaCatalog, replicaBytes } from './replica-transfer.ts'

/** Describes what a node holds now, for another one. Its log position and its collections belong together. */
export function catalogOf({ store }: Loaded, node: ClusterNode, log: CommitLog): ReplicaCatalog {
  const { position, clockUs } = node.place
  return {
    ...{ logId: shortIdOf(log), position, clockUs },
    collections: [...store.collections.values()].map(({ name, dimension, hnsw }) => ({
      name,
      dimension,
      hnsw,
    })),
    aliases: Object.fromEntries(store.aliases),
  }
}

/** The bytes of a collection. Its reader has to close them. */
export interface ReplicaCollectionBytes {
  readonly chunks: AsyncIterable<Buffer>
  readonly close: () => void
}

/**
 * Reads a collection for another node.
 *
 * @throws DatabaseError `collection_not_found` when it was dropped; `overloaded` while a snapshot of it is being read
 */
export async function collectionOf(
  { set }: Loaded,
  name: string,
  hasPoints: boolean,
): Promise<ReplicaCollectionBytes> {
  const lease = await set.lease(name)
  try {
    const collection: Collection = lease.database
    const snapshot = collection.snapshot()
    const close = (): void => {
      snapshot.close()
      lease[Symbol.dispose]()
    }
    return { chunks: replicaBytes(snapshot, hasPoints), close }
  } catch (error) {
    lease[Symbol.dispose]()
    throw error
  }
}
