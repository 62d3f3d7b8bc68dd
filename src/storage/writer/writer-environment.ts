import { mkdirSync, rmSync } from 'node:fs'
import { assert, isOpenFailure } from '../../base/errors.ts'
import { isDiskFull, syncDirectory } from '../../base/files.ts'
import { mainNumber, recordTextIn } from '../catalog.ts'
import { encodeCollection } from '../changes/change-format.ts'
import { ChangeJournal } from '../changes/change-journal.ts'
import {
  collectionDirectory,
  collectionsDirectory,
  databasePath,
  reservePath,
  rowFilePath,
} from '../files/data-directory.ts'
import { PageSpace, ReserveFile, type SpaceNeeds } from '../files/disk-space.ts'
import { RowFile, RowFiles } from '../files/row-file.ts'
import { decodeDatabaseId, metaKeys } from '../key-layout.ts'
import { RequestFault } from '../keyed-requests.ts'
import { pageBytes } from '../table.ts'
import { type DataTables, openTables } from '../tables.ts'
import { GroupWriter } from './group-writer.ts'
import type {
  ChangedMessage,
  CollectionsChange,
  EntryChange,
  FailureScope,
  FromWriter,
  GroupPart,
  OpenMessage,
  WriterSetup,
} from './writer-messages.ts'

/**
 * All resources of the writer thread: the environment, and a `GroupWriter` for each collection in use. Synchronous,
 * because the thread has nothing else to do.
 */
export class WriterEnvironment {
  readonly #setup: WriterSetup
  readonly #tables: DataTables
  readonly #path: string
  readonly #reserve: ReserveFile
  readonly #space: PageSpace
  readonly #journal: ChangeJournal
  readonly #rowFiles = new RowFiles(rowFilesMax)
  readonly #writers = new Map<number, GroupWriter>()
  /** The error after which nothing is written. */
  #broken: Error | undefined

  /**
   * @param say tells the main thread something
   * @throws DatabaseError if it cannot be opened
   */
  constructor(setup: WriterSetup, say: (message: FromWriter) => void) {
    const { dataDir } = setup
    this.#setup = setup
    this.#tables = openTables(dataDir)
    this.#path = databasePath(dataDir)
    this.#reserve = new ReserveFile(reservePath(dataDir))
    const { root, catalog, journal } = this.#tables
    this.#journal = new ChangeJournal(
      dataDir,
      journal,
      setup.changesBytesMax,
      () => (root.getStats() as { readonly lastTxnId: number }).lastTxnId,
      (reason) => say({ kind: 'journal ended', reason }),
    )
    const { payloads, live, meta } = this.#tables.of(mainNumber, '')
    this.#space = new PageSpace(root, this.#path, [payloads, live, meta, catalog])
  }

  /** Opens a collection for writing. @throws DatabaseError if it is damaged */
  open({ collection, name, dimension }: OpenMessage): GroupWriter {
    this.#checkSound()
    const writer = new GroupWriter({
      tables: this.#tables.of(collection, name),
      rowFiles: this.#rowFiles,
      dimension,
      requestBounds: this.#setup.requestBounds,
      space: this.#space,
      transaction: (work) => this.#journaled(() => [], work),
    })
    this.#writers.set(collection, writer)
    return writer
  }

  /** Writes one part of a group. */
  add(part: GroupPart): void {
    this.#checkSound()
    this.writer(part.collection).add(part)
  }

  /** The disk space of the journal of changes; undefined if none are kept. */
  get journalBytes(): number | undefined {
    return this.#journal.bytes
  }

  get hasOneCollection(): boolean {
    return this.#writers.size === 1
  }

  writer(collection: number): GroupWriter {
    const writer = this.#writers.get(collection)
    assert(writer !== undefined, 'a group is of an open collection')
    return writer
  }

  shut(collection: number): void {
    this.#writers.get(collection)?.close()
    this.#writers.delete(collection)
  }

  /**
   * Makes the pending groups of all collections durable in one transaction:
   *
   *   fdatasync of each row file ─> one LMDB transaction ─> its fsync
   *
   * Each group is atomic, and a group that fails does not affect the others. If the common transaction fails because the
   * disk is full, a file cannot be opened or a record of one collection is damaged, each group gets its own transaction.
   *
   * @returns the errors of the groups that could not be stored
   */
  commit(groups: readonly GroupWriter[]): ReadonlyMap<GroupWriter, unknown> {
    if (this.#broken !== undefined) return new Map(groups.map((group) => [group, this.#broken]))
    const faults = new Map<GroupWriter, unknown>()
    const attempt = (group: GroupWriter, work: () => void): void => {
      try {
        work()
      } catch (error) {
        faults.set(group, error)
      }
    }
    for (const group of groups) attempt(group, () => group.syncRows())
    const synced = groups.filter((group) => !faults.has(group))
    try {
      if (synced.length > 1) this.#transaction(synced)
    } catch (error) {
      if (!this.#isOfOneGroup(error))
        return new Map(groups.map((group) => [group, faults.get(group) ?? error]))
      for (const group of synced) attempt(group, () => this.#alone(group))
    }
    if (synced.length === 1) attempt(synced[0]!, () => this.#alone(synced[0]!))
    for (const group of groups) group.abandon()
    return faults
  }

  /** Commits one group. Deletions also succeed on a full disk. */
  #alone(group: GroupWriter): void {
    if (group.needsSpace) this.#transaction([group])
    else this.#withReserve((mayReuse) => this.#transaction([group], mayReuse))
  }

  /**
   * Runs one transaction, which is durable when this returns. It is synchronous because lmdb's asynchronous
   * transactions neither resolve nor reject when the disk is full.
   */
  #transaction(groups: readonly GroupWriter[], mayReuse = true): void {
    this.#space.ensure(() => needsOf(groups), mayReuse)
    this.#journaled(
      function* (timeMs) {
        for (const group of groups) yield* group.changeRecords(timeMs)
      },
      () => {
        for (const group of groups) group.writeTables()
      },
      groups.some(({ isOfLog }) => isOfLog),
    )
    for (const group of groups) group.accept()
  }

  /** Runs a transaction whose changes are also in the journal. */
  #journaled(
    records: (timeMs: number) => Iterable<readonly Uint8Array[]>,
    work: () => void,
    isOfLog = false,
  ): void {
    const journal = this.#journal
    try {
      this.#tables.root.transactionSync(() => {
        if (isOfLog) journal.end('the node of a cluster keeps none')
        journal.append(records)
        work()
      })
      journal.accept()
    } catch (error) {
      journal.abandon()
      throw error
    }
  }

  #isOfOneGroup(error: unknown): boolean {
    return error instanceof RequestFault || isOpenFailure(error) || isDiskFull(error, this.#path)
  }

  /** Reserves disk space for deletions on a full disk. Call it when there is time. */
  holdReserve(): void {
    this.#reserve.hold()
  }

  /** Makes a change durable, atomically. */
  change(change: CollectionsChange): Omit<ChangedMessage, 'kind' | 'journalBytes'> {
    this.#checkSound()
    if (change.kind === 'purge') {
      return { isLeft: this.#withReserve((mayReuse) => this.#purge(change.collection, mayReuse)) }
    }
    if (change.kind === 'changes') {
      const begin = (work: () => void): void => {
        this.#space.ensure(() => ({ bytes: entriesBytes }))
        this.#tables.root.transactionSync(work)
      }
      return { range: this.#journal.take(change, begin) }
    }
    if (change.kind === 'create') this.#create(change)
    else this.#withReserve((mayReuse) => this.#put(change.entries, mayReuse))
    return {}
  }

  /** Returns the scope of a failure. After a failure of scope `all`, nothing more is written. */
  judge(error: unknown): FailureScope {
    if (this.#broken === undefined) {
      if (isDiskFull(error, this.#path)) {
        // It must not keep writes from being stored.
        if ((this.#journal.bytes ?? 0) >= journalBytesMin) this.#journal.end('the disk is full')
        return 'disk full'
      }
      if (isOpenFailure(error)) return 'open failed'
    }
    if (error instanceof RequestFault) return 'collection'
    this.#broken ??= error instanceof Error ? error : new Error(String(error))
    return 'all'
  }

  async close(): Promise<void> {
    this.#broken ??= new Error('the writer was closed')
    this.#rowFiles.closeAll()
    this.#journal.close()
    await this.#tables.root.close()
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
      if (dimension !== undefined) RowFile.create(rowFilePath(dataDir, collection), dimension).close()
      syncDirectory(collectionsDirectory(dataDir))
      syncDirectory(dataDir)
      this.#put(entries, true, 'created')
    } catch (error) {
      // After any other error, it is unknown whether the transaction is durable; the next start finds out.
      if (isDiskFull(error, this.#path) || isOpenFailure(error)) removeIfPossible(directory)
      throw error
    }
  }

  #put(entries: readonly EntryChange[], mayReuse = true, kind: 'created' | 'declared' = 'declared'): void {
    const bytes = entries.reduce((sum, { value }) => sum + pageBytes + (value?.length ?? 0), entriesBytes)
    this.#space.ensure(() => ({ bytes }), mayReuse)
    this.#journaled(
      (timeMs) =>
        entries.flatMap((entry) => {
          const text = recordTextIn(entry)
          return text === undefined
            ? []
            : [encodeCollection(kind, timeMs, this.#databaseIdOf(entry.key, entries), text)]
        }),
      () => {
        for (const { table, key, collection, value } of entries) {
          const target = table === 'meta' ? this.#tables.of(collection!, '').meta : this.#tables.catalog
          if (value === undefined) target.removeSync(key)
          else target.putSync(key, bufferOf(value))
        }
      },
    )
  }

  /** @param entries those of a new collection have its id */
  #databaseIdOf(number: number, entries: readonly EntryChange[]): string {
    const isId = ({ table, key, collection }: EntryChange): boolean =>
      table === 'meta' && key === metaKeys.databaseId && collection === number
    const given = entries.find(isId)?.value
    const value = given ? bufferOf(given) : this.#tables.of(number, '').meta.getBinary(metaKeys.databaseId)
    const id = value && decodeDatabaseId(value)
    if (id === undefined) throw new Error(`the id of collection ${number} does not match its checksum`)
    return id
  }

  #purge(collection: number, mayReuse: boolean): boolean {
    const { payloads, live, meta } = this.#tables.of(collection, '')
    this.#space.ensure(() => ({ bytes: purgeBytes }), mayReuse)
    let left = purgedMax
    this.#journaled(
      () => [],
      () => {
        for (const table of [payloads, live, meta]) {
          const keys = [...table.getKeys({ limit: left })]
          for (const key of keys) table.removeSync(key)
          left -= keys.length
          if (left === 0) return
        }
        this.#tables.catalog.removeSync(collection)
      },
    )
    return left === 0
  }

  /** Runs work that frees space. On a full disk, gives up the reserve and tries again. */
  #withReserve<Result>(work: (mayReuse: boolean) => Result): Result {
    try {
      return work(false)
    } catch (error) {
      if (!isDiskFull(error, this.#path)) throw error
      this.#reserve.giveUp()
      return work(true)
    }
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
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

/** So much must be freed to be of use. */
const journalBytesMin = 16 * 1024 * 1024

/** The most that a purge writes: less than the reserve. */
const purgeBytes = 3 * 1024 * 1024

/** Entries of one purge. It takes a few milliseconds, during which the groups of other collections wait. */
const purgedMax = 2_000

function needsOf(groups: readonly GroupWriter[]): SpaceNeeds {
  let [bytes, runBytes] = [0, 0]
  for (const { tableNeeds } of groups) {
    bytes += tableNeeds.bytes
    runBytes += tableNeeds.runBytes ?? 0
  }
  return { bytes, runBytes }
}

/**
 * Writes parts as they arrive. Commits all complete groups together when no message is pending; the group of the only
 * collection is committed immediately, since no other group can be pending.
 */
export class IncomingGroups {
  readonly #environment: WriterEnvironment
  readonly #say: (message: FromWriter) => void
  /** The error of an earlier part of the group that is arriving, by collection. */
  readonly #faults = new Map<number, unknown>()
  /** Complete groups, by collection. */
  readonly #ready = new Map<number, GroupWriter>()

  constructor(environment: WriterEnvironment, say: (message: FromWriter) => void) {
    this.#environment = environment
    this.#say = say
  }

  add(part: GroupPart): void {
    const { collection, isLast } = part
    const writer = this.#environment.writer(collection)
    try {
      if (!this.#faults.has(collection)) this.#environment.add(part)
    } catch (error) {
      this.#faults.set(collection, error)
    }
    if (!isLast) return
    if (this.#faults.has(collection)) {
      writer.abandon()
      this.#fail(collection, this.#faults.get(collection))
      this.#faults.delete(collection)
      return
    }
    this.#ready.set(collection, writer)
    if (this.#environment.hasOneCollection) this.#commit()
    else if (this.#ready.size === 1) setImmediate(() => this.#commit())
  }

  #commit(): void {
    const ready = [...this.#ready]
    this.#ready.clear()
    const faults = this.#environment.commit(ready.map(([, writer]) => writer))
    for (const [collection, writer] of ready) {
      if (faults.has(writer)) continue
      const { journalBytes } = this.#environment
      this.#say({ kind: 'committed', collection, journalBytes, ...writer.state })
    }
    // After the others: a failed disk ends all groups that are not known to be committed.
    for (const [collection, writer] of ready) {
      if (faults.has(writer)) this.#fail(collection, faults.get(writer))
    }
    this.#environment.holdReserve()
  }

  #fail(collection: number, error: unknown): void {
    this.#say({ kind: 'failed', collection, scope: this.#environment.judge(error), error })
  }
}
