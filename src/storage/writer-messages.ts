import { assert } from '../base/assert.ts'
import { contentTypes } from '../base/point.ts'
import { encodeKeyedRequest, keyedRequestBytes, type Meta, packRow, rowBytesOf } from './key-layout.ts'
import type { RequestBounds } from './keyed-requests.ts'
import type { Change, Insertion, KeyedRequest, WriteGroup } from './store.ts'

/**
 * The messages between the main thread and a writer thread. One thread writes the default collection, another one all
 * named collections: each has its own LMDB environment.
 *
 *   main thread                                      writer thread
 *   ───────────                                      ─────────────
 *   new Worker(workerData: WriterSetup) ───────────> opens LMDB
 *        <────────────────────────────────────────── RefusedMessage and the end, when it cannot
 *   OpenMessage ───────────────────────────────────> reads the state of a collection, opens its row file
 *        <────────────────────────────────────────── OpenedMessage, or NotOpenedMessage
 *   GroupPart, GroupPart ... ──────────────────────> checksums and writes each part's rows as it comes
 *   GroupPart with isLast ─────────────────────────> fdatasync, LMDB transaction and its fsync
 *        <────────────────────────────────────────── CommittedMessage, or FailedMessage
 *   ChangeMessage, about collections ──────────────> files, LMDB transaction and its fsync
 *        <────────────────────────────────────────── ChangedMessage, or NotChangedMessage
 *   ShutMessage ───────────────────────────────────> closes the collection's row file
 *        <────────────────────────────────────────── ShutDoneMessage
 *   CloseMessage ──────────────────────────────────> closes its files and ends
 *   ReleaseMessage, after a fault ─────────────────> closes its files and stays
 *        <────────────────────────────────────────── ReleasedMessage
 *
 * One group of a collection at a time; groups of several collections that are ready together are one transaction. A group
 * is sent in parts so that neither side blocks its event loop for long: the main thread packs the next part while the
 * writer writes the last one. Rows are transferred, not copied again; the sender does not use a part afterwards.
 */

export interface WriterSetup {
  readonly dataDir: string
  /** Whether it writes the named collections, and not the default one. */
  readonly isNamed: boolean
  readonly requestBounds: RequestBounds
}

export interface OpenMessage {
  readonly kind: 'open'
  readonly collection: number
  readonly name: string
  /** Fixes the dimension of an empty default collection. */
  readonly dimension?: number | undefined
}

export interface GroupPart {
  readonly kind: 'part'
  readonly collection: number
  /** Length of each vector; 0 when the part has no insertions. */
  readonly dimension: number
  readonly slots: Uint32Array
  /** By insertion: a row as key-layout.ts describes it, without its checksum. */
  readonly rows: Uint8Array<ArrayBuffer>
  /** By insertion: position in `contentTypes`. */
  readonly contentTypes: Uint8Array
  readonly contents: readonly string[]
  readonly deletedSlots: Uint32Array
  /** Of the whole group, with its last part: as key-layout.ts has them, one after the other. */
  readonly keyedRequests: Uint8Array<ArrayBuffer>
  /** Largest sequence number of the part. */
  readonly sequence: number
  readonly isLast: boolean
}

export interface ShutMessage {
  readonly kind: 'shut'
  readonly collection: number
}

/** One entry of a table of named collections: its new value, or its removal. */
export interface EntryChange {
  readonly table: 'catalog' | 'aliases' | 'meta'
  readonly key: number
  /** Whose, in the table `meta`. */
  readonly collection?: number
  readonly value: Uint8Array | undefined
}

/** A change of collections; each is atomic and durable. */
export type CollectionsChange =
  /** To the default collection's thread: stores that named collections exist from now on. */
  | { readonly kind: 'announce' }
  /** Creates a collection's directory, and its row file if the dimension is given, before the entries change. */
  | {
      readonly kind: 'create'
      readonly collection: number
      readonly dimension: number | undefined
      readonly entries: readonly EntryChange[]
    }
  | { readonly kind: 'entries'; readonly entries: readonly EntryChange[] }
  /** Removes a bounded number of entries of a collection; with the last ones, its record in the catalog. */
  | { readonly kind: 'purge'; readonly collection: number }

/** Changes are answered in the order of their arrival. */
export interface ChangeMessage {
  readonly kind: 'change'
  readonly change: CollectionsChange
}

export interface CloseMessage {
  readonly kind: 'close'
}

/**
 * The package `lmdb` 3.5 writes a few bytes past a buffer when a page cannot be written (`sprintf` of about 105 characters into 100
 * in `mdb_page_flush`). In tests the process sometimes continued, and sometimes aborted when the thread freed its memory.
 */
export interface ReleaseMessage {
  readonly kind: 'release'
}

export type ToWriter = OpenMessage | GroupPart | ShutMessage | ChangeMessage | CloseMessage | ReleaseMessage

/** What is on disk, as of the last commit. */
export interface StoredState {
  readonly databaseId: string
  readonly meta: Meta
  readonly rowFileBytes: number
}

export interface OpenedMessage extends StoredState {
  readonly kind: 'opened'
  readonly collection: number
}

export interface NotOpenedMessage {
  readonly kind: 'not opened'
  readonly collection: number
  readonly error: unknown
}

export interface RefusedMessage {
  readonly kind: 'refused'
  readonly error: unknown
}

export interface CommittedMessage extends StoredState {
  readonly kind: 'committed'
  readonly collection: number
}

/** The scope of a failure: later groups can succeed, this collection is not written any more, or none is. */
export type FailureScope = 'disk full' | 'collection' | 'all'

export interface FailedMessage {
  readonly kind: 'failed'
  readonly collection: number
  readonly scope: FailureScope
  readonly error: unknown
}

export interface ChangedMessage {
  readonly kind: 'changed'
  /** Whether nothing is left to purge. */
  readonly isDone: boolean
}

export interface NotChangedMessage {
  readonly kind: 'not changed'
  readonly scope: FailureScope
  readonly error: unknown
}

export interface ShutDoneMessage {
  readonly kind: 'shut done'
  readonly collection: number
}

export interface ReleasedMessage {
  readonly kind: 'released'
}

export type FromWriter =
  | OpenedMessage
  | NotOpenedMessage
  | RefusedMessage
  | CommittedMessage
  | FailedMessage
  | ChangedMessage
  | NotChangedMessage
  | ShutDoneMessage
  | ReleasedMessage

/** Cuts a group into parts of about `partBytesMax`, packing each only when the iteration reaches it. */
export function* partsOf(collection: number, group: WriteGroup): Generator<GroupPart> {
  const { changes, slots } = group
  assert(changes.length > 0, 'a group has changes')
  assert(changes.length === slots.length, 'every change of a group has a slot')
  for (let first = 0; first < changes.length; ) {
    const end = endOfPart(changes, first)
    yield pack(collection, group, first, end)
    first = end
  }
}

function endOfPart(changes: readonly Change[], first: number): number {
  let bytes = 0
  let end = first
  while (end < changes.length && bytes < partBytesMax) {
    const change = changes[end]!
    // A deletion is a number to the writer thread.
    if (change.kind === 'insert') {
      const { vector, payload } = change.point
      bytes += vector.byteLength + payload.content.length + pointWorkBytes
    }
    end += 1
  }
  return end
}

/** The changes from `first` up to `end`, and what goes with the last of the group. */
function pack(
  collection: number,
  { changes, slots, keyedRequests = [] }: WriteGroup,
  first: number,
  end: number,
): GroupPart {
  const insertions: Insertion[] = []
  const insertedSlots: number[] = []
  const deletedSlots: number[] = []
  let sequence = 0
  for (let at = first; at < end; at += 1) {
    const change = changes[at]!
    sequence = Math.max(sequence, change.sequence)
    if (change.kind === 'insert') {
      insertions.push(change)
      insertedSlots.push(slots[at]!)
    } else deletedSlots.push(slots[at]!)
  }
  const isLast = end === changes.length
  const dimension = insertions[0]?.point.vector.length ?? 0
  return {
    kind: 'part',
    collection,
    dimension,
    slots: Uint32Array.from(insertedSlots),
    rows: packRows(insertions, dimension),
    contentTypes: Uint8Array.from(insertions, ({ point }) => contentTypes.indexOf(point.payload.contentType)),
    contents: insertions.map(({ point }) => point.payload.content),
    deletedSlots: Uint32Array.from(deletedSlots),
    keyedRequests: packRequests(isLast ? keyedRequests : []),
    sequence,
    isLast,
  }
}

function packRows(insertions: readonly Insertion[], dimension: number): Uint8Array<ArrayBuffer> {
  const rowBytes = rowBytesOf(dimension)
  // Not from the pool: the buffer is transferred. Not zeroed: every byte is written here or by the writer.
  const rows = Buffer.allocUnsafeSlow(insertions.length * rowBytes)
  for (const [index, { id, sequence, point }] of insertions.entries()) {
    assert(point.vector.length === dimension, 'the vectors of a group have one dimension')
    packRow(rows, index * rowBytes, { id, sequence, vector: point.vector })
  }
  return rows
}

function packRequests(requests: readonly KeyedRequest[]): Uint8Array<ArrayBuffer> {
  const packed = Buffer.allocUnsafeSlow(requests.length * keyedRequestBytes)
  for (const [index, request] of requests.entries()) {
    encodeKeyedRequest(packed, index * keyedRequestBytes, request)
  }
  return packed
}

/** What a point costs besides copying it, in bytes that could be copied meanwhile. */
const pointWorkBytes = 512

/** Packing this much takes under a millisecond; then the event loop has its turn. */
const partBytesMax = 1024 * 1024
