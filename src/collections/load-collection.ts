import { createHash } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { AttributeIndex } from '../attributes/attribute-index.ts'
import { type LoadedFile, loadIndex, saveIndex } from '../attributes/index-file.ts'
import type { NumberField } from '../attributes/number-field.ts'
import { attributesFromJson } from '../base/attributes.ts'
import { type FileMoment, isSameMoment } from '../base/files.ts'
import { idBytes } from '../base/ids.ts'
import type { Logger } from '../base/log.ts'
import { contentTypes } from '../base/point.ts'
import { inTurns, Turn } from '../base/turns.ts'
import type { Indexer } from '../graphs/indexer.ts'
import type { VectorIndex } from '../index/vector-index.ts'
import type { SlotAllocator } from '../points/point-table.ts'
import type { RecordBatch, Store } from '../storage/store.ts'
import type { Replica } from '../write/replica.ts'
import type { EngineParts } from './engine.ts'
import type { LivePoints } from './live-points.ts'

/** The parts of a collection that a start fills from its store. */
interface LoadedParts {
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
    await enterKept(points, store, kept.orders, signal)
  else await enterRecords(points, store, signal)
  // Not awaited: only the next start needs the file.
  if (attributeCache.isMissing) void attributeCache.save(momentOf(store))
}

/**
 * Adds all points to the digest of a collection that becomes a replica. Call before points are hidden, because stored
 * points count even if they have expired.
 */
export async function digestAll({ table }: LivePoints, path: Pick<Replica, 'addToDigest'>): Promise<void> {
  const turn = new Turn()
  const id = new Uint8Array(idBytes)
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    if (!table.isVisible(slot)) continue
    table.copyId(slot, id, 0)
    path.addToDigest(id, table.versionOf(slot))
    if (turn.isOver) await turn.next()
  }
}

/**
 * Enters the ids of a store's points after index threads have filled in the vectors. Afterwards every slot is either
 * live and found by its id, or free. A start cannot use `apply`: the disk holds the points, not the changes that led to
 * them.
 *
 * @throws the reason of `signal` when it aborts
 */
async function enterIds(
  { table }: LivePoints,
  slots: SlotAllocator,
  signal: AbortSignal | undefined,
): Promise<void> {
  const turn = new Turn()
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    if (slot % slotsPerLook === 0) {
      if (turn.isOver) await turn.next()
      signal?.throwIfAborted()
    }
    if (table.isVisible(slot)) table.enterFilled(slot)
    else slots.release(slot)
  }
}

/**
 * Enters the versions, orders, attributes and expiry of all points, after their ids. Attributes that the index already
 * has at the point's version are kept.
 *
 * @throws the reason of `signal` when it aborts
 */
async function enterRecords(
  points: LivePoints,
  store: Store,
  signal: AbortSignal | undefined,
): Promise<void> {
  const turn = new Turn()
  for (const batch of store.records()) {
    for (let at = 0; at < batch.count; at += 1) {
      enterRecord(points, batch, at)
      if (turn.isOver) {
        await turn.next()
        signal?.throwIfAborted()
      }
    }
  }
  await deleteStaleAttributes(points)
}

/**
 * Like `enterRecords`, for an attribute index that was read from a file of the store's present state. Only reads the
 * records of points that the file left out.
 *
 * @param orders from the file: the orders that differ from the sequence number of the row
 * @throws the reason of `signal` when it aborts
 */
async function enterKept(
  points: LivePoints,
  store: Store,
  orders: NumberField,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { table, attributes, expirations } = points
  const turn = new Turn()
  let looked = 0
  for (let slot = 0; slot < table.slotCount; slot += 1) {
    looked += 1
    if (looked % slotsPerLook === 0 && turn.isOver) {
      await turn.next()
      signal?.throwIfAborted()
    }
    if (!table.isVisible(slot)) continue
    const version = attributes.has(slot) ? attributes.versionOf(slot) : Number.NaN
    const sequence = table.index!.sequenceOf(slot)
    if (!(version >= sequence && version <= store.sequence)) {
      for (const batch of store.records(slot, recordsPerRead)) {
        for (let at = 0; at < batch.count; at += 1) enterRecord(points, batch, at)
        slot = batch.slots[batch.count - 1]!
        looked = -1
      }
      continue
    }
    if (version !== sequence) table.setVersion(slot, version)
    const expiresAtUs = attributes.expiresAtUsOf(slot)
    if (expiresAtUs !== undefined) expirations.set(slot, expiresAtUs)
  }
  const setOrder = (slot: number, order: number): void => {
    if (slot < table.slotCount && table.isVisible(slot)) table.setOrder(slot, order)
  }
  await inTurns(orders.column.each(setOrder))
  await deleteStaleAttributes(points)
}

/** Removes attributes of points that no longer exist. */
async function deleteStaleAttributes({ table, attributes }: LivePoints): Promise<void> {
  if (attributes.count === table.size) return
  const known = await inTurns(attributes.evaluate({ kind: 'all', of: [] }))
  for (const slot of known) if (slot >= table.slotCount || !table.isVisible(slot)) attributes.delete(slot)
}

function enterRecord({ table, attributes, expirations }: LivePoints, batch: RecordBatch, at: number): void {
  const slot = batch.slots[at]!
  const version = batch.versions[at]!
  const order = batch.orders[at]!
  const sequence = table.index!.sequenceOf(slot)
  if (!Number.isNaN(version) && version !== sequence) table.setVersion(slot, version)
  if (!Number.isNaN(order) && order !== sequence) table.setOrder(slot, order)
  const expiresAtUs = Number.isNaN(batch.expiresAtUs[at]!) ? undefined : batch.expiresAtUs[at]!
  if (expiresAtUs !== undefined) expirations.set(slot, expiresAtUs)
  if (attributes.has(slot) && attributes.versionOf(slot) === table.versionOf(slot)) return
  const json = batch.attributes[at]
  const payload = {
    // The content of a damaged record is unknown: reading the point reports the damage.
    contentType: contentTypes[batch.contentTypes[at]!] ?? 'Text',
    content: '',
    attributes: json && attributesFromJson(decoder.decode(json)),
    expiresAtUs,
  }
  attributes.set(slot, { payload, version: table.versionOf(slot) })
}

const decoder = new TextDecoder()

/** Entering this many slots takes some tens of microseconds. */
const slotsPerLook = 256
/** Read together, because points that a file left out may be neighbours. */
const recordsPerRead = 32

interface AttributeCacheOptions {
  readonly attributes: AttributeIndex
  /** The orders that differ from the sequence number of the row. They are saved too. */
  readonly orders: NumberField
  /** The directory of the graphs; undefined to save nothing. */
  readonly directory: string | undefined
  /** A collection with fewer points is not saved. */
  readonly pointsMin?: number | undefined
  readonly logger: Logger
}

/**
 * Keeps the attribute index of a collection on disk, so that a start need not read and parse the attributes of every
 * point. The file is written when a collection closes, and after a start that found no usable file. The versions of the
 * points show what has changed since. Small collections have no file: reading their points is as fast.
 */
export class AttributeCache {
  readonly #attributes: AttributeIndex
  readonly #orders: NumberField
  readonly #path: string | undefined
  readonly #pointsMin: number
  readonly #logger: Logger
  /** The journal position at which memory and file agreed, and the moment that the file records. */
  #saved: { readonly position: number; readonly moment: FileMoment } | undefined
  #saving: Promise<void> = Promise.resolve()

  constructor({ attributes, orders, directory, pointsMin = usualPointsMin, logger }: AttributeCacheOptions) {
    this.#attributes = attributes
    this.#orders = orders
    this.#path = directory && join(directory, 'attributes.bin')
    this.#pointsMin = pointsMin
    this.#logger = logger
  }

  /**
   * Reads the file into the empty index. A damaged file, or one of other points, is removed and the index stays empty.
   *
   * @param now the present moment of the collection
   * @returns the rest of the file's content; undefined if there is no usable file, or when `signal` has aborted
   */
  async load(now: FileMoment, signal: AbortSignal | undefined): Promise<LoadedFile | undefined> {
    if (this.#path === undefined) return undefined
    try {
      const file = await loadIndex(this.#attributes, this.#path, now, signal)
      if (file !== undefined) this.#saved = { position: this.#attributes.journal.position, moment: file }
      return file
    } catch (error) {
      if (signal?.aborted === true) return undefined
      const fault = (error as Error).message
      this.#logger.warn({ path: this.#path, fault }, 'the file of attributes is unusable; rebuilding it')
      await rm(this.#path, { force: true })
      return undefined
    }
  }

  /** Resolves when nothing is being written. */
  get ended(): Promise<void> {
    return this.#saving
  }

  /** Whether no file has been loaded or saved yet. */
  get isMissing(): boolean {
    return this.#saved === undefined
  }

  /** Writes the file if needed; concurrent calls run one after another. A failure only makes the next start slower. */
  save(moment: FileMoment): Promise<void> {
    this.#saving = this.#saving.then(() => this.#save(moment))
    return this.#saving
  }

  async #save(moment: FileMoment): Promise<void> {
    const { count, journal } = this.#attributes
    const { position } = journal
    const isSaved = this.#saved?.position === position && isSameMoment(this.#saved.moment, moment)
    if (this.#path === undefined || count < this.#pointsMin || isSaved) return
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 })
      const isWritten = await saveIndex(this.#attributes, this.#path, moment, this.#orders)
      if (isWritten) this.#saved = { position, moment }
    } catch (err) {
      this.#logger.warn({ err }, 'the attributes could not be saved for the next start')
    }
  }
}

/** The present moment of a collection. */
export function momentOf({ databaseId, sequence, applied }: Store): FileMoment {
  const points = applied && createHash('sha256').update(applied.digest).digest('base64url')
  return { databaseId, sequence, points }
}

/** Reading the records of this many points takes about 50 ms. */
const usualPointsMin = 10_000
