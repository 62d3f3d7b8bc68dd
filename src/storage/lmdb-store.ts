import { resolve } from 'node:path'
import type { WritesBlocked } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import { idempotencyKeyLifeMs } from '../base/request-headers.ts'
import { syncDirectory } from '../base/sync-directory.ts'
import { mainNumber } from './catalog.ts'
import { checkWritable, makeDirectory } from './files/data-directory.ts'
import { DirectoryLock } from './files/directory-lock.ts'
import { HeldReads, ReadEnvironment } from './files/environment.ts'
import { finishReplacement } from './files/replacement.ts'
import type { RequestBounds } from './keyed-requests.ts'
import { PointStore } from './point-store.ts'
import type { Store } from './store.ts'
import { openDatabase, openDatabaseToRead, readMeta, type Tables } from './tables.ts'
import { Writer } from './writer/writer.ts'
export interface StoreOptions {
  readonly dataDir: string
  /** Must equal the stored dimension, if there is one. Otherwise fixes it. */
  readonly dimension?: number
  /** The most keyed requests that are kept. */
  readonly maxIdempotencyKeys?: number
  readonly maxIdempotencyBytes?: number
  readonly logger: Logger
  /** Called with the seconds that each commit took. */
  readonly onCommit?: (seconds: number) => void
  /** Called with the reason when changes begin to be refused; called with undefined when they are accepted again. */
  readonly onWritesBlocked?: (reason: WritesBlocked | undefined) => void
  /** Node's options for the writer thread. Tests use them to make its disk fail. */
  readonly writerExecArgv?: readonly string[]
}

/**
 * Opens only the default collection in `dataDir`, and creates it if missing. Locks the directory against other
 * processes.
 *
 * @throws Error if the directory is in use or damaged, or has another format version or dimension
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  return (await openMain(options)).store
}

/** The default collection, with the method that named collections need. */
export interface MainCollection {
  /** Its `close` releases the data directory. */
  readonly store: PointStore
  /**
   * Resolves when the meta record on disk says that there are named collections.
   *
   * @throws DatabaseError as `Store.commit`
   */
  announceCollections(): Promise<void>
}

/** Opens the default collection, like `openStore`. */
export async function openMain(options: StoreOptions): Promise<MainCollection> {
  const dataDir = resolve(options.dataDir)
  makeDirectory(dataDir)
  checkWritable(dataDir)
  const lock = DirectoryLock.acquire(dataDir)
  try {
    finishReplacement(dataDir)
    const tables = await openDatabase(dataDir)
    try {
      checkDimension(dataDir, tables, options.dimension)
      syncDirectory(dataDir)
      return await openPoints({ ...options, dataDir }, lock, tables)
    } catch (error) {
      await tables.root.close()
      throw error
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

async function openPoints(
  options: StoreOptions,
  lock: DirectoryLock,
  tables: Tables,
): Promise<MainCollection> {
  const { dataDir, dimension, logger, onCommit, onWritesBlocked = () => {}, writerExecArgv } = options
  const environment = new ReadEnvironment(tables)
  let store: PointStore | undefined
  const reopen = async (): Promise<void> => {
    if (store === undefined || store.isClosed) return
    await environment.reopen(
      () => store?.endReads(),
      () => openDatabaseToRead(dataDir),
    )
    store.useTables(environment.opened)
  }
  const writer = new Writer({
    dataDir,
    isNamed: false,
    requestBounds: requestBoundsOf(options),
    logger,
    onBlocked: onWritesBlocked,
    reopen,
    execArgv: writerExecArgv,
  })
  const points = await openOrClose(writer, dimension)
  const made = new PointStore({
    tables,
    writer: points,
    heldReads: new HeldReads(),
    onCommit,
    requestBounds: requestBoundsOf(options),
    databaseBytes: () => environment.bytes,
    onClose: async () => {
      await writer.close()
      await environment.close()
      lock.release()
    },
  })
  store = made
  let hasCollections = points.state.meta.hasCollections === true
  return {
    store: made,
    announceCollections: async () => {
      if (!hasCollections) await writer.change({ kind: 'announce' })
      hasCollections = true
    },
  }
}

async function openOrClose(
  writer: Writer,
  dimension: number | undefined,
): Promise<Awaited<ReturnType<Writer['open']>>> {
  try {
    return await writer.open({ collection: mainNumber, name: '', dimension })
  } catch (error) {
    await writer.close()
    throw error
  }
}

/** How many keyed requests a collection keeps, how much disk space they may use, and for how long. */
export function requestBoundsOf(options: StoreOptions): RequestBounds {
  return {
    maxKeys: options.maxIdempotencyKeys ?? 1_000_000,
    maxBytes: options.maxIdempotencyBytes ?? 512 * 1024 * 1024,
    keyLifeMs: idempotencyKeyLifeMs,
  }
}

function checkDimension(dataDir: string, tables: Tables, dimension: number | undefined): void {
  const stored = readMeta(tables)?.dimension
  if (dimension === undefined || stored === undefined || dimension === stored) return
  throw new Error(
    `DIMENSION is ${dimension}, but ${dataDir} holds vectors of ${stored} dimensions: unset DIMENSION or use another DATA_DIR`,
  )
}
