import { randomBytes } from 'node:crypto'
import { defaultCollection } from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
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
  PointMap,
  PointsSnapshot,
} from '../engine/database.ts'
import type { LoggedRequest, LoggedResults } from '../engine/logged-request.ts'
import type { FirstDimension } from './first-dimension.ts'
import type { ScatteredReads } from './scattered-reads.ts'
import { partitionToDraw } from './sharded-inserts.ts'

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
  /** Of the default collection; absent where every node has all points. */
  readonly dimension: FirstDimension | undefined
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
  readsOf(collection: string, local: Collection, position: number): ScatteredReads | undefined
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

  /** @param name the collection's, or an alias */
  constructor(name: string, collection: Collection, writes: ClusterWrites, position = 0) {
    this.#name = name
    this.#collection = collection
    this.#writes = writes
    this.#position = position
  }

  asOf(position: number): Database {
    if (position === this.#position) return this
    return new ClusterDatabase(this.#name, this.#collection, this.#writes, position)
  }

  get dimension(): number | undefined {
    const own = this.#collection.dimension
    return own ?? (this.#isDefault ? this.#writes.dimension?.known : undefined)
  }

  async insert(points: readonly NewPoint[], options: InsertOptions = {}): Promise<Inserted> {
    const { onError = 'abort', identity, signal } = options
    await this.#fixDimension(points, 'vectors[0].vector')
    this.#collection.checkRoom(points)
    const idSeed = randomBytes(idSeedBytes)
    const partition = this.#writes.isPart ? partitionToDraw(points, options) : undefined
    if (partition !== undefined) idSeed[0] = partition
    const isDrawn = points.every(({ id }) => id === undefined)
    return await this.#write(
      { kind: 'insert', points, onError, identity, idSeed },
      signal,
      isDrawn ? idSeed[0] : undefined,
    )
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
    await this.#fixDimension([point], 'vector')
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

  async map(query: MapQuery, signal?: AbortSignal): Promise<PointMap> {
    await this.#moveClock()
    return await this.#collection.map(query, signal)
  }

  async snapshot(signal?: AbortSignal): Promise<PointsSnapshot> {
    const merged = await this.#writes.snapshotOf(this.#name, this.#position, signal)
    return merged ?? this.#collection.snapshot()
  }

  /** No other collection has its name, nor an alias. */
  get #isDefault(): boolean {
    return this.#name === defaultCollection
  }

  #readsOf(position: number): ScatteredReads | undefined {
    return this.#writes.readsOf(this.#name, this.#collection, position)
  }

  /**
   * The first insertion cannot fix the dimension where not all nodes decide about it.
   *
   * @param path of the first vector in the request
   * @throws DatabaseError `invalid_argument`
   */
  async #fixDimension(points: readonly Pick<NewPoint, 'vector'>[], path: string): Promise<void> {
    const { dimension: first } = this.#writes
    const [point] = points
    if (first === undefined || point === undefined || this.#collection.dimension !== undefined) return
    if (this.#isDefault) return await first.fix(point.vector.length, path)
    throw new DatabaseError(
      'invalid_argument',
      `the collection ${this.#name} has no dimension: where nodes have a part of the points each, it has to be created with one`,
    )
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
