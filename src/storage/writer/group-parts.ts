import { attributesToJson } from '../../base/attributes.ts'
import { assert } from '../../base/errors.ts'
import type { Payload } from '../../base/point.ts'
import { packRow, rowBytesOf } from '../key-layout.ts'
import { packRequests } from '../keyed-requests.ts'
import { type NewRecord, packRecord, recordBytesOf } from '../payload-record.ts'
import type { Change, WriteGroup } from '../store.ts'
import type { GroupPart } from './writer-messages.ts'

/**
 * The two ends of a message with a part of a group: `partsOf` packs, `unpackPart` unpacks. Rows and records are in one
 * buffer, as they are stored, without their checksums:
 *
 *   ├ row ┬ row ┬ ... ┼ slot u32 │ bytes u32 │ whether it has a row u8 │ record ┬ ... ┤
 *
 * Rows are in the order of their records.
 */

/** One part of a group, as the writer thread uses it. */
export interface UnpackedPart
  extends Pick<GroupPart, 'dimension' | 'applied' | 'sequence' | 'packed' | 'rowsBytes'> {
  /** Rows with new vectors, without checksums. */
  readonly rows: Buffer
  /** The slot of each row. */
  readonly rowSlots: Uint32Array
  readonly records: readonly UnpackedRecord[]
  /** Slots of deleted points, and slots that points with new vectors leave. */
  readonly leftSlots: Uint32Array
  readonly keyedRequests: Uint8Array<ArrayBuffer>
}

interface UnpackedRecord {
  readonly slot: number
  /** Without its checksum: see payload-record.ts. */
  readonly value: Buffer
}

/**
 * Divides a group into parts of about `partBytesMax`. Each part is packed only when the iteration reaches it.
 *
 * @throws DatabaseError `request_too_large`, before the iteration begins, if the outcome of a keyed request is too
 *   large
 */
export function partsOf(collection: number, group: WriteGroup): Generator<GroupPart> {
  const { changes, slots, keyedRequests = [], applied } = group
  const isEmpty = changes.length === 0 && keyedRequests.length === 0 && applied === undefined
  assert(!isEmpty, 'a group has changes, a keyed request or a position')
  assert(changes.length === slots.length, 'every change of a group has a slot')
  return packParts(collection, group, packRequests(keyedRequests))
}

function* packParts(
  collection: number,
  { changes, slots, leaving, applied, dimension = 0 }: WriteGroup,
  keyedRequests: Uint8Array<ArrayBuffer>,
): Generator<GroupPart> {
  let at = 0
  do {
    const draft = new PartDraft()
    for (; at < changes.length && draft.bytes < partBytesMax; at += 1) {
      draft.add(changes[at]!, slots[at]!, leaving?.[at])
    }
    const isLast = at === changes.length
    const part = draft.pack()
    yield {
      kind: 'part',
      collection,
      ...part,
      dimension: part.dimension || dimension,
      keyedRequests: isLast && keyedRequests.length > 0 ? keyedRequests : undefined,
      applied: isLast ? applied : undefined,
      isLast,
    }
  } while (at < changes.length)
}

/** Collects the data to write for some changes. */
class PartDraft {
  /** The cost of packing this part, in bytes that could be copied in the same time. */
  bytes = 0
  readonly #records: DraftRecord[] = []
  readonly #leftSlots: number[] = []
  #recordsBytes = 0
  #dimension = 0
  #rowCount = 0
  #sequence = 0

  add(change: Change, slot: number, leaving: number | undefined): void {
    const { id, sequence } = change
    this.#sequence = Math.max(this.#sequence, sequence)
    if (leaving !== undefined) this.#leftSlots.push(leaving)
    if (change.kind === 'delete') {
      this.#leftSlots.push(slot)
      this.bytes += deletionWorkBytes
    } else if (change.kind === 'insert') {
      const { vector, payload } = change.point
      const { version = sequence, order = sequence } = change
      this.#sequence = Math.max(this.#sequence, version)
      this.#addRecord({ slot, id, sequence, version, order, vector, payload })
    } else {
      const { payload, vector, order } = change
      assert(
        (vector === undefined) === (leaving === undefined),
        'a point with another vector gets another slot',
      )
      this.#addRecord({ slot, id, sequence, version: sequence, order, vector, payload })
    }
  }

  pack(): Omit<GroupPart, 'kind' | 'collection' | 'keyedRequests' | 'applied' | 'isLast'> {
    return {
      dimension: this.#dimension,
      packed: this.#packed(),
      rowsBytes: this.#rowCount * rowBytesOf(this.#dimension),
      leftSlots: this.#leftSlots.length === 0 ? undefined : Uint32Array.from(this.#leftSlots),
      sequence: this.#sequence,
    }
  }

  #addRecord({ slot, sequence, vector, payload, ...numbers }: Placed): void {
    const { contentType, content, expiresAtUs = Number.NaN } = payload
    const attributes = payload.attributes === undefined ? '' : attributesToJson(payload.attributes)
    const attributeBytes = Buffer.byteLength(attributes)
    const bytes = recordBytesOf(Buffer.byteLength(content), attributeBytes)
    const record = { ...numbers, contentType, content, expiresAtUs, attributes }
    this.#records.push({ slot, record, attributeBytes, bytes, sequence, vector })
    this.#recordsBytes += headBytes + bytes
    this.bytes += bytes + pointWorkBytes
    if (vector === undefined) return
    assert(
      this.#rowCount === 0 || vector.length === this.#dimension,
      'the vectors of a group have one dimension',
    )
    this.#dimension = vector.length
    this.#rowCount += 1
    this.bytes += vector.byteLength
  }

  #packed(): Uint8Array<ArrayBuffer> {
    const rowBytes = rowBytesOf(this.#dimension)
    let rowAt = 0
    let at = this.#rowCount * rowBytes
    // Not from the pool, because the buffer is transferred. Not zeroed, because this code or the writer sets every
    // byte.
    const packed = Buffer.allocUnsafeSlow(at + this.#recordsBytes)
    for (const { slot, record, attributeBytes, bytes, sequence, vector } of this.#records) {
      packed.writeUInt32LE(slot, at)
      packed.writeUInt32LE(bytes, at + 4)
      packed[at + hasRowAt] = vector === undefined ? 0 : 1
      at += headBytes
      packRecord(packed.subarray(at, at + bytes), record, attributeBytes)
      at += bytes
      if (vector === undefined) continue
      packRow(packed, rowAt, { id: record.id, sequence, vector })
      rowAt += rowBytes
    }
    return packed
  }
}

/** A point to store in a slot. */
interface Placed extends Pick<NewRecord, 'id' | 'version' | 'order'> {
  readonly slot: number
  readonly sequence: number
  /** Undefined if the point keeps its row. */
  readonly vector: Float32Array | undefined
  readonly payload: Payload
}

interface DraftRecord extends Pick<Placed, 'slot' | 'sequence' | 'vector'> {
  readonly record: NewRecord
  readonly attributeBytes: number
  /** Length of the record. */
  readonly bytes: number
}

/** Unpacks a part, as views of its buffer. */
export function unpackPart(part: GroupPart): UnpackedPart {
  const { packed, rowsBytes, dimension, applied, sequence } = part
  const { leftSlots = noSlots, keyedRequests = noBytes } = part
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength)
  const slotsWithRows: number[] = []
  const records: UnpackedRecord[] = []
  let at = rowsBytes
  while (at < bytes.length) {
    const slot = bytes.readUInt32LE(at)
    const valueAt = at + headBytes
    if (bytes[at + hasRowAt] === 1) slotsWithRows.push(slot)
    at = valueAt + bytes.readUInt32LE(at + 4)
    records.push({ slot, value: bytes.subarray(valueAt, at) })
  }
  assert(at === bytes.length, 'the records of a part fill its buffer')
  assert(slotsWithRows.length * rowBytesOf(dimension) === rowsBytes, 'a part has the rows of its records')
  const rowSlots = Uint32Array.from(slotsWithRows)
  const rows = bytes.subarray(0, rowsBytes)
  const unpacked = { dimension, rows, rowSlots, records, leftSlots, keyedRequests, applied, sequence }
  return { ...unpacked, packed, rowsBytes }
}

const noSlots = new Uint32Array()
const noBytes = new Uint8Array()

const hasRowAt = 8
/** Bytes before a record. */
const headBytes: number = hasRowAt + 1

/** The cost of a point in addition to copying it, in bytes that could be copied in the same time. */
const pointWorkBytes = 512

/** The cost of a deletion, for which the writer thread only gets a number. */
const deletionWorkBytes = 16

/** Packing so many bytes takes under a millisecond; then the event loop has a turn. */
const partBytesMax = 1024 * 1024
