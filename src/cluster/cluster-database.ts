import { randomBytes } from 'node:crypto'
import type { CollectionInfo, CollectionSettings } from '../base/collection.ts'
import { type DatabaseError, invalid } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { idSeedBytes, partitionOf } from '../base/partitions.ts'
import { canBeRefused, type NewPoint, type Patch, type Point, type Precondition } from '../base/point.ts'
import type { Meter } from '../base/quotas.ts'
import type { Collection } from '../collections/collection.ts'
import type { CollectionSet } from '../collections/collection-set.ts'
import type { CollectionLease } from '../collections/open-collections.ts'
import type {
  ChangeByFilter,
  CollectionStats,
  Collections,
  CollectionTotals,
  Database,
  FacetCount,
  Inserted,
  InsertOptions,
  Lease,
  ListPage,
  Moment,
  PointsOnNodes,
  PointsSnapshot,
  StatsOfNodes,
} from '../points/database.ts'
import type { LoggedInsert, LoggedRequest, LoggedResults } from '../write/requests.ts'
import type { ClusterNode } from './cluster-node.ts'
import { partitionsOf } from './log/request-codec.ts'
import type { ScatteredReads } from './reads/scattered-reads.ts'

/** This node's copy of a collection. */
interface LocalCollection {
  /** Its own name. */
  readonly name: string
  /** The name by which it was asked for: its own, or an alias. */
  readonly alias: string
  readonly collection: Collection
}

/**
 * One collection of a cluster, for the api. This node answers reads, together with other nodes when it does not hold
 * all points. Writes go through the log. The effect of a write is decided when it is applied; only a write that would
 * exceed this node's memory is refused earlier.
 */
export class ClusterDatabase implements Database {
  readonly #local: LocalCollection
  readonly #collection: Collection
  readonly #node: ClusterNode
  /** The log position that reads must include. */
  readonly #position: number

  constructor(local: LocalCollection, node: ClusterNode, position = 0) {
    this.#local = local
    this.#collection = local.collection
    this.#node = node
    this.#position = position
  }

  asOf(position: number): Database {
    if (position === this.#position) return this
    return new ClusterDatabase(this.#local, this.#node, position)
  }

  get dimension(): number | undefined {
    return this.#collection.dimension
  }

  get nowUs(): number {
    return this.#collection.nowUs
  }

  async insert(points: readonly NewPoint[], options: InsertOptions = {}): Promise<Inserted> {
    const { onError = 'abort', identity, signal, keyFilter } = options
    if (keyFilter !== undefined && points.some(({ id }) => id !== undefined)) throw noOwnIds()
    await this.#collection.checkRoom(points)
    const idSeed = randomBytes(idSeedBytes)
    const request: LoggedInsert = { kind: 'insert', points, onError, identity, idSeed }
    const { id } = points.find((point) => point.id !== undefined) ?? {}
    // Then the insert may be about this one partition alone.
    if (id !== undefined) idSeed[0] = partitionOf(id)
    checkDecidable(request)
    const isDrawn = id === undefined
    return await this.#growing(
      () => this.addedBy(points.map((each) => each.id)),
      () => this.#write(request, signal, isDrawn ? idSeed[0] : undefined),
      identity,
    )
  }

  addedBy(...args: Parameters<Collection['addedBy']>): Promise<number> {
    return this.#collection.addedBy(...args)
  }

  /** Runs a change that adds points. What other nodes are storing now is not counted. */
  async #growing<Result>(
    added: () => number | Promise<number>,
    change: () => Promise<Result>,
    identity?: InsertOptions['identity'],
  ): Promise<Result> {
    return await this.#collection.growing(added, change, { points: () => this.count(), identity })
  }

  async remove(id: string, signal?: AbortSignal, keyFilter?: Filter): Promise<boolean> {
    return await this.#write({ kind: 'remove', id, keyFilter }, signal, partitionOf(id))
  }

  async put(
    id: string,
    point: Pick<NewPoint, 'vector' | 'payload'>,
    when?: Precondition,
    signal?: AbortSignal,
    keyFilter?: Filter,
  ): Promise<{ readonly version: number; readonly created: boolean }> {
    if (when?.kind === 'filter') checkWithoutWords(when.filter, 'when.filter')
    await this.#collection.checkRoom([point])
    return await this.#growing(
      async () => ((await this.get(id)) === undefined ? 1 : 0),
      () => this.#write({ kind: 'put', id, point, when, keyFilter }, signal, partitionOf(id)),
    )
  }

  async patch(
    id: string,
    patch: Patch,
    when?: Precondition,
    signal?: AbortSignal,
    keyFilter?: Filter,
  ): Promise<{ readonly version: number }> {
    if (when?.kind === 'filter') checkWithoutWords(when.filter, 'when.filter')
    await this.#collection.checkPatchRoom(id, patch)
    return await this.#growing(
      () => 0,
      () => this.#write({ kind: 'patch', id, patch, when, keyFilter }, signal, partitionOf(id)),
    )
  }

  /**
   * Finds the matching points when everything acknowledged before is applied here. The log then changes those that
   * still match when the record is applied.
   */
  async changeByFilter(
    asked: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }> {
    checkWithoutWords(asked.filter, 'filter')
    // The ids are of this collection, even if the alias has moved.
    const { name: collection } = this.#local
    // Where none fits, the attempt to write one is refused.
    const limitMax = Math.max(1, this.#node.changesMax(collection, asked))
    const request = { ...asked, limit: Math.min(asked.limit ?? limitMax, limitMax) }
    const position = await this.#node.latest(signal)
    const { ids, more, matching } = await this.#read((reads) => reads.planByFilter(request, signal), position)
    if (request.dryRun) return { changed: matching, more }
    if (ids.length === 0) return { changed: 0, more }
    const { filter, change } = request
    const each = { kind: 'each', ids, filter, change } as const
    const write = () => this.#node.write(each, { collection, partition: undefined, signal })
    const changed = change === 'delete' ? await write() : await this.#growing(() => 0, write)
    return { changed: [...changed.values()].reduce((sum, count) => sum + count, 0), more }
  }

  async get(...args: Parameters<Database['get']>): Promise<Point | undefined> {
    return await this.#read((reads) => reads.get(...args))
  }

  async search(...args: Parameters<Database['search']>): Promise<SearchResults> {
    return await this.#read((reads) => reads.search(...args))
  }

  async list(...args: Parameters<Database['list']>): Promise<ListPage> {
    return await this.#read((reads) => reads.list(...args))
  }

  async count(...args: Parameters<Database['count']>): Promise<number> {
    return await this.#read((reads) => reads.count(...args))
  }

  async facets(...args: Parameters<Database['facets']>): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
    return await this.#read((reads) => reads.facets(...args))
  }

  get stats(): CollectionStats {
    return this.#collection.stats
  }

  statsOfNodes(signal?: AbortSignal): Promise<StatsOfNodes> | undefined {
    return this.#node.statsOfNodes(this.#local.name, this.#position, signal)
  }

  async snapshot(signal?: AbortSignal, since?: Moment): Promise<PointsSnapshot> {
    const merged = await this.#node.snapshotOf(this.#local.name, signal, since)
    return merged ?? this.#collection.snapshot()
  }

  /**
   * Reads from this node if it holds all points, otherwise from several nodes.
   *
   * @param position the log position that the answer must include
   */
  async #read<Answer>(
    ask: (reads: Collection | ScatteredReads) => Promise<Answer>,
    position: number = this.#position,
  ): Promise<Answer> {
    if (this.#holdsAll) {
      // Points expire by the cluster's clock.
      if (this.#collection.isDueSoon) await this.#node.tick()
      // Without partitions that were dropped meanwhile, the answer is incomplete, and an error can be wrong.
      try {
        const answer = await ask(this.#collection)
        if (this.#holdsAll) return answer
      } catch (error) {
        this.#node.noteDamage(error)
        if (this.#holdsAll) throw error
      }
    }
    return await ask(this.#node.readsOf(this.#local.name, this.#collection, position)!)
  }

  get #holdsAll(): boolean {
    return this.#node.held.isAll
  }

  async #write<Request extends LoggedRequest>(
    request: Request,
    signal: AbortSignal | undefined,
    partition: number | undefined,
  ): Promise<LoggedResults[Request['kind']]> {
    return await this.#node.write(request, { collection: this.#local.alias, partition, signal })
  }
}

/** The collections of a cluster, for the api. Their names and aliases change through the log. */
export class ClusterCollections implements Collections {
  readonly #set: CollectionSet
  readonly #node: ClusterNode
  /** For each collection, one database for each name it is called by: an alias is resolved when the log is applied. */
  readonly #databases = new WeakMap<Collection, Map<string, ClusterDatabase>>()

  constructor(set: CollectionSet, node: ClusterNode) {
    this.#set = set
    this.#node = node
  }

  lease(name: string): Lease | Promise<Lease> {
    const lease = this.#set.lease(name)
    if (lease instanceof Promise) return lease.then((opened) => this.#wrapped(name, opened))
    return this.#wrapped(name, lease)
  }

  meterOf(name: string): Meter | undefined {
    return this.#set.meterOf(name)
  }

  list(): readonly CollectionInfo[] {
    return this.#set.list()
  }

  get(name: string): CollectionInfo {
    return this.#set.get(name)
  }

  countOnNodes(
    ...asked: Parameters<NonNullable<Collections['countOnNodes']>>
  ): Promise<PointsOnNodes> | undefined {
    return this.#node.countOnNodes(...asked)
  }

  get totals(): CollectionTotals {
    return this.#set.totals
  }

  get aliases(): ReadonlyMap<string, string> {
    return this.#set.aliases
  }

  async put(
    name: string,
    settings: CollectionSettings,
  ): Promise<{ readonly created: boolean; readonly info: CollectionInfo }> {
    const result = await this.#node.change({ kind: 'create', name, settings })
    const { created } = result as { readonly created: boolean }
    return { created, info: this.#set.get(name) }
  }

  async drop(name: string): Promise<void> {
    await this.#node.change({ kind: 'drop', name })
  }

  async setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    await this.#node.change({ kind: 'aliases', set, remove })
  }

  #wrapped(alias: string, lease: CollectionLease): Lease {
    const { name, database: collection } = lease
    const byName = this.#databases.get(collection) ?? new Map<string, ClusterDatabase>()
    this.#databases.set(collection, byName)
    const database = byName.get(alias) ?? new ClusterDatabase({ name, alias, collection }, this.#node)
    byName.set(alias, database)
    return { database, [Symbol.dispose]: () => lease[Symbol.dispose]() }
  }
}

/**
 * An owner of some of the points cannot know that all of them are to be refused, because others exist that it does not
 * hold. Clients know the error by the start of its message (`isUndecidable`).
 *
 * @throws DatabaseError `invalid_argument`
 */
function checkDecidable(request: LoggedInsert): void {
  if (request.onError === 'continue' || !request.points.some(canBeRefused)) return
  if (partitionsOf(request).size === 1) return
  throw invalid(
    'on_error is "abort", and in a cluster several points with ids are stored all or none only with on_conflict: send on_error "continue", or on_conflict "replace" or "skip" with each id, or no ids, or one point at a time',
  )
}

/** Nodes that do not hold a point cannot tell from the log whether it matches the filter of a key. */
function noOwnIds(): DatabaseError {
  return invalid(
    'in a cluster, a key with a filter inserts points without ids: put points under ids one by one',
  )
}

/**
 * Nodes index words in the background, so while one does, it would decide a change by them otherwise. The filter of a
 * key never has words.
 *
 * @throws DatabaseError `invalid_argument`
 */
function checkWithoutWords(filter: Filter, path: string): void {
  if (testsWords(filter)) {
    throw invalid(`${path} has $match or $phrase: in a cluster, changes cannot depend on words`)
  }
}

function testsWords(filter: Filter): boolean {
  switch (filter.kind) {
    case 'all':
    case 'any':
      return filter.of.some(testsWords)
    case 'not':
      return testsWords(filter.of)
    case 'condition':
      return filter.test.op === 'match' || filter.test.op === 'phrase'
    default:
      return false
  }
}
