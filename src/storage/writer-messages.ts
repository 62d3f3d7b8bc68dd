import type { Applied } from './applied.ts'
import type { Meta } from './key-layout.ts'
import type { RequestBounds } from './keyed-requests.ts'
import type { RecordExtras } from './payload-record.ts'

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
  /** Length of each vector, and that of the collection from now on; 0 when the part has no rows and fixes none. */
  readonly dimension: number
  /** Of the rows. */
  readonly slots: Uint32Array
  /** Of points with new vectors: each as key-layout.ts describes it, without its checksum. */
  readonly rows: Uint8Array<ArrayBuffer>
  readonly records: PackedRecords
  /** Of deleted points, and those that points with new vectors leave. */
  readonly leftSlots: Uint32Array
  /** Of the whole group, with its last part: as `packRequests` packs them. */
  readonly keyedRequests: Uint8Array<ArrayBuffer>
  /** Of the whole group, with its last part. */
  readonly applied: Applied | undefined
  /** Largest sequence number of the part. */
  readonly sequence: number
  readonly isLast: boolean
}

/** Payload records to store, by column: see payload-record.ts. */
export interface PackedRecords {
  readonly slots: Uint32Array
  /** 16 bytes each. */
  readonly ids: Uint8Array
  /** Positions in `contentTypes`. */
  readonly contentTypes: Uint8Array
  readonly contents: readonly string[]
  /** Undefined for a plain record; empty if all are plain. */
  readonly extras: readonly (RecordExtras | undefined)[]
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
