import { idFromBytes } from '../../src/base/ids.ts'
import { type NewRecord, packRecord, recordBytesOf, sealRecord } from '../../src/storage/payload-record.ts'

/** A payload record as the writer stores it. */
export function encodeRecord({ id, ...record }: Omit<NewRecord, 'id'> & { readonly id: Uint8Array }): Buffer {
  const attributeBytes = Buffer.byteLength(record.attributes)
  const value = Buffer.alloc(recordBytesOf(Buffer.byteLength(record.content), attributeBytes))
  packRecord(value, { id: idFromBytes(id), ...record }, attributeBytes)
  sealRecord(value)
  return value
}
