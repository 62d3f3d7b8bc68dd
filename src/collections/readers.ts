import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { BudgetShare, SharedBudget } from '../base/budgets.ts'
import { defaultCollection } from '../base/collection.ts'
import { distanceMetrics } from '../base/point.ts'
import { idHashKey } from '../points/id-table.ts'
import type { SearchExecutor } from '../search/executor.ts'
import type { Collection } from './collection.ts'
import type { FromReader, MatchingCall, ReaderSetup, ToReader } from './reader-messages.ts'

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

  readonly matching: MatchingCall = async (name, filter, query) => {
    const collection = this.find(name ?? defaultCollection)
    // The thread then asks for the whole search, which opens the collection or finds that there is none.
    if (collection === undefined) throw new Error('the collection is not open')
    return await collection.matching(filter, query)
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
