import type { Transaction } from 'lmdb'
import { DatabaseError, damaged } from '../base/errors.ts'
import { idBytes } from '../base/ids.ts'
import { contentTypes } from '../base/point.ts'
import { damagedType, payloadOf, type RecordParts, scanRecord, splitRecord } from './payload-record.ts'
import type { PointRecord, RecordBatch, StoredPlace } from './store.ts'
import type { Table, TableEntry } from './table.ts'
import { type DataTables, faultIn, openTables, type Tables } from './tables.ts'

/** How records of points are read from LMDB's map of the file: see key-layout.ts. */

/**
 * Returns the parts of the record in a slot.
 *
 * @throws DatabaseError `internal` if the record is damaged
 */
export function readRecord(tables: Tables, slot: number, transaction?: Transaction): RecordParts | undefined {
  const value = tables.payloads.getBinary(slot, transaction)
  if (value === undefined) return undefined
  const parts = splitRecord(value)
  if (parts !== undefined) return parts
  throw damagedRecord(tables, `the payload of slot ${slot} does not match its checksum`)
}

/** @throws DatabaseError `internal` if its attributes are damaged */
export function recordOf(tables: Tables, slot: number, parts: RecordParts): PointRecord {
  const { version, order } = parts
  try {
    return { payload: payloadOf(parts), version, order }
  } catch (cause) {
    throw damagedRecord(tables, `the attributes of slot ${slot} are damaged`, cause)
  }
}

export function damagedRecord({ files }: Tables, fault: string, cause?: unknown): DatabaseError {
  return damaged(files.database, faultIn(files, fault), cause)
}

/**
 * The records of all collections as a thread reads them that has nothing else to do with the store. The process has one
 * environment for the file, which stays open as long as a thread has it open.
 */
export class StoredRecords {
  #tables: DataTables | undefined
  #isClosed = false
  readonly #ofCollection = new Map<number, Tables>()

  /** Lets later reads see everything that has been committed before the call. */
  renew(): void {
    this.#tables?.root.resetReadTxn()
  }

  /**
   * Returns the record in a slot; undefined if it is not that of the point with the 16-byte id.
   *
   * @throws DatabaseError if the record is damaged, or the file cannot be read
   */
  read({ dataDir, number, collection }: StoredPlace, slot: number, id: Uint8Array): PointRecord | undefined {
    if (this.#isClosed) throw new DatabaseError('not_ready', 'payloads are read on another thread')
    this.#tables ??= openTables(dataDir)
    let tables = this.#ofCollection.get(number)
    if (tables === undefined) {
      tables = this.#tables.of(number, collection)
      this.#ofCollection.set(number, tables)
    }
    const parts = readRecord(tables, slot)
    return parts?.id.equals(id) ? recordOf(tables, slot, parts) : undefined
  }

  /** Ends reading for good. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#tables?.root.close()
    this.#tables = undefined
  }
}

/** Reads payload records: see `Store.records`. Each step takes well under a millisecond. */
export function* recordBatches(
  payloads: Table,
  from = 0,
  limit: number = Number.POSITIVE_INFINITY,
): Generator<RecordBatch, void> {
  const batch = new Batch()
  let start = from
  for (let left = limit; left > 0 && batch.read(payloads, start, left); left -= batch.count) {
    yield batch
    start = batch.slots[batch.count - 1]! + 1
  }
}

class Batch implements RecordBatch {
  count = 0
  readonly slots: Uint32Array = new Uint32Array(recordsMax)
  readonly ids: Uint8Array = new Uint8Array(recordsMax * idBytes)
  readonly contentTypes: Uint8Array = new Uint8Array(recordsMax)
  readonly versions: Float64Array = new Float64Array(recordsMax)
  readonly orders: Float64Array = new Float64Array(recordsMax)
  readonly expiresAtUs: Float64Array = new Float64Array(recordsMax)
  readonly attributes: (Uint8Array | undefined)[] = []

  /** Reads the next batch. Returns false if there are no more records. */
  read(payloads: Table, start: number, left: number): boolean {
    this.count = 0
    this.attributes.length = 0
    let bytes = 0
    for (const entry of payloads.getRange({ start, limit: Math.min(recordsMax, left) })) {
      this.#add(entry)
      bytes += entry.value.length
      if (bytes >= batchBytes) break
    }
    return this.count > 0
  }

  #add({ key: slot, value }: TableEntry): void {
    const at = this.count
    const parts = scanRecord(value)
    this.slots[at] = slot
    this.ids.set(value.subarray(0, idBytes), at * idBytes)
    this.contentTypes[at] = parts === undefined ? damagedType : contentTypes.indexOf(parts.contentType)
    this.versions[at] = parts?.version ?? Number.NaN
    this.orders[at] = parts?.order ?? Number.NaN
    this.expiresAtUs[at] = parts?.expiresAtUs ?? Number.NaN
    this.attributes[at] = parts === undefined || parts.attributes.length === 0 ? undefined : parts.attributes
    this.count += 1
  }
}

const recordsMax = 256
/** A step ends after so many bytes, because LMDB copies whole values. */
const batchBytes = 256 * 1024
