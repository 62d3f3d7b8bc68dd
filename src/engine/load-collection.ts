import type { LoadedFile } from '../attributes/index-file.ts'
import { idBytes } from '../base/ids.ts'
import { Turn } from '../base/turns.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { Store } from '../storage/store.ts'
import type { AttributeCache } from './attribute-cache.ts'
import type { EngineParts } from './engine-options.ts'
import type { Indexer } from './indexer.ts'
import type { LivePoints } from './live-points.ts'
import { enterIds, enterKept, enterRecords } from './load-points.ts'
import type { ReplicaPath } from './replica-path.ts'
import type { SlotAllocator } from './slot-allocator.ts'

/** What a start fills from the store. */
export interface LoadedParts {
  readonly store: Store
  readonly slots: SlotAllocator
  readonly indexer: Indexer
  readonly points: LivePoints
  readonly attributeCache: AttributeCache
  readonly options: Pick<EngineParts['options'], 'maxMemoryBytes' | 'logger'>
}

/**
 * Reads a store into memory. Index threads read vectors and ids (`Slots.fill`, as in `apply`), and the graphs; the main
 * thread does the rest.
 *
 * @throws the reason of `signal` when that aborts
 */
export async function loadCollection(
  parts: LoadedParts,
  dimension: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { points, indexer } = parts
  const index = points.createIndex(dimension)
  points.table.index = index
  indexer.attach(index)
  const kept = await fillAndReadAttributes(parts, index, signal)
  // Search threads not before: index threads are needed at once, and on few cores others would hold up their start.
  points.attach()
  await Promise.all([enter(parts, kept, signal), indexer.load()])
  signal?.throwIfAborted()
}

/** Index threads do the one, the main thread the other. */
async function fillAndReadAttributes(
  parts: LoadedParts,
  index: VectorIndex,
  signal: AbortSignal | undefined,
): Promise<LoadedFile | undefined> {
  const [filled, kept] = await Promise.allSettled([
    fill(parts, index, signal),
    parts.attributeCache.load(parts.store, signal),
  ])
  if (filled.status === 'rejected') throw filled.reason
  if (kept.status === 'rejected') throw kept.reason
  return kept.value
}

async function fill(
  { store, points, indexer, options }: LoadedParts,
  index: VectorIndex,
  signal: AbortSignal | undefined,
): Promise<void> {
  const rows = store.rows()
  if (rows === undefined) return
  index.extend(rows.slotCount)
  if (index.isBeyondLimit) {
    const { maxMemoryBytes, logger } = options
    logger.warn(
      { maxMemoryBytes },
      'the stored points take more memory than MAX_MEMORY_BYTES: inserts are refused until points are deleted or it is raised',
    )
  }
  await indexer.fill(rows, points.table.ids.pages(rows.slotCount), signal)
}

/** @param kept what was read of the attributes */
async function enter(
  { store, slots, points, attributeCache }: LoadedParts,
  kept: LoadedFile | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  await enterIds(points, slots, signal)
  const isPresent = kept?.sequence === store.sequence && kept.databaseId === store.databaseId
  if (isPresent) await enterKept(points, store, kept.orders(), signal)
  else await enterRecords(points, store, signal)
  // Not waited for: only the next start needs it.
  if (attributeCache.isMissing) {
    void attributeCache.save({ databaseId: store.databaseId, sequence: store.sequence })
  }
}

/** Of a collection that becomes a replica, before anything is hidden: what has expired is stored too. */
export async function digestAll(
  { table }: LivePoints,
  path: Pick<ReplicaPath, 'addToDigest'>,
): Promise<void> {
  const turn = new Turn()
  const id = new Uint8Array(idBytes)
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    if (!table.isVisible(slot)) continue
    table.copyId(slot, id, 0)
    path.addToDigest(id, table.versionOf(slot))
    if (turn.isOver) await turn.next()
  }
}
