import { createHash } from 'node:crypto'
import { type ApiKey, isRestricted, mayUse, type Role, roles } from '../base/api-key.ts'
import { type CollectionInfo, type CollectionSettings, defaultCollection } from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { both, matchesKeyFilter, refusalOfPatch, refusalOfPoint } from '../base/key-filter.ts'
import type { NewPoint, Patch, Point, Precondition, SearchQuery } from '../base/point.ts'
import type { Meter } from '../base/quotas.ts'
import { Turn } from '../base/turns.ts'
import type {
  ChangeByFilter,
  Collections,
  Database,
  FacetCount,
  Inserted,
  InsertOptions,
  Lease,
  ListPage,
  ListQuery,
  PointsOnNodes,
  PointsSnapshot,
  ReadCall,
} from '../points/database.ts'
import { type ApiContext, type CollectionStats, contextOn } from './call.ts'
import { renumbered } from './insert-points.ts'

/**
 * What the key of a call allows. Operations do not ask: a restricted key gets a context whose collections and points are
 * those that it may use, so an operation cannot reach others.
 */

/** What a row of the table of operations says about keys. */
interface NeededRights {
  /** The role that a caller's key needs. */
  readonly role: Role
  /** Which restricted keys may call it: none if absent. */
  readonly within?: 'collections' | 'filter' | undefined
}

/**
 * Returns why a key does not allow an operation at all; undefined if it does, for what it may use.
 *
 * @param what the transport's name for the request
 */
export function refusalOf(
  key: ApiKey | undefined,
  what: string,
  { role, within }: NeededRights,
): DatabaseError | undefined {
  if (key === undefined) return undefined
  if (roles.indexOf(key.role) < roles.indexOf(role)) {
    const may = key.role === 'read' ? 'may only read' : 'may only read and write points and collections'
    return denied(key, `${may}: ${what} needs one with the role ${role}`)
  }
  if (key.filter !== undefined && within !== 'filter') {
    return denied(key, `may only use the points of its filter: ${what} needs one without a filter`)
  }
  if (key.collections !== undefined && within === undefined) {
    return denied(key, `may only use some collections: ${what} needs one for all of them`)
  }
  return undefined
}

function denied({ name }: ApiKey, what: string): DatabaseError {
  return new DatabaseError('permission_denied', `the key ${name} ${what}`)
}

/**
 * Returns the context as callers with a key may use it.
 *
 * @param meter of the key, if it has quotas
 */
export function contextFor(context: ApiContext, key: ApiKey | undefined, meter?: Meter): ApiContext {
  if (key === undefined || !isRestricted(key)) return context
  return contextOn(context, new KeyedCollections(context.collections, key, meter), () => {
    if (!mayUse(key, defaultCollection)) throw noCollection(key, defaultCollection)
    return databaseFor(context.database, key, meter)
  })
}

/** The same error for every collection that a key may not use, whether it exists or not. */
function noCollection(key: ApiKey, name: string): DatabaseError {
  return denied(key, `may not use the collection ${name}`)
}

function databaseFor(database: Database, { name, filter }: ApiKey, meter: Meter | undefined): Database {
  return filter === undefined ? database : new KeyedDatabase(database, filter, name, meter)
}

/** The collections that a key may use. */
class KeyedCollections implements Collections {
  readonly #all: Collections
  readonly #key: ApiKey
  readonly #meter: Meter | undefined

  constructor(all: Collections, key: ApiKey, meter: Meter | undefined) {
    this.#all = all
    this.#key = key
    this.#meter = meter
  }

  /** Leases by the collection's own name, which means the same collection however its aliases move. */
  lease(name: string): Lease | Promise<Lease> {
    const own = this.#all.nameOf?.(name) ?? this.#nameOf(name)
    if (typeof own === 'string') return this.#lease(own, name)
    return own.then((known) => this.#lease(known, name))
  }

  #lease(own: string, name: string): Lease | Promise<Lease> {
    this.#check(own, name)
    const lease = this.#all.lease(own)
    return lease instanceof Promise ? lease.then((open) => this.#keyed(open)) : this.#keyed(lease)
  }

  #keyed(lease: Lease): Lease {
    return {
      database: databaseFor(lease.database, this.#key, this.#meter),
      [Symbol.dispose]: () => lease[Symbol.dispose](),
    }
  }

  /** @param name as the caller has sent it */
  #check(own: string, name: string): void {
    if (!mayUse(this.#key, own)) throw noCollection(this.#key, name)
  }

  #nameOf(name: string): string {
    return this.#all.aliases.get(name) ?? name
  }

  /** Only asked for collections that have been leased, and for the default one. */
  meterOf(name: string): Meter | undefined | Promise<Meter | undefined> {
    if (name === defaultCollection) this.#check(name, name)
    return this.#all.meterOf?.(name)
  }

  list(): readonly CollectionInfo[] {
    return this.#all.list().filter(({ name }) => mayUse(this.#key, name))
  }

  get(name: string): CollectionInfo {
    this.#check(this.#nameOf(name), name)
    return this.#all.get(name)
  }

  /** With a filter, each collection is opened: only its points know which of them match. */
  countOnNodes(
    name: string | undefined,
    position: number,
    signal: AbortSignal | undefined,
  ): Promise<PointsOnNodes> | undefined {
    if (this.#key.filter === undefined) return this.#all.countOnNodes?.(name, position, signal)
    const names = name === undefined ? this.list().map((info) => info.name) : [name]
    return this.#count(names, position, signal)
  }

  async #count(
    names: readonly string[],
    position: number,
    signal: AbortSignal | undefined,
  ): Promise<PointsOnNodes> {
    const points = new Map<string, number>()
    for (const name of names) {
      using lease = await this.lease(name)
      const { database } = lease
      points.set(name, await (database.asOf?.(position) ?? database).count(undefined, signal))
    }
    return { points, missing: undefined }
  }

  get totals(): undefined {
    return undefined
  }

  get aliases(): ReadonlyMap<string, string> {
    return new Map([...this.#all.aliases].filter(([, target]) => mayUse(this.#key, target)))
  }

  async put(
    name: string,
    settings: CollectionSettings,
  ): Promise<{ readonly created: boolean; readonly info: CollectionInfo }> {
    this.#check(name, name)
    return await this.#all.put(name, settings)
  }

  async drop(name: string): Promise<void> {
    this.#check(name, name)
    await this.#all.drop(name)
  }

  /** A key may use an alias as its name and the collection of the alias allow, both before and after. */
  async setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    for (const alias of [...set.keys(), ...remove]) {
      this.#check(alias, alias)
      this.#check(this.#nameOf(alias), alias)
    }
    for (const target of set.values()) this.#check(target, target)
    await this.#all.setAliases(set, remove)
  }
}

/**
 * The points of a collection that match the filter of a key. Others are as if they did not exist, except that their ids
 * are taken.
 */
class KeyedDatabase implements Database {
  readonly #all: Database
  readonly #filter: Filter
  readonly #keyName: string
  readonly #meter: Meter | undefined

  constructor(all: Database, filter: Filter, keyName: string, meter: Meter | undefined) {
    this.#all = all
    this.#filter = filter
    this.#keyName = keyName
    this.#meter = meter
  }

  /** What the cursors of lists belong to. */
  get keyFilter(): Filter {
    return this.#filter
  }

  get dimension(): number | undefined {
    return this.#all.dimension
  }

  get nowUs(): number {
    return this.#all.nowUs
  }

  get stats(): CollectionStats {
    throw this.#refused('statistics are of all points of a collection')
  }

  asOf(position: number): Database {
    return new KeyedDatabase(
      this.#all.asOf?.(position) ?? this.#all,
      this.#filter,
      this.#keyName,
      this.#meter,
    )
  }

  #refused(why: string): DatabaseError {
    return new DatabaseError(
      'permission_denied',
      `the key ${this.#keyName} may only use the points of its filter: ${why}`,
    )
  }

  async insert(points: readonly NewPoint[], options: InsertOptions = {}): Promise<Inserted> {
    const { identity, onError } = options
    const own = {
      ...options,
      identity: identity && { ...identity, keyHash: this.#hashed(identity.keyHash) },
      keyFilter: this.#filter,
    }
    const refusals: (DatabaseError | undefined)[] = []
    const turn = new Turn()
    for (const [index, { payload }] of points.entries()) {
      const path = points.length > 1 ? `vectors[${index}].payload` : 'payload'
      const refusal = refusalOfPoint(this.#filter, payload, path)
      if (refusal !== undefined && onError !== 'continue') throw refusal
      refusals.push(refusal)
      if (turn.isOver) await turn.next()
    }
    const indexes = [...points.keys()].filter((index) => refusals[index] === undefined)
    if (this.#meter?.quotas.points !== undefined) {
      const ids = indexes.map((index) => points[index]!.id)
      const added = (await this.#all.addedBy?.(ids, own.identity)) ?? ids.length
      await this.#checkPoints(added, options.signal)
    }
    if (indexes.length === points.length) return await this.#all.insert(points, own)
    return await this.#insertAllowed(points, indexes, refusals, own)
  }

  /**
   * Counts before each change: those that come at the same moment do not count each other.
   *
   * @throws DatabaseError `quota_exceeded` if the key would have too many points
   */
  async #checkPoints(
    added: number,
    signal: AbortSignal | undefined,
    isNew = async (): Promise<boolean> => true,
  ): Promise<void> {
    const max = this.#meter?.quotas.points
    if (max === undefined || added === 0) return
    const points = (await this.#all.count(this.#filter, signal)) + added
    if (points > max && (await isNew())) throw this.#meter!.refusal('points', points)
  }

  /** Stores the points without a refusal, and reports the others. @param indexes of those without */
  async #insertAllowed(
    points: readonly NewPoint[],
    indexes: readonly number[],
    refusals: readonly (DatabaseError | undefined)[],
    options: InsertOptions,
  ): Promise<Inserted> {
    const allowed = indexes.map((index) => points[index]!)
    const stored = allowed.length === 0 ? { ids: [], errors: [] } : await this.#all.insert(allowed, options)
    const ids: (string | null)[] = points.map(() => null)
    for (const [at, id] of stored.ids.entries()) ids[indexes[at]!] = id
    const errors = [
      ...refusals.flatMap((error, index) => (error === undefined ? [] : [{ index, error }])),
      ...stored.errors.map(({ index, error }) => ({
        index: indexes[index]!,
        error: renumbered(error, indexes),
      })),
    ]
    return { ids, errors: errors.sort((a, b) => a.index - b.index) }
  }

  /** An idempotency key of one filter is another one than the same of others. */
  #hashed(keyHash: Uint8Array): Uint8Array {
    const hash = createHash('sha256').update(keyHash).update(JSON.stringify(this.#filter)).digest()
    return hash.subarray(0, keyHash.length)
  }

  async remove(id: string, signal?: AbortSignal): Promise<boolean> {
    return await this.#all.remove(id, signal, this.#filter)
  }

  async put(
    id: string,
    point: Pick<NewPoint, 'vector' | 'payload'>,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number; readonly created: boolean }> {
    const refusal = refusalOfPoint(this.#filter, point.payload, 'payload')
    if (refusal !== undefined) throw refusal
    await this.#checkPoints(1, signal, async () => (await this.get(id)) === undefined)
    return await this.#all.put(id, point, when, signal, this.#filter)
  }

  async patch(
    id: string,
    patch: Patch,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number }> {
    this.#checkPatch(patch)
    return await this.#all.patch(id, patch, when, signal, this.#filter)
  }

  #checkPatch(patch: Patch): void {
    const refusal = refusalOfPatch(this.#filter, patch)
    if (refusal !== undefined) throw refusal
  }

  async changeByFilter(
    request: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }> {
    if (request.change !== 'delete') this.#checkPatch(request.change)
    return await this.#all.changeByFilter({ ...request, filter: both(this.#filter, request.filter) }, signal)
  }

  async get(id: string, call?: ReadCall): Promise<Point | undefined> {
    const point = await this.#all.get(id, { ...call, keyFilter: this.#filter })
    // Nodes of a cluster do not know the filter.
    const isOwn = point !== undefined && matchesKeyFilter(this.#filter, point.payload.attributes)
    return isOwn ? point : undefined
  }

  async search(queries: readonly SearchQuery[], call?: ReadCall): Promise<SearchResults> {
    if (queries.some(({ profile }) => profile === true)) {
      throw this.#refused('the profile of a search is about all points of a collection')
    }
    const keyFilter = this.#filter
    const own = queries.map((query) => {
      const population = query.words?.population
      const words = population && { ...query.words!, population: both(keyFilter, population) }
      return { ...query, filter: both(keyFilter, query.filter), keyFilter, ...(words && { words }) }
    })
    return await this.#all.search(own, call)
  }

  async list(query: ListQuery, call?: ReadCall): Promise<ListPage> {
    return await this.#all.list({ ...query, filter: both(this.#filter, query.filter) }, call)
  }

  async count(filter?: Filter, signal?: AbortSignal): Promise<number> {
    return await this.#all.count(both(this.#filter, filter), signal)
  }

  async facets(
    query: Parameters<Database['facets']>[0],
    call?: ReadCall,
  ): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
    return await this.#all.facets({ ...query, filter: both(this.#filter, query.filter) }, call)
  }

  async snapshot(): Promise<PointsSnapshot> {
    const snapshot = this.#all.snapshotWithin?.(this.#filter)
    if (snapshot !== undefined) return await snapshot
    throw this.#refused('in a cluster, a snapshot has all points of a collection: list them instead')
  }
}
