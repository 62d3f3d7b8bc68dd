import { createHash } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Transaction } from 'lmdb'
import { DatabaseError, damaged } from '../../base/errors.ts'
import { idBytes, idFromBytes } from '../../base/ids.ts'
import { newId, type PartitionSet } from '../../base/partitions.ts'
import { contentTypes } from '../../base/point.ts'
import { Turn } from '../../base/turns.ts'
import { type Applied, PartitionDigest } from '../applied.ts'
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
import { attributesOf, type RecordParts, scanRecord, splitRecord } from '../payload-record.ts'
import type { AttributesTest, KnownPoints, Snapshot, SnapshotChoice, SnapshotPart } from '../store.ts'
import { countSlots, hasSlot, slotsIn } from '../table.ts'
import { faultIn, readLive, readMeta, type Tables } from '../tables.ts'
import { type Changes, type SnapshotPointBytes, SnapshotWriter, sortOrders } from './snapshot-format.ts'

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
  readonly #known: KnownPoints | undefined
  readonly #tables: Tables
  readonly #onClose: () => void
  readonly databaseId: string
  readonly #meta: Meta
  readonly #live: ReadonlyMap<number, Buffer>
  readonly points: number
  #transaction: Transaction | undefined

  constructor(tables: Tables, databaseId: string, onClose: () => void, known?: KnownPoints) {
    this.#known = known
    this.#tables = tables
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
    const { applied } = this.#meta
    this.databaseId = applied === undefined ? databaseId : historyOf(applied, tables.files.collection)
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

  async *chunks({ since, part }: SnapshotChoice = {}): AsyncGenerator<Buffer> {
    const { dimension, sequence, applied } = this.#meta
    const { points: live, partitions, matches }: SnapshotPart = part ?? { points: this.points }
    // Later changes are not those since a snapshot of some points.
    const databaseId = matches === undefined ? this.databaseId : newId()
    // A part of what nodes have can be of an earlier number than the whole: whoever asks for parts compares the whole.
    const isLater = part === undefined ? sequence >= (since?.sequence ?? 0) : applied !== undefined
    const isAfter = since?.databaseId === databaseId && isLater
    const isSame = isAfter && part === undefined && since.sequence === sequence
    const changed = isSame
      ? nothingSince(sequence)
      : isAfter
        ? await this.#changedSince(since.sequence, live, partitions)
        : undefined
    const points = changed?.slots.length ?? live
    const changes = changed?.changes
    const writer = new SnapshotWriter({ databaseId, dimension, sequence, points, changes })
    yield writer.begin()
    if (dimension !== undefined && points > 0) {
      await using file = await open(this.#tables.files.rows, 'r')
      const turn = new Turn()
      const blocks =
        changed === undefined ? this.#blocks(file, dimension) : rowsAt(file, dimension, changed.slots)
      for await (const block of blocks) {
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
    if (writer.points !== points) throw this.#beyondSlots()
    yield* writer.end()
  }

  async count(matches: AttributesTest): Promise<number> {
    const turn = new Turn()
    let count = 0
    for (let slot = 0; slot < this.#meta.slotCount; slot += 1) {
      if (!hasSlot(this.#live, slot)) continue
      if (matches(attributesOf(this.#scannedRecord(slot).attributes))) count += 1
      if (turn.isOver) await turn.next()
    }
    return count
  }

  /**
   * Finds the slots of the points that changed after a sequence number, and what describes all points.
   *
   * Memory has the numbers of most points, so a fraction of the records is read. It is at the moment of the snapshot or
   * a later one: a point that memory has in a version of that time has not changed since. The slots of others keep their
   * records.
   */
  async #changedSince(
    since: number,
    points: number,
    partitions: PartitionSet | undefined,
  ): Promise<ChangedSlots> {
    const known = points > 0 && (await this.#areChangesKnown()) ? this.#known : undefined
    const slots: number[] = []
    const orders = new Float64Array(points)
    const digest = new PartitionDigest()
    const turn = new Turn()
    const knownId = Buffer.alloc(idBytes)
    let [looks, count] = [0, 0]
    for (const slot of slotsIn(this.#live)) {
      looks += 1
      if (looks % looksPerStep === 0 && turn.isOver) await turn.next()
      let version = known?.isVisible(slot) ? known.versionOf(slot) : Number.POSITIVE_INFINITY
      let order: number
      let id: Buffer
      if (version <= this.sequence) {
        order = known!.orderOf(slot)
        known!.copyId(slot, knownId, 0)
        id = knownId
      } else {
        ;({ id, version, order } = this.#scannedRecord(slot))
      }
      if (!(partitions?.has(id[0]!) ?? true)) continue
      if (count === points) throw this.#beyondSlots()
      orders[count] = order
      count += 1
      digest.add(id, version)
      if (version > since) slots.push(slot)
    }
    if (count < points) throw this.#beyondSlots()
    return { slots, changes: { since, digest: digest.sum, orders: await sortOrders(orders) } }
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
    throw this.#damagedPayload(slot, value)
  }

  get #open(): Transaction {
    if (this.#transaction === undefined) throw new DatabaseError('cancelled', 'the snapshot was closed')
    return this.#transaction
  }

  #scannedRecord(slot: number): RecordParts {
    const value = this.#tables.payloads.getBinary(slot, this.#open)
    const record = value && scanRecord(value)
    if (record === undefined) throw this.#damagedPayload(slot, value)
    return record
  }

  /** Waits until memory has all changes of the snapshot. After a failed write, it may never have them. */
  async #areChangesKnown(): Promise<boolean> {
    for (let tries = 0; this.#known !== undefined && tries < triesMax; tries += 1) {
      if (this.#known.sequence >= this.sequence) return true
      await delay(tries)
    }
    return false
  }

  #damagedPayload(slot: number, value: Buffer | undefined): DatabaseError {
    const fault = value === undefined ? 'missing' : 'damaged'
    return this.#damaged('database', `the payload of slot ${slot} is ${fault}`)
  }

  #beyondSlots(): DatabaseError {
    return this.#damaged('database', 'there are live slots beyond the recorded slot count')
  }

  #damaged(file: 'database' | 'rows', fault: string): DatabaseError {
    const { files } = this.#tables
    return damaged(files[file], faultIn(files, fault))
  }
}

interface ChangedSlots {
  readonly slots: readonly number[]
  readonly changes: Changes
}

function nothingSince(since: number): ChangedSlots {
  const changes = { since, digest: new PartitionDigest().sum, orders: new Float64Array(0) }
  return { slots: [], changes }
}

/** Reads the rows of these slots, in blocks; adjacent ones at a time. A block is valid until the next one. */
async function* rowsAt(file: FileHandle, dimension: number, slots: readonly number[]): AsyncGenerator<Block> {
  const rowBytes = rowBytesOf(dimension)
  const slotsPerRead = Math.max(1, Math.floor(blockBytes / rowBytes))
  const bytes = Buffer.allocUnsafeSlow(slotsPerRead * rowBytes)
  const rows = rowViews(bytes, dimension)
  for (let from = 0; from < slots.length; from += slotsPerRead) {
    const some = slots.slice(from, from + slotsPerRead)
    const reads: Promise<number>[] = []
    for (let first = 0; first < some.length; ) {
      let end = first + 1
      while (end < some.length && some[end] === some[end - 1]! + 1) end += 1
      const target = bytes.subarray(first * rowBytes, end * rowBytes)
      reads.push(readFully(file, target, rowsHeaderBytes + some[first]! * rowBytes))
      first = end
    }
    const length = (await Promise.all(reads)).reduce((sum, read) => sum + read, 0)
    // Only the last rows of the file can be cut off.
    yield { slots: some, rows, wholeRows: Math.floor(length / rowBytes) }
  }
}

/** Rows of some slots. There are fewer whole rows than slots if the file is cut off. */
interface Block {
  readonly slots: readonly number[]
  readonly rows: readonly RowView[]
  readonly wholeRows: number
}

/** The id of a history that a log numbers: the same on all nodes that apply it. */
function historyOf({ logId, base }: Applied, collection: string): string {
  return idFromBytes(createHash('sha256').update(`${logId} ${base} ${collection}`).digest())
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

/** Some microseconds, or a tenth of a millisecond where records are read. */
const looksPerStep = 32
/** Pauses of up to so many milliseconds: a second altogether. */
const triesMax = 45
/** Large enough for efficient reads. */
const blockBytes = 256 * 1024
