import { statSync } from 'node:fs'
import { assert } from '../../base/errors.ts'
import { idBytes } from '../../base/ids.ts'
import { encodePoints } from '../changes/change-format.ts'
import type { PageSpace, SpaceNeeds } from '../files/disk-space.ts'
import type { RowFile, RowFiles } from '../files/row-file.ts'
import { emptyBlock, encodeBlock, encodeMeta, type Meta, metaKeys, type RequestQueue } from '../key-layout.ts'
import { addRequests, type RequestBounds, unpackRequests } from '../keyed-requests.ts'
import { sealRecord, splitRecord } from '../payload-record.ts'
import { blockOf, hasSlot, pageBytes, setBit, type Table } from '../table.ts'
import { readChecked, type Tables } from '../tables.ts'
import { type UnpackedPart, unpackPart } from './group-parts.ts'
import type { GroupPart, StoredState } from './writer-messages.ts'

interface GroupWriterSetup {
  readonly tables: Tables
  readonly rowFiles: RowFiles
  /** Fixes the dimension of an empty collection. */
  readonly dimension?: number | undefined
  readonly requestBounds: RequestBounds
  readonly space: PageSpace
  /** Runs a transaction that the journal of changes does not record. */
  readonly transaction: (work: () => void) => void
}

/**
 * Writes groups of changes of one collection, synchronously. Nothing else writes to its points.
 *
 *   add: write rows   syncRows: fdatasync   writeTables: within an LMDB transaction   accept: the group is durable
 *
 * A crash before the end of the transaction leaves rows without live bits; after it, everything is stored. After an
 * error, the caller decides whether to use the writer again.
 */
export class GroupWriter {
  readonly #tables: Tables
  readonly #rowFiles: RowFiles
  readonly #live: Map<number, Buffer>
  readonly #databaseId: string
  readonly #requestBounds: RequestBounds
  readonly #space: PageSpace
  #meta: Meta
  /** The dimension of the row file. After a failed first insertion, it is not that of the collection. */
  #rowsDimension: number | undefined
  #rowFileBytes = 0
  #parts: UnpackedPart[] = []
  #next: NextState | undefined

  /** @throws DatabaseError if the collection's files are damaged */
  constructor({ tables, rowFiles, dimension, requestBounds, space, transaction }: GroupWriterSetup) {
    this.#tables = tables
    this.#rowFiles = rowFiles
    this.#requestBounds = requestBounds
    this.#space = space
    const { meta, live, databaseId } = readChecked(tables)
    this.#meta = meta
    this.#live = live
    this.#databaseId = databaseId
    if (this.#meta.dimension !== undefined) {
      rowFiles.open(tables.files.rows, this.#meta.dimension)
      this.#rowsDimension = this.#meta.dimension
    } else if (dimension !== undefined) this.#fixDimension(dimension, transaction)
    this.#measureRows()
  }

  get state(): StoredState {
    return { meta: this.#meta, rowFileBytes: this.#rowFileBytes, databaseId: this.#databaseId }
  }

  /** Whether the group stores anything. Otherwise it only removes points. */
  get needsSpace(): boolean {
    return this.#parts.some(
      ({ dimension, records, keyedRequests }) => dimension + records.length + keyedRequests.length > 0,
    )
  }

  /** Whether the group is of a log. */
  get isOfLog(): boolean {
    return this.#parts.at(-1)?.applied !== undefined
  }

  /**
   * Yields the records of the group for the journal of changes. Call it within the transaction, before `writeTables`:
   * the ids of deleted points are in the tables.
   */
  *changeRecords(timeMs: number): Generator<Uint8Array[]> {
    const parts = this.#parts
    const sequence = Math.max(this.#meta.sequence, ...parts.map((part) => part.sequence))
    const changed = new Set<string>()
    for (const { records } of parts)
      for (const { value } of records) changed.add(value.toString('latin1', 0, idBytes))
    let since = this.#meta.sequence
    for (const { leftSlots, ...part } of parts) {
      const deleted: Buffer[] = []
      for (const slot of leftSlots) {
        const value = this.#tables.payloads.getBinary(slot)
        if (value === undefined) continue
        const id = splitRecord(value)?.id
        if (id === undefined) throw new Error('a deleted point does not match its checksum')
        // A point with a new vector has left its slot, too.
        if (!changed.has(id.toString('latin1'))) deleted.push(id)
      }
      if (part.packed.length + deleted.length === 0 && since === sequence) continue
      const databaseId = this.#databaseId
      yield encodePoints({
        kind: 'points',
        timeMs,
        databaseId,
        since,
        sequence,
        part,
        deleted: Buffer.concat(deleted),
      })
      since = sequence
    }
  }

  /** An upper estimate of the disk space that the tables need for the group. */
  get tableNeeds(): SpaceNeeds {
    const { payloads, meta } = this.#tables
    let [changes, keyedBytes, valueBytes, runBytes] = [0, 0, 0, 0]
    for (const { records, leftSlots, keyedRequests } of this.#parts) {
      changes += records.length + leftSlots.length
      keyedBytes += keyedRequests.length
      for (const { value } of records) {
        const bytes = valueBytesOf(value)
        valueBytes += bytes
        if (bytes > pageBytes) runBytes += bytes
      }
    }
    if (keyedBytes > pageBytes) runBytes += 2 * keyedBytes
    const changed = changedPages(changes, payloads) + changedPages(keyedBytes / keyedPartBytes, meta)
    return { bytes: transactionBytes + valueBytes + keyedBytes + changed * pageBytes, runBytes }
  }

  /** Adds one part to the group of the next transaction, and writes its rows. */
  add(message: GroupPart): void {
    const part = unpackPart(message)
    for (const { value } of part.records) sealRecord(value)
    this.#parts.push(part)
    if (part.dimension === 0) return
    const file = this.#openRows(part.dimension)
    if (part.rowSlots.length === 0) return
    for (const slot of part.rowSlots)
      assert(!hasSlot(this.#live, slot), 'the row of a stored point is never overwritten')
    this.#rowFiles.noteWritten(file.path)
    file.write(part.rows, part.rowSlots)
  }

  /** Returns when the rows of the group are on the disk. A group that only changes payloads has none. */
  syncRows(): void {
    if (this.#parts.some(({ rowSlots }) => rowSlots.length > 0)) this.#rowFiles.sync(this.#tables.files.rows)
  }

  /** Writes the rest of the group. Call it within a transaction. */
  writeTables(): void {
    const parts = this.#parts
    const { payloads, live } = this.#tables
    const { meta, blocks } = this.#after(parts)
    for (const part of parts) this.#putRecords(part)
    for (const { leftSlots } of parts) for (const slot of leftSlots) payloads.removeSync(slot)
    for (const [block, bits] of blocks) live.putSync(block, encodeBlock(block, bits))
    const applied = parts.at(-1)!.applied ?? meta.applied
    const next = { meta: { ...meta, keyedRequests: this.#changeRequests(parts), applied }, blocks }
    this.#putMeta(next.meta)
    this.#next = next
  }

  /** Call when the transaction with the tables of the group is durable. */
  accept(): void {
    assert(this.#next !== undefined, 'the tables of an accepted group are written')
    const { meta, blocks } = this.#next
    this.#meta = meta
    for (const [block, bits] of blocks) this.#live.set(block, bits)
    this.#measureRows()
    this.abandon()
  }

  /** Discards the group. Its rows become garbage. */
  abandon(): void {
    this.#parts = []
    this.#next = undefined
  }

  close(): void {
    this.#rowFiles.close(this.#tables.files.rows)
  }

  /** Opens or creates the row file for vectors of `dimension`. */
  #openRows(dimension: number): RowFile {
    const path = this.#tables.files.rows
    if (this.#rowsDimension === dimension) return this.#rowFiles.open(path, dimension)
    assert(this.#meta.dimension === undefined, 'vectors have the dimension of the collection')
    this.#rowsDimension = undefined
    const rows = this.#rowFiles.create(path, dimension)
    this.#rowsDimension = dimension
    return rows
  }

  #measureRows(): void {
    if (this.#rowsDimension !== undefined) this.#rowFileBytes = statSync(this.#tables.files.rows).size
  }

  #fixDimension(dimension: number, transaction: GroupWriterSetup['transaction']): void {
    this.#openRows(dimension)
    const meta = { ...this.#meta, dimension }
    this.#space.ensure(() => ({ bytes: transactionBytes }))
    transaction(() => this.#putMeta(meta))
    this.#meta = meta
  }

  #putMeta(meta: Meta): void {
    this.#tables.meta.putSync(metaKeys.state, encodeMeta(meta))
  }

  /**
   * Adds the group's keyed requests. Does nothing for deletions: removing old requests takes space, which they must not
   * need.
   */
  #changeRequests(parts: readonly UnpackedPart[]): RequestQueue {
    const { keyedRequests: queue } = this.#meta
    const records = unpackRequests(parts.at(-1)!.keyedRequests)
    if (!this.needsSpace || queue.count + records.length === 0) return queue
    const { applied } = parts.at(-1)!
    const nowMs = applied === undefined ? Date.now() : applied.clockUs / 1000
    return addRequests(this.#tables.meta, records, queue, this.#requestBounds, nowMs)
  }

  #putRecords({ records }: UnpackedPart): void {
    for (const { slot, value } of records) this.#tables.payloads.putSync(slot, value)
  }

  /** The meta record and the changed blocks of live bits after these parts. */
  #after(parts: readonly UnpackedPart[]): NextState {
    const live = new LiveDraft(this.#live)
    let { dimension, sequence, slotCount, pointCount } = this.#meta
    for (const { rowSlots, records, leftSlots, ...part } of parts) {
      for (const slot of rowSlots) {
        live.set(slot, true)
        slotCount = Math.max(slotCount, slot + 1)
      }
      for (const { slot } of records) assert(live.has(slot), 'every payload belongs to a stored point')
      for (const slot of leftSlots) live.set(slot, false)
      sequence = Math.max(sequence, part.sequence)
      if (part.dimension > 0) dimension ??= part.dimension
    }
    pointCount += live.added
    assert(pointCount >= 0 && sequence >= this.#meta.sequence, 'counts and sequence numbers are possible')
    const meta = { ...this.#meta, dimension, sequence, slotCount, pointCount }
    return { meta, blocks: live.blocks }
  }
}

/**
 * The most pages that so many changes of a table rewrite: one for each, which may be split in two, or all of its pages.
 */
function changedPages(changes: number, { pages }: Table): number {
  return 2 * Math.min(changes, pages.tree)
}

/** Estimates the space for a record. A large one has its own pages. */
function valueBytesOf(value: Buffer): number {
  const length = value.length + nodeBytes
  return length < pageBytes / 4 ? 2 * length : Math.ceil(length / pageBytes) * pageBytes
}

/** LMDB's key and head of an entry. */
const nodeBytes = 16
/**
 * Pages that every transaction writes: roots, branches, the meta record, blocks of live bits, the list of free pages.
 */
const transactionBytes = 128 * 1024
/**
 * A keyed request of about a hundred bytes changes the pages of its number and its key, and those of removed requests.
 */
const keyedPartBytes = 8

interface NextState {
  readonly meta: Meta
  readonly blocks: ReadonlyMap<number, Buffer>
}

/** The bits of live slots after a group. The committed blocks do not change. */
class LiveDraft {
  /** The changed blocks. */
  readonly blocks: Map<number, Buffer> = new Map()
  /** The change in the number of live slots. */
  added = 0
  readonly #committed: ReadonlyMap<number, Buffer>

  constructor(committed: ReadonlyMap<number, Buffer>) {
    this.#committed = committed
  }

  has(slot: number): boolean {
    return hasSlot(this.blocks.has(blockOf(slot)) ? this.blocks : this.#committed, slot)
  }

  set(slot: number, isLive: boolean): void {
    // Also for a slot that does not exist: its block is not stored.
    if (this.has(slot) === isLive) return
    const block = blockOf(slot)
    const bits = this.blocks.get(block) ?? Buffer.from(this.#committed.get(block) ?? emptyBlock)
    this.blocks.set(block, bits)
    setBit(bits, slot, isLive)
    this.added += isLive ? 1 : -1
  }
}
