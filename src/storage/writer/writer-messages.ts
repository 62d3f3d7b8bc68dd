import type { Applied } from '../applied.ts'
import type { Meta } from '../key-layout.ts'
import type { RequestBounds } from '../keyed-requests.ts'
import type { ChangesChoice, JournalRange } from '../store.ts'

/**
 * The messages between the main thread and the writer thread of a data directory, which writes all collections.
 *
 *   main thread                                      writer thread
 *   ───────────                                      ─────────────
 *   new Worker(workerData: WriterSetup) ───────────> opens LMDB
 *        <────────────────────────────────────────── StartedMessage, or RefusedMessage if it cannot; then it ends
 *   OpenMessage ───────────────────────────────────> reads the state of a collection, opens its row file
 *        <────────────────────────────────────────── OpenedMessage, or NotOpenedMessage
 *   GroupPart, GroupPart ... ──────────────────────> checksums and writes each part's rows as they arrive
 *   GroupPart with isLast ─────────────────────────> fdatasync, LMDB transaction and its fsync
 *        <────────────────────────────────────────── CommittedMessage, or FailedMessage
 *   ChangeMessage, about collections ──────────────> files, LMDB transaction and its fsync
 *        <────────────────────────────────────────── ChangedMessage, or NotChangedMessage
 *   ShutMessage ───────────────────────────────────> closes the collection's row file
 *        <────────────────────────────────────────── ShutDoneMessage
 *   CloseMessage ──────────────────────────────────> closes its files and ends
 *   ReleaseMessage, after a fault ─────────────────> closes its files and keeps running
 *        <────────────────────────────────────────── ReleasedMessage
 *
 * A collection has one group at a time. Groups of several collections that are ready at the same time are committed in
 * one transaction. A group is sent in parts, so that neither side blocks its event loop for long: the main thread packs
 * the next part while the writer writes the last one. The buffer of a part is transferred, not copied; the sender does
 * not use a part afterwards.
 */

export interface WriterSetup {
  readonly dataDir: string
  readonly requestBounds: RequestBounds
  /** The most disk space for changes that no backup has stored. */
  readonly changesBytesMax: number
}

export interface OpenMessage {
  readonly kind: 'open'
  readonly collection: number
  readonly name: string
  /** Fixes the dimension of an empty collection. */
  readonly dimension?: number | undefined
}

export interface GroupPart {
  readonly kind: 'part'
  readonly collection: number
  /** Length of each vector, and dimension of the collection from now on; 0 if the part has no rows and fixes none. */
  readonly dimension: number
  /** Rows and records, in the format of group-parts.ts. */
  readonly packed: Uint8Array<ArrayBuffer>
  /** Length of all rows in it. */
  readonly rowsBytes: number
  /** Slots of deleted points, and slots that points with new vectors leave; undefined if there are none. */
  readonly leftSlots: Uint32Array | undefined
  /** In the last part: the keyed requests of the whole group, packed by `packRequests`; undefined if there are none. */
  readonly keyedRequests: Uint8Array<ArrayBuffer> | undefined
  /** In the last part: the state of the replica after the whole group. */
  readonly applied: Applied | undefined
  /** Largest sequence number of the part. */
  readonly sequence: number
  readonly isLast: boolean
}

interface ShutMessage {
  readonly kind: 'shut'
  readonly collection: number
}

/** A change of one entry in the tables of collections. */
export interface EntryChange {
  readonly table: 'catalog' | 'meta'
  readonly key: number
  /** In the table `meta`: the number of the collection. */
  readonly collection?: number
  /** Undefined to remove the entry. */
  readonly value: Uint8Array | undefined
}

/** A change of collections. It is atomic and durable. */
export type CollectionsChange =
  /** Creates the directory of a collection, and its row file if the dimension is given, then changes the entries. */
  | {
      readonly kind: 'create'
      readonly collection: number
      readonly dimension: number | undefined
      readonly entries: readonly EntryChange[]
    }
  | { readonly kind: 'entries'; readonly entries: readonly EntryChange[] }
  /** Removes a limited number of entries of a collection, and with the last entries its record in the catalog. */
  | { readonly kind: 'purge'; readonly collection: number }
  /** Keeps changes from now on, and tells where they are. */
  | ({ readonly kind: 'changes' } & ChangesChoice)

/** A change of collections. Changes are answered in the order of their arrival. */
export interface ChangeMessage {
  readonly kind: 'change'
  readonly change: CollectionsChange
}

interface CloseMessage {
  readonly kind: 'close'
}

/**
 * Asks the thread to close its files but keep running. The package `lmdb` 3.5 writes a few bytes past a buffer when a
 * page cannot be written (`sprintf` of about 105 characters into 100 in `mdb_page_flush`). In tests the process
 * sometimes continued, and sometimes aborted when the thread freed its memory.
 */
interface ReleaseMessage {
  readonly kind: 'release'
}

export type ToWriter = OpenMessage | GroupPart | ShutMessage | ChangeMessage | CloseMessage | ReleaseMessage

/** The state on disk, as of the last commit. */
export interface StoredState {
  readonly databaseId: string
  readonly meta: Meta
  readonly rowFileBytes: number
}

export interface OpenedMessage extends StoredState {
  readonly kind: 'opened'
  readonly collection: number
}

interface StartedMessage {
  readonly kind: 'started'
  /** The disk space of the journal of changes; undefined if none are kept. */
  readonly journalBytes: number | undefined
}

/** Why a file cannot be opened for writing now, if that can pass. */
export type Hindrance = 'files exhausted' | 'read-only'

export interface NotOpenedMessage {
  readonly kind: 'not opened'
  readonly collection: number
  readonly hindrance: Hindrance | undefined
  readonly error: unknown
}

interface RefusedMessage {
  readonly kind: 'refused'
  readonly hindrance: Hindrance | undefined
  readonly error: unknown
}

interface CommittedMessage extends StoredState {
  readonly kind: 'committed'
  readonly journalBytes: number | undefined
  readonly collection: number
}

/**
 * The scope of a failure. `disk full`, `open failed`: later groups can succeed. `collection`: this collection is no
 * longer written. `all`: no collection is written.
 */
export type FailureScope = 'disk full' | 'open failed' | 'collection' | 'all'

interface FailedMessage {
  readonly kind: 'failed'
  readonly collection: number
  readonly scope: FailureScope
  readonly error: unknown
}

export interface ChangedMessage {
  readonly kind: 'changed'
  readonly journalBytes: number | undefined
  /** Whether something is left to purge. */
  readonly isLeft?: boolean
  /** The changes that are kept. */
  readonly range?: JournalRange
}

/** The journal of changes has ended by itself. */
interface JournalEndedMessage {
  readonly kind: 'journal ended'
  readonly reason: string
}

interface NotChangedMessage {
  readonly kind: 'not changed'
  readonly scope: FailureScope
  readonly error: unknown
}

interface ShutDoneMessage {
  readonly kind: 'shut done'
  readonly collection: number
}

interface ReleasedMessage {
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
  | JournalEndedMessage
  | StartedMessage
  | ShutDoneMessage
  | ReleasedMessage
