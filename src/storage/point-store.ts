import type { Transaction } from 'lmdb'
import { DatabaseError } from '../base/errors.ts'
import { idToBytes } from '../base/ids.ts'
import type { Applied } from './applied.ts'
import { currentRead, type HeldReads } from './files/environment.ts'
import { blockBytes, rowBytesOf, rowHeadBytes, rowsHeaderBytes, slotsPerBlock } from './key-layout.ts'
import { findRequest, type RequestBounds, RequestFault, roomForRequests } from './keyed-requests.ts'
import { damagedRecord, readRecord, recordBatches, recordOf } from './records.ts'
import { StoreSnapshot } from './snapshot/snapshot-source.ts'
import type {
  KeyedRequest,
  KnownPoints,
  PointRecord,
  RecordBatch,
  Snapshot,
  Store,
  StoredPlace,
  StoredRows,
  VectorsOnDisk,
  WriteGroup,
} from './store.ts'
import { readLive, type Tables } from './tables.ts'
import type { CollectionWriter } from './writer/writer.ts'

interface PointStoreParts {
  readonly tables: Tables
  readonly writer: CollectionWriter
  /** Shared by all stores of the environment. */
  readonly heldReads: HeldReads
  /** Called with the seconds that each commit took. */
  readonly onCommit?: ((seconds: number) => void) | undefined
  readonly requestBounds: RequestBounds
  /** Releases all resources that were opened for this store. */
  readonly onClose: () => Promise<void>
}

/**
 * The points of one collection: vectors in a row file, everything else in LMDB (key-layout.ts has the format). A writer
 * thread makes all writes, because a commit takes as long as the disk needs. Payloads are read here, from LMDB's map of
 * the file.
 */
export class PointStore implements Store {
  readonly #parts: PointStoreParts
  readonly #writer: CollectionWriter
  readonly #snapshots = new Set<Snapshot>()
  #tables: Tables
  /** During a commit: a read transaction from before it. */
  #before: Transaction | undefined
  #isClosed = false
  /** Set after a failed write: see `useTables`. */
  #isReopened = false

  constructor(parts: PointStoreParts) {
    this.#parts = parts
    this.#writer = parts.writer
    this.#tables = parts.tables
  }

  get dimension(): number | undefined {
    return this.#writer.state.meta.dimension
  }

  get databaseId(): string {
    return this.#writer.state.databaseId
  }

  get sequence(): number {
    return this.#writer.state.meta.sequence
  }

  get applied(): Applied | undefined {
    return this.#writer.state.meta.applied
  }

  get slotCount(): number {
    return this.#writer.state.meta.slotCount
  }

  get diskBytes(): number {
    return this.#writer.state.rowFileBytes
  }

  get place(): StoredPlace {
    const { dataDir, number, collection } = this.#tables.files
    return { dataDir, number, collection }
  }

  vectorsOnDisk(dimension: number): VectorsOnDisk {
    return {
      path: this.#tables.files.rows,
      firstRow: rowsHeaderBytes,
      headBytes: rowHeadBytes,
      rowBytes: rowBytesOf(dimension),
    }
  }

  rows(): StoredRows | undefined {
    const { dimension, sequence, slotCount } = this
    if (dimension === undefined) return undefined
    // The read transaction can be older than the last commit.
    this.#tables.root.resetReadTxn()
    const live = new Uint8Array(new SharedArrayBuffer(Math.ceil(slotCount / slotsPerBlock) * blockBytes))
    for (const [block, bits] of readLive(this.#tables)) {
      live.set(bits, block * blockBytes)
    }
    return { path: this.#tables.files.rows, dimension, slotCount, sequence, live }
  }

  async commit(group: WriteGroup): Promise<void> {
    const started = performance.now()
    // Readers do not know new points before their insertion is acknowledged, so it cannot be seen too early.
    if (group.changes.every(({ kind }) => kind === 'insert')) await this.#writer.commit(group)
    else await this.#commitUnseen(group)
    this.#parts.onCommit?.((performance.now() - started) / 1000)
  }

  /** Commits changes of stored points. Until the commit is acknowledged, reads see the previous state. */
  async #commitUnseen(group: WriteGroup): Promise<void> {
    const { heldReads } = this.#parts
    await heldReads.enter()
    try {
      this.#before = currentRead(this.#tables.root)
      await this.#writer.commit(group)
    } finally {
      this.#endBefore()
      heldReads.leave()
    }
  }

  #endBefore(): void {
    if (this.#before === undefined) return
    this.#before.done()
    this.#before = undefined
    this.#tables.root.resetReadTxn()
  }

  get keyedRequestCount(): number {
    return this.#writer.state.meta.keyedRequests.count
  }

  get keyedRequestRoom(): number {
    return roomForRequests(this.#writer.state.meta.keyedRequests, this.#parts.requestBounds)
  }

  keyedRequest(keyHash: Uint8Array): KeyedRequest | undefined {
    // A failed commit may have become visible, but it is unknown whether it is durable.
    this.#writer.checkTrusted()
    if (this.keyedRequestCount === 0) return undefined
    // The read transaction can be older than the last commit.
    this.#tables.root.resetReadTxn()
    try {
      return findRequest(this.#tables.meta, keyHash)
    } catch (error) {
      if (error instanceof RequestFault) throw damagedRecord(this.#tables, error.message)
      throw error
    }
  }

  records(from?: number, limit?: number): Generator<RecordBatch, void> {
    // The read transaction can be older than the last commit.
    this.#tables.root.resetReadTxn()
    return recordBatches(this.#tables.payloads, from, limit)
  }

  record(slot: number, id: string): PointRecord | undefined {
    try {
      return this.#record(slot, idToBytes(id))
    } catch (error) {
      if (this.#writer.isBroken && !this.#isReopened) {
        throw new DatabaseError('not_ready', 'the disk failed, and payloads are being reopened: try again')
      }
      throw error
    }
  }

  #record(slot: number, id: Uint8Array): PointRecord | undefined {
    const tables = this.#tables
    const parts = readRecord(tables, slot, this.#before)
    if (parts?.id.equals(id)) return recordOf(tables, slot, parts)
    if (this.#before !== undefined) return undefined
    // The read transaction can be older than the last commit: try again with a new one.
    tables.root.resetReadTxn()
    const fresh = readRecord(tables, slot)
    return fresh?.id.equals(id) ? recordOf(tables, slot, fresh) : undefined
  }

  snapshot(onClose: () => void, known?: KnownPoints): Snapshot {
    const { heldReads } = this.#parts
    const { databaseId } = this.#writer.state
    heldReads.enterSnapshot()
    try {
      const ended = (): void => {
        heldReads.leaveSnapshot()
        this.#snapshots.delete(snapshot)
        onClose()
      }
      const snapshot: Snapshot = new StoreSnapshot(this.#tables, databaseId, ended, known)
      this.#snapshots.add(snapshot)
      return snapshot
    } catch (error) {
      heldReads.leaveSnapshot()
      throw error
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const snapshot of this.#snapshots) snapshot.close()
    await this.#writer.close()
    this.#endBefore()
    await this.#parts.onClose()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Ends all reads in progress. Call it before the environment is closed. */
  endReads(): void {
    for (const snapshot of this.#snapshots) snapshot.close()
    this.#endBefore()
  }

  /** Sets the tables from which to read after a failed write, when it is known that they can be read. */
  useTables(tables: Tables): void {
    this.#tables = tables
    this.#isReopened = true
  }
}
