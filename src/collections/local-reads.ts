import type { SharedBudget } from '../base/budgets.ts'
import { defaultCollection } from '../base/collection.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { SearchResults } from '../base/id-lists.ts'
import { detailBytes, type Point, type SearchQuery } from '../base/point.ts'
import { collectGarbage } from '../base/runtime.ts'
import type { SlotFilter } from '../index/slot-filter.ts'
import type { ReadCall } from '../points/database.ts'
import { useIdHashKey } from '../points/id-table.ts'
import { Board } from '../search/board.ts'
import { resultBudget } from '../search/collection-search.ts'
import type { PlannedQuery } from '../search/filter-planner.ts'
import { queryBudget } from '../search/index-searches.ts'
import { PoolState } from '../search/messages.ts'
import { wantsPayload } from '../search/search-answers.ts'
import { Submitter } from '../search/submitter.ts'
import type { StoredRecords } from '../storage/records.ts'
import { Changed, CollectionView, NotHere } from './collection-view.ts'
import type {
  FilteredQuery,
  FromReader,
  MatchingAnswer,
  MatchingCall,
  ReaderSetup,
  ToReader,
} from './readers.ts'

/**
 * Searches of a thread that has received them, over the shared memory of the engine. Whatever it cannot answer, it
 * leaves to the engine: searches that would take long, need what only the engine has, or find points that change all the
 * time.
 */
export class LocalReads {
  readonly #setup: ReaderSetup
  readonly #matching: MatchingCall
  readonly #results: SharedBudget
  readonly #queries: SharedBudget
  readonly #submitter: Submitter
  /** Called when the engine has prepared the search threads, in the order in which it was asked to. */
  readonly #preparing: (() => void)[] = []
  /** The collections that they know. */
  readonly #prepared = new Set<number>()
  readonly #names: Int32Array
  #namesVersion: number
  readonly #views = new Map<number, CollectionView>()
  readonly #byName = new Map<string, CollectionView>()
  /** Names that the engine has been asked for. */
  readonly #wanted = new Set<string>()

  /** Undefined until a search needs records, and when only the engine can read them. */
  #records: StoredRecords | undefined
  #mayReadRecords: boolean

  constructor(setup: ReaderSetup, matching: MatchingCall) {
    this.#setup = setup
    this.#mayReadRecords = setup.hasRecords
    useIdHashKey(setup.idHashKey)
    this.#matching = matching
    const { board, pool, threads, queries } = setup.submitter
    this.#results = resultBudget(setup.results)
    this.#queries = queryBudget(queries)
    this.#submitter = new Submitter({
      board: new Board(board),
      pool: new PoolState(pool),
      threads,
      lane: setup.lane,
    })
    this.#names = new Int32Array(setup.names)
    this.#namesVersion = Atomics.load(this.#names, 0)
    setup.port.on('message', (message: ToReader) => this.#receive(message))
    setup.port.unref()
  }

  /** Returns the number of points that match; undefined if the engine must be asked. */
  async count(name: string | undefined, filter?: Filter, signal?: AbortSignal): Promise<number | undefined> {
    return await this.#viewOf(name)?.count(filter, () => this.#matching(name, filter!, undefined, signal))
  }

  /** See `Database.search`; resolves with undefined if the engine must be asked. */
  async search(
    name: string | undefined,
    queries: readonly SearchQuery[],
    call: ReadCall = {},
  ): Promise<SearchResults | undefined> {
    const view = this.#viewOf(name)
    if (view === undefined || !queries.every(isSearchedHere)) return undefined
    if (queries.some(needsRecords)) await this.#openRecords()
    const ask = (filter: Filter, query: FilteredQuery): Promise<MatchingAnswer> =>
      this.#matching(name, filter, query, call.signal)
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      try {
        return await view.search(queries, call, ask, attempt > 0)
      } catch (error) {
        if (error instanceof Changed) continue
        // Files of a collection that is being closed can be missing.
        if (error instanceof NotHere || (view.hasEnded && !(error instanceof DatabaseError))) return undefined
        throw error
      }
    }
    return undefined
  }

  /** See `Database.get`; resolves with undefined if the engine must be asked. */
  async get(name: string | undefined, id: string, { room }: ReadCall = {}): Promise<Point | undefined> {
    if (this.#viewOf(name) === undefined) return undefined
    await this.#openRecords()
    const point = this.#viewOf(name)?.get(id)
    if (point !== undefined) room?.add(detailBytes(point))
    return point
  }

  #viewOf(name: string = defaultCollection): CollectionView | undefined {
    const version = Atomics.load(this.#names, 0)
    if (version !== this.#namesVersion) this.#byName.clear()
    this.#namesVersion = version
    const view = this.#byName.get(name)
    if (view !== undefined && !view.hasEnded) return view
    if (!this.#wanted.has(name) && this.#wanted.size < wantedMax) {
      this.#wanted.add(name)
      this.#setup.port.postMessage({ kind: 'want', name } satisfies FromReader)
    }
    return undefined
  }

  #receive(message: ToReader): void {
    switch (message.kind) {
      case 'absent':
        this.#wanted.delete(message.name)
        return
      case 'view': {
        const { name, names, view } = message
        this.#wanted.delete(name)
        const known =
          this.#views.get(view) ??
          new CollectionView(this.#setup, message, {
            results: this.#results.share(message.results),
            records: () => this.#records,
            queries: this.#queries.share(message.queries),
            submitter: this.#submitter,
            prepare: (queries) => this.#prepare(view, filtersOf(queries)),
          })
        this.#views.set(view, known)
        if (names === this.#namesVersion && names === Atomics.load(this.#names, 0))
          this.#byName.set(name, known)
        return
      }
      case 'segment':
        this.#views.get(message.view)?.index.add(message.segment)
        return
      case 'page':
        this.#views.get(message.view)?.ids.addPage(message.page)
        return
      case 'entries':
        this.#views.get(message.view)?.ids.setEntries(message.entries, message.partition)
        return
      case 'prepared':
        this.#preparing.shift()!()
        return
      case 'detach':
        this.#detach(message.view)
        return
      case 'closeRecords':
        void this.close().finally(() =>
          this.#setup.port.postMessage({ kind: 'recordsClosed' } satisfies FromReader),
        )
    }
  }

  async #openRecords(): Promise<void> {
    if (this.#records !== undefined || !this.#mayReadRecords) return
    // LMDB's library takes 10 MB.
    const { StoredRecords } = await import('../storage/records.ts')
    if (this.#mayReadRecords) this.#records ??= new StoredRecords()
  }

  /** Closes the file of records: the engine must be asked for what is in them. */
  async close(): Promise<void> {
    const records = this.#records
    this.#mayReadRecords = false
    this.#records = undefined
    await records?.close()
  }

  /** Lets the search threads know a collection, and filters. */
  #prepare(view: number, filters: ReturnType<typeof filtersOf>): Promise<void> | undefined {
    if (filters.length === 0 && this.#prepared.has(view)) return undefined
    return new Promise((resolve) => {
      this.#preparing.push(() => {
        this.#prepared.add(view)
        resolve()
      })
      this.#setup.port.postMessage({ kind: 'prepare', view, filters } satisfies FromReader)
    })
  }

  #detach(number: number): void {
    const view = this.#views.get(number)
    this.#views.delete(number)
    this.#prepared.delete(number)
    for (const [name, each] of this.#byName) if (each === view) this.#byName.delete(name)
    view?.close()
    // Another thread cannot free the memory as long as this one refers to it.
    setImmediate(() => collectGarbage())
  }
}

/** Whether a query does not ask for what only the engine has. */
function isSearchedHere({ vector, keyFilter, profile, words }: SearchQuery): boolean {
  // Whether a stored point matches the filter of a key is not known here.
  const isOpen = typeof vector !== 'string' || keyFilter === undefined
  return isOpen && profile !== true && words === undefined
}

function needsRecords({ vector, include }: SearchQuery): boolean {
  if (typeof vector === 'string') return true
  return include !== undefined && (wantsPayload(include) || include.version)
}

/** The bitmaps of some queries, as messages have them. */
function filtersOf(queries: readonly PlannedQuery[]): readonly Pick<SlotFilter, 'id' | 'words'>[] {
  const filters = new Map<number, SlotFilter>()
  for (const { matching } of queries) if (matching !== undefined) filters.set(matching.id, matching)
  return Array.from(filters.values(), ({ id, words }) => ({ id, words }))
}

const attemptsMax = 3
const wantedMax = 1000
