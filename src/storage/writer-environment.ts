import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import { isOpenFailure } from '../base/errors.ts'
import { syncDirectory } from '../base/sync-directory.ts'
import { type CollectionTables, openCollectionTables } from './collection-tables.ts'
import {
  collectionDirectory,
  collectionsDirectory,
  collectionsPath,
  collectionsReservePath,
  databasePath,
  reservePath,
} from './data-directory.ts'
import { isDiskFull } from './disk-full.ts'
import { GroupCommit } from './group-commit.ts'
import { GroupWriter } from './group-writer.ts'
import { RequestFault } from './keyed-requests.ts'
import { PageRoom } from './page-room.ts'
import { ReserveFile } from './reserve-file.ts'
import { RowFile } from './row-file.ts'
import { RowFiles } from './row-files.ts'
import { openTables, type Tables } from './tables.ts'
import type {
  CollectionsChange,
  EntryChange,
  FailureScope,
  GroupPart,
  OpenMessage,
  WriterSetup,
} from './writer-messages.ts'

/**
 * All resources of a writer thread: the environment of the default collection or of all named collections, and a
 * `GroupWriter` for each collection in use. Synchronous, because the thread has nothing else to do.
 */
export class WriterEnvironment {
  readonly #setup: WriterSetup
  readonly #main: Tables | undefined
  readonly #named: CollectionTables | undefined
  readonly #root: RootDatabase
  readonly #path: string
  readonly #reserve: ReserveFile
  readonly #room: PageRoom
  readonly #rowFiles = new RowFiles(rowFilesMax)
  readonly #groups: GroupCommit
  readonly #writers = new Map<number, GroupWriter>()
  /** The error after which nothing is written. */
  #broken: Error | undefined

  /** @throws DatabaseError if it cannot be opened */
  constructor(setup: WriterSetup) {
    const { dataDir, isNamed } = setup
    this.#setup = setup
    if (isNamed) this.#named = openCollectionTables(dataDir)
    else this.#main = openTables(dataDir)
    this.#root = (this.#named ?? this.#main)!.root
    this.#path = isNamed ? collectionsPath(dataDir) : databasePath(dataDir)
    this.#reserve = new ReserveFile(isNamed ? collectionsReservePath(dataDir) : reservePath(dataDir))
    const { payloads, live, meta } = this.#main ?? this.#named!.of(0, '')
    const shared = this.#named === undefined ? [] : [this.#named.catalog, this.#named.aliases]
    this.#room = new PageRoom(this.#root, this.#path, [payloads, live, meta, ...shared])
    this.#groups = new GroupCommit(this.#root, this.#reserve, this.#path, this.#room)
  }

  /** Opens a collection for writing. @throws DatabaseError if it is damaged */
  open({ collection, name, dimension }: OpenMessage): GroupWriter {
    this.#checkSound()
    const writer = new GroupWriter({
      tables: this.#named?.of(collection, name) ?? this.#main!,
      rowFiles: this.#rowFiles,
      dimension,
      requestBounds: this.#setup.requestBounds,
      room: this.#room,
    })
    this.#writers.set(collection, writer)
    return writer
  }

  /** Writes one part of a group. */
  add(part: GroupPart): void {
    this.#checkSound()
    this.writer(part.collection).add(part)
  }

  get hasOneCollection(): boolean {
    return this.#writers.size === 1
  }

  writer(collection: number): GroupWriter {
    return this.#writers.get(collection)!
  }

  shut(collection: number): void {
    this.#writers.get(collection)?.close()
    this.#writers.delete(collection)
  }

  /** Commits the groups. Returns the errors of those that could not be stored. */
  commit(groups: readonly GroupWriter[]): ReadonlyMap<GroupWriter, unknown> {
    if (this.#broken !== undefined) return new Map(groups.map((group) => [group, this.#broken]))
    return this.#groups.commit(groups)
  }

  /** Reserves disk space for deletions on a full disk. Call it when there is time. */
  holdReserve(): void {
    this.#reserve.hold()
  }

  /**
   * Makes a change durable, atomically.
   *
   * @returns whether nothing is left to purge
   */
  change(change: CollectionsChange): boolean {
    this.#checkSound()
    if (change.kind === 'announce') this.writer(0).announceCollections()
    else if (change.kind === 'create') this.#create(change)
    else if (change.kind === 'entries') this.#withReserve(() => this.#put(change.entries))
    else return this.#withReserve(() => this.#purge(change.collection))
    return true
  }

  /** Returns the scope of a failure. After a failure of scope `all`, nothing more is written. */
  judge(error: unknown): FailureScope {
    if (this.#broken === undefined) {
      if (isDiskFull(error, this.#path)) return 'disk full'
      if (isOpenFailure(error)) return 'open failed'
    }
    if (this.#setup.isNamed && error instanceof RequestFault) return 'collection'
    this.#broken ??= error instanceof Error ? error : new Error(String(error))
    return 'all'
  }

  async close(): Promise<void> {
    this.#broken ??= new Error('the writer was closed')
    this.#rowFiles.closeAll()
    await this.#root.close()
  }

  #checkSound(): void {
    if (this.#broken !== undefined) throw this.#broken
  }

  /** Creates the files first, so that every collection in the catalog has them. */
  #create({ collection, dimension, entries }: CollectionsChange & { readonly kind: 'create' }): void {
    const { dataDir } = this.#setup
    const directory = collectionDirectory(dataDir, collection)
    try {
      mkdirSync(directory, { recursive: true, mode: 0o700 })
      if (dimension !== undefined) RowFile.create(join(directory, 'vectors.rows'), dimension).close()
      syncDirectory(collectionsDirectory(dataDir))
      syncDirectory(dataDir)
      this.#put(entries)
    } catch (error) {
      // After any other error, it is unknown whether the transaction is durable; the next start finds out.
      if (isDiskFull(error, this.#path) || isOpenFailure(error)) removeIfPossible(directory)
      throw error
    }
  }

  #put(entries: readonly EntryChange[]): boolean {
    this.#room.ensure(() => entriesBytes + pageBytes * entries.length)
    this.#root.transactionSync(() => {
      for (const { table, key, collection, value } of entries) {
        const { catalog, aliases } = this.#named!
        const target = table === 'meta' ? this.#named!.of(collection!, '').meta : { catalog, aliases }[table]
        if (value === undefined) target.removeSync(key)
        else target.putSync(key, Buffer.from(value.buffer, value.byteOffset, value.byteLength))
      }
    })
    return true
  }

  #purge(collection: number): boolean {
    const { payloads, live, meta } = this.#named!.of(collection, '')
    this.#room.ensure(() => purgeBytes)
    return this.#root.transactionSync(() => {
      let left = purgedMax
      for (const table of [payloads, live, meta]) {
        const keys = [...table.getKeys({ limit: left })]
        for (const key of keys) table.removeSync(key)
        left -= keys.length
        if (left === 0) return false
      }
      this.#named!.catalog.removeSync(collection)
      return true
    })
  }

  /** Runs work that frees space. On a full disk, gives up the reserve and tries again. */
  #withReserve<Result>(work: () => Result): Result {
    try {
      return work()
    } catch (error) {
      if (!isDiskFull(error, this.#path) || !this.#reserve.giveUp()) throw error
      return work()
    }
  }
}

function removeIfPossible(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true })
  } catch {
    // Opening the directory can fail as well. The next collection gets the same number and replaces the leftovers, or
    // the next start removes them.
  }
}

/** Far below the default limit of open files, 1,024, and enough for the collections that are written at a time. */
const rowFilesMax = 64

/** The most that a change of a few entries writes. */
const entriesBytes = 256 * 1024
const pageBytes = 4096

/** The most that a purge writes: less than the reserve. */
const purgeBytes = 3 * 1024 * 1024

/** Entries of one purge. It takes a few milliseconds, during which the groups of other collections wait. */
const purgedMax = 2_000
