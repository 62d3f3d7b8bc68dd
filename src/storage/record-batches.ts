import { idBytes } from '../base/ids.ts'
import { isExtended, plainTypeOf, splitRecord, typeNumberOf } from './payload-record.ts'
import type { RecordBatch } from './store.ts'
import type { Table, TableEntry } from './table.ts'

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
    const extras = isExtended(value) ? splitRecord(value)?.extras : undefined
    this.slots[at] = slot
    this.ids.set(value.subarray(0, idBytes), at * idBytes)
    this.contentTypes[at] = extras === undefined ? plainTypeOf(value) : typeNumberOf(value)
    this.versions[at] = extras?.version ?? Number.NaN
    this.orders[at] = extras?.order ?? Number.NaN
    this.expiresAtUs[at] = extras?.expiresAtUs ?? Number.NaN
    this.attributes[at] =
      extras === undefined || extras.attributes.length === 0 ? undefined : extras.attributes
    this.count += 1
  }
}

const recordsMax = 256
/** A step ends after so many bytes, because LMDB copies whole values. */
const batchBytes = 256 * 1024
