import { join } from 'node:path'
import { type CollectionInfo, type CollectionSettings, defaultCollection } from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { Turn } from '../base/turns.ts'
import type { MemoryUser } from '../index/memory-budget.ts'
import type { Collections, CollectionTotals, Lease } from '../points/database.ts'
import { PartitionDigest } from '../storage/applied.ts'
import { storedPosition } from '../storage/data-store.ts'
import { damageIn, unusableIn } from '../storage/files/data-directory.ts'
import type { CollectionRecord, CollectionSummary, DataStore, Store } from '../storage/store.ts'
import type { ReplicaHooks } from '../write/replica.ts'
import type { Collection, CollectionOptions, Engine } from './engine.ts'

export interface CollectionSetOptions {
  readonly engine: Engine
  /** Only this set adds and removes collections of the store. The caller closes the store after the engine. */
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

/**
 * The collections of a process. They are opened when a call needs their points and closed when unused for a while, so
 * that thousands of collections cost no more than their names.
 *
 *   on disk ──lease──> opening ──> open, used by n ──released──> open, unused ──idle, or too many──> closing ──> on disk
 *                                      └──────────────drop: calls in progress fail────────────────────────────> gone
 *
 * Collections and aliases are created, deleted and moved one at a time. Main thread only.
 */
export class CollectionSet implements Collections {
  readonly #options: CollectionSetOptions
  readonly #mainLease: CollectionLease
  /** By number: collections that are opening, open or closing. */
  readonly #entries = new Map<number, Entry>()
  /** Numbers of collections that are being dropped. Callers no longer see them. */
  readonly #dropping = new Set<number>()
  /** By number: the points of collections that are not open, so that metrics read each from disk only once. */
  readonly #closedPoints = new Map<number, number>()
  /** By number: collections that could not be opened because their files are missing or damaged. */
  readonly #failures = new Map<number, OpenFailure>()
  /** Numbers of collections whose dimension is known to be fixed. */
  readonly #fixed = new Set<number>()
  readonly #timer: NodeJS.Timeout
  /** Whether collections in use take more than MAX_MEMORY_BYTES: some are closed when they are not used any more. */
  #isBeyondMemory = false
  /** The last change of collections or aliases. */
  #changes: Promise<unknown> = Promise.resolve()

  constructor(options: CollectionSetOptions) {
    this.#options = options
    this.#mainLease = { name: defaultCollection, database: options.main, [Symbol.dispose]() {} }
    const { idleMs = smallIdleMs } = options
    this.#lookForDamage()
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

  get aliases(): ReadonlyMap<string, string> {
    return this.#options.store.aliases
  }

  /** The number of collections, including the default one. */
  get count(): number {
    return 1 + this.#options.store.collections.size
  }

  /** On a node of a cluster: see `storedPosition`. */
  storedPosition(): Promise<number> {
    return storedPosition(this.#options.store)
  }

  /** The number of open collections whose graph is being rebuilt. */
  get rebuilding(): number {
    const open = [this.#options.main, ...[...this.#entries.values()].map(({ collection }) => collection)]
    return open.filter((collection) => collection?.isRebuilding).length
  }

  /** The number of open collections, without the default one. */
  get openCount(): number {
    return this.#entries.size
  }

  /** The number of collections that could not be opened when last tried, because their files are missing or damaged. */
  get damagedCount(): number {
    return this.#failures.size
  }

  /** The open collections with their names, without the default one; those with the most points first. */
  get open(): readonly (readonly [string, Collection])[] {
    const open = [...this.#entries.values()].flatMap(({ record, collection }) =>
      collection === undefined ? [] : [[record.name, collection] as const],
    )
    return open.sort(([, a], [, b]) => b.points - a.points)
  }

  get totals(): CollectionTotals {
    const { engine, main } = this.#options
    const open = [main, ...this.open.map(([, collection]) => collection)]
    const sum = (of: (collection: Collection) => number): number =>
      open.reduce((total, each) => total + of(each), 0)
    return {
      collections: this.count,
      open: open.length,
      damaged: this.damagedCount,
      points: sum(({ points }) => points) + this.#pointsOfClosed(),
      unindexed: sum(({ unindexed }) => unindexed),
      tombstones: sum(({ tombstones }) => tombstones),
      memoryBytes: engine.memory.usedBytes,
      memoryBytesMax: engine.memory.maxBytes,
    }
  }

  #pointsOfClosed(): number {
    const { store } = this.#options
    let points = 0
    for (const { number } of store.collections.values()) {
      if (this.#dropping.has(number) || this.#entries.get(number)?.collection !== undefined) continue
      const known = this.#closedPoints.get(number) ?? this.#summary(number).points
      this.#closedPoints.set(number, known)
      points += known
    }
    return points
  }

  lease(name: string): CollectionLease | Promise<CollectionLease> {
    const record = this.#find(name)
    if (record === undefined) return this.#mainLease
    const entry = this.#entries.get(record.number)
    return entry?.collection !== undefined && entry.closing === undefined
      ? entry.use(entry.collection)
      : this.#open(name)
  }

  /** Whether the collection exists and its dimension is not fixed yet. */
  lacksDimension(name: string): boolean {
    const { store, main } = this.#options
    const target = store.aliases.get(name) ?? name
    if (target === defaultCollection) return main.dimension === undefined
    const record = store.collections.get(target)
    if (record === undefined || this.#dropping.has(record.number)) return false
    const { number, dimension: given } = record
    if (given !== undefined || this.#fixed.has(number)) return false
    const open = this.#entries.get(number)?.collection
    const { dimension } = open ?? store.summary(number)
    if (dimension !== undefined) this.#fixed.add(number)
    return dimension === undefined
  }

  list(): readonly CollectionInfo[] {
    const aliases = this.#aliasesByTarget()
    return this.#names()
      .sort()
      .map((name) => this.#infoOf(name, aliases))
  }

  #names(): string[] {
    const { collections } = this.#options.store
    const named = [...collections].filter(([, { number }]) => !this.#dropping.has(number))
    return [defaultCollection, ...named.map(([name]) => name)]
  }

  /**
   * Counts points of some partitions by collection, on a node of a cluster. Collections without such points are left
   * out.
   *
   * @param name the collection's own name; absent: all collections
   */
  async pointsIn(partitions: PartitionSet, name?: string): Promise<ReadonlyMap<string, number>> {
    const counted = new Map<string, number>()
    const turn = new Turn()
    for (const each of name === undefined ? this.#names() : [name]) {
      const points = await this.#pointsIn(partitions, each)
      if (points > 0) counted.set(each, points)
      if (turn.isOver) await turn.next()
    }
    return counted
  }

  async #pointsIn(partitions: PartitionSet, name: string): Promise<number> {
    const { store, main } = this.#options
    if (name === defaultCollection) return main.pointsIn(partitions)
    const record = store.collections.get(name)
    // The collection can have been dropped meanwhile.
    if (record === undefined || this.#dropping.has(record.number)) return 0
    const open = this.#entries.get(record.number)?.collection
    if (open !== undefined) return open.pointsIn(partitions)
    const { points, applied } = store.summary(record.number)
    if (applied !== undefined) return new PartitionDigest(applied.digest).pointsOf(partitions)
    if (points === 0) return 0
    // It was filled before the node joined a cluster. Opening it counts its points by partition.
    using lease = await this.lease(name)
    return await lease.database.pointsIn(partitions)
  }

  /** A collection whose record is damaged is listed without its points. */
  #summary(number: number): Pick<CollectionSummary, 'dimension' | 'points'> {
    try {
      return this.#options.store.summary(number)
    } catch (error) {
      if (damageIn(error) === undefined) throw error
      return { dimension: undefined, points: 0 }
    }
  }

  get(name: string): CollectionInfo {
    const record = this.#find(name)
    return this.#infoOf(record?.name ?? defaultCollection, this.#aliasesByTarget())
  }

  put(
    name: string,
    settings: CollectionSettings,
  ): Promise<{ readonly created: boolean; readonly info: CollectionInfo }> {
    return this.#change(async () => {
      const { store } = this.#options
      const target = store.aliases.get(name)
      if (target !== undefined) {
        throw new DatabaseError('already_exists', `${name} is an alias of the collection ${target}`)
      }
      const isThere = name === defaultCollection || store.collections.has(name)
      if (isThere) this.#checkSame(name, settings)
      else {
        if (store.collections.size >= collectionsMax) throw tooMany(store.collections.size)
        await store.create({ name, ...settings })
      }
      return { created: !isThere, info: this.get(name) }
    })
  }

  drop(name: string): Promise<void> {
    return this.#change(async () => {
      const { store } = this.#options
      const target = store.aliases.get(name)
      if (target !== undefined) {
        throw invalid(
          `${name} is an alias of the collection ${target}: delete the collection, or remove the alias`,
        )
      }
      const record = this.#find(name)
      if (record === undefined) throw invalid(`the collection ${name} cannot be deleted, only its points can`)
      this.#dropping.add(record.number)
      try {
        await this.#discard(record.number)
        await store.drop(name)
      } finally {
        this.#dropping.delete(record.number)
        this.#closedPoints.delete(record.number)
        this.#failures.delete(record.number)
      }
    })
  }

  setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    return this.#change(async () => {
      const { store } = this.#options
      for (const [alias, target] of set) {
        if (alias === defaultCollection || store.collections.has(alias)) {
          throw new DatabaseError('already_exists', `the alias ${alias} is the name of a collection`)
        }
        if (target !== defaultCollection && !store.collections.has(target)) throw notFound(target)
      }
      await store.setAliases(set, remove)
    })
  }

  /** Opens no more collections. The engine closes the open ones. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#changes.catch(() => {})
  }

  /** Like `close`, but also discards all open collections except the default one: calls in progress fail. */
  async discardAll(error: DatabaseError): Promise<void> {
    await this.close()
    for (const entry of this.#entries.values()) {
      // A collection that could not be opened need not be closed.
      await entry.opening.catch(() => {})
      await this.#end(entry, (collection) => collection.discard(error))
    }
  }

  /** Runs a change of collections or aliases after those before it have ended. */
  #change<Result>(change: () => Promise<Result>): Promise<Result> {
    const result = this.#changes.then(change, change)
    this.#changes = result.catch(() => {})
    return result
  }

  /**
   * Returns the collection with this name or alias; undefined for the default collection.
   *
   * @throws DatabaseError `collection_not_found`
   */
  #find(name: string): CollectionRecord | undefined {
    const { store } = this.#options
    const target = store.aliases.get(name) ?? name
    if (target === defaultCollection) return undefined
    const record = store.collections.get(target)
    if (record === undefined || this.#dropping.has(record.number)) throw notFound(name)
    return record
  }

  async #open(name: string): Promise<CollectionLease> {
    for (;;) {
      const record = this.#find(name)
      // An alias can move to the default collection while its former collection is being opened.
      if (record === undefined) return this.#mainLease
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

  /** Remembers the damage for which a collection cannot be opened, so that not each request reads its files again. */
  #noted({ name, number }: CollectionRecord, error: unknown): unknown {
    const fault = unusableIn(error)
    if (fault === undefined) return error
    const { mark } = this.#options.store.look(number)
    const failure = { error: this.#unusable(name, fault), mark, retryMs: performance.now() + retryMs }
    this.#failures.set(number, failure)
    return failure.error
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
    const { m, efConstruction } = this.#hnswOf(hnsw)
    return {
      indexDirectory: this.#options.store.indexDirectory(number),
      hnswM: m,
      hnswEfConstruction: efConstruction,
      replica: this.#options.replicaOf?.(name),
    }
  }

  #hnswOf({ m, efConstruction }: CollectionSettings['hnsw']): CollectionInfo['hnsw'] {
    const { hnswM, hnswEfConstruction } = this.#options
    return { m: m ?? hnswM, efConstruction: efConstruction ?? hnswEfConstruction }
  }

  /** Closes a dropped collection: calls in progress fail, and its graphs are not saved. */
  async #discard(number: number): Promise<void> {
    const entry = this.#entries.get(number)
    if (entry === undefined) return
    // A collection that cannot be opened can still be dropped.
    await entry.opening.catch(() => {})
    await this.#end(entry, (collection) => collection.discard())
  }

  #closeIdle(unusedSinceMs: number): void {
    for (const entry of this.#entries.values()) {
      if (entry.isUnused && entry.usedMs < unusedSinceMs && this.#isSmall(entry)) this.#closeSoon(entry)
    }
    // Reads can have filled the filter caches of many collections.
    this.#closeBeyondMemory()
  }

  /** Call when a collection was opened or is not used any more. */
  #closeBeyondBounds(): void {
    const over = this.#openEntries().length - this.#options.maxOpenCollections
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
    const entries = this.#openEntries()
    let bytes = entries.reduce((sum, entry) => sum + entry.bytes, this.#options.main.claimedBytes)
    for (const entry of this.#leastRecentlyUsed().slice(0, entries.length - openMin)) {
      if (bytes <= bytesMax) break
      bytes -= entry.bytes
      this.#closeSoon(entry)
    }
    return bytes
  }

  #openEntries(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ closing }) => closing === undefined)
  }

  #leastRecentlyUsed(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ isUnused }) => isUnused).sort((a, b) => a.usedMs - b.usedMs)
  }

  /** Whether the collection may be closed when idle. Larger ones take long to open. */
  #isSmall({ collection }: Entry): boolean {
    const { points, dimension = 0 } = collection!
    return points * dimension * Float32Array.BYTES_PER_ELEMENT <= smallBytes
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
        // Metrics may have asked for it while it was being closed.
        this.#closedPoints.delete(entry.record.number)
      }
    })()
    return entry.closing
  }

  #forget(entry: Entry): void {
    this.#entries.delete(entry.record.number)
    this.#options.engine.memory.remove(entry)
  }

  #aliasesByTarget(): ReadonlyMap<string, readonly string[]> {
    const byTarget = new Map<string, string[]>()
    for (const alias of [...this.aliases.keys()].sort()) {
      const target = this.aliases.get(alias)!
      const found = byTarget.get(target) ?? []
      found.push(alias)
      byTarget.set(target, found)
    }
    return byTarget
  }

  #infoOf(name: string, aliases: ReadonlyMap<string, readonly string[]>): CollectionInfo {
    const { store, main } = this.#options
    const record = store.collections.get(name)
    const common = { name, hnsw: this.#hnswOf(record?.hnsw ?? {}), aliases: aliases.get(name) ?? [] }
    const open = record === undefined ? main : this.#entries.get(record.number)?.collection
    const { dimension, points } = open ?? this.#summary(record!.number)
    return { ...common, dimension: dimension ?? record?.dimension, points }
  }

  /** @throws DatabaseError `already_exists` if the collection's settings differ from the given ones */
  #checkSame(name: string, { dimension, hnsw }: CollectionSettings): void {
    const info = this.get(name)
    const pairs = [
      ['dimension', dimension, info.dimension],
      ['hnsw.m', hnsw.m, info.hnsw.m],
      ['hnsw.ef_construction', hnsw.efConstruction, info.hnsw.efConstruction],
    ] as const
    for (const [field, requested, actual] of pairs) {
      if (requested === undefined || requested === actual) continue
      throw new DatabaseError(
        'already_exists',
        `the collection ${name} exists, and its ${field} is ${actual ?? 'not fixed yet'}, not ${requested}`,
      )
    }
  }
}

/** Keeps a collection of a set open until it is disposed. */
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
  /** Set by the creator of the entry, immediately. */
  opening!: Promise<Collection>
  collection: Collection | undefined
  store: Store | undefined
  closing: Promise<void> | undefined
  /** When the collection was last used, by `performance.now()`. */
  usedMs: number = performance.now()
  /** Undefined until the caller for whom the collection was opened uses it. */
  #users: number | undefined

  constructor(record: CollectionRecord, onUnused: () => void) {
    this.record = record
    this.#onUnused = onUnused
  }

  /** What the collection counts towards MAX_MEMORY_BYTES. */
  get bytes(): number {
    return this.claimedBytes + (this.collection?.claimedBytes ?? 0)
  }

  get isUnused(): boolean {
    return this.#users === 0 && this.closing === undefined
  }

  use(database: Collection): CollectionLease {
    this.#users = (this.#users ?? 0) + 1
    let isReleased = false
    return {
      ...{ name: this.record.name, database },
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

/**
 * What an open collection takes whatever its number of points: objects, tables and kernel instances, a page of memory
 * for each column of its segment. Measured with 5 points of 8 to 768 components: 390 to 460 KiB.
 */
export const openCollectionBytes: number = 512 * 1024

function notFound(name: string): DatabaseError {
  return new DatabaseError('collection_not_found', `no collection or alias is named ${name}`)
}

function invalid(message: string): DatabaseError {
  return new DatabaseError('invalid_argument', message)
}

function tooMany(count: number): DatabaseError {
  return new DatabaseError(
    'overloaded',
    `there are ${count} collections, the maximum is ${collectionsMax}: delete some`,
  )
}

/** Names and settings are in memory: a few hundred bytes a collection. */
const collectionsMax = 100_000

const cannotOpen = 'a collection cannot be opened'
/** The metric counts all. */
const faultsLoggedMax = 20

/** Reading a large collection up to its damage can take seconds. */
const retryMs = 30_000

const smallIdleMs = 60_000

/** Reading a collection up to this size from disk takes a few milliseconds. */
const smallBytes = 4 * 1024 * 1024
