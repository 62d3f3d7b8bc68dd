import { isSameMoment, type LoadedFile } from '../attributes/index-file.ts'
import { idBytes } from '../base/ids.ts'
import { Turn } from '../base/turns.ts'
import type { Indexer } from '../graphs/indexer.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { SlotAllocator } from '../points/slot-allocator.ts'
import type { Store } from '../storage/store.ts'
import type { ReplicaPath } from '../write/replica-path.ts'
import { type AttributeCache, momentOf } from './attribute-cache.ts'
import type { EngineParts } from './engine-options.ts'
import type { LivePoints } from './live-points.ts'
import { enterIds, enterKept, enterRecords } from './load-points.ts'

/** The parts of a collection that a start fills from its store. */
export interface LoadedParts {
  readonly store: Store
  readonly slots: SlotAllocator
  readonly indexer: Indexer
  readonly points: LivePoints
  readonly attributeCache: AttributeCache
  readonly options: Pick<EngineParts['options'], 'maxMemoryBytes' | 'logger'>
}

/**
 * Reads a store into memory. Index threads read the vectors and ids (`Slots.fill`, as in `apply`) and the graphs; the
 * main thread does the rest.
 *
 * @throws the reason of `signal` when it aborts
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
  // Search threads start only now: index threads are needed first, and with few cores the others would delay them.
  points.attach()
  await Promise.all([enter(parts, kept, signal), indexer.load()])
  signal?.throwIfAborted()
}

/** Fills the index on the index threads, and reads the saved attributes on the main thread meanwhile. */
async function fillAndReadAttributes(
  parts: LoadedParts,
  index: VectorIndex,
  signal: AbortSignal | undefined,
): Promise<LoadedFile | undefined> {
  const [filled, kept] = await Promise.allSettled([
    fill(parts, index, signal),
    parts.attributeCache.load(momentOf(parts.store), signal),
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
  const { maxMemoryBytes, logger } = options
  // Room beside other collections is made by closing those that nobody uses.
  if (maxMemoryBytes > 0 && index.claimedBytes > maxMemoryBytes) {
    logger.warn(
      { maxMemoryBytes },
      'the stored points take more memory than MAX_MEMORY_BYTES: inserts are refused until points are deleted or the limit is raised',
    )
  }
  await indexer.fill(rows, points.table.ids.pages(rows.slotCount), signal)
}

/** @param kept the attributes that were read from the file */
async function enter(
  { store, slots, points, attributeCache }: LoadedParts,
  kept: LoadedFile | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  await enterIds(points, slots, signal)
  if (kept !== undefined && isSameMoment(kept, momentOf(store)))
    await enterKept(points, store, kept.orders(), signal)
  else await enterRecords(points, store, signal)
  // Not awaited: only the next start needs the file.
  if (attributeCache.isMissing) void attributeCache.save(momentOf(store))
}

/**
 * Adds all points to the digest of a collection that becomes a replica. Call before points are hidden, because stored
 * points count even if they have expired.
 */
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
