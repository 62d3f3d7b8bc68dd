import { type FileHandle, open } from 'node:fs/promises'
import type { Transaction } from 'lmdb'
import { DatabaseError } from '../../base/errors.ts'
import type { PartitionSet } from '../../base/partitions.ts'
import { contentTypes } from '../../base/point.ts'
import { Turn } from '../../base/turns.ts'
import type { Applied } from '../applied.ts'
import { damaged } from '../files/data-directory.ts'
import { currentRead } from '../files/environment.ts'
import {
  keyOfRequest,
  type Meta,
  type RowView,
  requestNumbers,
  rowBytesOf,
  rowsHeaderBytes,
  rowViews,
} from '../key-layout.ts'
import { decodeKeyedRequest } from '../keyed-requests.ts'
import { attributesOf, type RecordParts, splitRecord } from '../payload-record.ts'
import type { AttributesTest, Snapshot, SnapshotPart } from '../store.ts'
import { countSlots, hasSlot } from '../table.ts'
import { faultIn, readLive, readMeta, type Tables } from '../tables.ts'
import { type SnapshotPointBytes, SnapshotWriter } from './snapshot-format.ts'

/**
 * A snapshot of a store, which can be taken during writes.
 *
 * One read transaction of LMDB shows the meta record, the live bits and the payloads at one sequence number, whatever
 * is committed during the snapshot. Rows are not in LMDB, but a row changes only when its slot is reused, and the
 * caller that opens the snapshot prevents that. If it happened anyway, the row's checksum, sequence number or id would
 * not match, and the snapshot would end with an error.
 *
 * Runs on the main thread, in turns of about a millisecond. One chunk and one content are in memory at a time.
 */
export class StoreSnapshot implements Snapshot {
  readonly #tables: Tables
  readonly #onClose: () => void
  readonly databaseId: string
  readonly #meta: Meta
  readonly #live: ReadonlyMap<number, Buffer>
  readonly points: number
  #transaction: Transaction | undefined

  constructor(tables: Tables, databaseId: string, onClose: () => void) {
    this.#tables = tables
    this.databaseId = databaseId
    this.#onClose = onClose
    // A transaction that is already open may be older than the hold on slots.
    this.#transaction = currentRead(tables.root)
    try {
      // Every read uses this transaction until the next turn of the event loop.
      this.#meta = readMeta(tables)
      this.#live = readLive(tables)
    } catch (error) {
      this.#transaction.done()
      throw error
    }
    this.points = countSlots(this.#live)
  }

  get sequence(): number {
    return this.#meta.sequence
  }

  get dimension(): number | undefined {
    return this.#meta.dimension
  }

  get applied(): Applied | undefined {
    return this.#meta.applied
  }

  get keyedRequestCount(): number {
    return this.#meta.keyedRequests.count
  }

  async *keyedRequests(): AsyncGenerator<Buffer> {
    const { first, count } = this.#meta.keyedRequests
    const turn = new Turn()
    for (let index = 0; index < count; index += 1) {
      const number = (first + index) % requestNumbers
      const value = this.#tables.meta.getBinary(keyOfRequest(number), this.#open)
      if (value === undefined || decodeKeyedRequest(value) === undefined) {
        throw this.#damaged('database', `keyed request ${number} is missing or damaged`)
      }
      yield value
      if (turn.isOver) await turn.next()
    }
  }

  async *chunks(part?: SnapshotPart): AsyncGenerator<Buffer> {
    const { dimension, sequence } = this.#meta
    const { databaseId } = this
    const { points, partitions, matches }: SnapshotPart = part ?? { points: this.points }
    const writer = new SnapshotWriter({ databaseId, dimension, sequence, points })
    yield writer.begin()
    if (dimension !== undefined && points > 0) {
      await using file = await open(this.#tables.files.rows, 'r')
      const turn = new Turn()
      for await (const block of this.#blocks(file, dimension)) {
        for (const row of this.#rowsOf(block, partitions)) {
          const record = this.#recordOf(row)
          if (matches?.(attributesOf(record.attributes)) ?? true) {
            const chunk = writer.add(pointOf(row, record))
            if (chunk !== undefined) yield chunk
          }
          if (turn.isOver) await turn.next()
        }
      }
    }
    if (writer.points !== points)
      throw this.#damaged('database', 'there are live slots beyond the recorded slot count')
    yield* writer.end()
  }

  async count(matches: AttributesTest): Promise<number> {
    const turn = new Turn()
    let count = 0
    for (let slot = 0; slot < this.#meta.slotCount; slot += 1) {
      if (!hasSlot(this.#live, slot)) continue
      const value = this.#tables.payloads.getBinary(slot, this.#open)
      const record = value && splitRecord(value)
      if (record === undefined) throw this.#damaged('database', `the payload of slot ${slot} is damaged`)
      if (matches(attributesOf(record.attributes))) count += 1
      if (turn.isOver) await turn.next()
    }
    return count
  }

  close(): void {
    if (this.#transaction === undefined) return
    this.#transaction.done()
    this.#transaction = undefined
    this.#onClose()
  }

  /** Reads blocks of rows of adjacent slots; skips blocks without live slots. A block is valid until the next one. */
  async *#blocks(file: FileHandle, dimension: number): AsyncGenerator<Block> {
    const rowBytes = rowBytesOf(dimension)
    const slotsPerRead = Math.max(1, Math.floor(blockBytes / rowBytes))
    const bytes = Buffer.allocUnsafeSlow(slotsPerRead * rowBytes)
    const views = rowViews(bytes, dimension)
    for (let first = 0; first < this.#meta.slotCount; first += slotsPerRead) {
      const count = Math.min(slotsPerRead, this.#meta.slotCount - first)
      const slots = Array.from({ length: count }, (_, index) => first + index)
      if (!slots.some((slot) => hasSlot(this.#live, slot))) continue
      const length = await readFully(
        file,
        bytes.subarray(0, count * rowBytes),
        rowsHeaderBytes + first * rowBytes,
      )
      yield { slots, rows: views, wholeRows: Math.floor(length / rowBytes) }
    }
  }

  *#rowsOf({ slots, rows, wholeRows }: Block, partitions: PartitionSet | undefined): Generator<Row> {
    for (const [index, slot] of slots.entries()) {
      if (!hasSlot(this.#live, slot)) continue
      const isWhole = index < wholeRows
      const row = rows[index]!
      const sequence = isWhole ? row.verify() : undefined
      if (sequence === undefined || sequence > this.#meta.sequence) {
        const fault = isWhole ? 'damaged' : 'cut off'
        throw this.#damaged('rows', `the row of slot ${slot} is ${fault}`)
      }
      const { id } = row
      if (partitions?.has(id[0]!) ?? true) yield { slot, id, sequence, vector: row.vectorBytes }
    }
  }

  #recordOf({ slot, id }: Row): RecordParts {
    const value = this.#tables.payloads.getBinary(slot, this.#open)
    const parts = value && splitRecord(value)
    if (parts?.id.equals(id)) return parts
    const fault = value === undefined ? 'missing' : 'damaged'
    throw this.#damaged('database', `the payload of slot ${slot} is ${fault}`)
  }

  get #open(): Transaction {
    if (this.#transaction === undefined) throw new DatabaseError('cancelled', 'the snapshot was closed')
    return this.#transaction
  }

  #damaged(file: 'database' | 'rows', fault: string): DatabaseError {
    const { files } = this.#tables
    return damaged(files[file], faultIn(files, fault))
  }
}

/** Rows of adjacent slots. There are fewer whole rows than slots if the file is cut off. */
interface Block {
  readonly slots: readonly number[]
  readonly rows: readonly RowView[]
  readonly wholeRows: number
}

interface Row {
  readonly slot: number
  readonly id: Buffer
  readonly sequence: number
  /** Bytes of the vector. */
  readonly vector: Buffer
}

function pointOf(
  { id, sequence, vector }: Row,
  { contentType, content, version, order, expiresAtUs, attributes }: RecordParts,
): SnapshotPointBytes {
  return {
    id,
    sequence,
    vector,
    contentType: contentTypes.indexOf(contentType),
    contentBytes: content.length,
    content,
    version,
    order,
    expiresAtUs,
    attributeBytes: attributes.length,
    attributes,
  }
}

async function readFully(file: FileHandle, target: Buffer, position: number): Promise<number> {
  let read = 0
  while (read < target.length) {
    const { bytesRead } = await file.read(target, read, target.length - read, position + read)
    if (bytesRead === 0) break
    read += bytesRead
  }
  return read
}

/** Large enough for efficient reads. */
const blockBytes = 256 * 1024
