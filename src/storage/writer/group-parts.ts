import { attributesToJson } from '../../base/attribute-json.ts'
import { assert } from '../../base/errors.ts'
import { idBytes, writeIdBytes } from '../../base/ids.ts'
import { contentTypes, type Payload } from '../../base/point.ts'
import { packRow, rowBytesOf } from '../key-layout.ts'
import { packRequests } from '../keyed-requests.ts'
import type { NewRecord } from '../payload-record.ts'
import type { Change, WriteGroup } from '../store.ts'
import type { GroupPart } from './writer-messages.ts'

/**
 * The two ends of a message with a part of a group: `partsOf` packs, `unpackPart` unpacks. The numbers, ids and vectors
 * of a part are in one buffer, because each additional array in a message costs both threads a microsecond or two:
 *
 *   ├ row ┬ row ┬ ... ┼ head ┬ head ┬ ... ┤
 *
 *   row    of a record with a new vector: see key-layout.ts; without its checksum
 *   head   of each record │ id 16 │ slot u32 │ content type u8 │ whether the record has a row u8 │
 *          version f64 │ order f64 │ expires f64 │
 *
 * Rows are in the order of their records.
 */

/** One part of a group, as the writer thread uses it. */
export interface UnpackedPart extends Pick<GroupPart, 'dimension' | 'applied' | 'sequence'> {
  /** Rows with new vectors, without checksums. */
  readonly rows: Buffer
  /** The slot of each row. */
  readonly rowSlots: Uint32Array
  readonly records: readonly UnpackedRecord[]
  /** Slots of deleted points, and slots that points with new vectors leave. */
  readonly leftSlots: Uint32Array
  readonly keyedRequests: Uint8Array<ArrayBuffer>
}

/** A payload record to store: see payload-record.ts. */
export interface UnpackedRecord extends NewRecord {
  readonly slot: number
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
    const records = this.#records
    return {
      dimension: this.#dimension,
      packed: this.#packRecords(),
      contents: records.map(({ payload }) => payload.content),
      attributes: records.some(({ attributes }) => attributes !== '')
        ? records.map(({ attributes }) => attributes)
        : undefined,
      leftSlots: this.#leftSlots.length === 0 ? undefined : Uint32Array.from(this.#leftSlots),
      sequence: this.#sequence,
    }
  }

  #addRecord(record: Omit<DraftRecord, 'attributes'>): void {
    const { vector, payload } = record
    const attributes = payload.attributes === undefined ? '' : attributesToJson(payload.attributes)
    this.#records.push({ ...record, attributes })
    this.bytes += payload.content.length + attributes.length + pointWorkBytes
    if (vector === undefined) return
    assert(
      this.#rowCount === 0 || vector.length === this.#dimension,
      'the vectors of a group have one dimension',
    )
    this.#dimension = vector.length
    this.#rowCount += 1
    this.bytes += vector.byteLength
  }

  #packRecords(): Uint8Array<ArrayBuffer> {
    const rowBytes = rowBytesOf(this.#dimension)
    let rowAt = 0
    let headAt = this.#rowCount * rowBytes
    // Not from the pool, because the buffer is transferred. Not zeroed, because this code or the writer sets every
    // byte.
    const packed = Buffer.allocUnsafeSlow(headAt + this.#records.length * headBytes)
    for (const { slot, id, sequence, version, order, vector, payload } of this.#records) {
      writeIdBytes(id, packed, headAt)
      packed.writeUInt32LE(slot, headAt + slotAt)
      packed[headAt + typeAt] = contentTypes.indexOf(payload.contentType)
      packed[headAt + hasRowAt] = vector === undefined ? 0 : 1
      packed.writeDoubleLE(version, headAt + versionAt)
      packed.writeDoubleLE(order, headAt + orderAt)
      packed.writeDoubleLE(payload.expiresAtUs ?? Number.NaN, headAt + expiresAt)
      headAt += headBytes
      if (vector === undefined) continue
      packRow(packed, rowAt, { id, sequence, vector })
      rowAt += rowBytes
    }
    return packed
  }
}

interface DraftRecord {
  readonly slot: number
  readonly id: string
  readonly sequence: number
  readonly version: number
  readonly order: number
  /** Undefined if the point keeps its row. */
  readonly vector: Float32Array | undefined
  readonly payload: Payload
  /** Canonical JSON; empty: none. */
  readonly attributes: string
}

/** Unpacks a part, as views of its buffer. */
export function unpackPart(part: GroupPart): UnpackedPart {
  const { packed, contents, attributes, dimension, applied, sequence } = part
  const { leftSlots = noSlots, keyedRequests = noBytes } = part
  const bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength)
  const headsAt = bytes.length - contents.length * headBytes
  const slotsWithRows: number[] = []
  const records = contents.map((content, index): UnpackedRecord => {
    const at = headsAt + index * headBytes
    const slot = bytes.readUInt32LE(at + slotAt)
    if (bytes[at + hasRowAt] === 1) slotsWithRows.push(slot)
    return {
      slot,
      id: bytes.subarray(at, at + idBytes),
      contentType: bytes[at + typeAt]!,
      content,
      version: bytes.readDoubleLE(at + versionAt),
      order: bytes.readDoubleLE(at + orderAt),
      expiresAtUs: bytes.readDoubleLE(at + expiresAt),
      attributes: attributes?.[index] ?? '',
    }
  })
  const rowSlots = Uint32Array.from(slotsWithRows)
  const rows = bytes.subarray(0, headsAt)
  return { dimension, rows, rowSlots, records, leftSlots, keyedRequests, applied, sequence }
}

const noSlots = new Uint32Array()
const noBytes = new Uint8Array()

const slotAt: number = idBytes
const typeAt: number = slotAt + 4
const hasRowAt: number = typeAt + 1
const versionAt: number = hasRowAt + 1
const orderAt: number = versionAt + 8
const expiresAt: number = orderAt + 8
const headBytes: number = expiresAt + 8

/** The cost of a point in addition to copying it, in bytes that could be copied in the same time. */
const pointWorkBytes = 512

/** The cost of a deletion, for which the writer thread only gets a number. */
const deletionWorkBytes = 16

/** Packing so many bytes takes under a millisecond; then the event loop has a turn. */
const partBytesMax = 1024 * 1024
