import { assert } from '../base/assert.ts'
import { idBytes, writeIdBytes } from '../base/ids.ts'
import { contentTypes, type Payload } from '../base/point.ts'
import { packRow, rowBytesOf } from './key-layout.ts'
import { extrasOf, type RecordExtras } from './payload-record.ts'
import { packRequests } from './request-record.ts'
import type { Change, WriteGroup } from './store.ts'
import type { GroupPart, PackedRecords } from './writer-messages.ts'

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
    const { packed } = draft
    yield {
      kind: 'part',
      collection,
      ...packed,
      dimension: packed.dimension || dimension,
      keyedRequests: isLast ? keyedRequests : new Uint8Array(),
      applied: isLast ? applied : undefined,
      isLast,
    }
  } while (at < changes.length)
}

/** Collects the data to write for some changes. */
class PartDraft {
  /** The cost of packing this part, in bytes that could be copied in the same time. */
  bytes = 0
  readonly #rows: { readonly slot: number; readonly row: Row }[] = []
  readonly #records: { readonly slot: number; readonly id: string; readonly payload: Payload }[] = []
  /** Extras by record; empty if no record has any. */
  readonly #extras: (RecordExtras | undefined)[] = []
  readonly #leftSlots: number[] = []
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
      this.#addRow(slot, { id, sequence, vector })
      this.#addRecord(slot, id, payload, extrasOf(payload, sequence, version, order))
    } else {
      const { payload, vector, order } = change
      assert(
        (vector === undefined) === (leaving === undefined),
        'a point with another vector gets another slot',
      )
      if (vector !== undefined) this.#addRow(slot, { id, sequence, vector })
      // A row that stays has an older sequence number, so the record must contain all numbers.
      const row = vector === undefined ? 0 : sequence
      this.#addRecord(slot, id, payload, extrasOf(payload, row, sequence, order))
    }
  }

  get packed(): Omit<GroupPart, 'kind' | 'collection' | 'keyedRequests' | 'applied' | 'isLast'> {
    const dimension = this.#rows[0]?.row.vector.length ?? 0
    return {
      dimension,
      slots: Uint32Array.from(this.#rows, ({ slot }) => slot),
      rows: this.#packRows(dimension),
      records: this.#packRecords(),
      leftSlots: Uint32Array.from(this.#leftSlots),
      sequence: this.#sequence,
    }
  }

  #addRow(slot: number, row: Row): void {
    this.#rows.push({ slot, row })
    this.bytes += row.vector.byteLength
  }

  #addRecord(slot: number, id: string, payload: Payload, extras: RecordExtras | undefined): void {
    if (extras !== undefined) this.#extras[this.#records.length] = extras
    this.#records.push({ slot, id, payload })
    this.bytes += payload.content.length + (extras?.attributes.length ?? 0) + pointWorkBytes
  }

  #packRows(dimension: number): Uint8Array<ArrayBuffer> {
    const rowBytes = rowBytesOf(dimension)
    // Not from the pool, because the buffer is transferred. Not zeroed, because this code or the writer sets every
    // byte.
    const packed = Buffer.allocUnsafeSlow(this.#rows.length * rowBytes)
    for (const [index, { row }] of this.#rows.entries()) {
      assert(row.vector.length === dimension, 'the vectors of a group have one dimension')
      packRow(packed, index * rowBytes, row)
    }
    return packed
  }

  #packRecords(): PackedRecords {
    const records = this.#records
    const ids = new Uint8Array(records.length * idBytes)
    for (const [index, { id }] of records.entries()) writeIdBytes(id, ids, index * idBytes)
    return {
      slots: Uint32Array.from(records, ({ slot }) => slot),
      ids,
      contentTypes: Uint8Array.from(records, ({ payload }) => contentTypes.indexOf(payload.contentType)),
      contents: records.map(({ payload }) => payload.content),
      extras: this.#extras,
    }
  }
}

interface Row {
  readonly id: string
  readonly sequence: number
  readonly vector: Float32Array
}

/** The cost of a point in addition to copying it, in bytes that could be copied in the same time. */
const pointWorkBytes = 512

/** The cost of a deletion, for which the writer thread only gets a number. */
const deletionWorkBytes = 16

/** Packing so many bytes takes under a millisecond; then the event loop has a turn. */
const partBytesMax = 1024 * 1024
