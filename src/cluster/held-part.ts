import { createHash } from 'node:crypto'
import { defaultCollection } from '../base/collection.ts'
import type { HeldCollection, HeldPart } from '../base/repair-plan.ts'
import type { Loaded } from '../collections/served-data.ts'
import { heldIn } from '../points/held-partitions.ts'
import { PartitionDigest } from '../storage/partition-digest.ts'
import type { DataStore, Snapshot, Store } from '../storage/store.ts'

type HeldData = Pick<HeldPart, 'database_id' | 'log' | 'reach' | 'held' | 'collections'>

/**
 * Describes what a data directory holds, for the plan of a repair. The log is not applied meanwhile.
 *
 * @param loaded the same directory, if its points are in memory
 * @throws DatabaseError `overloaded` while a snapshot is being read
 */
export async function heldData(store: DataStore, loaded: Loaded | undefined): Promise<HeldData> {
  const collections = await (loaded === undefined ? collectionsAtRest(store) : collectionsIn(loaded))
  const { main } = store
  const reach = Math.max(...Object.values(collections).map(({ position }) => position))
  return {
    database_id: main.databaseId,
    log: main.applied?.logId ?? '',
    reach: Math.max(reach, main.applied?.floor ?? 0),
    held: Buffer.from(heldIn(main).bytes).toString('base64'),
    collections,
  }
}

async function collectionsIn({ set }: Loaded): Promise<Record<string, HeldCollection>> {
  const held: Record<string, HeldCollection> = {}
  for (const { name } of set.list()) {
    using lease = await set.lease(name)
    const { replica } = lease.database
    const snapshot = lease.database.snapshot()
    try {
      held[name] = await heldOf({ position: replica.position, digest: replica.digest }, snapshot)
    } finally {
      snapshot.close()
    }
  }
  return held
}

async function collectionsAtRest(data: DataStore): Promise<Record<string, HeldCollection>> {
  const held: Record<string, HeldCollection> = {}
  await eachCollection(data, async (name, store) => {
    const { position = 0, digest = new PartitionDigest().bytes } = store.applied ?? {}
    const snapshot = store.snapshot(() => {})
    try {
      held[name] = await heldOf({ position, digest }, snapshot)
    } finally {
      snapshot.close()
    }
  })
  return held
}

async function heldOf(
  { position, digest }: { readonly position: number; readonly digest: Uint8Array },
  snapshot: Snapshot,
): Promise<HeldCollection> {
  let last: Buffer | undefined
  for await (const record of snapshot.keyedRequests()) last = record
  return {
    position,
    digest: Buffer.from(digest).toString('base64'),
    last_key: last === undefined ? null : hashOfRecord(last),
  }
}

/** A hash that tells a keyed request from all others. */
export function hashOfRecord(record: Uint8Array): string {
  return createHash('sha256').update(record).digest('base64').slice(0, 22)
}

/** Visits the collections of a directory, none of them open: the named ones, then the default one. */
export async function eachCollection(
  data: DataStore,
  use: (name: string, store: Store) => Promise<void>,
): Promise<void> {
  for (const { name, number } of [...data.collections.values()]) {
    const store = await data.open(number)
    try {
      await use(name, store)
    } finally {
      await store.close()
    }
  }
  await use(defaultCollection, data.main)
}
