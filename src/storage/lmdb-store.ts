import { resolve } from 'node:path'
import { DatabaseError } from '../base/errors.ts'
import { idempotencyKeyLifeMs } from '../base/idempotency-key.ts'
import type { Logger } from '../base/log.ts'
import type { Payload } from '../base/point.ts'
import type { WritesBlocked } from '../base/writes-blocked.ts'
import {
  checkWritable,
  damaged,
  databasePath,
  makeDirectory,
  rowFilePath,
  syncDirectory,
} from './data-directory.ts'
import { DirectoryLock } from './directory-lock.ts'
import {
  blockBytes,
  decodePayload,
  rowBytesOf,
  rowHeadBytes,
  rowsHeaderBytes,
  slotsPerBlock,
} from './key-layout.ts'
import { findRequest, RequestFault } from './keyed-requests.ts'
import { StoreSnapshot } from './snapshot-source.ts'
import type { KeyedRequest, Snapshot, Store, StoredRows, VectorsOnDisk, WriteGroup } from './store.ts'
import { openDatabase, readLive, readMeta, type Tables } from './tables.ts'
import { Writer } from './writer.ts'

export interface StoreOptions {
  readonly dataDir: string
  /** Must be what is stored, if anything is; fixes it otherwise. */
  readonly dimension?: number
  /** How many keyed requests are kept. */
  readonly maxIdempotencyKeys?: number
  /** And how long. */
  readonly idempotencyKeyLifeMs?: number
  readonly logger: Logger
  /** Told the seconds that each commit took. */
  readonly onCommit?: (seconds: number) => void
  /** Told when changes are refused from now on, and why; without a reason, when they are taken again. */
  readonly onWritesBlocked?: (reason: WritesBlocked | undefined) => void
  /** Node's options for the writer thread: the seam where tests make its disk fail. */
  readonly writerExecArgv?: readonly string[]
}

/**
 * Opens the store in `dataDir`, making it when missing, and locks it against other processes.
 *
 * @throws Error that says what is wrong: in use, damaged, of another format version or dimension
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const dataDir = resolve(options.dataDir)
  makeDirectory(dataDir)
  checkWritable(dataDir)
  const lock = DirectoryLock.acquire(dataDir)
  try {
    const tables = await openDatabase(dataDir)
    try {
      checkDimension(dataDir, tables, options.dimension)
      syncDirectory(dataDir)
      return await LmdbStore.open(options, dataDir, lock, tables)
    } catch (error) {
      await tables.root.close()
      throw error
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/**
 * Vectors in a row file, everything else in LMDB (key-layout.ts has the bytes). What is written goes through
 * the writer thread, because a commit takes as long as the disk does; payloads are read here, from LMDB's map
 * of the file.
 */
class LmdbStore implements Store {
  readonly #options: StoreOptions
  readonly #dataDir: string
  readonly #lock: DirectoryLock
  readonly #writer: Writer
  readonly #snapshots = new Set<Snapshot>()
  #tables: Tables
  #isClosed = false
  /** After a failed write: see `#reopen`. */
  #isReopened = false

  private constructor(
    options: StoreOptions,
    dataDir: string,
    lock: DirectoryLock,
    tables: Tables,
    writer: Writer,
  ) {
    this.#options = options
    this.#dataDir = dataDir
    this.#lock = lock
    this.#tables = tables
    this.#writer = writer
  }

  static async open(
    options: StoreOptions,
    dataDir: string,
    lock: DirectoryLock,
    tables: Tables,
  ): Promise<LmdbStore> {
    const { dimension, logger, onWritesBlocked = () => {}, writerExecArgv } = options
    const writer = await Writer.start({
      dataDir,
      dimension,
      requestBounds: {
        maxKeys: options.maxIdempotencyKeys ?? 1_000_000,
        keyLifeMs: options.idempotencyKeyLifeMs ?? idempotencyKeyLifeMs,
      },
      logger,
      onBlocked: onWritesBlocked,
      onBroken: () => store.#reopen().catch((err) => logger.error({ err }, 'payloads cannot be read')),
      ...(writerExecArgv === undefined ? {} : { execArgv: writerExecArgv }),
    })
    const store: LmdbStore = new LmdbStore(options, dataDir, lock, tables, writer)
    return store
  }

  get dimension(): number | undefined {
    return this.#writer.state.meta.dimension
  }

  get sequence(): number {
    return this.#writer.state.meta.sequence
  }

  get slotCount(): number {
    return this.#writer.state.meta.slotCount
  }

  get diskBytes(): number {
    const { pageSize, lastPageNumber } = this.#tables.root.getStats() as EnvironmentStats
    return this.#writer.state.rowFileBytes + pageSize * (lastPageNumber + 1)
  }

  vectorsOnDisk(dimension: number): VectorsOnDisk {
    return {
      path: rowFilePath(this.#dataDir),
      firstVector: rowsHeaderBytes + rowHeadBytes,
      rowBytes: rowBytesOf(dimension),
    }
  }

  rows(): StoredRows | undefined {
    const { dimension, sequence, slotCount } = this
    if (dimension === undefined) return undefined
    const live = new Uint8Array(new SharedArrayBuffer(Math.ceil(slotCount / slotsPerBlock) * blockBytes))
    for (const [block, bits] of readLive(this.#dataDir, this.#tables)) live.set(bits, block * blockBytes)
    return { path: rowFilePath(this.#dataDir), dimension, slotCount, sequence, live }
  }

  async commit(group: WriteGroup): Promise<void> {
    const started = performance.now()
    await this.#writer.commit(group)
    this.#options.onCommit?.((performance.now() - started) / 1000)
  }

  get keyedRequestCount(): number {
    return this.#writer.state.meta.keyedRequests?.count ?? 0
  }

  keyedRequest(keyHash: Uint8Array): KeyedRequest | undefined {
    // A failed commit may have become visible, though nobody knows whether it lasts.
    this.#writer.checkTrusted()
    if (this.keyedRequestCount === 0) return undefined
    // The read transaction can be older than the last commit.
    this.#tables.root.resetReadTxn()
    try {
      return findRequest(this.#tables.meta, keyHash)
    } catch (error) {
      if (error instanceof RequestFault) throw damaged(databasePath(this.#dataDir), error.message)
      throw error
    }
  }

  payload(slot: number, id: string): Payload | undefined {
    try {
      return this.#payload(slot, id)
    } catch (error) {
      if (this.#writer.isBroken && !this.#isReopened) {
        throw new DatabaseError('not_ready', 'the disk failed, and payloads are being opened anew: try again')
      }
      throw error
    }
  }

  #payload(slot: number, id: string): Payload | undefined {
    const record = this.#readPayload(slot)
    if (record?.id === id) return record.payload
    // The read transaction can be older than the last commit: one look with a fresh one settles it.
    this.#tables.root.resetReadTxn()
    const fresh = this.#readPayload(slot)
    return fresh?.id === id ? fresh.payload : undefined
  }

  snapshot(onClose: () => void): Snapshot {
    const { databaseId } = this.#writer.state
    const snapshot: Snapshot = new StoreSnapshot(this.#dataDir, this.#tables, databaseId, () => {
      this.#snapshots.delete(snapshot)
      onClose()
    })
    this.#snapshots.add(snapshot)
    return snapshot
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const snapshot of this.#snapshots) snapshot.close()
    await this.#writer.close()
    await this.#tables.root.close()
    this.#lock.release()
  }

  /**
   * After some failed writes LMDB refuses to read too, until its environment is opened anew. The writer, which
   * shares it, has closed its side by now.
   */
  async #reopen(): Promise<void> {
    if (this.#isClosed) return
    for (const snapshot of this.#snapshots) snapshot.close()
    await this.#tables.root.close()
    this.#tables = await openDatabase(this.#dataDir)
    this.#isReopened = true
  }

  #readPayload(slot: number): { id: string; payload: Payload } | undefined {
    const value = this.#tables.payloads.getBinary(slot)
    if (value === undefined) return undefined
    const record = decodePayload(value)
    if (record !== undefined) return record
    throw damaged(databasePath(this.#dataDir), `the payload of slot ${slot} does not match its checksum`)
  }
}

interface EnvironmentStats {
  readonly pageSize: number
  readonly lastPageNumber: number
}

function checkDimension(dataDir: string, tables: Tables, dimension: number | undefined): void {
  const stored = readMeta(dataDir, tables)?.dimension
  if (dimension === undefined || stored === undefined || dimension === stored) return
  throw new Error(
    `DIMENSION is ${dimension}, but ${dataDir} holds vectors of ${stored} dimensions: unset DIMENSION or use another DATA_DIR`,
  )
}
