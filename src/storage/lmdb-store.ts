import { chmodSync, mkdirSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { constants as osConstants } from 'node:os'
import { join, resolve } from 'node:path'
import { type Database, open as openLmdb, type RootDatabase } from 'lmdb'
import { assert } from '../base/assert.ts'
import { DatabaseError } from '../base/errors.ts'
import type { Logger } from '../base/log.ts'
import type { Payload } from '../base/point.ts'
import { DirectoryLock } from './directory-lock.ts'
import {
  decodeMeta,
  decodePayload,
  encodeMeta,
  encodePayload,
  type Meta,
  slotsPerBlock,
} from './key-layout.ts'
import { ReserveFile } from './reserve-file.ts'
import { damaged, type OpenFile, RowFile } from './row-file.ts'
import type { Store, StoredRow, WriteGroup } from './store.ts'

export interface StoreOptions {
  readonly dataDir: string
  /** Must be what is stored, if anything is; fixes it otherwise. */
  readonly dimension?: number
  readonly logger: Logger
  /** Told the seconds that each commit took. */
  readonly onCommit?: (seconds: number) => void
  readonly openFile?: OpenFile
}

/**
 * Opens the store in `dataDir`, making it when missing, and locks it against other processes.
 *
 * @throws Error that says what is wrong: in use, damaged, of another format version or dimension
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const dataDir = resolve(options.dataDir)
  mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  const lock = DirectoryLock.acquire(dataDir)
  try {
    const tables = openTables(dataDir)
    try {
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
 * Vectors in a row file, everything else in LMDB (key-layout.ts has the bytes).
 *
 *   commit: rows written ─> fdatasync ─> one LMDB transaction ─> its fsync ─> resolved
 *
 * A crash before the transaction leaves rows that no live bit points at; after it, everything is there.
 */
class LmdbStore implements Store {
  readonly #options: StoreOptions
  readonly #dataDir: string
  readonly #lock: DirectoryLock
  readonly #tables: Tables
  readonly #reserve: ReserveFile
  readonly #live: Map<number, Buffer>
  #meta: Meta
  #rows: RowFile | undefined
  #poison: DatabaseError | undefined
  #committing: Promise<void> = Promise.resolve()
  #rowFileBytes = 0

  private constructor(
    options: StoreOptions,
    dataDir: string,
    lock: DirectoryLock,
    tables: Tables,
    meta: Meta,
    live: Map<number, Buffer>,
  ) {
    this.#options = options
    this.#dataDir = dataDir
    this.#lock = lock
    this.#tables = tables
    this.#meta = meta
    this.#live = live
    this.#reserve = new ReserveFile(join(dataDir, 'reserve'))
  }

  static async open(
    options: StoreOptions,
    dataDir: string,
    lock: DirectoryLock,
    tables: Tables,
  ): Promise<LmdbStore> {
    const meta = readMeta(dataDir, tables)
    const { dimension } = options
    if (dimension !== undefined && meta.dimension !== undefined && dimension !== meta.dimension) {
      throw new Error(
        `DIMENSION is ${dimension}, but ${dataDir} holds vectors of ${meta.dimension} dimensions: unset DIMENSION or use another DATA_DIR`,
      )
    }
    const store = new LmdbStore(options, dataDir, lock, tables, meta, readLive(dataDir, tables))
    if (meta.dimension !== undefined) await store.#openRows(meta.dimension, false)
    else if (dimension !== undefined) await store.#fixDimension(dimension)
    await store.#reserve.hold()
    return store
  }

  get dimension(): number | undefined {
    return this.#meta.dimension
  }

  get sequence(): number {
    return this.#meta.sequence
  }

  get slotCount(): number {
    return this.#meta.slotCount
  }

  get diskBytes(): number {
    const { pageSize, lastPageNumber } = this.#tables.root.getStats() as EnvironmentStats
    return this.#rowFileBytes + pageSize * (lastPageNumber + 1)
  }

  async load(each: (row: StoredRow) => void): Promise<void> {
    if (this.#rows === undefined) return
    await this.#rows.read(
      this.slotCount,
      (slot) => this.#isLive(slot),
      (row) => {
        if (row.sequence > this.sequence) {
          throw damaged(
            this.#rows!.path,
            `slot ${row.slot} has sequence ${row.sequence}, the last is ${this.sequence}`,
          )
        }
        each(row)
      },
    )
  }

  commit(group: WriteGroup): Promise<void> {
    assert(group.insertions.length + group.deletions.length > 0, 'a group has changes')
    this.#committing = this.#commitOrFail(group)
    return this.#committing
  }

  payload(slot: number, id: string): Payload | undefined {
    const record = this.#readPayload(slot)
    if (record?.id === id) return record.payload
    // The read transaction can be older than the last commit: one look with a fresh one settles it.
    this.#tables.root.resetReadTxn()
    const fresh = this.#readPayload(slot)
    return fresh?.id === id ? fresh.payload : undefined
  }

  async close(): Promise<void> {
    // A commit that fails has told its caller; here only its end matters.
    await this.#committing.catch(() => {})
    await this.#rows?.close()
    await this.#tables.root.close()
    this.#lock.release()
  }

  async #commitOrFail(group: WriteGroup): Promise<void> {
    if (this.#poison !== undefined) throw this.#poison
    const started = performance.now()
    try {
      await this.#commitGroup(group)
    } catch (error) {
      throw await this.#failure(error)
    }
    this.#options.onCommit?.((performance.now() - started) / 1000)
    await this.#reserve.hold()
  }

  async #commitGroup(group: WriteGroup): Promise<void> {
    const [first] = group.insertions
    if (first !== undefined) {
      this.#rows ?? (await this.#openRows(first.point.vector.length, true))
      await this.#rows!.write(group.insertions)
    }
    const next = this.#after(group)
    try {
      this.#commitTables(group, next)
    } catch (error) {
      const canTryAgain =
        group.insertions.length === 0 && (await isDiskFull(error, this.#dataDir)) && this.#reserve.giveUp()
      if (!canTryAgain) throw error
      this.#commitTables(group, next)
    }
    this.#meta = next.meta
    for (const [block, bits] of next.blocks) this.#live.set(block, bits)
    if (this.#rows !== undefined) this.#rowFileBytes = await this.#rows.sizeBytes()
  }

  #commitTables(group: WriteGroup, { meta, blocks }: NextState): void {
    const { payloads, live, meta: metaTable } = this.#tables
    this.#transaction(() => {
      for (const { slot, id, point } of group.insertions)
        payloads.putSync(slot, encodePayload(id, point.payload))
      for (const { slot } of group.deletions) payloads.removeSync(slot)
      for (const [block, bits] of blocks) live.putSync(block, bits)
      metaTable.putSync(0, encodeMeta(meta))
    })
  }

  /**
   * Runs `write` as one transaction; it is on the disk when this returns. Synchronous, though its fsync holds
   * up the event loop for as long: when a disk is full, lmdb's asynchronous transactions neither resolve nor
   * reject, and a promise that never ends is worse than half a millisecond.
   */
  #transaction(write: () => void): void {
    this.#tables.root.transactionSync(write)
  }

  /** What the group makes of the meta record and of the blocks of live bits that it touches. */
  #after({ insertions, deletions }: WriteGroup): NextState {
    const blocks = new Map<number, Buffer>()
    const setBit = (slot: number, on: boolean): void => {
      const block = Math.floor(slot / slotsPerBlock)
      const bits = blocks.get(block) ?? Buffer.from(this.#live.get(block) ?? emptyBlock)
      blocks.set(block, bits)
      const at = (slot % slotsPerBlock) >> 3
      bits[at] = on ? bits[at]! | (1 << (slot & 7)) : bits[at]! & ~(1 << (slot & 7))
    }
    let { sequence, slotCount } = this.#meta
    for (const change of insertions) {
      setBit(change.slot, true)
      slotCount = Math.max(slotCount, change.slot + 1)
      sequence = Math.max(sequence, change.sequence)
    }
    for (const change of deletions) {
      setBit(change.slot, false)
      sequence = Math.max(sequence, change.sequence)
    }
    const dimension = this.#meta.dimension ?? insertions[0]?.point.vector.length
    return { meta: { dimension, sequence, slotCount }, blocks }
  }

  /**
   * A full disk passes, once there is space. After anything else, above all a failed fsync, what the disk
   * holds is unknown: trying again would report success for data that the kernel has already dropped.
   */
  async #failure(error: unknown): Promise<DatabaseError> {
    if (await isDiskFull(error, this.#dataDir)) {
      return new DatabaseError(
        'disk_full',
        `the disk of the data directory ${this.#dataDir} is full: free some space or delete points`,
        { cause: error },
      )
    }
    this.#poison = new DatabaseError(
      'internal',
      'the disk failed: writes are stopped until the server is restarted, reads go on',
      { cause: error },
    )
    this.#options.logger.fatal({ err: error }, this.#poison.message)
    return this.#poison
  }

  #readPayload(slot: number): { id: string; payload: Payload } | undefined {
    const value = this.#tables.payloads.getBinary(slot)
    if (value === undefined) return undefined
    const record = decodePayload(value)
    if (record !== undefined) return record
    throw damaged(databasePath(this.#dataDir), `the payload of slot ${slot} does not match its checksum`)
  }

  #isLive(slot: number): boolean {
    const bits = this.#live.get(Math.floor(slot / slotsPerBlock))
    return bits !== undefined && (bits[(slot % slotsPerBlock) >> 3]! & (1 << (slot & 7))) !== 0
  }

  async #openRows(dimension: number, isNew: boolean): Promise<void> {
    const path = join(this.#dataDir, 'vectors.rows')
    try {
      this.#rows = await RowFile.open(path, dimension, isNew, this.#options.openFile)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw damaged(path, 'it is missing')
      throw error
    }
    this.#rowFileBytes = await this.#rows.sizeBytes()
  }

  async #fixDimension(dimension: number): Promise<void> {
    await this.#openRows(dimension, true)
    const meta = { ...this.#meta, dimension }
    this.#transaction(() => {
      this.#tables.meta.putSync(0, encodeMeta(meta))
    })
    this.#meta = meta
  }
}

interface NextState {
  readonly meta: Meta
  readonly blocks: ReadonlyMap<number, Buffer>
}

interface Tables {
  readonly root: RootDatabase
  readonly payloads: Database<Buffer, number>
  readonly live: Database<Buffer, number>
  readonly meta: Database<Buffer, number>
}

interface EnvironmentStats {
  readonly pageSize: number
  readonly lastPageNumber: number
}

const { errno } = osConstants
/** Node names its errors, LMDB numbers them. */
const diskFullCodes: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG', errno.ENOSPC, errno.EDQUOT]
const emptyBlock = Buffer.alloc(slotsPerBlock / 8)

function databasePath(dataDir: string): string {
  return join(dataDir, 'points.mdb')
}

/** `overlappingSync` off: a transaction then ends after its fsync, not when it is visible. */
function openTables(dataDir: string): Tables {
  const path = databasePath(dataDir)
  const format = { keyEncoding: 'uint32', encoding: 'binary' } as const
  try {
    const root = openLmdb({ path, noSubdir: true, maxDbs: 4, overlappingSync: false })
    chmodSync(path, 0o600)
    const table = (name: string): Database<Buffer, number> => root.openDB<Buffer, number>({ name, ...format })
    return { root, payloads: table('payloads'), live: table('live'), meta: table('meta') }
  } catch (error) {
    throw damaged(path, error instanceof Error ? error.message : String(error))
  }
}

function readMeta(dataDir: string, tables: Tables): Meta {
  const value = tables.meta.getBinary(0)
  if (value === undefined) return { dimension: undefined, sequence: 0, slotCount: 0 }
  const meta = decodeMeta(value)
  if ('fault' in meta) throw damaged(databasePath(dataDir), meta.fault)
  return meta
}

function readLive(dataDir: string, tables: Tables): Map<number, Buffer> {
  const blocks = new Map<number, Buffer>()
  for (const { key, value } of tables.live.getRange()) {
    if (value.length !== emptyBlock.length)
      throw damaged(databasePath(dataDir), `block ${key} of live slots is cut off`)
    blocks.set(key, Buffer.from(value))
  }
  return blocks
}

/**
 * Whether an error comes of a full disk. LMDB takes a short write for EIO, and a full disk writes short: then
 * the file system has the last word.
 */
async function isDiskFull(error: unknown, dataDir: string): Promise<boolean> {
  const { code, message = '' } = error as { code?: unknown; message?: string }
  if (diskFullCodes.includes(code)) return true
  if (/no space left|MDB_MAP_FULL|disk quota/i.test(message)) return true
  if (code !== errno.EIO) return false
  const { bavail, bsize } = await statfs(dataDir)
  return bavail * bsize < fullBytes
}

/** Less than the largest single write of LMDB: with more free space, a short write has another cause. */
const fullBytes = 1024 * 1024
