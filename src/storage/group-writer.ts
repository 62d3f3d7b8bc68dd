import { statfsSync } from 'node:fs'
import { constants as osConstants } from 'node:os'
import { assert } from '../base/assert.ts'
import { idBytes, newId } from '../base/ids.ts'
import { reservePath, rowFilePath } from './data-directory.ts'
import {
  emptyBlock,
  emptyMeta,
  encodeBlock,
  encodeDatabaseId,
  encodeMeta,
  encodePayload,
  type Meta,
  metaKeys,
  type RequestQueue,
  rowBytesOf,
  slotsPerBlock,
} from './key-layout.ts'
import { addRequests, type RequestBounds } from './keyed-requests.ts'
import { ReserveFile } from './reserve-file.ts'
import { RowFile } from './row-file.ts'
import { checkCounts, openTables, readDatabaseId, readLive, readMeta, type Tables } from './tables.ts'
import type { GroupPart, StoredState, WriterSetup } from './writer-messages.ts'

/**
 * Makes groups of changes durable, synchronously; the only one that writes to a data directory's points.
 *
 *   add: rows written   commit: fdatasync ─> one LMDB transaction ─> its fsync
 *
 * A crash before the transaction leaves rows that no live bit points at; after it, everything is there. What
 * a call throws says nothing about the next one: whoever drives the writer decides whether there is a next one.
 */
export class GroupWriter {
  readonly #dataDir: string
  readonly #tables: Tables
  readonly #reserve: ReserveFile
  readonly #live: Map<number, Buffer>
  readonly #databaseId: string
  #isIdStored: boolean
  readonly #requestBounds: RequestBounds
  #meta: Meta
  #rows: RowFile | undefined
  #parts: GroupPart[] = []

  /** @throws DatabaseError when the directory holds something damaged */
  constructor({ dataDir, dimension, requestBounds }: WriterSetup) {
    this.#dataDir = dataDir
    this.#requestBounds = requestBounds
    this.#tables = openTables(dataDir)
    const stored = readMeta(dataDir, this.#tables)
    this.#meta = stored ?? emptyMeta
    this.#live = readLive(dataDir, this.#tables)
    checkCounts(dataDir, this.#tables, this.#meta, this.#live)
    const databaseId = readDatabaseId(dataDir, this.#tables)
    this.#databaseId = databaseId ?? newId()
    this.#isIdStored = databaseId !== undefined
    if (stored === undefined) this.#putMeta(this.#meta)
    else if (!this.#isIdStored) this.#tryToStoreId()
    this.#reserve = new ReserveFile(reservePath(dataDir))
    if (this.#meta.dimension !== undefined)
      this.#rows = RowFile.open(rowFilePath(dataDir), this.#meta.dimension)
    else if (dimension !== undefined) this.#fixDimension(dimension)
  }

  get state(): StoredState {
    const rowFileBytes = this.#rows?.sizeBytes ?? 0
    return { meta: this.#meta, rowFileBytes, databaseId: this.#databaseId }
  }

  /** Writes the rows of one part of the group that the next `commit` makes durable. */
  add(part: GroupPart): void {
    this.#parts.push(part)
    if (part.slots.length > 0) this.#rowsOf(part.dimension).write(bufferOf(part.rows), part.slots)
  }

  /** Makes the parts added since the last call durable, or none of them: then it throws. */
  commit(): void {
    const parts = this.#parts
    this.#parts = []
    const hasInsertions = parts.some(({ slots }) => slots.length > 0)
    if (hasInsertions) this.#rows!.sync()
    const next = this.#after(parts)
    try {
      this.#meta = this.#commitTables(parts, next)
    } catch (error) {
      const canTryAgain = !hasInsertions && this.isDiskFull(error) && this.#reserve.giveUp()
      if (!canTryAgain) throw error
      this.#meta = this.#commitTables(parts, next)
    }
    for (const [block, bits] of next.blocks) this.#live.set(block, bits)
  }

  /** Forgets the parts added since the last commit; their rows count for nothing. */
  abandon(): void {
    this.#parts = []
  }

  /** For when there is time: puts disk space aside for deletions on a full disk. */
  holdReserve(): void {
    this.#reserve.hold()
  }

  /**
   * Whether an error comes of a full disk. LMDB takes a short write for EIO, and a full disk writes short:
   * then the file system has the last word.
   */
  isDiskFull(error: unknown): boolean {
    const { code, message = '' } = error as { code?: unknown; message?: string }
    if (diskFullCodes.includes(code)) return true
    if (/no space left|MDB_MAP_FULL|disk quota/i.test(message)) return true
    if (code !== errno.EIO) return false
    const { bavail, bsize } = statfsSync(this.#dataDir)
    return bavail * bsize < fullBytes
  }

  async close(): Promise<void> {
    this.#rows?.close()
    await this.#tables.root.close()
  }

  /** A first insertion that failed leaves a file of its dimension, which has not become the store's. */
  #rowsOf(dimension: number): RowFile {
    if (this.#rows?.dimension === dimension) return this.#rows
    assert(this.#meta.dimension === undefined, 'vectors have the dimension of the store')
    this.#rows?.close()
    this.#rows = undefined
    this.#rows = RowFile.create(rowFilePath(this.#dataDir), dimension)
    return this.#rows
  }

  #fixDimension(dimension: number): void {
    this.#rowsOf(dimension)
    const meta = { ...this.#meta, dimension }
    this.#putMeta(meta)
    this.#meta = meta
  }

  /** Of a database that earlier programs have made. On a full disk the next commit that succeeds stores it. */
  #tryToStoreId(): void {
    try {
      this.#putMeta(this.#meta)
    } catch (error) {
      if (!this.isDiskFull(error)) throw error
    }
  }

  #putMeta(meta: Meta): void {
    this.#transaction(() => this.#putMetaRecords(meta))
    this.#isIdStored = true
  }

  #putMetaRecords(meta: Meta): void {
    const { meta: table } = this.#tables
    table.putSync(metaKeys.state, encodeMeta(meta))
    if (!this.#isIdStored) table.putSync(metaKeys.databaseId, encodeDatabaseId(this.#databaseId))
  }

  /** Returns the meta record that it has written. */
  #commitTables(parts: readonly GroupPart[], { meta: nextMeta, blocks }: NextState): Meta {
    const { payloads, live } = this.#tables
    const stored = this.#transaction(() => {
      for (const part of parts) this.#putPayloads(part)
      for (const { deletedSlots } of parts) for (const slot of deletedSlots) payloads.removeSync(slot)
      for (const [block, bits] of blocks) live.putSync(block, encodeBlock(block, bits))
      const meta = { ...nextMeta, keyedRequests: this.#changeRequests(parts) }
      this.#putMetaRecords(meta)
      return meta
    })
    this.#isIdStored = true
    return stored
  }

  /** Together with insertions only: removing old requests takes space, and deletions have to go on without. */
  #changeRequests(parts: readonly GroupPart[]): RequestQueue | undefined {
    const { keyedRequests: queue } = this.#meta
    const encoded = bufferOf(parts.at(-1)!.keyedRequests)
    const hasInsertions = parts.some(({ slots }) => slots.length > 0)
    if (!hasInsertions || (queue === undefined && encoded.length === 0)) return queue
    return addRequests(this.#tables.meta, encoded, queue ?? emptyQueue, this.#requestBounds)
  }

  #putPayloads({ dimension, slots, rows, contentTypes, contents }: GroupPart): void {
    const rowBytes = rowBytesOf(dimension)
    for (const [index, slot] of slots.entries()) {
      const id = rows.subarray(index * rowBytes, index * rowBytes + idBytes)
      this.#tables.payloads.putSync(slot, encodePayload(id, contentTypes[index]!, contents[index]!))
    }
  }

  /**
   * Runs `write` as one transaction; it is on the disk when this returns. Not one of lmdb's asynchronous ones:
   * when a disk is full, those neither resolve nor reject.
   */
  #transaction<Result>(write: () => Result): Result {
    return this.#tables.root.transactionSync(write)
  }

  /** What the parts make of the meta record and of the blocks of live bits that they touch. */
  #after(parts: readonly GroupPart[]): NextState {
    const blocks = new Map<number, Buffer>()
    const setBit = (slot: number, on: boolean): void => {
      const block = Math.floor(slot / slotsPerBlock)
      const bits = blocks.get(block) ?? Buffer.from(this.#live.get(block) ?? emptyBlock)
      blocks.set(block, bits)
      const at = (slot % slotsPerBlock) >> 3
      const bit = 1 << (slot & 7)
      if (((bits[at]! & bit) !== 0) === on) return
      bits[at]! ^= bit
      pointCount += on ? 1 : -1
    }
    let { dimension, sequence, slotCount, pointCount } = this.#meta
    for (const part of parts) {
      for (const slot of part.slots) {
        setBit(slot, true)
        slotCount = Math.max(slotCount, slot + 1)
      }
      for (const slot of part.deletedSlots) setBit(slot, false)
      sequence = Math.max(sequence, part.sequence)
      if (part.slots.length > 0) dimension ??= part.dimension
    }
    return { meta: { dimension, sequence, slotCount, pointCount }, blocks }
  }
}

interface NextState {
  /** But for the keyed requests. */
  readonly meta: Meta
  readonly blocks: ReadonlyMap<number, Buffer>
}

const emptyQueue: RequestQueue = { first: 0, count: 0 }

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

const { errno } = osConstants
/** Node names its errors, LMDB numbers them. */
const diskFullCodes: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG', errno.ENOSPC, errno.EDQUOT]

/** Less than the largest single write of LMDB: with more free space, a short write has another cause. */
const fullBytes = 1024 * 1024
