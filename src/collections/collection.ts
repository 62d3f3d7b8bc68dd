import type { AttributeIndex } from '../attributes/attribute-index.ts'
import { applyPatch } from '../base/attribute-patch.ts'
import type { Attributes } from '../base/attributes.ts'
import type { BudgetShare } from '../base/budgets.ts'
import type { WordSettings } from '../base/collection.ts'
import { assert, cancellation, DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { matchesKeyFilter } from '../base/key-filter.ts'
import type { PartitionSet } from '../base/partitions.ts'
import {
  detailBytes,
  type Metric,
  type NewPoint,
  type Patch,
  type Payload,
  type Point,
  type SearchQuery,
  type WordCounts,
} from '../base/point.ts'
import { inTurns, Turn } from '../base/turns.ts'
import { Indexer } from '../graphs/indexer.ts'
import { newFilterId } from '../index/slot-filter.ts'
import {
  type ChangeByFilter,
  type CollectionStats,
  type Database,
  type FacetCount,
  type FilteredPlanCounts,
  filteredPlanNames,
  type Inserted,
  type InsertOptions,
  type ListPage,
  type ListQuery,
  type PointsSnapshot,
  type ReadCall,
} from '../points/database.ts'
import { SlotAllocator } from '../points/point-table.ts'
import { CollectionSearch } from '../search/collection-search.ts'
import { noPlanCounts } from '../search/filter-planner.ts'
import { PinnedPages } from '../search/pinned-pages.ts'
import type { MatchingSlots, SearchedPoints } from '../search/query-planner.ts'
import { bytesOfDetails } from '../search/search-answers.ts'
import type { NodeLegs } from '../search/word-search.ts'
import type { Snapshot, Store, StoredPlace } from '../storage/store.ts'
import { planByFilter } from '../write/by-filter.ts'
import { keptRequest } from '../write/decide.ts'
import { Replica, type ReplicaHooks } from '../write/replica.ts'
import type { TakenPoint } from '../write/requests.ts'
import { WritePath } from '../write/write-path.ts'
import type { CollectionOptions, EngineParts } from './engine.ts'
import { LivePoints, pointsIn } from './live-points.ts'
import { AttributeCache, digestAll, loadCollection, momentOf } from './load-collection.ts'
import type { FilteredQuery, MatchingAnswer } from './readers.ts'
import { countPoints, facetsOf, ListReader, PointReader, within } from './reads.ts'

/** See `Engine.openCollection`. */
export async function openCollection(
  parts: EngineParts,
  store: Store,
  options: CollectionOptions,
): Promise<Collection> {
  if (options.replica === undefined && store.applied !== undefined) throw new Error(replicaAlone)
  const collection = new Collection(parts, store, options)
  try {
    await collection.load(options.signal)
    return collection
  } catch (error) {
    await collection.discard()
    throw error
  }
}

const replicaAlone =
  'the data directory is that of a node of a cluster: set CLUSTER_NATS_URL. To use the points without the cluster, restore a backup (`vicinal backup`) to another directory'

/**
 * One named set of points: connects the points in memory, the write path, the indexer and the threads of the process.
 * Main thread only.
 */
export class Collection implements Database, AsyncDisposable {
  readonly #parts: EngineParts
  readonly #store: Store
  readonly #meter: CollectionOptions['meter']
  readonly #slots: SlotAllocator
  readonly #indexer: Indexer
  /** The points in memory. */
  readonly livePoints: LivePoints
  /** The results that its searches in progress may return, on all threads. */
  readonly results: BudgetShare
  /** The path of all changes: those of callers or, on a node of a cluster, of `#replica`. */
  readonly #writes: WritePath
  readonly #replica: Replica | undefined
  readonly #hooks: ReplicaHooks | undefined
  readonly #reader: PointReader
  readonly #lists: ListReader
  /** Reads that take several turns. */
  readonly #reads = new RunningReads(() => this.#refusal)
  readonly #search: CollectionSearch
  /** The searches by words whose pages are being read. */
  readonly pages: PinnedPages = new PinnedPages()
  /** Numbers the bitmaps of filters for other threads. */
  readonly #filterIds = new WeakMap<SharedArrayBuffer, number>()
  readonly #attributeCache: AttributeCache
  readonly #ended = Promise.withResolvers<void>()
  #hasSnapshot = false
  #refusal: DatabaseError | undefined
  #ending: Promise<void> | undefined

  /** Use `Engine.openCollection`. */
  constructor(parts: EngineParts, store: Store, options: CollectionOptions) {
    this.#parts = parts
    this.results = parts.results.share()
    this.#store = store
    this.#meter = options.meter
    this.#slots = new SlotAllocator(store.slotCount)
    this.#indexer = new Indexer({
      ...parts.options,
      maxUnindexedBytes: parts.options.maxUnindexedBytes ?? unindexedBytesMax,
      threads: parts.indexThreads,
      directory: options.indexDirectory,
      moment: () => (this.#writes.isIdle ? momentOf(store) : undefined),
      ids: () => this.livePoints.table.ids.pages(0),
      onFree: (slot) => this.#slots.release(slot),
    })
    const indexer = this.#indexer
    const { replica: hooks } = options
    this.#hooks = hooks
    const deleteExpired = async (take: () => readonly string[]): Promise<void> => {
      await (hooks?.expire(take) ?? this.#writes.submit({ kind: 'expire', ids: take() }))
    }
    const payload = (slot: number, id: string): Payload | undefined => this.#reader.payload(slot, id)
    this.livePoints = new LivePoints({ parts, store, options, indexer, payload, deleteExpired })
    const path = {
      store,
      slots: this.#slots,
      target: this.livePoints,
      queuedBytes: parts.writes.share(),
    }
    this.#replica = hooks && new Replica({ ...path, hooks })
    this.#writes = this.#replica?.path ?? new WritePath(path)
    this.#attributeCache = new AttributeCache({
      attributes: this.livePoints.attributes,
      orders: this.livePoints.table.orders,
      directory: options.indexDirectory,
      pointsMin: parts.options.attributePointsMin,
      logger: parts.options.logger,
    })
    this.#reader = new PointReader(store, this.livePoints, (id) => this.#writes.settle(id))
    this.#lists = new ListReader(this.livePoints, this.#reader)
    this.#search = new CollectionSearch({
      points: this.#searchedPoints(),
      results: this.results,
      maxDetailBytes: parts.options.maxBufferedBytes,
      pages: this.pages,
    })
  }

  /** The points as searches see them. */
  #searchedPoints(): SearchedPoints {
    const { livePoints: points } = this
    return {
      ids: points.table,
      attributes: points.attributes,
      words: points.words,
      get searches() {
        return points.searches
      },
      get start() {
        return points.attributes.journal.position
      },
      hideExpired: () => points.expirations.hideNow(),
      payload: (slot, id) => this.#reader.payload(slot, id),
      canMatch: (slot, filter) =>
        points.table.isVisible(slot) && (filter === undefined || points.matches(slot, filter)),
      versionOf: (slot) => points.table.versionOf(slot),
    }
  }

  /** See `Store.place`. */
  get place(): StoredPlace {
    return this.#store.place
  }

  /** Reads the store into memory; call before anything else: see `Engine.openCollection`. */
  async load(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const { dimension } = this.#store
    if (dimension === undefined) {
      await this.livePoints.words.load()
      this.livePoints.expirations.start()
      return
    }
    const { livePoints: points } = this
    const parts = { store: this.#store, slots: this.#slots, indexer: this.#indexer, points }
    const { options } = this.#parts
    await loadCollection({ ...parts, attributeCache: this.#attributeCache, options }, dimension, signal)
    await points.words.load()
    points.applied()
    points.allApplied()
    if (this.#replica !== undefined && this.#store.applied === undefined) {
      await digestAll(points, this.#replica)
    }
    points.expirations.start()
    await points.expirations.hideDue()
    // Points left over from an interrupted move of partitions; reads do not show them.
    if (this.#hooks?.held?.mayDelete) this.clearPartitions(never).catch(() => {})
  }

  #keepAttributes(): Promise<void> {
    return this.#attributeCache.save(momentOf(this.#store))
  }

  get dimension(): number | undefined {
    return this.livePoints.dimension
  }

  get nowUs(): number {
    return this.livePoints.latestUs
  }

  /** Declares other words, or none: they are indexed in the background. */
  declareWords(words: WordSettings | undefined): void {
    this.livePoints.words.declare(words)
  }

  /** The number of visible points. */
  get points(): number {
    return this.livePoints.table.size
  }

  /** The number of visible points in some partitions, on a node of a cluster. */
  async pointsIn(partitions: PartitionSet): Promise<number> {
    // A collection that is being closed must not change any more: its attributes are being saved.
    if (this.#ending === undefined) await this.livePoints.expirations.hideDue()
    return this.livePoints.table.sizeIn(partitions)
  }

  /** Whether so many points wait that the graph is not used: searches are exact until they are linked. */
  get isRebuilding(): boolean {
    return this.#indexer.isRebuilding
  }

  /** What the points count towards MAX_MEMORY_BYTES: vectors, graphs, ids and attributes. */
  get claimedBytes(): number {
    const { table, attributes, words, claimedBytes } = this.livePoints
    return (table.index?.claimedBytes ?? 0) + attributes.claimedBytes + words.claimedBytes + claimedBytes
  }

  get stats(): CollectionStats {
    const { searches, table, attributes, words } = this.livePoints
    const index = searches && table.index
    return {
      points: table.size,
      dimension: index?.dimension ?? 0,
      segments: index?.segments.length ?? 0,
      indexBytes: index?.memoryBytes ?? 0,
      idTableBytes: table.ids.memoryBytes,
      attributeBytes: attributes.memoryBytes,
      wordBytes: words.claimedBytes,
      wordsWaiting: words.waiting,
      diskBytes: this.#store.diskBytes,
      sequence: this.#store.sequence,
      unindexed: this.#indexer.unindexed,
      tombstones: this.#indexer.tombstones,
      isSettling: this.#indexer.isSettling,
      distanceSources: this.#indexer.distanceSources,
      plans: this.#indexer.plans,
      filteredRecalls: this.#indexer.filteredRecalls,
      filteredPlans: this.#filteredPlans,
    }
  }

  /** Those of this thread and of the threads that search by themselves. */
  get #filteredPlans(): FilteredPlanCounts {
    const { searches, readState } = this.livePoints
    const counts = { ...(searches?.filteredPlans ?? noPlanCounts()) }
    const { plans } = readState
    for (const name of filteredPlanNames) counts[name] += plans[name]
    return counts
  }

  insert(
    points: readonly NewPoint[],
    { onError = 'abort', identity, signal, keyFilter }: InsertOptions = {},
  ): Promise<Inserted> {
    return this.growing(
      () => this.addedBy(points.map(({ id }) => id)),
      () => this.#ownWrites.submit({ kind: 'insert', points, onError, identity, keyFilter }, { signal }),
      { identity },
    )
  }

  /** How many points an insert adds: none if it is repeated, and none under an id that is here. */
  async addedBy(ids: readonly (string | undefined)[], identity?: InsertOptions['identity']): Promise<number> {
    if (this.#isRepeated(identity)) return 0
    const turn = new Turn()
    let added = 0
    for (const id of ids) {
      if (id === undefined || this.livePoints.table.find(id) === -1) added += 1
      if (turn.isOver) await turn.next()
    }
    return added
  }

  #isRepeated(identity: InsertOptions['identity']): boolean {
    return identity !== undefined && keptRequest(this.#store, identity, Date.now()) !== undefined
  }

  /**
   * Runs a change that adds points or memory. A repeated insert adds none.
   *
   * @param points there are now; absent: those of this node
   * @throws DatabaseError `quota_exceeded`
   */
  async growing<Result>(
    added: () => number | Promise<number>,
    change: () => Promise<Result>,
    {
      points = () => this.points,
      identity,
    }: Pick<InsertOptions, 'identity'> & { readonly points?: () => number | Promise<number> } = {},
  ): Promise<Result> {
    const meter = this.#meter?.()
    if (meter === undefined || this.#isRepeated(identity)) return await change()
    // Counting can take questions to other nodes.
    const more = meter.quotas.points === undefined ? 0 : await added()
    const held = more === 0 ? 0 : await points()
    return await meter.growing(more, { points: held, bytes: this.claimedBytes }, change)
  }

  put(
    ...[id, point, when, signal, keyFilter]: Parameters<Database['put']>
  ): Promise<{ readonly version: number; readonly created: boolean }> {
    return this.growing(
      () => (this.livePoints.table.find(id) === -1 ? 1 : 0),
      () => this.#ownWrites.submit({ kind: 'put', id, point, when, keyFilter }, { signal }),
    )
  }

  patch(
    ...[id, patch, when, signal, keyFilter]: Parameters<Database['patch']>
  ): Promise<{ readonly version: number }> {
    return this.growing(
      () => 0,
      () => this.#ownWrites.submit({ kind: 'patch', id, patch, when, keyFilter }, { signal }),
    )
  }

  remove(id: string, signal?: AbortSignal, keyFilter?: Filter): Promise<boolean> {
    return this.#ownWrites.submit({ kind: 'remove', id, keyFilter }, { signal })
  }

  changeByFilter(
    request: ChangeByFilter,
    signal?: AbortSignal,
  ): Promise<{ readonly changed: number; readonly more: boolean }> {
    const change = () => this.#ownWrites.submit({ kind: 'filter', ...request }, { signal })
    return request.change === 'delete' || request.dryRun ? change() : this.growing(() => 0, change)
  }

  /** The path of changes on a node without a cluster. */
  get #ownWrites(): WritePath {
    assert(this.#replica === undefined, 'a replica changes only through its log')
    return this.#writes
  }

  /** The collection as a replica, on a node of a cluster. */
  get replica(): Replica {
    assert(this.#replica !== undefined, 'only a node of a cluster has a log')
    return this.#replica
  }

  /**
   * On a node of a cluster: removes the points of partitions that the node neither holds nor is receiving; resolves
   * when that is durable.
   */
  async clearPartitions(signal: AbortSignal): Promise<void> {
    const { held } = this.#hooks!
    if (this.replica.restriction === undefined) return
    const keeps = (partition: number): boolean => held!.keeps(partition)
    await this.#reads.run(async () => {
      for await (const { ids } of pointsIn(this.livePoints, (partition) => !keeps(partition))) {
        signal.throwIfAborted()
        await this.replica.clear(ids, keeps)
      }
    })
  }

  /** Returns the point with this id as it is stored, even if it has expired and is not deleted yet. */
  stored(id: string): TakenPoint | undefined {
    if (this.#refusal !== undefined) throw this.#refusal
    return this.#reader.stored(id)
  }

  /**
   * On a node of a cluster: checks whether points would fit in memory now if all of them are new. The log also carries
   * changes that only other nodes have room for, so this is checked before a change is added to the log.
   *
   * @throws DatabaseError `memory_full`; `invalid_argument` when the collection would have too many different paths
   */
  checkRoom(points: readonly Pick<NewPoint, 'vector' | 'payload'>[]): Promise<void> {
    const { livePoints } = this
    return livePoints.withMemory(() => {
      const check = livePoints.strictMemoryCheck()
      for (const { payload } of points) check.add(payload)
      const { dimension } = livePoints
      if (dimension === undefined || points.length === 0) return
      livePoints.reserve(this.#slots.slotCountAfter(points.length), dimension)
    })
  }

  /** Like `checkRoom`, for a patch; checks nothing if this node does not have the point. */
  checkPatchRoom(id: string, patch: Patch): Promise<void> {
    const { livePoints } = this
    return livePoints.withMemory(() => {
      const slot = livePoints.table.find(id)
      const before = slot === -1 ? undefined : this.#store.record(slot, id)?.payload
      if (before === undefined) return
      let after: Payload
      try {
        after = applyPatch(before, patch)
      } catch {
        // Whether the patch can be applied is decided in its turn, after its precondition.
        return
      }
      livePoints.strictMemoryCheck().add(after)
    })
  }

  /** Returns what a change by filter would change now. */
  planByFilter(request: ChangeByFilter): ReturnType<typeof planByFilter> {
    return this.#reads.run(async () => {
      await this.livePoints.expirations.hideDue()
      return await planByFilter(this.livePoints, (slot, id) => this.#reader.payload(slot, id), request)
    })
  }

  /** Whether a point has expired by this node's clock but not yet by the cluster's. */
  get isDueSoon(): boolean {
    return this.livePoints.expirations.isDueSoon
  }

  /** For a thread that searches by itself: see `MatchingCall`. */
  matching(filter: Filter, query: FilteredQuery | undefined, signal?: AbortSignal): Promise<MatchingAnswer> {
    return this.#reads.run(async () => {
      const evaluation = matchingNow(this.livePoints.attributes, filter)
      const { words, count, position } = await inTurns(evaluation, signal)
      const id = this.#filterIds.get(words.buffer) ?? newFilterId()
      this.#filterIds.set(words.buffer, id)
      const matching = { id, version: 0, words, count }
      const share = count / Math.max(1, this.points)
      const route =
        query && this.#indexer.route(query.metric, { vector: query.vector, k: query.limit, matching, share })
      return { id, words: words.buffer, count, position, route }
    })
  }

  /** By metric: the route that searches take now. */
  get routes(): CollectionStats['plans'] {
    return this.#indexer.plans
  }

  /** Counts searches of another thread as uses of their metrics. */
  noteAsked(metrics: readonly Metric[]): void {
    for (const metric of metrics) this.#indexer.route(metric)
  }

  /** Whether routes may change although points do not. */
  get isSettling(): boolean {
    return this.#indexer.isSettling
  }

  /** Whether threads other than the main thread may read the points by themselves. */
  get isViewable(): boolean {
    return (
      this.#replica === undefined && this.#refusal === undefined && this.livePoints.searches !== undefined
    )
  }

  async get(id: string, call?: ReadCall): Promise<Point | undefined> {
    if (this.#refusal !== undefined) throw this.#refusal
    const point = this.#reader.get(id, call?.keyFilter)
    if (point !== undefined) call?.room?.add(detailBytes(point))
    return point
  }

  async list(query: ListQuery, call?: ReadCall): Promise<ListPage> {
    return await this.#reads.run(() => this.#lists.list(query, call))
  }

  async count(filter?: Filter, signal?: AbortSignal): Promise<number> {
    return await this.#reads.run(() => countPoints(this.livePoints, filter, signal))
  }

  async facets(
    query: Parameters<Database['facets']>[0],
    call?: ReadCall,
  ): Promise<ReadonlyMap<string, readonly FacetCount[]>> {
    return await this.#reads.run(() => facetsOf(this.livePoints, query, call))
  }

  search(queries: readonly SearchQuery[], call: ReadCall = {}): Promise<SearchResults> {
    return this.#reads.run(() => this.#searchAll(queries, call))
  }

  #searchAll(queries: readonly SearchQuery[], call: ReadCall): Promise<SearchResults> {
    return this.#findShown(
      (restriction) => this.#search.search(restrictedTo(restriction, queries), call),
      call.signal,
      (results) => call.room?.add(-bytesOfDetails(results)),
    )
  }

  /**
   * Searches again if points that no read may show have been found.
   *
   * @param find is given which points the node may show
   * @param drop called with what is not used
   */
  async #findShown<Found>(
    find: (restriction: Replica['restriction']) => Promise<Found>,
    signal: AbortSignal | undefined,
    drop?: (found: Found) => void,
  ): Promise<Found> {
    for (let attempt = 1; ; attempt += 1) {
      if (this.#refusal !== undefined) throw this.#refusal
      if (signal?.aborted) throw cancellation(signal)
      const hiding = this.livePoints.expirations.hideDue()
      if (hiding !== undefined) await hiding
      const replica = this.#replica
      const [restriction, arrivals] = [replica?.restriction, replica?.arrivals]
      const found = await find(restriction)
      // Points that no read may show have arrived meanwhile.
      const isForeign = restriction === undefined && replica?.arrivals !== arrivals
      // So many points have expired meanwhile that not all of them are hidden.
      if (attempt === searchesMax || !(isForeign || this.livePoints.expirations.isDue)) return found
      drop?.(found)
    }
  }

  /**
   * On a node of a cluster that has a part of the points: what the legs of a query with words find here, with the
   * statistics of all nodes.
   */
  async wordLegs(query: SearchQuery, without: string | undefined, signal?: AbortSignal): Promise<NodeLegs> {
    const { filter, keyFilter } = query
    return await this.#reads.run(() =>
      this.#findShown(async (restriction) => {
        if (restriction === undefined) return await this.#search.legs(query, without, signal)
        const [asked] = restrictedTo(restriction, [query]) as [SearchQuery]
        const whole = filter === keyFilter ? asked.filter : within(restriction, keyFilter)
        return await this.#search.legs({ ...asked, keyFilter: whole }, without, signal)
      }, signal),
    )
  }

  /**
   * Counts the words of the points in some partitions, on a node of a cluster.
   *
   * @param filter that they have to match
   */
  async wordCounts(
    terms: readonly string[],
    partitions: PartitionSet,
    filter: Filter | undefined,
    signal: AbortSignal | undefined,
  ): Promise<WordCounts> {
    return await this.#reads.run(async () => {
      await this.livePoints.words.ready()
      await this.livePoints.expirations.hideDue()
      if (filter !== undefined)
        return await this.#search.wordCounts(terms, within(partitions, filter), signal)
      return await inTurns(this.livePoints.words.counts(terms, partitions), signal)
    })
  }

  snapshot(): Snapshot {
    if (this.#refusal !== undefined) throw this.#refusal
    if (this.#hasSnapshot) {
      throw new DatabaseError(
        'overloaded',
        'another snapshot is being read, only one can be read at a time: try again later',
      )
    }
    const resume = this.#slots.hold()
    const onClose = (): void => {
      this.#hasSnapshot = false
      resume()
    }
    try {
      const snapshot = this.#store.snapshot(onClose, this.livePoints.known)
      this.#hasSnapshot = true
      return snapshot
    } catch (error) {
      onClose()
      throw error
    }
  }

  async snapshotWithin(keyFilter: Filter): Promise<PointsSnapshot> {
    const snapshot = this.snapshot()
    const matches = (attributes: Attributes | undefined): boolean => matchesKeyFilter(keyFilter, attributes)
    try {
      const points = await snapshot.count(matches)
      const { databaseId, sequence } = snapshot
      const chunks = (): AsyncGenerator<Buffer> => snapshot.chunks({ part: { points, matches } })
      return { databaseId, sequence, points, chunks, close: () => snapshot.close() }
    } catch (error) {
      snapshot.close()
      throw error
    }
  }

  /** Resolves when the collection has been closed or discarded. */
  get ended(): Promise<void> {
    return this.#ended.promise
  }

  /**
   * Refuses new requests, waits for those in progress, saves the graphs for the next opening, and makes all threads
   * drop the index. Other collections keep working meanwhile. Idempotent.
   *
   * @param timeoutMs how long to wait for the graphs to be saved; an older file of them on disk remains usable
   */
  close(timeoutMs?: number): Promise<void> {
    this.#ending ??= this.#end(async () => {
      this.#indexer.letWritersPass()
      this.livePoints.expirations.close()
      await this.#writes.close()
      this.#refusal ??= new DatabaseError('shutting_down', 'the server is shutting down')
      await this.#reads.ended()
      await this.livePoints.searches?.close()
      await Promise.all([
        this.#indexer.close(timeoutMs),
        this.#keepAttributes(),
        this.livePoints.words.close(),
      ])
    })
    return this.#ending
  }

  /**
   * Like `close`, but saves nothing, for a collection that is removed or replaced: waiting requests and searches in
   * progress fail.
   */
  discard(
    removed: DatabaseError = new DatabaseError('collection_not_found', 'the collection has been removed'),
  ): Promise<void> {
    this.#ending ??= this.#end(async () => {
      this.#refusal = removed
      this.#indexer.letWritersPass()
      const searches = this.livePoints.searches?.discard(removed)
      this.livePoints.expirations.close()
      await this.#writes.discard(removed)
      await this.#reads.ended()
      // A first insert that was on its way to disk has attached the index only now.
      await (searches ?? this.livePoints.searches?.discard(removed))
      await this.#indexer.discard()
      await this.#attributeCache.ended
      await this.livePoints.words.discard()
    })
    return this.#ending
  }

  async #end(steps: () => Promise<void>): Promise<void> {
    this.livePoints.beginToEnd()
    this.livePoints.readState.end()
    try {
      await steps()
    } finally {
      this.livePoints.close()
      this.#ended.resolve()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/**
 * The vectors that may wait to be linked; every search scans them. With 16 MiB, searches right after a load took two
 * and a half times as long, and the load itself was no faster.
 */
export const unindexedBytesMax: number = 2 * 1024 * 1024

/** Evaluates a filter, and notes of which journal position the result is. */
function* matchingNow(
  attributes: AttributeIndex,
  filter: Filter,
): Generator<void, Required<Omit<MatchingSlots, 'id'>>> {
  const { words, count } = yield* attributes.matching(filter)
  return { words, count, position: attributes.journal.position }
}

const never: AbortSignal = new AbortController().signal

/** The most attempts to answer a request whose points expire by the thousand meanwhile. */
const searchesMax = 3

function restrictedTo<Query extends { readonly filter?: Filter | undefined }>(
  partitions: PartitionSet | undefined,
  queries: readonly Query[],
): readonly Query[] {
  if (partitions === undefined) return queries
  return queries.map((query) => ({ ...query, filter: within(partitions, query.filter) }))
}

/** The reads in progress. What they read must not be closed before they end. */
class RunningReads {
  readonly #refusal: () => DatabaseError | undefined
  readonly #running = new Set<Promise<unknown>>()

  /** @param refusal returns why reads are refused now */
  constructor(refusal: () => DatabaseError | undefined) {
    this.#refusal = refusal
  }

  /** Runs a read unless reads are refused. */
  async run<Result>(read: () => Promise<Result>): Promise<Result> {
    const refusal = this.#refusal()
    if (refusal !== undefined) throw refusal
    const running = read()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  /** Resolves when all reads that were in progress have ended. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#running)
  }
}
