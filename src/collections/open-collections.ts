import { join } from 'node:path'
import { type CollectionInfo, type CollectionSettings, defaultCollection } from '../base/collection.ts'
import { DatabaseError, damageIn, unusableIn } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { MemoryUser } from '../index/vector-index.ts'
import type { Lease } from '../points/database.ts'
import { mainNumber } from '../storage/catalog.ts'
import type { CollectionRecord, CollectionSummary, DataStore, Store } from '../storage/store.ts'
import type { ReplicaHooks } from '../write/replica.ts'
import type { Collection, CollectionOptions, Engine } from './engine.ts'

export interface OpenCollectionsOptions {
  readonly engine: Engine
  /** The caller closes the store after the engine. */
  readonly store: DataStore
  /** The default collection, already open. */
  readonly main: Collection
  /** The settings of collections that were created without any. */
  readonly hnswM: number
  readonly hnswEfConstruction: number
  /** On a node of a cluster: returns the hooks of a collection. */
  readonly replicaOf?: ((name: string) => ReplicaHooks) | undefined
  /** When more collections than this are open, unused ones are closed, the least recently used first. */
  readonly maxOpenCollections: number
  /** A small collection that has not been used for this long is closed. Tests use a few milliseconds. */
  readonly idleMs?: number | undefined
  readonly logger: Logger
}

/** The default collection, like the record of a named one. */
export const mainRecord: CollectionRecord = {
  number: mainNumber,
  name: defaultCollection,
  dimension: undefined,
  hnsw: {},
  createdMs: 0,
}

/**
 * Opens collections when a call needs their points, and closes them when they are unused for a while, so that thousands
 * of collections cost no more than their names. The default collection is always open.
 *
 *   on disk ──lease──> opening ──> open, used by n ──released──> open, unused ──idle, or too many──> closing ──> on disk
 *                        │             └──────────────discard: calls in progress fail──────────────────────────> gone
 *                        └ damaged: refused, and tried again when its files change or after a while
 *
 * Main thread only.
 */
export class OpenCollections {
  readonly #options: OpenCollectionsOptions
  /** By number: collections that are opening, open or closing. */
  readonly #entries = new Map<number, Entry>()
  /** By number: collections that could not be opened because their files are missing or damaged. */
  readonly #failures = new Map<number, OpenFailure>()
  /** By number: the points of collections that are not open, so that metrics read each from disk only once. */
  readonly #closedPoints = new Map<number, number>()
  readonly #timer: NodeJS.Timeout
  /** Whether collections in use take more than MAX_MEMORY_BYTES: some are closed when they are not used any more. */
  #isBeyondMemory = false

  constructor(options: OpenCollectionsOptions) {
    this.#options = options
    this.#entries.set(mainRecord.number, new Entry(mainRecord, () => {}, options.main))
    this.#lookForDamage()
    const { idleMs = smallIdleMs } = options
    options.engine.memory.makeRoom = (bytes) => this.#makeRoom(bytes)
    this.#timer = setInterval(() => this.#closeIdle(performance.now() - idleMs), idleMs / 4).unref()
  }

  /** Reports damage that can be seen without opening collections. Whether one can be opened is decided when it is used. */
  #lookForDamage(): void {
    const { store, logger } = this.#options
    for (const { name, number } of store.collections.values()) {
      const { fault, mark } = store.look(number)
      if (fault === undefined) continue
      this.#failures.set(number, { error: this.#unusable(name, fault), mark, retryMs: 0 })
      if (this.#failures.size <= faultsLoggedMax) logger.error({ err: fault, collection: name }, cannotOpen)
    }
  }

  #unusable(name: string, fault: Error): DatabaseError {
    // Callers need not know where the data directory is.
    const text = fault.message.replaceAll(join(this.#options.store.dataDir, '/'), '')
    return new DatabaseError('internal', `the collection ${name} cannot be opened: ${text}`, { cause: fault })
  }

  /** The number of collections that could not be opened when last tried, because their files are missing or damaged. */
  get damagedCount(): number {
    return this.#failures.size
  }

  /** The open collections with their names. */
  get all(): readonly (readonly [string, Collection])[] {
    return [...this.#entries.values()].flatMap(({ record, collection }) =>
      collection === undefined ? [] : [[record.name, collection] as const],
    )
  }

  /** Returns the figures of a collection, also if it is not open. */
  figuresOf({ number }: CollectionRecord): Pick<CollectionSummary, 'dimension' | 'points'> {
    try {
      return this.get(number) ?? this.#options.store.summary(number)
    } catch (error) {
      if (damageIn(error) === undefined) throw error
      // A collection whose record is damaged is listed without its points.
      return { dimension: undefined, points: 0 }
    }
  }

  /** Returns the number of points of a collection, also if it is not open. */
  pointsOf(record: CollectionRecord): number {
    const { number } = record
    const known = this.get(number)?.points ?? this.#closedPoints.get(number)
    if (known !== undefined) return known
    const { points } = this.figuresOf(record)
    this.#closedPoints.set(number, points)
    return points
  }

  /** Returns the collection with this number if it is open. */
  get(number: number): Collection | undefined {
    return this.#entries.get(number)?.collection
  }

  /**
   * Opens a collection if it is not open yet, and keeps it open until the lease is disposed.
   *
   * @param find returns the record of the collection; another one if an alias moves meanwhile
   * @throws DatabaseError that names the damage
   */
  lease(find: () => CollectionRecord): CollectionLease | Promise<CollectionLease> {
    const entry = this.#entries.get(find().number)
    return entry?.collection !== undefined && entry.closing === undefined
      ? entry.use(entry.collection)
      : this.#open(find)
  }

  async #open(find: () => CollectionRecord): Promise<CollectionLease> {
    for (;;) {
      const record = find()
      const entry = this.#entries.get(record.number) ?? this.#begin(record)
      if (entry.closing !== undefined) {
        await entry.closing
        continue
      }
      const collection = await entry.opening
      if (entry.closing !== undefined) continue
      const lease = entry.use(collection)
      this.#closeBeyondMemory()
      return lease
    }
  }

  /** @throws DatabaseError of the last attempt if it found damage a short time ago and the files are as they were */
  #begin(record: CollectionRecord): Entry {
    const failure = this.#failures.get(record.number)
    if (failure !== undefined && performance.now() < failure.retryMs) {
      if (this.#options.store.look(record.number).mark === failure.mark) throw failure.error
    }
    this.#closedPoints.delete(record.number)
    const entry = new Entry(record, () => this.#closeBeyondBounds())
    entry.opening = this.#load(record, entry).catch((error) => {
      this.#forget(entry)
      throw this.#noted(record, error)
    })
    this.#entries.set(record.number, entry)
    this.#options.engine.memory.add(entry)
    return entry
  }

  async #load(record: CollectionRecord, entry: Entry): Promise<Collection> {
    const { engine, store } = this.#options
    const points = await store.open(record.number)
    try {
      entry.store = points
      entry.collection = await engine.openCollection(points, this.#optionsOf(record))
      this.#failures.delete(record.number)
      return entry.collection
    } catch (error) {
      await points.close()
      throw error
    }
  }

  #optionsOf({ number, name, hnsw }: CollectionRecord): CollectionOptions {
    const { m, efConstruction } = this.hnswOf(hnsw)
    return {
      indexDirectory: this.#options.store.indexDirectory(number),
      hnswM: m,
      hnswEfConstruction: efConstruction,
      words: this.#options.store.wordsOf(number),
      meter: () => this.#options.engine.meters.get(name),
      replica: this.#options.replicaOf?.(name),
    }
  }

  /** Returns the effective settings of a collection. */
  hnswOf({ m, efConstruction }: CollectionSettings['hnsw']): CollectionInfo['hnsw'] {
    const { hnswM, hnswEfConstruction } = this.#options
    return { m: m ?? hnswM, efConstruction: efConstruction ?? hnswEfConstruction }
  }

  /** Remembers the damage for which a collection cannot be opened, so that not each request reads its files again. */
  #noted({ name, number }: CollectionRecord, error: unknown): unknown {
    const fault = unusableIn(error)
    if (fault === undefined) return error
    const { mark } = this.#options.store.look(number)
    const failure = { error: this.#unusable(name, fault), mark, retryMs: performance.now() + retryMs }
    this.#failures.set(number, failure)
    return failure.error
  }

  /** Opens no more collections. The engine closes the open ones. */
  close(): void {
    clearInterval(this.#timer)
  }

  /**
   * Closes a collection that is removed: calls in progress fail, and its graphs are not saved.
   *
   * @param error with which they fail; absent: `collection_not_found`
   */
  async discard(number: number, error?: DatabaseError): Promise<void> {
    const entry = this.#entries.get(number)
    // A collection that cannot be opened can still be removed.
    await entry?.opening.catch(() => {})
    if (entry !== undefined) await this.#end(entry, (collection) => collection.discard(error))
    this.#failures.delete(number)
    this.#closedPoints.delete(number)
  }

  /** Discards all collections except the default one. */
  async discardAll(error: DatabaseError): Promise<void> {
    for (const number of [...this.#entries.keys()]) {
      if (number !== mainNumber) await this.discard(number, error)
    }
  }

  #closeIdle(unusedSinceMs: number): void {
    for (const entry of this.#entries.values()) {
      entry.noteReads()
      // Further pages of its searches may be asked for.
      const isRead = (entry.collection?.pages.untilMs ?? 0) > performance.now()
      if (entry.isUnused && entry.usedMs < unusedSinceMs && !isRead && isSmall(entry)) this.#closeSoon(entry)
    }
    // Reads can have filled the filter caches of many collections.
    this.#closeBeyondMemory()
  }

  /** Call when a collection was opened or is not used any more. */
  #closeBeyondBounds(): void {
    const over = this.#closable().length - this.#options.maxOpenCollections
    if (over > 0) for (const entry of this.#leastRecentlyUsed().slice(0, over)) this.#closeSoon(entry)
    if (this.#isBeyondMemory) this.#closeBeyondMemory()
  }

  /** One collection always stays open: closing it after each request would help nobody. */
  #closeBeyondMemory(): void {
    const { maxBytes } = this.#options.engine.memory
    if (maxBytes > 0) this.#isBeyondMemory = this.#closeUntil(maxBytes, 1) > maxBytes
  }

  /** See `MemoryBudget.makeRoom`. Some more is freed, so that the next changes need not wait, too. */
  async #makeRoom(bytes: number): Promise<boolean> {
    const { usedBytes, maxBytes } = this.#options.engine.memory
    this.#closeUntil(usedBytes - bytes - maxBytes / 16, 0)
    const closing = [...this.#entries.values()].flatMap((entry) => entry.closing ?? [])
    await Promise.allSettled(closing)
    return closing.length > 0
  }

  /**
   * Closes unused collections, the least recently used first, until the others take no more than this.
   *
   * @param openMin how many stay open in any case
   * @returns what the others take
   */
  #closeUntil(bytesMax: number, openMin: number): number {
    const closable = this.#closable()
    let bytes = closable.reduce((sum, entry) => sum + entry.bytes, this.#options.main.claimedBytes)
    for (const entry of this.#leastRecentlyUsed().slice(0, closable.length - openMin)) {
      if (bytes <= bytesMax) break
      bytes -= entry.bytes
      this.#closeSoon(entry)
    }
    return bytes
  }

  /** The named collections that are not being closed. */
  #closable(): readonly Entry[] {
    return [...this.#entries.values()].filter(
      ({ closing, record }) => closing === undefined && record.number !== mainNumber,
    )
  }

  #leastRecentlyUsed(): readonly Entry[] {
    for (const entry of this.#entries.values()) entry.noteReads()
    return [...this.#entries.values()].filter(({ isUnused }) => isUnused).sort((a, b) => a.usedMs - b.usedMs)
  }

  #closeSoon(entry: Entry): void {
    this.#end(entry, (collection) => collection.close()).catch((err: unknown) => {
      this.#options.logger.error(
        { err, collection: entry.record.name },
        'a collection was not closed properly',
      )
    })
  }

  #end(entry: Entry, end: (collection: Collection) => Promise<void>): Promise<void> {
    entry.closing ??= (async () => {
      try {
        await using _ = { [Symbol.asyncDispose]: async () => await entry.store?.close() }
        if (entry.collection !== undefined) await end(entry.collection)
      } finally {
        // Also if it could not be closed properly: otherwise it could never be opened again.
        this.#forget(entry)
      }
    })()
    return entry.closing
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.record.number)
    // Metrics may have asked for it while it was being closed.
    this.#closedPoints.delete(entry.record.number)
    this.#options.engine.memory.remove(entry)
  }
}

/** Keeps a collection open until it is disposed. */
export interface CollectionLease extends Lease {
  /** The collection's own name, not an alias. */
  readonly name: string
  readonly database: Collection
}

/** Why a collection could not be opened. */
interface OpenFailure {
  readonly error: DatabaseError
  /** See `CollectionFiles`. */
  readonly mark: string
  /** When to try again although the files have not changed, by `performance.now()`. */
  readonly retryMs: number
}

/** A collection that is being opened, open, or being closed. */
class Entry implements MemoryUser {
  readonly record: CollectionRecord
  /** What it takes in addition to its points. */
  readonly claimedBytes: number = openCollectionBytes
  readonly #onUnused: () => void
  /** For a collection that always stays open: the lease of all its users. */
  readonly #lease: CollectionLease | undefined
  opening: Promise<Collection>
  collection: Collection | undefined
  store: Store | undefined
  closing: Promise<void> | undefined
  /** When the collection was last used, by `performance.now()`. */
  usedMs: number = performance.now()
  /** Undefined until the caller for whom the collection was opened uses it. */
  #users: number | undefined
  #reads = 0

  /** @param kept the collection, if it is open and always stays open */
  constructor(record: CollectionRecord, onUnused: () => void, kept?: Collection) {
    this.record = record
    this.#onUnused = onUnused
    this.collection = kept
    this.#lease = kept && { name: record.name, database: kept, [Symbol.dispose]() {} }
    this.opening = kept === undefined ? new Promise<never>(() => {}) : Promise.resolve(kept)
  }

  /** What the collection counts towards MAX_MEMORY_BYTES. */
  get bytes(): number {
    return this.claimedBytes + (this.collection?.claimedBytes ?? 0)
  }

  /** Other threads may have read the points without a lease. */
  noteReads(): void {
    const { reads = 0 } = this.collection?.livePoints.readState ?? {}
    if (reads !== this.#reads) this.usedMs = performance.now()
    this.#reads = reads
  }

  get isUnused(): boolean {
    return this.#users === 0 && this.closing === undefined
  }

  use(database: Collection): CollectionLease {
    if (this.#lease !== undefined) return this.#lease
    this.#users = (this.#users ?? 0) + 1
    let isReleased = false
    return {
      name: this.record.name,
      database,
      [Symbol.dispose]: () => {
        if (isReleased) return
        isReleased = true
        this.#users! -= 1
        this.usedMs = performance.now()
        if (this.#users === 0) this.#onUnused()
      },
    }
  }
}

/** Whether the collection may be closed when idle. Larger ones take long to open. */
function isSmall({ collection }: Entry): boolean {
  const { points, dimension = 0 } = collection!
  return points * dimension * Float32Array.BYTES_PER_ELEMENT <= smallBytes
}

/**
 * What an open collection takes whatever its number of points: objects, tables and kernel instances, a page of memory
 * for each column of its segment. Measured with 5 points of 8 to 768 components: 390 to 460 KiB.
 */
export const openCollectionBytes: number = 512 * 1024

const cannotOpen = 'a collection cannot be opened'
/** The metric counts all. */
const faultsLoggedMax = 20

/** Reading a large collection up to its damage can take seconds. */
const retryMs = 30_000

const smallIdleMs = 60_000

/** Reading a collection up to this size from disk takes a few milliseconds. */
const smallBytes = 4 * 1024 * 1024
