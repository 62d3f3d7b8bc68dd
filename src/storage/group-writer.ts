import { statfsSync } from 'node:fs'
import { constants as osConstants } from 'node:os'
import { assert } from '../base/assert.ts'
import { idBytes } from '../base/ids.ts'
import { reservePath, rowFilePath } from './data-directory.ts'
import {
  emptyBlock,
  emptyMeta,
  encodeBlock,
  encodeMeta,
  encodePayload,
  type Meta,
  rowBytesOf,
  slotsPerBlock,
} from './key-layout.ts'
import { ReserveFile } from './reserve-file.ts'
import { RowFile } from './row-file.ts'
import { checkCounts, openTables, readLive, readMeta, type Tables } from './tables.ts'
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
  #meta: Meta
  #rows: RowFile | undefined
  #parts: GroupPart[] = []

  /** @throws DatabaseError when the directory holds something damaged */
  constructor({ dataDir, dimension }: WriterSetup) {
    this.#dataDir = dataDir
    this.#tables = openTables(dataDir)
    const stored = readMeta(dataDir, this.#tables)
    this.#meta = stored ?? emptyMeta
    this.#live = readLive(dataDir, this.#tables)
    checkCounts(dataDir, this.#tables, this.#meta, this.#live)
    if (stored === undefined) this.#putMeta(this.#meta)
    this.#reserve = new ReserveFile(reservePath(dataDir))
    if (this.#meta.dimension !== undefined)
      this.#rows = RowFile.open(rowFilePath(dataDir), this.#meta.dimension)
    else if (dimension !== undefined) this.#fixDimension(dimension)
  }

  get state(): StoredState {
    return { meta: this.#meta, rowFileBytes: this.#rows?.sizeBytes ?? 0 }
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
      this.#commitTables(parts, next)
    } catch (error) {
      const canTryAgain = !hasInsertions && this.isDiskFull(error) && this.#reserve.giveUp()
      if (!canTryAgain) throw error
      this.#commitTables(parts, next)
    }
    this.#meta = next.meta
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

  #putMeta(meta: Meta): void {
    this.#transaction(() => {
      this.#tables.meta.putSync(0, encodeMeta(meta))
    })
  }

  #commitTables(parts: readonly GroupPart[], { meta, blocks }: NextState): void {
    const { payloads, live, meta: metaTable } = this.#tables
    this.#transaction(() => {
      for (const part of parts) this.#putPayloads(part)
      for (const { deletedSlots } of parts) for (const slot of deletedSlots) payloads.removeSync(slot)
      for (const [block, bits] of blocks) live.putSync(block, encodeBlock(block, bits))
      metaTable.putSync(0, encodeMeta(meta))
    })
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
  #transaction(write: () => void): void {
    this.#tables.root.transactionSync(write)
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
  readonly meta: Meta
  readonly blocks: ReadonlyMap<number, Buffer>
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

const { errno } = osConstants
/** Node names its errors, LMDB numbers them. */
const diskFullCodes: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG', errno.ENOSPC, errno.EDQUOT]

/** Less than the largest single write of LMDB: with more free space, a short write has another cause. */
const fullBytes = 1024 * 1024
