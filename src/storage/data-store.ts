import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { defaultCollection, type WordSettings } from '../base/collection.ts'
import { assert, beyondRepair, damaged, type WritesBlocked } from '../base/errors.ts'
import { syncDirectory } from '../base/files.ts'
import type { Logger } from '../base/log.ts'
import type { Quotas } from '../base/quotas.ts'
import { idempotencyKeyLifeMs } from '../base/request-headers.ts'
import { Turn } from '../base/turns.ts'
import { Catalog, type CatalogChange, clearLeftovers, mainNumber, removeDirectory } from './catalog.ts'
import { journalBytes } from './changes/change-journal.ts'
import {
  collectionDirectory,
  DirectoryLock,
  databasePath,
  finishReplacement,
  indexDirectory,
  leaveClosedMark,
  makeDirectory,
  rowFilePath,
  takeClosedMark,
} from './files/data-directory.ts'
import { HeldReads, ReadEnvironment } from './files/environment.ts'
import { type Meta, rowBytesOf, rowsHeaderBytes } from './key-layout.ts'
import type { RequestBounds } from './keyed-requests.ts'
import { PointStore } from './point-store.ts'
import type {
  ChangesChoice,
  CollectionFiles,
  CollectionRecord,
  CollectionSummary,
  DataStore,
  Declared,
  KeptChanges,
  NewCollection,
  Store,
} from './store.ts'
import {
  firstEntries,
  type OpenedDatabase,
  openDatabase,
  openDatabaseToRead,
  readChecked,
  readMeta,
  type Tables,
} from './tables.ts'
import { CollectionWriter, NotWritable, Writer } from './writer/writer.ts'
import type { CollectionsChange, StoredState } from './writer/writer-messages.ts'

export interface StoreOptions {
  readonly dataDir: string
  /** Of the default collection. Must equal the stored dimension, if there is one. Otherwise fixes it. */
  readonly dimension?: number
  /** The most keyed requests that are kept for each collection. */
  readonly maxIdempotencyKeys?: number
  readonly maxIdempotencyBytes?: number
  /** The most disk space for changes that no backup has stored. */
  readonly maxChangesBytes?: number
  readonly logger: Logger
  /** Called with the seconds that each commit took. */
  readonly onCommit?: (seconds: number) => void
  /** Called with the reason when changes begin to be refused; called with undefined when they are accepted again. */
  readonly onWritesBlocked?: (reason: WritesBlocked | undefined) => void
  /** Called after a failed write, before the files are opened again: all other threads must close them. */
  readonly beforeReopen?: () => Promise<void>
  /** Node's options for the writer thread. Tests use them to make its disk fail. */
  readonly writerExecArgv?: readonly string[]
}

/**
 * Opens everything in `dataDir`, creates it if missing, and locks it against other processes. Removes the leftovers of
 * interrupted creations of collections, and continues the removal of dropped ones.
 *
 * @throws Error if the directory is in use or damaged, or has another format version or dimension
 */
export async function openDataStore(given: StoreOptions): Promise<DataStore> {
  const options = { ...given, dataDir: resolve(given.dataDir) }
  const { dataDir } = options
  makeDirectory(dataDir)
  const lock = DirectoryLock.acquire(dataDir)
  try {
    finishReplacement(dataDir)
    const opened = await openDatabase(dataDir, takeClosedMark(dataDir))
    try {
      checkDimension(options, opened)
      syncDirectory(dataDir)
      makeDirectory(collectionDirectory(dataDir, mainNumber))
      return await DirectoryStore.open(options, lock, opened)
    } catch (error) {
      await opened.root.close()
      throw error
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** Opens a data directory for a caller that only uses the default collection. Closing it closes the directory. */
export async function openStore(options: StoreOptions): Promise<Store> {
  return (await openDataStore(options)).main
}

function checkDimension({ dataDir, dimension }: StoreOptions, { tables, checked }: OpenedDatabase): void {
  if (dimension === undefined || checked.get(mainNumber) !== undefined) return
  const { dimension: stored } = readMeta(tables.of(mainNumber, defaultCollection))
  if (stored === undefined || dimension === stored) return
  throw new Error(
    `DIMENSION is ${dimension}, but ${dataDir} holds vectors of ${stored} dimensions: unset DIMENSION or use another DATA_DIR`,
  )
}

/**
 * The collections of a data directory. They share one LMDB environment and one writer thread.
 *
 *   create   directory, row file ─> one transaction: catalog, meta record
 *            killed before the transaction: the next start removes the files
 *   drop     one transaction: mark as dropped, remove aliases ─> files ─> entries, piece by piece ─> catalog record
 *            killed after the transaction: the next start continues
 */
class DirectoryStore implements DataStore {
  readonly dataDir: string
  readonly #options: StoreOptions
  readonly #lock: DirectoryLock
  readonly #catalog = new Catalog()
  readonly #environment: ReadEnvironment<OpenedDatabase>
  readonly #writer: Writer
  readonly #heldReads = new HeldReads()
  #main: PointStore | undefined
  /** The open stores by number, also that of the default collection. */
  readonly #stores = new Map<number, PointStore>()
  /** Sizes of the row files of stores that are not open, by number. */
  readonly #rowFileBytes = new Map<number, number>()
  /** The last change of the catalog: changes run one at a time. */
  #lastChange: Promise<unknown> = Promise.resolve()
  readonly #removals = new Set<Promise<void>>()
  #isClosing = false

  private constructor(options: StoreOptions, lock: DirectoryLock, opened: OpenedDatabase) {
    const { dataDir, logger, onWritesBlocked = () => {}, writerExecArgv } = options
    this.dataDir = dataDir
    this.#options = options
    this.#lock = lock
    this.#environment = new ReadEnvironment(opened)
    this.#catalog.read(opened.tables.catalog, databasePath(dataDir), opened.checked.keys())
    clearLeftovers(dataDir, this.#catalog)
    for (const { number } of this.#catalog.collections.values()) {
      this.#rowFileBytes.set(number, statSync(rowFilePath(dataDir, number), optional)?.size ?? 0)
    }
    this.#writer = new Writer({
      dataDir,
      requestBounds: requestBoundsOf(options),
      changesBytesMax: options.maxChangesBytes ?? 1024 ** 3,
      logger,
      onBlocked: onWritesBlocked,
      reopen: () => this.#reopen(),
      execArgv: writerExecArgv,
    })
  }

  /** @throws DatabaseError if the default collection, or a part that all collections share, is damaged */
  static async open(
    options: StoreOptions,
    lock: DirectoryLock,
    opened: OpenedDatabase,
  ): Promise<DirectoryStore> {
    const store = new DirectoryStore(options, lock, opened)
    try {
      store.#main = await store.#openStore(mainNumber, options.dimension)
    } catch (error) {
      await store.#writer.close()
      throw error
    }
    for (const number of store.#catalog.dropped) store.#removeSoon(number)
    return store
  }

  get main(): Store {
    return this.#main!
  }

  get collections(): ReadonlyMap<string, CollectionRecord> {
    return this.#catalog.collections
  }

  get aliases(): ReadonlyMap<string, string> {
    return this.#catalog.aliases
  }

  get diskBytes(): number {
    let bytes = this.#environment.bytes + (this.#writer.journalBytes ?? 0)
    for (const each of this.#rowFileBytes.values()) bytes += each
    for (const store of this.#stores.values()) bytes += store.diskBytes
    return bytes
  }

  get keepsChanges(): boolean {
    return this.#writer.journalBytes !== undefined
  }

  wordsOf(number: number): WordSettings | undefined {
    return this.#catalog.wordsOf(number)
  }

  quotasOf(number: number): Quotas | undefined {
    return this.#catalog.quotasOf(number)
  }

  async declare(number: number, declared: Declared): Promise<void> {
    await this.#inTurn(async () => {
      const change = this.#catalog.declare(number, declared)
      await this.#commit(change, { kind: 'entries', entries: change.entries })
    })
  }

  async create({ name, dimension, hnsw = {}, words, quotas }: NewCollection): Promise<CollectionRecord> {
    return await this.#inTurn(async () => {
      assert(!this.#catalog.collections.has(name), 'the name of a new collection is not in use')
      const change = this.#catalog.create({
        name,
        dimension,
        hnsw,
        createdMs: Date.now(),
        ...(words && { words }),
        ...(quotas && { quotas }),
      })
      const { number: collection } = change.collection
      const first = firstEntries(dimension).map((each) => ({ table: 'meta' as const, collection, ...each }))
      const entries = [...change.entries, ...first]
      await this.#commit(change, { kind: 'create', collection, dimension, entries })
      this.#rowFileBytes.set(collection, 0)
      return change.collection
    })
  }

  async drop(name: string): Promise<void> {
    await this.#inTurn(async () => {
      const record = this.#catalog.collections.get(name)
      assert(record !== undefined, 'a dropped collection exists')
      assert(!this.#stores.has(record.number), 'a dropped collection is closed')
      const change = this.#catalog.drop(record)
      await this.#commit(change, { kind: 'entries', entries: change.entries })
      this.#rowFileBytes.delete(record.number)
      this.#removeSoon(record.number)
    })
  }

  async setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    await this.#inTurn(async () => {
      const change = this.#catalog.changeAliases(set, remove)
      if (change.entries.length === 0) return
      await this.#commit(change, { kind: 'entries', entries: change.entries })
    })
  }

  async open(number: number): Promise<Store> {
    return await this.#openStore(number)
  }

  async #openStore(number: number, dimension?: number): Promise<PointStore> {
    assert(!this.#stores.has(number), 'a collection has one store at a time')
    this.#checkTables(number)
    const tables = this.#tablesOf(number)
    const store: PointStore = new PointStore({
      tables,
      writer: await this.#openWriter(number, tables, dimension),
      heldReads: this.#heldReads,
      onCommit: this.#options.onCommit,
      requestBounds: requestBoundsOf(this.#options),
      onClose: async () => {
        this.#stores.delete(number)
        this.#rowFileBytes.set(number, store.diskBytes)
        if (number === mainNumber) await this.#end()
      },
    })
    this.#stores.set(number, store)
    this.#rowFileBytes.delete(number)
    return store
  }

  /** Opens a collection for writing, or only for reading where writes have stopped. */
  async #openWriter(
    collection: number,
    tables: Tables,
    dimension: number | undefined,
  ): Promise<CollectionWriter> {
    try {
      return await this.#writer.open({ collection, name: tables.files.collection, dimension })
    } catch (error) {
      // The default collection is opened first: if it cannot be written, the start fails.
      if (!(error instanceof NotWritable) || collection === mainNumber) throw error
      const writer = new CollectionWriter(collection, readState(tables), this.#writer)
      writer.poison(error)
      return writer
    }
  }

  summary(number: number): CollectionSummary {
    const { dimension, pointCount, applied } = this.#meta(number)
    return { dimension, points: pointCount, applied }
  }

  async changes(choice: ChangesChoice): Promise<KeptChanges> {
    const { range } = await this.#writer.change({ kind: 'changes', ...choice })
    assert(range !== undefined, 'a writer that keeps changes says where')
    return { ...range, chunks: () => journalBytes(this.dataDir, range) }
  }

  look(number: number): CollectionFiles {
    const rows = rowFilePath(this.dataDir, number)
    const found = statSync(rows, optional)
    const mark = found === undefined ? '' : `${found.ino} ${found.size} ${found.mtimeMs}`
    try {
      this.#checkTables(number)
      const { dimension, slotCount } = this.#meta(number)
      if (dimension === undefined) return { fault: undefined, mark }
      if (found === undefined) return { fault: beyondRepair(rows, 'it is missing'), mark }
      const bytes = rowsHeaderBytes + slotCount * rowBytesOf(dimension)
      const fault = `it has ${found.size} bytes, its ${slotCount} rows take ${bytes}`
      return { fault: found.size < bytes ? damaged(rows, fault) : undefined, mark }
    } catch (fault) {
      return { fault: fault as Error, mark }
    }
  }

  indexDirectory(number: number): string {
    return indexDirectory(this.dataDir, number)
  }

  async close(): Promise<void> {
    await this.#main!.close()
  }

  /** Closes everything after the default collection. */
  async #end(): Promise<void> {
    this.#isClosing = true
    await this.#lastChange
    await Promise.all([...this.#stores.values()].map((store) => store.close()))
    await Promise.all(this.#removals)
    await this.#writer.close()
    await this.#environment.close()
    if (!this.#writer.isBroken) leaveClosedMark(this.dataDir)
    this.#lock.release()
  }

  /** @throws DatabaseError if the check at the start has found damage of the collection's tables */
  #checkTables(number: number): void {
    const fault = this.#environment.opened.checked.get(number)
    if (fault === undefined) return
    throw damaged(databasePath(this.dataDir), `collection ${this.#catalog.nameOf(number)}: ${fault}`)
  }

  #meta(number: number): Meta {
    // The read transaction can be older than the last commit.
    this.#environment.opened.root.resetReadTxn()
    return readMeta(this.#tablesOf(number))
  }

  #tablesOf(number: number): Tables {
    const name = this.#catalog.nameOf(number)
    assert(name !== undefined, 'a collection in use exists')
    return this.#environment.opened.tables.of(number, name)
  }

  async #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#lastChange.then(work)
    // A failure is reported to the caller of the change; the next change does not depend on it.
    this.#lastChange = turn.catch(() => {})
    return await turn
  }

  async #commit({ apply }: CatalogChange, change: CollectionsChange): Promise<void> {
    await this.#writer.change(change)
    apply()
  }

  /** Makes sure that everything can be read after a failed write. */
  async #reopen(): Promise<void> {
    if (this.#isClosing || this.#main === undefined || this.#main.isClosed) return
    await this.#environment.reopen(
      async () => {
        for (const store of this.#stores.values()) store.endReads()
        await this.#options.beforeReopen?.()
      },
      () => openDatabaseToRead(this.dataDir),
    )
    for (const [number, store] of this.#stores) store.useTables(this.#tablesOf(number))
  }

  #removeSoon(number: number): void {
    const removal = this.#remove(number).catch((err) => {
      const what = 'a dropped collection could not be removed from the disk: the next start continues'
      this.#options.logger.warn({ err, number }, what)
    })
    this.#removals.add(removal)
    removal.finally(() => this.#removals.delete(removal))
  }

  /** Removes the files first: as long as the catalog has the number, a start continues the removal. */
  async #remove(number: number): Promise<void> {
    const { dataDir } = this
    if (existsSync(collectionDirectory(dataDir, number))) await removeDirectory(dataDir, number)
    while (!this.#isClosing) {
      const { isLeft } = await this.#writer.change({ kind: 'purge', collection: number })
      if (!isLeft) {
        this.#catalog.dropped.delete(number)
        return
      }
    }
  }
}

/** How many keyed requests a collection keeps, how much disk space they may use, and for how long. */
function requestBoundsOf(options: StoreOptions): RequestBounds {
  return {
    maxKeys: options.maxIdempotencyKeys ?? 1_000_000,
    maxBytes: options.maxIdempotencyBytes ?? 512 * 1024 * 1024,
    keyLifeMs: idempotencyKeyLifeMs,
  }
}

/** Reads the state of a collection without its writer. @throws DatabaseError if the collection is damaged */
function readState(tables: Tables): StoredState {
  tables.root.resetReadTxn()
  const { meta, databaseId } = readChecked(tables)
  return { meta, databaseId, rowFileBytes: statSync(tables.files.rows, optional)?.size ?? 0 }
}

const optional = { throwIfNoEntry: false } as const

/**
 * Returns the last record of a cluster's log that any collection of a data directory has stored; 0 if none. Nothing may
 * change the collections meanwhile.
 */
export async function storedPosition(
  store: Pick<DataStore, 'main' | 'collections' | 'summary'>,
): Promise<number> {
  const { position = 0, floor = 0 } = store.main.applied ?? {}
  let last = Math.max(position, floor)
  const turn = new Turn()
  for (const { number } of store.collections.values()) {
    last = Math.max(last, store.summary(number).applied?.position ?? 0)
    if (turn.isOver) await turn.next()
  }
  return last
}
