import { DatabaseError } from '../base/errors.ts'
import type { Payload } from '../base/point.ts'
import type { CollectionWriter } from './collection-writer.ts'
import { damaged } from './data-directory.ts'
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
import { faultIn, readLive, type Tables } from './tables.ts'

export interface PointStoreParts {
  readonly tables: Tables
  readonly writer: CollectionWriter
  /** Called with the seconds that each commit took. */
  readonly onCommit?: ((seconds: number) => void) | undefined
  /** Bytes of LMDB's file that are this collection's. */
  readonly databaseBytes: () => number
  /** Releases what was opened for this store. */
  readonly onClose: () => Promise<void>
}

/**
 * The points of one collection: vectors in a row file, everything else in LMDB (key-layout.ts has the bytes). What is
 * written goes through a writer thread, because a commit takes as long as the disk does; payloads are read here, from
 * LMDB's map of the file.
 */
export class PointStore implements Store {
  readonly #parts: PointStoreParts
  readonly #writer: CollectionWriter
  readonly #snapshots = new Set<Snapshot>()
  #tables: Tables
  #isClosed = false
  /** After a failed write: see `useTables`. */
  #isReopened = false

  constructor(parts: PointStoreParts) {
    this.#parts = parts
    this.#writer = parts.writer
    this.#tables = parts.tables
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
    return this.rowFileBytes + this.#parts.databaseBytes()
  }

  /** Of vectors.rows, as of the last commit. */
  get rowFileBytes(): number {
    return this.#writer.state.rowFileBytes
  }

  vectorsOnDisk(dimension: number): VectorsOnDisk {
    return {
      path: this.#tables.files.rows,
      firstVector: rowsHeaderBytes + rowHeadBytes,
      rowBytes: rowBytesOf(dimension),
    }
  }

  rows(): StoredRows | undefined {
    const { dimension, sequence, slotCount } = this
    if (dimension === undefined) return undefined
    // The read transaction can be older than the last commit.
    this.#tables.root.resetReadTxn()
    const live = new Uint8Array(new SharedArrayBuffer(Math.ceil(slotCount / slotsPerBlock) * blockBytes))
    for (const [block, bits] of readLive(this.#tables)) live.set(bits, block * blockBytes)
    return { path: this.#tables.files.rows, dimension, slotCount, sequence, live }
  }

  async commit(group: WriteGroup): Promise<void> {
    const started = performance.now()
    await this.#writer.commit(group)
    this.#parts.onCommit?.((performance.now() - started) / 1000)
  }

  get keyedRequestCount(): number {
    return this.#writer.state.meta.keyedRequests?.count ?? 0
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
      if (error instanceof RequestFault) throw this.#damaged(error.message)
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
    // The read transaction can be older than the last commit: try again with a new one.
    this.#tables.root.resetReadTxn()
    const fresh = this.#readPayload(slot)
    return fresh?.id === id ? fresh.payload : undefined
  }

  snapshot(onClose: () => void): Snapshot {
    const { databaseId } = this.#writer.state
    const snapshot: Snapshot = new StoreSnapshot(this.#tables, databaseId, () => {
      this.#snapshots.delete(snapshot)
      onClose()
    })
    this.#snapshots.add(snapshot)
    return snapshot
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.closeSnapshots()
    await this.#writer.close()
    await this.#parts.onClose()
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  closeSnapshots(): void {
    for (const snapshot of this.#snapshots) snapshot.close()
  }

  /** Replaces the tables after a failed write: the LMDB environment was opened anew, for reading. */
  useTables(tables: Tables): void {
    this.#tables = tables
    this.#isReopened = true
  }

  #readPayload(slot: number): { id: string; payload: Payload } | undefined {
    const value = this.#tables.payloads.getBinary(slot)
    if (value === undefined) return undefined
    const record = decodePayload(value)
    if (record !== undefined) return record
    throw this.#damaged(`the payload of slot ${slot} does not match its checksum`)
  }

  #damaged(fault: string): DatabaseError {
    const { files } = this.#tables
    return damaged(files.database, faultIn(files, fault))
  }
}
