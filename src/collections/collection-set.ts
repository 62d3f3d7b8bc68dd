import {
  type CollectionInfo,
  type CollectionSettings,
  defaultCollection,
  wordsText,
} from '../base/collection.ts'
import { DatabaseError, invalid } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { Meter, Quotas } from '../base/quotas.ts'
import { Turn } from '../base/turns.ts'
import type { Collections, CollectionTotals } from '../points/database.ts'
import { PartitionDigest } from '../storage/applied.ts'
import { mainNumber } from '../storage/catalog.ts'
import type { CollectionRecord } from '../storage/store.ts'
import type { Collection } from './engine.ts'
import {
  type CollectionLease,
  mainRecord,
  OpenCollections,
  type OpenCollectionsOptions,
} from './open-collections.ts'

/**
 * The collections of a process by name, and their aliases. `OpenCollections` opens and closes them. Collections and
 * aliases are created, deleted and moved one at a time; only this set does so. Main thread only.
 */
export class CollectionSet implements Collections {
  readonly #options: OpenCollectionsOptions
  readonly #open: OpenCollections
  /** Numbers of collections that are being dropped. Callers no longer see them. */
  readonly #dropping = new Set<number>()
  /** Numbers of collections whose dimension is known to be fixed. */
  readonly #fixed = new Set<number>()
  /** The last change of collections or aliases. */
  #changes: Promise<unknown> = Promise.resolve()

  constructor(options: OpenCollectionsOptions) {
    this.#options = options
    this.#open = new OpenCollections(options)
    const { engine, store } = options
    engine.readers.find = (name) => this.#viewable(name)
    engine.meters.retain(new Set())
    for (const { name, number } of this.#records()) engine.meters.set(name, store.quotasOf(number))
  }

  get aliases(): ReadonlyMap<string, string> {
    return this.#options.store.aliases
  }

  /** The number of collections, including the default one. */
  get count(): number {
    return 1 + this.#options.store.collections.size
  }

  /** The number of open collections whose graph is being rebuilt. */
  get rebuilding(): number {
    return this.#open.all.filter(([, { isRebuilding }]) => isRebuilding).length
  }

  /** The number of collections that could not be opened when last tried, because their files are missing or damaged. */
  get damagedCount(): number {
    return this.#open.damagedCount
  }

  /** The open collections with their names, without the default one; those with the most points first. */
  get open(): readonly (readonly [string, Collection])[] {
    const named = this.#open.all.filter(([name]) => name !== defaultCollection)
    return named.sort(([, a], [, b]) => b.points - a.points)
  }

  get totals(): CollectionTotals {
    const { memory } = this.#options.engine
    const open = this.#open.all.map(([, { stats }]) => stats)
    return {
      collections: this.count,
      open: open.length,
      damaged: this.#open.damagedCount,
      points: this.#records().reduce((sum, record) => sum + this.#open.pointsOf(record), 0),
      unindexed: open.reduce((sum, { unindexed }) => sum + unindexed, 0),
      tombstones: open.reduce((sum, { tombstones }) => sum + tombstones, 0),
      memoryBytes: memory.usedBytes,
      memoryBytesMax: memory.maxBytes,
    }
  }

  lease(name: string): CollectionLease | Promise<CollectionLease> {
    return this.#open.lease(() => this.#find(name))
  }

  #viewable(name: string): Collection | undefined {
    const record = this.#recordOf(name)
    const collection = record && this.#open.get(record.number)
    return collection?.isViewable === true ? collection : undefined
  }

  /** Whether the collection exists and its dimension is not fixed yet. */
  lacksDimension(name: string): boolean {
    const record = this.#recordOf(name)
    if (record === undefined || record.dimension !== undefined || this.#fixed.has(record.number)) return false
    const { dimension } = this.#open.get(record.number) ?? this.#options.store.summary(record.number)
    if (dimension !== undefined) this.#fixed.add(record.number)
    return dimension === undefined
  }

  list(): readonly CollectionInfo[] {
    const aliases = this.#aliasesByTarget()
    return this.#records()
      .map((record) => this.#infoOf(record, aliases))
      .sort((one, other) => (one.name < other.name ? -1 : 1))
  }

  get(name: string): CollectionInfo {
    return this.#infoOf(this.#find(name), this.#aliasesByTarget())
  }

  /** All collections that callers see. */
  #records(): CollectionRecord[] {
    const named = [...this.#options.store.collections.values()]
    return [mainRecord, ...named.filter(({ number }) => !this.#dropping.has(number))]
  }

  /** @throws DatabaseError `collection_not_found` */
  #find(name: string): CollectionRecord {
    const record = this.#recordOf(name)
    if (record === undefined) throw notFound(name)
    return record
  }

  /** Returns the collection with this name or alias. */
  #recordOf(name: string): CollectionRecord | undefined {
    const { aliases, collections } = this.#options.store
    const target = aliases.get(name) ?? name
    if (target === defaultCollection) return mainRecord
    const record = collections.get(target)
    return record !== undefined && this.#dropping.has(record.number) ? undefined : record
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
    for (const each of name === undefined ? this.#records().map((record) => record.name) : [name]) {
      const points = await this.#pointsIn(partitions, each)
      if (points > 0) counted.set(each, points)
      if (turn.isOver) await turn.next()
    }
    return counted
  }

  async #pointsIn(partitions: PartitionSet, name: string): Promise<number> {
    const record = this.#recordOf(name)
    // The collection can have been dropped meanwhile.
    if (record === undefined) return 0
    const open = this.#open.get(record.number)
    if (open !== undefined) return await open.pointsIn(partitions)
    const { points, applied } = this.#options.store.summary(record.number)
    if (applied !== undefined) return new PartitionDigest(applied.digest).pointsOf(partitions)
    if (points === 0) return 0
    // It was filled before the node joined a cluster. Opening it counts its points by partition.
    using lease = await this.lease(name)
    return await lease.database.pointsIn(partitions)
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
      const exists = name === defaultCollection || store.collections.has(name)
      if (exists) {
        this.#checkSame(name, settings)
        await this.#declare(name, settings)
      } else {
        if (store.collections.size >= collectionsMax) throw tooMany(store.collections.size)
        const declared = { words: settings.words ?? undefined, quotas: orNone(settings.quotas) }
        await store.create({ name, ...settings, ...declared })
        this.#options.engine.meters.set(name, settings.quotas)
      }
      return { created: !exists, info: this.get(name) }
    })
  }

  /** Declares words and quotas as far as they are given, in one commit. */
  async #declare(name: string, { words, quotas }: CollectionSettings): Promise<void> {
    const { store, engine } = this.#options
    const { number } = this.#find(name)
    const before = store.wordsOf(number)
    const areWordsNew =
      words !== undefined && (before && wordsText(before)) !== (words ? wordsText(words) : undefined)
    const areQuotasNew =
      quotas !== undefined && JSON.stringify(store.quotasOf(number)) !== JSON.stringify(orNone(quotas))
    if (!areWordsNew && !areQuotasNew) return
    await store.declare(number, {
      ...(areWordsNew && { words: words ?? undefined }),
      ...(areQuotasNew && { quotas: orNone(quotas) }),
    })
    if (areQuotasNew) engine.meters.set(name, quotas)
    if (!areWordsNew) return
    const opened = await this.lease(name)
    using lease = opened
    lease.database.declareWords(words ?? undefined)
  }

  meterOf(name: string): Meter | undefined {
    return this.#options.engine.meters.get(this.aliases.get(name) ?? name)
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
      const { number } = this.#find(name)
      if (number === mainNumber) {
        throw invalid(`the collection ${name} cannot be deleted, only its points can`)
      }
      this.#dropping.add(number)
      try {
        await this.#open.discard(number)
        await store.drop(name)
        this.#options.engine.meters.set(name, undefined)
      } finally {
        this.#dropping.delete(number)
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

  /** Runs a change of collections or aliases after those before it have ended. */
  #change<Result>(change: () => Promise<Result>): Promise<Result> {
    const changed = async (): Promise<Result> => {
      try {
        return await change()
      } finally {
        this.#options.engine.readers.namesChanged()
      }
    }
    const result = this.#changes.then(changed, changed)
    this.#changes = result.catch(() => {})
    return result
  }

  /** Opens no more collections. The engine closes the open ones. */
  async close(): Promise<void> {
    this.#open.close()
    await this.#changes.catch(() => {})
  }

  /** Like `close`, but also discards all open collections except the default one: calls in progress fail. */
  async discardAll(error: DatabaseError): Promise<void> {
    await this.close()
    await this.#open.discardAll(error)
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

  #infoOf(record: CollectionRecord, aliases: ReadonlyMap<string, readonly string[]>): CollectionInfo {
    const { name } = record
    const { dimension = record.dimension, points } = this.#open.figuresOf(record)
    const { store } = this.#options
    const [words, quotas] = [store.wordsOf(record.number), store.quotasOf(record.number)]
    return {
      name,
      hnsw: this.#open.hnswOf(record.hnsw),
      aliases: aliases.get(name) ?? [],
      dimension,
      points,
      ...(words && { words }),
      ...(quotas && { quotas }),
    }
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

function orNone(quotas: Quotas | undefined): Quotas | undefined {
  return quotas && Object.keys(quotas).length > 0 ? quotas : undefined
}

function notFound(name: string): DatabaseError {
  return new DatabaseError('collection_not_found', `no collection or alias is named ${name}`)
}

function tooMany(count: number): DatabaseError {
  return new DatabaseError(
    'overloaded',
    `there are ${count} collections, the maximum is ${collectionsMax}: delete some`,
  )
}

/** Names and settings are in memory: a few hundred bytes a collection. */
const collectionsMax = 100_000
