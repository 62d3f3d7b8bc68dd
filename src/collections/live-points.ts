import { AttributeIndex } from '../attributes/attribute-index.ts'
import { assert } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { Payload } from '../base/point.ts'
import { inTurns, Turn } from '../base/turns.ts'
import type { Indexer } from '../graphs/indexer.ts'
import { MemoryFull, type MemoryUser, VectorIndex } from '../index/vector-index.ts'
import { Expirations } from '../points/expirations.ts'
import { idTableBytesPerSlot } from '../points/id-table.ts'
import { inInsertionOrder } from '../points/insertion-order.ts'
import { PointTable } from '../points/point-table.ts'
import type { IndexSearches } from '../search/index-searches.ts'
import type { Change, Insertion, KnownPoints, PointRecord, Store, Update } from '../storage/store.ts'
import type { ChangeTarget, MatchingPoints, Stamp } from '../write/requests.ts'
import { CollectionWords, type IndexedPoints } from './collection-words.ts'
import type { CollectionOptions, EngineParts } from './engine.ts'
import { ReadState } from './readers.ts'

interface LivePointsOptions {
  readonly parts: EngineParts
  readonly store: Store
  readonly options: CollectionOptions
  readonly indexer: Indexer
  /** Reads the payload of a visible point; a committed change of it takes effect first. */
  readonly payload: (slot: number, id: string) => Payload | undefined
  /** Deletes expired points, for whose ids it calls `take`; resolves when that is durable. */
  readonly deleteExpired: (take: () => readonly string[]) => Promise<void>
}

/**
 * The points of a collection in memory: their slots, vectors, attributes and expiry. After loading, the state changes
 * only in `apply` and when points expire.
 *
 * Main thread only; search threads and index threads read the index's shared memory.
 */
export class LivePoints implements ChangeTarget, MemoryUser {
  readonly #options: LivePointsOptions
  readonly #systemUs: () => number
  readonly #indexer: Indexer
  /** The most bytes that the attributes of this collection may take, as of the last check. */
  #attributeBytesMax = Number.POSITIVE_INFINITY
  readonly table: PointTable
  readonly attributes: AttributeIndex
  readonly words: CollectionWords
  readonly expirations: Expirations
  readonly readState: ReadState = new ReadState()
  /** On a node of a cluster: the clock of its log, as of the last record that this collection has decided. */
  #logClockUs: number
  #isEnding = false
  /** Set from the first point on, when the threads know the index. */
  searches: IndexSearches | undefined

  constructor(options: LivePointsOptions) {
    const { parts, store, options: collectionOptions, indexer } = options
    const systemUs = parts.options.nowUs ?? systemClockUs
    this.#options = options
    this.#systemUs = systemUs
    this.#logClockUs = store.applied?.clockUs ?? 0
    this.#indexer = indexer
    this.table = new PointTable(store.slotCount)
    this.words = new CollectionWords({
      points: this.#indexedPoints(),
      settings: collectionOptions.words,
      databaseId: store.databaseId,
      directory: collectionOptions.indexDirectory,
      pointsMin: parts.options.attributePointsMin,
      onNew: () => this.attributes.forgetFilters(),
      logger: parts.options.logger,
    })
    this.attributes = new AttributeIndex({
      findSlot: (bytes, at) => this.table.findBytes(bytes, at),
      copyId: (slot, target, at) => this.table.copyId(slot, target, at),
      checkMemory: (bytes) => this.#checkAttributeMemory(bytes),
      words: this.words,
    })
    parts.memory.add(this)
    parts.memory.add(this.words)
    parts.memory.add(this.attributes)
    this.expirations = new Expirations({
      clock: collectionOptions.replica === undefined ? systemUs : () => this.#logUs(),
      systemUs,
      onDue: collectionOptions.replica?.onDue,
      expiryOf: (slot) => this.attributes.expiresAtUsOf(slot),
      hide: (slot) => {
        this.#hide(slot)
        this.applied()
      },
      deleteSome: () => this.#deleteExpired(),
      logger: parts.options.logger,
    })
  }

  #indexedPoints(): IndexedPoints {
    const { table } = this
    const { payload } = this.#options
    return {
      get count() {
        return table.size
      },
      get slotCount() {
        return table.slotCount
      },
      isVisible: (slot) => table.isVisible(slot),
      versionOf: (slot) => table.versionOf(slot),
      partitionOf: (slot) => table.ids.firstByteOf(slot),
      payload: (slot) => payload(slot, table.idOf(slot)),
    }
  }

  /** Releases its part of the memory budget, and closes files. */
  close(): void {
    this.expirations.close()
    this.table.index?.close()
    this.#options.parts.memory.remove(this.attributes)
    this.#options.parts.memory.remove(this.words)
    this.#options.parts.memory.remove(this)
  }

  /** What neither the index nor the attributes count. */
  get claimedBytes(): number {
    return this.table.numbersBytes + this.expirations.memoryBytes
  }

  get dimension(): number | undefined {
    return this.searches?.index.dimension
  }

  /** The system's clock, or the log's if that is ahead. */
  get latestUs(): number {
    return Math.max(this.#systemUs(), this.expirations.nowUs)
  }

  advanceTo({ nowUs, position }: Stamp): void {
    this.#logClockUs = Math.max(this.#logClockUs, nowUs)
    if (this.expirations.isDue) this.#options.options.replica!.onVisible(position)
  }

  /**
   * The log's clock. It never passes the next record for this collection, because that record is not behind the floor.
   */
  #logUs(): number {
    return Math.max(this.#logClockUs, this.#options.options.replica!.floor().clockUs)
  }

  vector(slot: number): Float32Array {
    return this.table.index!.read(slot)
  }

  record(slot: number, id: string): PointRecord {
    const record = this.#options.store.record(slot, id)
    assert(record !== undefined, 'a point has a record')
    return record
  }

  async prepareFilter(filter: Filter): Promise<void> {
    await inTurns(this.attributes.prepare(filter))
  }

  matches(slot: number, filter: Filter): boolean {
    return this.attributes.matches(filter, slot)
  }

  async matching(filter: Filter): Promise<MatchingPoints> {
    const matching = await inTurns(this.attributes.evaluate(filter))
    return {
      count: matching.count,
      page: (after, limit) => inInsertionOrder(this.table, matching, { after, limit }),
    }
  }

  /** Deletes some of the hidden points; returns how many. On a node of a cluster, other nodes delete those of others. */
  async #deleteExpired(): Promise<number> {
    let count = 0
    await this.#options.deleteExpired(() => {
      const held = this.#options.options.replica?.held?.now
      const slots = this.expirations.takeHidden(
        expiredPerRequest,
        held && ((slot) => held.has(this.table.ids.firstByteOf(slot))),
      )
      count = slots.length
      return slots.map((slot) => this.table.idOf(slot))
    })
    return count
  }

  reserve(slotCount: number, dimension: number): void {
    const { table } = this
    if (table.index?.dimension !== dimension) {
      table.index?.close()
      table.index = this.createIndex(dimension)
    }
    try {
      table.index.reserve(slotCount)
    } catch (error) {
      // Deleted points make room as soon as no graph leads to them any more: the next try may succeed.
      this.#indexer.freeSoon()
      throw error
    }
  }

  /**
   * Points without attributes are not checked: they take little, and always fit where they did before. Records of a log
   * are not refused for their number of paths: it depends on how records are grouped, which differs between replicas.
   */
  memoryCheck(): { add(payload: Payload): void } {
    return this.#options.options.replica === undefined
      ? this.strictMemoryCheck()
      : this.#memoryCheck(Number.POSITIVE_INFINITY)
  }

  prepare(payload: Payload): Promise<void> | undefined {
    return this.words.prepare(payload)
  }

  /** Like `memoryCheck`, but always limits the number of different paths. For changes that are not in a log yet. */
  strictMemoryCheck(): { add(payload: Payload): void } {
    return this.#memoryCheck()
  }

  #memoryCheck(pathsMax?: number): { add(payload: Payload): void } {
    const { memory } = this.#options.parts
    this.#attributeBytesMax =
      memory.maxBytes === 0
        ? Number.POSITIVE_INFINITY
        : memory.maxBytes - memory.totalWith(this.attributes, 0)
    const check = this.attributes.capacityCheck(pathsMax)
    return { add: (payload) => payload.attributes !== undefined && check.add(payload) }
  }

  async withMemory<Result>(attempt: () => Result | Promise<Result>): Promise<Result> {
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await attempt()
      } catch (error) {
        if (!(error instanceof MemoryFull) || this.#isEnding || attempts === attemptsMax) throw error
        if (!(await this.#options.parts.memory.makeRoom(error.missingBytes))) throw error
      }
    }
  }

  /** Call when the collection begins to close: its changes then no longer wait until others are closed. */
  beginToEnd(): void {
    this.#isEnding = true
  }

  fixDimension(): void {
    if (this.searches !== undefined) return
    this.attach()
    this.#indexer.attach(this.table.index!)
  }

  commitFailed(): void {
    if (this.searches !== undefined) return
    this.table.index?.close()
    this.table.index = undefined
  }

  apply(change: Change, slot: number): void {
    if (change.kind === 'insert') this.#insert(change, slot)
    else if (change.kind === 'delete') this.#leave(slot)
    else if (change.vector === undefined) this.#update(change, slot)
    else this.#move(change, change.vector, slot)
  }

  applied(): void {
    const { readState, table } = this
    readState.points = table.size
    readState.segments = table.index?.segments.length ?? 0
    readState.nextExpiryUs = this.expirations.nextUs
    this.attributes.journal.settle()
  }

  allApplied(): void {
    this.readState.sequence = this.#options.store.sequence
  }

  #insert({ id, sequence, point, order = sequence, version = sequence }: Insertion, slot: number): void {
    // First, because this notes the slot in the journal: readers on other threads see the slot change from here on.
    this.#describe(slot, point.payload, version)
    this.table.place(slot, id, point.vector, sequence, order)
    if (version !== sequence) this.table.setVersion(slot, version)
    this.#placed(slot)
  }

  /** Runs in one turn, so that no reader sees the point twice or not at all. */
  #move({ id, sequence, order, payload }: Update, vector: Float32Array, slot: number): void {
    const from = this.table.slotOf(id)
    // A point that replaces an expired one is new, whether that one has been hidden yet or not.
    if (this.expirations.isHidden(from) || this.table.orderOf(from) !== order) {
      this.#leave(from)
      this.#insert({ kind: 'insert', id, sequence, order, point: { vector, payload } }, slot)
      return
    }
    this.expirations.clear(from)
    this.attributes.delete(from)
    this.words.delete(from)
    this.#describe(slot, payload, sequence)
    this.table.move(from, slot, vector, sequence)
    this.#indexer.removed(from)
    this.#placed(slot)
  }

  #placed(slot: number): void {
    this.fixDimension()
    this.#indexer.inserted(slot)
  }

  #update({ sequence, payload }: Update, slot: number): void {
    if (!this.expirations.isHidden(slot)) this.#describe(slot, payload, sequence)
    this.table.setVersion(slot, sequence)
  }

  #describe(slot: number, payload: Payload, version: number): void {
    this.attributes.set(slot, { payload, version })
    this.words.set(slot, payload, version)
    this.expirations.set(slot, payload.expiresAtUs)
  }

  /** Takes the point out of its slot, which is freed when no graph leads to it any more. */
  #leave(slot: number): void {
    if (!this.expirations.isHidden(slot)) this.#hide(slot)
    this.expirations.clear(slot)
    this.table.remove(slot)
    this.#indexer.removed(slot)
  }

  #hide(slot: number): void {
    this.attributes.delete(slot)
    this.words.delete(slot)
    this.table.hide(slot)
  }

  get comingBytesMax(): number {
    return this.#indexer.comingBytesMax
  }

  get isRebuilding(): boolean {
    return this.#indexer.isRebuilding
  }

  whenIndexReady(): Promise<boolean> | undefined {
    return this.#indexer.mayWrite()
  }

  /** What a snapshot of the store can use in place of records. */
  get known(): KnownPoints {
    const { table, readState } = this
    return {
      get sequence() {
        return readState.sequence
      },
      isVisible: (slot) => table.isVisible(slot),
      versionOf: (slot) => table.versionOf(slot),
      orderOf: (slot) => table.orderOf(slot),
      copyId: (slot, target, at) => table.copyId(slot, target, at),
    }
  }

  /** Makes the index known to the search threads. */
  attach(): void {
    const { executor } = this.#options.parts
    this.searches = executor.attach(this.table.index!, (metric, ask) => this.#indexer.route(metric, ask))
  }

  createIndex(dimension: number): VectorIndex {
    const { parts, store, options } = this.#options
    return new VectorIndex({
      dimension,
      kernels: parts.kernels,
      maxThreads: parts.firstReadingLane + (parts.options.readingThreads ?? 0),
      maxLimit: parts.options.maxLimit,
      m: options.hnswM,
      efConstruction: options.hnswEfConstruction,
      codeBits: parts.options.hnswCodeBits,
      rowFile: parts.options.vectorsOnDisk ? store.vectorsOnDisk(dimension) : undefined,
      memoryBudget: parts.memory,
      outsideBytes: idTableBytesPerSlot,
    })
  }

  #checkAttributeMemory(bytes: number): void {
    if (bytes <= this.#attributeBytesMax) return
    const { memory } = this.#options.parts
    const total = memory.totalWith(this.attributes, bytes)
    throw new MemoryFull('points with their attributes', total, memory.maxBytes)
  }
}

/** Points as they were at one moment. */
interface ListedPoints {
  readonly slots: readonly number[]
  readonly ids: readonly string[]
  readonly versions: Float64Array
}

/**
 * Yields all points of some partitions in bounded batches, including expired points that are not deleted yet. Points
 * that change between two batches may be missing or appear twice.
 *
 * @param isWanted whether the points of a partition are wanted
 */
export async function* pointsIn(
  { table, expirations }: LivePoints,
  isWanted: (partition: number) => boolean,
): AsyncGenerator<ListedPoints, void> {
  const turn = new Turn()
  for (let slot = 0; slot < table.slotCount; ) {
    const slots: number[] = []
    // Runs in one turn: later, a slot can have another point.
    for (
      let looks = 0;
      looks < looksPerStep && slots.length < slotsPerStep && slot < table.slotCount;
      looks += 1
    ) {
      const isThere = table.isVisible(slot) || expirations.isHidden(slot)
      if (isThere && isWanted(table.ids.firstByteOf(slot))) slots.push(slot)
      slot += 1
    }
    if (slots.length > 0) {
      const ids = slots.map((each) => table.ids.idOf(each))
      yield { slots, ids, versions: Float64Array.from(slots, (each) => table.versionOf(each)) }
    }
    if (turn.isOver) await turn.next()
  }
}

/** A few milliseconds of deletions. */
const slotsPerStep = 2048
/** Some tens of microseconds. */
const looksPerStep = 8192

/** A few milliseconds of deletions, and a log record of 64 KiB. */
const expiredPerRequest = 4096
/** Others may take the room that was made for this change. */
const attemptsMax = 3

function systemClockUs(): number {
  return Date.now() * 1000
}
