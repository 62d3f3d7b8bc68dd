import { existsSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { WritesBlocked } from '../base/errors.ts'
import { assert, DatabaseError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { Catalog, type CatalogChange, clearLeftovers, removeDirectory } from './catalog.ts'
import {
  type CheckedCollections,
  collectionFiles,
  makeCollectionTables,
  openCheckedCollections,
  openCollectionsToRead,
} from './collection-tables.ts'
import { beyondRepair, collectionDirectory, collectionsPath, damaged } from './files/data-directory.ts'
import { isDiskFull } from './files/disk-space.ts'
import { HeldReads, ReadEnvironment } from './files/environment.ts'
import {
  emptyMeta,
  encodeDatabaseId,
  encodeMeta,
  type Meta,
  metaKeys,
  rowBytesOf,
  rowsHeaderBytes,
} from './key-layout.ts'
import { requestBoundsOf, type StoreOptions } from './lmdb-store.ts'
import { PointStore } from './point-store.ts'
import type { CollectionFiles, CollectionRecord, CollectionSummary, NewCollection, Store } from './store.ts'
import { checkCounts, readDatabaseId, readLive, readMeta, type Tables } from './tables.ts'
import { CollectionWriter, NotWritable, Writer } from './writer/writer.ts'
import type { CollectionsChange, EntryChange, StoredState } from './writer/writer-messages.ts'

/**
 * The named collections of a data directory. They share one LMDB environment and, from the first use on, one writer
 * thread.
 *
 *   create   directory, row file ─> one transaction: catalog, meta record
 *            killed before the transaction: the next start removes the files
 *   drop     one transaction: mark as dropped, remove aliases ─> files ─> entries, piece by piece ─> catalog record
 *            killed after the transaction: the next start continues
 */
export class NamedCollections {
  readonly catalog: Catalog = new Catalog()
  readonly #options: StoreOptions
  /** Resolves when points.mdb says that named collections exist. */
  readonly #announce: () => Promise<void>
  readonly #onBlocked: (reason: WritesBlocked | undefined) => void
  #environment: ReadEnvironment<CheckedCollections> | undefined
  #writer: Writer | undefined
  readonly #stores = new Map<number, PointStore>()
  readonly #heldReads = new HeldReads()
  /** Sizes of the row files of stores that are not open, by number. */
  readonly #rowFileBytes = new Map<number, number>()
  /** The last change of the catalog: changes run one at a time. */
  #lastChange: Promise<unknown> = Promise.resolve()
  readonly #removals = new Set<Promise<void>>()
  #isClosing = false

  private constructor(
    options: StoreOptions,
    announce: () => Promise<void>,
    onBlocked: (reason: WritesBlocked | undefined) => void,
    opened: CheckedCollections | undefined,
  ) {
    this.#options = options
    this.#announce = announce
    this.#onBlocked = onBlocked
    this.#environment = opened && new ReadEnvironment(opened)
    const { dataDir } = options
    if (opened !== undefined) this.catalog.read(opened.tables, collectionsPath(dataDir))
    clearLeftovers(dataDir, opened && this.catalog)
    for (const { number, name } of this.catalog.collections.values()) {
      const { rows } = collectionFiles(dataDir, number, { name })
      this.#rowFileBytes.set(number, statSync(rows, { throwIfNoEntry: false })?.size ?? 0)
    }
    for (const number of this.catalog.dropped) this.#removeSoon(number)
  }

  /** @throws DatabaseError if a part that all collections share is damaged */
  static async open(
    options: StoreOptions,
    announce: () => Promise<void>,
    onBlocked: (reason: WritesBlocked | undefined) => void,
  ): Promise<NamedCollections> {
    const opened = openCheckedCollections(options.dataDir)
    try {
      return new NamedCollections(options, announce, onBlocked, opened)
    } catch (error) {
      await opened?.root.close()
      throw error
    }
  }

  get diskBytes(): number {
    let bytes = this.#environment?.bytes ?? 0
    for (const each of this.#rowFileBytes.values()) bytes += each
    for (const store of this.#stores.values()) bytes += store.rowFileBytes
    return bytes
  }

  async create({ name, dimension, hnsw = {} }: NewCollection): Promise<CollectionRecord> {
    return await this.#inTurn(async () => {
      assert(!this.catalog.collections.has(name), 'the name of a new collection is not in use')
      await this.#makeEnvironment()
      const change = this.catalog.create({ name, dimension, hnsw, createdMs: Date.now() })
      const { number } = change.collection
      await this.#commit(change, {
        kind: 'create',
        collection: number,
        dimension,
        entries: [...change.entries, ...firstEntries(number, dimension)],
      })
      this.#rowFileBytes.set(number, 0)
      return change.collection
    })
  }

  async drop(name: string): Promise<void> {
    await this.#inTurn(async () => {
      const record = this.catalog.collections.get(name)
      assert(record !== undefined, 'a dropped collection exists')
      assert(!this.#stores.has(record.number), 'a dropped collection is closed')
      const change = this.catalog.drop(record)
      await this.#commit(change, { kind: 'entries', entries: change.entries })
      this.#rowFileBytes.delete(record.number)
      this.#removeSoon(record.number)
    })
  }

  async setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void> {
    await this.#inTurn(async () => {
      const change = this.catalog.changeAliases(set, remove)
      if (change.entries.length === 0) return
      await this.#makeEnvironment()
      await this.#commit(change, { kind: 'entries', entries: change.entries })
    })
  }

  async open(number: number): Promise<Store> {
    const name = this.catalog.nameOf(number)
    assert(name !== undefined && this.#environment !== undefined, 'an opened collection exists')
    assert(!this.#stores.has(number), 'a collection has one store at a time')
    this.#checkTables(number)
    const its = this.#environment.opened.tables.of(number, name)
    const writer = await this.#openWriter(number, its)
    const store = new PointStore({
      tables: its,
      writer,
      heldReads: this.#heldReads,
      onCommit: this.#options.onCommit,
      requestBounds: requestBoundsOf(this.#options),
      // All collections share one file, whose pages cannot be attributed to one of them.
      databaseBytes: () => 0,
      onClose: async () => {
        this.#stores.delete(number)
        this.#rowFileBytes.set(number, store.rowFileBytes)
      },
    })
    this.#stores.set(number, store)
    this.#rowFileBytes.delete(number)
    return store
  }

  /** Opens a collection for writing, or only for reading where writes have stopped. */
  async #openWriter(collection: number, tables: Tables): Promise<CollectionWriter> {
    const thread = this.#thread()
    try {
      return await thread.open({ collection, name: tables.files.collection! })
    } catch (error) {
      if (!(error instanceof NotWritable)) throw error
      const writer = new CollectionWriter(collection, readState(tables), thread)
      writer.poison(error)
      return writer
    }
  }

  summary(number: number): CollectionSummary {
    const name = this.catalog.nameOf(number)
    assert(name !== undefined && this.#environment !== undefined, 'a collection with a summary exists')
    const { dimension, pointCount, applied } = this.#meta(number)
    return { dimension, points: pointCount, applied }
  }

  look(number: number): CollectionFiles {
    const { rows } = collectionFiles(this.#options.dataDir, number, { name: this.catalog.nameOf(number)! })
    const found = statSync(rows, { throwIfNoEntry: false })
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

  /** @throws DatabaseError if the check at the start has found damage of the collection's tables */
  #checkTables(number: number): void {
    const fault = this.#environment!.opened.faults.get(number)
    if (fault === undefined) return
    const name = this.catalog.nameOf(number)
    throw damaged(collectionsPath(this.#options.dataDir), `collection ${name}: ${fault}`)
  }

  #meta(number: number): Meta {
    const { tables } = this.#environment!.opened
    // The read transaction can be older than the last commit.
    tables.root.resetReadTxn()
    return readMeta(tables.of(number, this.catalog.nameOf(number)!)) ?? emptyMeta
  }

  async close(): Promise<void> {
    this.#isClosing = true
    await this.#lastChange
    await Promise.all([...this.#stores.values()].map((store) => store.close()))
    await Promise.all(this.#removals)
    await this.#writer?.close()
    await this.#environment?.close()
  }

  async #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#lastChange.then(work)
    // A failure is reported to the caller of the change; the next change does not depend on it.
    this.#lastChange = turn.catch(() => {})
    return await turn
  }

  async #commit({ apply }: CatalogChange, change: CollectionsChange): Promise<void> {
    await this.#thread().change(change)
    apply()
  }

  /** Creates the environment, if this is the first change. */
  async #makeEnvironment(): Promise<void> {
    await this.#announce()
    if (this.#environment !== undefined) return
    const { dataDir } = this.#options
    try {
      await makeCollectionTables(dataDir)
    } catch (cause) {
      rmSync(`${collectionsPath(dataDir)}.new`, { force: true })
      if (!isDiskFull(cause, dataDir)) throw cause
      throw new DatabaseError('disk_full', `the disk of the data directory ${dataDir} is full`, { cause })
    }
    this.#environment = new ReadEnvironment(openCheckedCollections(dataDir)!)
  }

  /** Returns the writer thread. Starts it at the first use, and again when it could not start at an earlier one. */
  #thread(): Writer {
    if (this.#writer !== undefined && !this.#writer.isRefused) return this.#writer
    const { dataDir, logger, writerExecArgv } = this.#options
    this.#writer = new Writer({
      dataDir,
      isNamed: true,
      requestBounds: requestBoundsOf(this.#options),
      logger,
      onBlocked: this.#onBlocked,
      reopen: () => this.#reopen(),
      execArgv: writerExecArgv,
    })
    return this.#writer
  }

  async #reopen(): Promise<void> {
    if (this.#isClosing || this.#environment === undefined) return
    await this.#environment.reopen(
      () => {
        for (const store of this.#stores.values()) store.endReads()
      },
      () => openCollectionsToRead(this.#options.dataDir),
    )
    const { tables } = this.#environment.opened
    for (const [number, store] of this.#stores)
      store.useTables(tables.of(number, this.catalog.nameOf(number)!))
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
    const { dataDir } = this.#options
    if (existsSync(collectionDirectory(dataDir, number))) await removeDirectory(dataDir, number)
    while (!this.#isClosing) {
      if (await this.#thread().change({ kind: 'purge', collection: number })) {
        this.catalog.dropped.delete(number)
        return
      }
    }
  }
}

/** The directory for the index of a named collection. */
export function collectionIndexDirectory(dataDir: string, number: number): string {
  return join(collectionDirectory(dataDir, number), 'index')
}

/** Reads the state of a collection without its writer. @throws DatabaseError if the collection is damaged */
function readState(tables: Tables): StoredState {
  tables.root.resetReadTxn()
  const meta = readMeta(tables) ?? emptyMeta
  checkCounts(tables, meta, readLive(tables))
  const rowFileBytes = statSync(tables.files.rows, { throwIfNoEntry: false })?.size ?? 0
  return { meta, databaseId: readDatabaseId(tables) ?? newId(), rowFileBytes }
}

/** The meta records of a new collection. */
function firstEntries(collection: number, dimension: number | undefined): readonly EntryChange[] {
  return [
    { table: 'meta', collection, key: metaKeys.state, value: encodeMeta({ ...emptyMeta, dimension }) },
    { table: 'meta', collection, key: metaKeys.databaseId, value: encodeDatabaseId(newId()) },
  ]
}
