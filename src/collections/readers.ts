import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { BudgetSetup, BudgetShare, SharedBudget } from '../base/budgets.ts'
import { defaultCollection } from '../base/collection.ts'
import type { Filter } from '../base/filter.ts'
import { distanceMetrics, type Metric } from '../base/point.ts'
import type { RouteInForce } from '../graphs/recall-plans.ts'
import type { Route } from '../index/routes.ts'
import type { SegmentHandle, SegmentLayout } from '../index/segment.ts'
import type { SlotBits } from '../index/slot-filter.ts'
import type { KernelModule } from '../kernels/wasm-module.ts'
import { type FilteredPlanCounts, filteredPlanNames } from '../points/database.ts'
import { idHashKey } from '../points/id-table.ts'
import type { SearchExecutor, SubmitterSetup } from '../search/executor.ts'
import type { StoredPlace } from '../storage/store.ts'
import type { Collection } from './collection.ts'

interface ReadersOptions extends Pick<ReaderSetup, 'kernels' | 'maxDetailBytes' | 'inlineBytesMax'> {
  readonly results: SharedBudget
  readonly executor: SearchExecutor
  readonly firstLane: number
}

/**
 * The engine's side of the threads that search by themselves: tells them what they need of the collections that they
 * use. Main thread only.
 */
export class Readers implements Disposable {
  readonly #options: ReadersOptions
  readonly #names = new Int32Array(new SharedArrayBuffer(4))
  readonly #viewed = new Map<Collection, Viewed>()
  /** Runs while there are such threads. */
  #timer: NodeJS.Timeout | undefined
  /** Those of the threads that read records, with what to call when they no longer do. */
  readonly #ports = new Map<MessagePort, () => void>()
  #hasRecords = true
  #views = 0
  /** Returns the collection with a name or alias if it is open and other threads may read it. None before loading. */
  find: (name: string) => Collection | undefined = () => undefined

  constructor(options: ReadersOptions) {
    this.#options = options
  }

  /**
   * Returns what a thread needs to search. A thread that replaces another one has its number.
   *
   * @param thread from 1 to `EngineOptions.readingThreads`
   */
  add(thread: number): ReaderSetup {
    const { firstLane, executor, results: budget, ...options } = this.#options
    const { port1: own, port2: port } = new MessageChannel()
    own.on('message', (message: FromReader) => {
      if (message.kind === 'want') this.#view(own, message.name)
      else if (message.kind === 'prepare') this.#prepare(own, message)
      else this.#ports.get(own)?.()
    })
    this.#ports.set(own, () => {})
    this.#timer ??= setInterval(() => {
      for (const viewed of this.#viewed.values()) viewed.update()
    }, updateMs).unref()
    own.on('close', () => {
      this.#ports.get(own)!()
      this.#ports.delete(own)
      for (const { ports } of this.#viewed.values()) ports.delete(own)
      budget.drop(thread)
      for (const { shares } of this.#viewed.values()) for (const share of shares) share.drop(thread)
    })
    own.unref()
    const names = this.#names.buffer
    const submitter = executor.addOwner(thread)
    const lane = firstLane + thread - 1
    const hasRecords = this.#hasRecords
    const results = budget.setupOf(thread)
    return { ...options, idHashKey: idHashKey(), port, lane, names, hasRecords, submitter, results }
  }

  /** Resolves when no other thread has the file of records open any more, nor will open it. */
  async closeRecords(): Promise<void> {
    if (!this.#hasRecords) return
    this.#hasRecords = false
    const closed = Array.from(this.#ports.keys(), (port) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#ports.set(port, resolve)
      post(port, { kind: 'closeRecords' })
      return promise
    })
    await Promise.all(closed)
  }

  /** Call when a name or an alias may mean another collection, before anybody learns of it. */
  namesChanged(): void {
    Atomics.add(this.#names, 0, 1)
  }

  readonly matching: MatchingCall = async (name, filter, query, signal) => {
    const collection = this.find(name ?? defaultCollection)
    // The thread then asks for the whole search, which opens the collection or finds that there is none.
    if (collection === undefined) throw new Error('the collection is not open')
    return await collection.matching(filter, query, signal)
  }

  #view(port: MessagePort, name: string): void {
    const collection = this.find(name)
    if (collection === undefined) {
      post(port, { kind: 'absent', name })
      return
    }
    const viewed = this.#viewed.get(collection) ?? this.#viewedOf(collection)
    viewed.send(port, name, Atomics.load(this.#names, 0))
  }

  #prepare(port: MessagePort, { view, filters }: Extract<FromReader, { kind: 'prepare' }>): void {
    const viewed = [...this.#viewed.values()].find((each) => each.view === view)
    // A collection that is being closed has no view any more; the thread then searches by itself.
    if (viewed !== undefined) this.#options.executor.prepare(viewed.index, filters)
    post(port, { kind: 'prepared' })
  }

  #viewedOf(collection: Collection): Viewed {
    this.#views += 1
    const viewed = new Viewed(collection, this.#views)
    this.#viewed.set(collection, viewed)
    void collection.ended.then(() => {
      this.#viewed.delete(collection)
      viewed.toAll({ kind: 'detach', view: viewed.view })
    })
    return viewed
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
  }
}

/** A collection that reading threads know. */
class Viewed {
  readonly view: number
  /** The id of its index. */
  readonly index: number
  readonly ports = new Set<MessagePort>()
  /** Its results and queries. */
  readonly shares: readonly [BudgetShare, BudgetShare]
  readonly #collection: Collection
  readonly #pages: SharedArrayBuffer[] = []
  #position = -1
  #reads = -1

  constructor(collection: Collection, view: number) {
    this.view = view
    this.#collection = collection
    this.index = collection.livePoints.table.index!.id
    this.shares = [collection.results, collection.livePoints.searches!.queries]
    const { table } = collection.livePoints
    const known = table.index!.segments.length
    table.index!.onSegment((segment) => {
      if (segment.ordinal >= known) this.toAll({ kind: 'segment', view, segment })
    })
    table.ids.onPage((page) => {
      this.#pages.push(page)
      this.toAll({ kind: 'page', view, page })
    })
    table.ids.onEntries((entries, partition) => this.toAll({ kind: 'entries', view, entries, partition }))
    this.update()
  }

  send(port: MessagePort, name: string, names: number): void {
    const { readState, attributes, table } = this.#collection.livePoints
    const { layout, segments } = table.index!
    const memory = { state: readState.buffer, journal: attributes.journal.buffer, layout }
    const { place } = this.#collection
    const { view, index } = this
    const [results, queries] = this.shares.map((share) => share.memory) as [
      SharedArrayBuffer,
      SharedArrayBuffer,
    ]
    const { entries } = table.ids
    const ids = { pages: this.#pages, entries, results, queries }
    post(port, { kind: 'view', name, names, view, index, ...memory, segments, ...ids, place })
    this.ports.add(port)
  }

  toAll(message: ToReader): void {
    for (const port of this.ports) post(port, message)
  }

  /** Writes the routes in force, which change with the points and when recall has been measured. */
  update(): void {
    const { livePoints, isSettling } = this.#collection
    const { readState } = livePoints
    const { position } = livePoints.attributes.journal
    const { reads } = readState
    if (position === this.#position && reads === this.#reads && !isSettling) return
    this.#position = position
    this.#reads = reads
    this.#collection.noteAsked(readState.takeAsked())
    const plans = this.#collection.routes
    for (const metric of distanceMetrics) readState.setRoute(metric, plans[metric].route)
  }
}

function post(port: MessagePort, message: ToReader): void {
  port.postMessage(message)
}

/** Until then, a thread takes routes that were good enough a moment ago. */
const updateMs = 100

/**
 * The messages between the engine and a thread that searches by itself.
 *
 *   engine (readers.ts)                           reading thread (local-reads.ts)
 *   ───────────────────                           ───────────────────────────────
 *        <─────────────────────────────── want ── a search in a collection that it does not know
 *   view, or absent ────────────────────────────> attach the collection: state, journal, segments, ids
 *   segment, page, entries ─────────────────────> attach more of it
 *   detach ─────────────────────────────────────> drop everything of it, when the collection has been closed
 *   closeRecords ───────────────────────────────> close LMDB's file, and leave records to the engine from then on
 *        <────────────────────── recordsClosed ──
 *        <──────────────────────────── prepare ── before it submits searches to the search threads
 *   prepared, once they know what they need ────>
 *        <··········· MatchingCall, a call ······ the bitmap of a filter, and its route
 *
 * Everything else that a search needs is in shared memory: `ReadState`, change-journal.ts, segment.ts. A thread that
 * does not know a segment or a page yet, or finds that it may not answer, asks the engine to search.
 */
export type ToReader =
  | (ViewMessage & { readonly kind: 'view' })
  | { readonly kind: 'absent'; readonly name: string }
  | { readonly kind: 'segment'; readonly view: number; readonly segment: SegmentHandle }
  | { readonly kind: 'page'; readonly view: number; readonly page: SharedArrayBuffer }
  | {
      readonly kind: 'entries'
      readonly view: number
      readonly entries: SharedArrayBuffer
      readonly partition: number
    }
  | { readonly kind: 'detach'; readonly view: number }
  | { readonly kind: 'closeRecords' }
  /** The answer to the oldest `prepare`. */
  | { readonly kind: 'prepared' }

export type FromReader =
  | { readonly kind: 'want'; readonly name: string }
  | { readonly kind: 'prepare'; readonly view: number; readonly filters: readonly PreparedFilter[] }
  | { readonly kind: 'recordsClosed' }

type PreparedFilter = Pick<SlotBits, 'id' | 'words'>

interface ViewMessage {
  /** The name or alias that was wanted. */
  readonly name: string
  /** The version of the names for which that was true. */
  readonly names: number
  /** Identifies the collection in later messages. */
  readonly view: number
  /** The id of its index. */
  readonly index: number
  readonly state: SharedArrayBuffer
  readonly journal: SharedArrayBuffer
  readonly layout: SegmentLayout
  readonly segments: readonly SegmentHandle[]
  readonly pages: readonly SharedArrayBuffer[]
  readonly entries: readonly SharedArrayBuffer[]
  readonly place: StoredPlace
  /** Of the collection's shares. */
  readonly results: SharedArrayBuffer
  readonly queries: SharedArrayBuffer
}

/** What a reading thread is started with. The port must be transferred. */
export interface ReaderSetup {
  readonly port: MessagePort
  readonly kernels: KernelModule
  /** The thread's lane of scratch in every segment. */
  readonly lane: number
  /** One word: changes when a name or an alias may mean another collection. */
  readonly names: SharedArrayBuffer
  readonly results: BudgetSetup
  readonly maxDetailBytes: number
  /** See `idHashKey`. */
  readonly idHashKey: Uint32Array
  /** Whether records can be read from LMDB's file. */
  readonly hasRecords: boolean
  readonly submitter: SubmitterSetup
  /** Searches of at most this many bytes of rows run on the thread itself; undefined for the usual. */
  readonly inlineBytesMax: number | undefined
}

/** Asks the engine for the slots that match a filter, and for the route of a query with that filter. */
export type MatchingCall = (
  collection: string | undefined,
  filter: Filter,
  query: FilteredQuery | undefined,
  signal?: AbortSignal,
) => Promise<MatchingAnswer>

/** What the route of a search with a filter depends on. */
export interface FilteredQuery {
  readonly metric: Metric
  readonly vector: Float32Array
  readonly limit: number
}

export interface MatchingAnswer {
  /** Unique among the bitmaps of the collection. */
  readonly id: number
  /** Later answers with the same id can change the bitmap, but only for slots touched after the position. */
  readonly words: SharedArrayBuffer
  readonly count: number
  /** The journal position of which the bitmap is. */
  readonly position: number
  readonly route: RouteInForce | undefined
}

/**
 * What threads that read a collection must know of it at any time, in shared memory. Only the main thread writes, except
 * for the words about reads. Points and segments are as of the last settled position of the journal (change-journal.ts).
 *
 *   ├ next expiry, sequence (i64) ┼ points, segments, ended, reads, asked, plans, route of each metric (i32) ┤
 *
 *   route: 0 for the exact scan, otherwise 1 + graph + 16 x distance kind + 4096 x ef multiplier
 */
export class ReadState {
  readonly buffer: SharedArrayBuffer
  readonly #longWords: BigInt64Array
  readonly #words: Int32Array

  /** @param buffer on another thread than the main thread */
  constructor(
    buffer: SharedArrayBuffer = new SharedArrayBuffer(16 + 4 * (word.routes + distanceMetrics.length + 1)),
  ) {
    this.buffer = buffer
    this.#longWords = new BigInt64Array(buffer, 0, 2)
    this.#words = new Int32Array(buffer, 16)
  }

  /** When a point expires next, at the earliest, in microseconds since 1970. */
  get nextExpiryUs(): number {
    return Number(Atomics.load(this.#longWords, 0))
  }

  set nextExpiryUs(us: number) {
    Atomics.store(this.#longWords, 0, us === Number.POSITIVE_INFINITY ? neverUs : BigInt(Math.floor(us)))
  }

  /** All changes up to this sequence number that are stored have taken effect. */
  get sequence(): number {
    return Number(Atomics.load(this.#longWords, 1))
  }

  set sequence(sequence: number) {
    Atomics.store(this.#longWords, 1, BigInt(sequence))
  }

  /** The number of visible points. */
  get points(): number {
    return Atomics.load(this.#words, word.points)
  }

  set points(points: number) {
    Atomics.store(this.#words, word.points, points)
  }

  get segments(): number {
    return Atomics.load(this.#words, word.segments)
  }

  set segments(segments: number) {
    Atomics.store(this.#words, word.segments, segments)
  }

  /** Whether the collection is being closed. */
  get hasEnded(): boolean {
    return Atomics.load(this.#words, word.ended) === 1
  }

  end(): void {
    Atomics.store(this.#words, word.ended, 1)
  }

  /** Reading threads: counts a read. */
  noteRead(): void {
    Atomics.add(this.#words, word.reads, 1)
  }

  /** The number of reads so far, modulo 2^32. */
  get reads(): number {
    return Atomics.load(this.#words, word.reads)
  }

  /** Reading threads: counts searches with a filter, by how they were carried out. */
  addPlans(added: FilteredPlanCounts): void {
    for (const [at, name] of filteredPlanNames.entries()) {
      if (added[name] > 0) Atomics.add(this.#words, word.plans + at, added[name])
    }
  }

  /** How many such searches there were, each modulo 2^32. */
  get plans(): FilteredPlanCounts {
    const counts = filteredPlanNames.map((name, at) => [
      name,
      Atomics.load(this.#words, word.plans + at) >>> 0,
    ])
    return Object.fromEntries(counts) as FilteredPlanCounts
  }

  setRoute(metric: Metric, route: Route | undefined): void {
    const packed =
      route === undefined ? 0 : 1 + route.graph + 16 * route.distanceKind + 4096 * route.efMultiplier
    Atomics.store(this.#words, word.routes + distanceMetrics.indexOf(metric), packed)
  }

  /** Reading threads: returns the route of a search, and notes that the metric is in use. */
  routeOf(metric: Metric): Route | undefined {
    const number = distanceMetrics.indexOf(metric)
    Atomics.or(this.#words, word.asked, 1 << number)
    const packed = Atomics.load(this.#words, word.routes + number) - 1
    if (packed < 0) return undefined
    return { graph: packed & 15, distanceKind: (packed >> 4) & 255, efMultiplier: packed >> 12 }
  }

  /** Returns the metrics for which a route was asked since the last call. */
  takeAsked(): Metric[] {
    const asked = Atomics.exchange(this.#words, word.asked, 0)
    return distanceMetrics.filter((_, number) => (asked & (1 << number)) !== 0)
  }
}

const word = { points: 0, segments: 1, ended: 2, reads: 3, asked: 4, plans: 5, routes: 9 } as const
const neverUs = 2n ** 62n
