import { randomBytes } from 'node:crypto'
import { idSeedBytes } from '../base/ids.ts'
import { type PartitionSet, partitionOf } from '../base/partitions.ts'
import type { NewPoint, Patch, Point, Precondition, SearchQuery } from '../base/point.ts'
import type { SearchResults } from '../base/search-results.ts'
import type { Collection } from '../engine/collection.ts'
import type {
  ChangeByFilter,
  CollectionStats,
  Database,
  FacetCount,
  Inserted,
  InsertOptions,
  ListPage,
  ListQuery,
  MapQuery,
  PartialReads,
  PointMap,
  PointsSnapshot,
  StatsOfNodes,
} from '../engine/database.ts'
import type { FoundPoints, LoggedInsert, LoggedRequest, LoggedResults } from '../engine/logged-request.ts'
import { insertJointly, isJoint, partitionToDraw } from './joint-inserts.ts'
import { openScatteredMap } from './scattered-map.ts'
import type { ScatteredReads } from './scattered-reads.ts'

/** What the collections of a node ask of the node. */
export interface ClusterWrites {
  /**
   * Has a request applied by all replicas; resolves when it is, on this node.
   *
   * @throws DatabaseError as the operation, and `not_ready` when it is not known whether it was stored
   */
  write<Request extends LoggedRequest>(
    request: Request,
    to: {
      readonly collection: string
      readonly partition: number | undefined
      readonly signal: AbortSignal | undefined
    },
  ): Promise<LoggedResults[Request['kind']]>
  /** Whether nodes may have a part of the points each. */
  readonly isPart: boolean
  /**
   * Looks for the points of an insert, on all nodes that have their partitions.
   *
   * @param within.position as of which, at least
   * @throws DatabaseError `not_ready` where some partition has no owner that answers
   */
  find(
    request: LoggedInsert,
    within: {
      readonly collection: string
      readonly local: Collection
      readonly position: number
      readonly signal: AbortSignal | undefined
    },
  ): Promise<FoundPoints>
  /** The partitions that this node holds completely. */
  readonly held: PartitionSet
  /** Resolves when everything that was acknowledged anywhere before is applied here, with the position of all that. */
  latest(signal: AbortSignal | undefined): Promise<number>
  /** Has the cluster's clock move on, as far as that does not take long. */
  tick(): Promise<void>
  /**
   * How a collection is read together with other nodes; undefined where this node holds all of it.
   *
   * @param position that answers have to be as new as
   */
  readsOf(
    collection: string,
    local: Collection,
    position: number,
    partial?: PartialReads,
  ): ScatteredReads | undefined
  /**
   * A snapshot of a collection that several nodes make; undefined where this node holds all of it.
   *
   * @param position that it has to be as new as
   * @throws DatabaseError what the nodes refuse it with; `not_ready` when some points have no node now
   */
  snapshotOf(
    collection: string,
    position: number,
    signal: AbortSignal | undefined,
  ): Promise<PointsSnapshot | undefined>
}

/**
 * One collection of a cluster, for the api: reads are answered by this node, with others where it does not hold all points;
 * writes go through the log. What a write is about is decided when it is applied; only what would fill this node's memory is
 * refused before.
 */
export class ClusterDatabase implements Database {
  readonly #name: string
  readonly #collection: Collection
  readonly #writes: ClusterWrites
  /** Reads have to be as new. */
  readonly #position: number
  /** Undefined: an answer has everything, or there is none. */
  readonly #partial: PartialReads | undefined

  /** @param name the collection's, or an alias */
  constructor(
    name: string,
    collection: Collection,
    writes: ClusterWrites,
    position = 0,
    partial?: PartialReads,
  ) {
    this.#name = name
    this.#collection = collection
    this.#writes = writes
    this.#position = position
    this.#partial = partial
  }

  asOf(position: number, partial?: PartialReads): Database {
    if (position === this.#position && partial === this.#partial) return this
    return new ClusterDatabase(this.#name, this.#collection, this.#writes, position, partial)
  }

  get dimension(): number | undefined {
    return this.#collection.dimension
  }

  async insert(points: readonly NewPoint[], options: InsertOptions = {}): Promise<Inserted> {
    const { onError = 'abort', identity, signal } = options
    this.#collection.checkRoom(points)
    const idSeed = randomBytes(idSeedBytes)
    const request: LoggedInsert = { kind: 'insert', points, onError, identity, idSeed }
    const { isPart } = this.#writes
    if (isPart && isJoint(points, options)) return await this.#insertJointly(request, signal)
    const partition = isPart ? partitionToDraw(points, options) : undefined
    if (partition !== undefined) idSeed[0] = partition
    const isDrawn = points.every(({ id }) => id === undefined)
    return await this.#write(request, signal, isDrawn ? idSeed[0] : undefined)
  }

  async #insertJointly(request: LoggedInsert, signal: AbortSignal | undefined): Promise<Inserted> {
    const [collection, local] = [this.#name, this.#collection]
    return await insertJointly({
      request,
      find: (position) => this.#writes.find(request, { collection, local, position, signal }),
      write: (each) => this.#write(each, signal, undefined),
    })
  }

  async remove(id: string, signal?: AbortSignal): Promise<boolean> {
    return await this.#write({ kind: 'remove', id }, signal, partitionOf(id))
  }

  async put(
    id: string,
    point: Pick<NewPoint, 'vector' | 'payload'>,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number; readonly created: boolean }> {
    this.#collection.checkRoom([point])
    return await this.#write({ kind: 'put', id, point, when }, signal, partitionOf(id))
  }

  async patch(
    id: string,
    patch: Patch,
    when?: Precondition,
    signal?: AbortSignal,
  ): Promise<{ readonly version: number }> {
    this.#collection.checkPatchRoom(id, patch)
    return await this.#write({ kind: 'patch', id, patch, when }, signal, partitionOf(id))
  }

  /**
   * Finds the points here, once everything acknowledged before is applied, and has those changed that still match when the
   * log gets to them.
   */
  async changeByFilter(
    request: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }> {
    const position = await this.#writes.latest(signal)
    const others = this.#readsOf(position)
    const { ids, more, matching } = await (others?.planByFilter(request, signal) ??
      this.#collection.planByFilter(request))
    if (request.dryRun) return { changed: matching, more }
    if (ids.length === 0) return { changed: 0, more }
    const { filter, change } = request
    const changed = await this.#write({ kind: 'each', ids, filter, change }, signal, undefined)
    return { changed: [...changed.values()].reduce((sum, count) => sum + count, 0), more }
  }

  async get(id: string, signal?: AbortSignal): Promise<Point | undefined> {
    const others = this.#readsOf(this.#position)
    if (others !== undefined) return await others.get(id, signal)
    await this.#moveClock()
    return await this.#collection.get(id)
  }

  async search(queries: readonly SearchQuery[], signal?: AbortSignal): Promise<SearchResults> {
    const others = this.#readsOf(this.#position)
    if (others !== undefined) return await others.search(queries, signal)
    await this.#moveClock()
    return await this.#collection.search(queries, signal)
  }

  async list(query: ListQuery, signal?: AbortSignal): Promise<ListPage> {
    const others = this.#readsOf(this.#position)
    if (others !== undefined) return await others.list(query, signal)
    await this.#moveClock()
    return await this.#collection.list(query, signal)
  }

  async count(...args: Parameters<Database['count']>): Promise<number> {
    const others = this.#readsOf(this.#position)
    if (others !== undefined) return await others.count(...args)
    await this.#moveClock()
    return await this.#collection.count(...args)
  }

  async facets(...args: Parameters<Database['facets']>): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
    const others = this.#readsOf(this.#position)
    if (others !== undefined) return await others.facets(...args)
    await this.#moveClock()
    return await this.#collection.facets(...args)
  }

  get stats(): CollectionStats {
    return this.#collection.stats
  }

  statsOfNodes(signal?: AbortSignal): Promise<StatsOfNodes> | undefined {
    return this.#readsOf(this.#position)?.stats(signal)
  }

  async map(query: MapQuery, signal?: AbortSignal): Promise<PointMap> {
    const others = this.#readsOf(this.#position)
    if (others !== undefined) return await this.#mapOf(others, query, signal)
    await this.#moveClock()
    return await this.#collection.map(query, signal)
  }

  async snapshot(signal?: AbortSignal): Promise<PointsSnapshot> {
    const merged = await this.#writes.snapshotOf(this.#name, this.#position, signal)
    return merged ?? this.#collection.snapshot()
  }

  async #mapOf(reads: ScatteredReads, query: MapQuery, signal: AbortSignal | undefined): Promise<PointMap> {
    const onClose = this.#collection.claimMap()
    try {
      return await openScatteredMap(reads, query, onClose, signal)
    } catch (error) {
      onClose()
      throw error
    }
  }

  #readsOf(position: number): ScatteredReads | undefined {
    return this.#writes.readsOf(this.#name, this.#collection, position, this.#partial)
  }

  /** Points expire by the cluster's clock: a read that would show one of them moves it on. */
  async #moveClock(): Promise<void> {
    if (this.#collection.isDueSoon) await this.#writes.tick()
  }

  async #write<Request extends LoggedRequest>(
    request: Request,
    signal: AbortSignal | undefined,
    partition: number | undefined,
  ): Promise<LoggedResults[Request['kind']]> {
    return await this.#writes.write(request, { collection: this.#name, partition, signal })
  }
}
