import type { CollectionSettings, HnswSettings } from '../base/collection.ts'
import type { Reason } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { NewPoint, Payload } from '../base/point.ts'
import type { Applied } from './applied.ts'

/**
 * What the engine asks of durable storage. A point lives in a slot: a small dense integer that the engine
 * assigns and reuses when the point has left it. `sequence` numbers are the engine's only notion of time: every
 * change gets a higher one than the change before it. Three of them belong to a point: the sequence number of its
 * row, of the change that wrote its vector; its version, of its last change; and its order, of its insertion. Numbers
 * of changes that were refused are missing: nothing may count on the next one being one higher.
 */
export interface Store {
  /** Fixed by the first insertion ever committed; undefined before. */
  readonly dimension: number | undefined
  /** Of the history that the sequence number counts: chosen at random when a store is created, restored or repaired. */
  readonly databaseId: string
  /** Sequence number of the last committed change; 0 for an empty store. */
  readonly sequence: number
  /** What is applied of a cluster's log, as of the last commit; undefined for what was never on a node of one. */
  readonly applied: Applied | undefined
  /** Slots that were ever used: every live slot is below it. */
  readonly slotCount: number
  /**
   * Bytes on disk, for people: a recent figure, not an exact one. Of a named collection its vectors alone, because the
   * rest is in a file that all share.
   */
  readonly diskBytes: number

  /** Where a slot's vector is on disk, for readers of single vectors. */
  vectorsOnDisk(dimension: number): VectorsOnDisk

  /**
   * Where every live point is on disk now, for `readRows`; undefined before the first insertion.
   *
   * @throws DatabaseError `internal` that names what is damaged
   */
  rows(): StoredRows | undefined

  /**
   * Makes one group of changes durable, whole or not at all. One call at a time. After the returned promise
   * has resolved nothing in the group can be lost; when it rejects, none of it is stored.
   *
   * @throws DatabaseError `disk_full`, after which later calls may succeed; any other error means that the
   *   disk can no longer be trusted, and every later commit is refused until the store is reopened
   */
  commit(group: WriteGroup): Promise<void>

  /**
   * The newest request that was committed under a key with this hash, unless it has been removed: see `KeyedRequest`.
   *
   * @throws DatabaseError that names what is damaged, or what `commit` throws once the disk cannot be trusted
   */
  keyedRequest(keyHash: Uint8Array): KeyedRequest | undefined

  /** Keyed requests on disk, expired ones included. */
  readonly keyedRequestCount: number
  /** As many can be committed together, however large, before the oldest has to go. */
  readonly keyedRequestRoom: number

  /**
   * The record of the point with this id if it lives in `slot`; read synchronously. While a commit that changes or removes
   * points is under way, as it was before; from the moment when `commit` resolves, as it is then.
   *
   * @throws DatabaseError `internal` when it is damaged
   */
  record(slot: number, id: string): PointRecord | undefined

  /** Whether any point has ever had more than a content: if not, no record has attributes, expiry, version or order. */
  readonly hasExtendedRecords: boolean

  /**
   * What the records of points have besides contents, in the order of slots, a bounded number at each step; for a store that
   * nothing is committed to meanwhile. A batch is overwritten by the next one.
   *
   * @param from the first slot; 0 by default
   * @param limit of points; all by default
   */
  records(from?: number, limit?: number): Generator<RecordBatch, void>

  /**
   * Opens a snapshot of what is committed now. While it is open, no slot that it shows may be given to another
   * point, and LMDB keeps the pages that it shows: the caller sees to the one and closes it soon.
   *
   * @param onClose called once, when it is closed: by its reader or, when nothing can be read any more, here
   */
  snapshot(onClose: () => void): Snapshot

  /** Waits for a running commit, closes open snapshots and releases the data directory. */
  close(): Promise<void>
}

/** All points as they were at one sequence number: exactly the changes up to it. */
export interface Snapshot {
  /** Of the history that the sequence number counts. */
  readonly databaseId: string
  readonly sequence: number
  readonly dimension: number | undefined
  readonly points: number
  /**
   * The bytes, as snapshot-format.ts has them, read as they are asked for; to be gone through once. Everything
   * is verified before it is passed on.
   *
   * @param part absent: all points
   * @throws DatabaseError `internal` that names what is damaged; `cancelled` after `close`
   */
  chunks(part?: SnapshotPart): AsyncGenerator<Buffer>
  /** On a node of a cluster: what these points are the result of. */
  readonly applied: Applied | undefined
  readonly keyedRequestCount: number
  /** The records of the requests with keys, the oldest first, those included that are too old to be recognized. */
  keyedRequests(): AsyncGenerator<Buffer>
  /** Lets go of everything; harmless to repeat. The reader has to call it however reading went. */
  close(): void
}

/** Some of the points of a snapshot. */
export interface SnapshotPart {
  readonly partitions: PartitionSet
  /** How many there are in those. */
  readonly points: number
}

/** A file in which the vector of slot n starts at `firstVector + n * rowBytes`: little-endian float32. */
export interface VectorsOnDisk {
  readonly path: string
  readonly firstVector: number
  readonly rowBytes: number
}

/** The live points in the row file; other threads can be told of them. */
export interface StoredRows {
  readonly path: string
  readonly dimension: number
  readonly slotCount: number
  /** Of the last committed change: no row has a later one. */
  readonly sequence: number
  /** Bit (slot & 7) of byte slot >> 3 is set for a live slot; in memory that threads share. */
  readonly live: Uint8Array
}

/** What is stored of a point besides its row. */
export interface PointRecord {
  readonly payload: Payload
  /** Undefined if it is the sequence number of the row. */
  readonly version: number | undefined
  /** Undefined if it is the sequence number of the row. */
  readonly order: number | undefined
}

/** Some of the records of a store, by column: entry n of each is that of the same point. */
export interface RecordBatch {
  readonly count: number
  readonly slots: Uint32Array
  /** 16 bytes each. */
  readonly ids: Uint8Array
  /**
   * Positions in `contentTypes`; `damagedType` of payload-record.ts for a record of which nothing else is
   * known: reading it names the damage.
   */
  readonly contentTypes: Uint8Array
  /** NaN where it is the sequence number of the row. */
  readonly versions: Float64Array
  /** NaN where it is the sequence number of the row. */
  readonly orders: Float64Array
  /** In microseconds since 1970; NaN where a point does not expire. */
  readonly expiresAtUs: Float64Array
  /** Canonical JSON in UTF-8, which `attributesFromJson` reads; undefined where a point has none. */
  readonly attributes: readonly (Uint8Array | undefined)[]
}

export interface StoredRow {
  readonly slot: number
  /** 16 bytes. */
  readonly id: Uint8Array
  /** Sequence number of the change that wrote the vector. */
  readonly sequence: number
  readonly vector: Float32Array
}

/**
 * What happens to one point, and when: decided once, and the same wherever it is carried out. Where the point is kept
 * is not part of it: that is its slot, which is chosen again each time the change is tried.
 */
export type Change = Insertion | Update | Deletion

/** `change.id` counts, whatever id the point asks for. */
export interface Insertion {
  readonly kind: 'insert'
  /** Lower-case UUID. */
  readonly id: string
  readonly sequence: number
  readonly point: NewPoint
  /** Of a point that is restored: the number of its last change; absent: `sequence`. */
  readonly version?: number
  /** Of a point that is restored: the number of its first insertion; absent: `sequence`. */
  readonly order?: number
}

/** A change of a stored point; its version is `sequence`. */
export interface Update {
  readonly kind: 'update'
  readonly id: string
  readonly sequence: number
  /** Which the point keeps. */
  readonly order: number
  /** All of it, what stays as it was too. */
  readonly payload: Payload
  /** With a vector, the point gets another slot; without one, it keeps its own. */
  readonly vector: Float32Array | undefined
}

export interface Deletion {
  readonly kind: 'delete'
  readonly id: string
  readonly sequence: number
}

/**
 * An insert that its caller gave a key, so that a repetition is answered and not done again. Removed when it is
 * older than a key's life, or when there are too many: the oldest first.
 */
export interface KeyedRequest {
  readonly keyHash: Uint8Array
  /** Of what was to be stored. */
  readonly bodyHash: Uint8Array
  /** `idsFromSeed` gives the ids of its points. */
  readonly idSeed: Uint8Array
  /** Whether these ids begin with the first byte of the seed: those of a cluster. */
  readonly isPartitioned?: boolean
  readonly points: number
  /** By the clock, in milliseconds since 1970. */
  readonly acceptedMs: number
  /** How each of its points ended; absent when all were stored under ids from the seed. */
  readonly outcome?: readonly ItemOutcome[]
}

/**
 * How one point of a keyed request ended: null when it was stored under the id from the seed at its position; its id, in
 * lower case, if its caller chose it or it was drawn without a seed; or why it was refused.
 */
export type ItemOutcome = null | string | { readonly reason: Reason; readonly message: string }

/** Changes that become durable together: at least one, or a keyed request or a position without any. */
export interface WriteGroup {
  readonly changes: readonly Change[]
  /** The placement of each change: the slot that its point gets, keeps or leaves. The row of a point follows from its slot. */
  readonly slots: readonly number[]
  /**
   * By change: the slot that a point leaves which gets another one, as an update with a vector does. No slot occurs twice
   * in a group, those that are left included.
   */
  readonly leaving?: readonly (number | undefined)[]
  /** Of those requests whose insertions have a key. */
  readonly keyedRequests?: readonly KeyedRequest[]
  /** On a node of a cluster: what is applied of the log after these changes. */
  readonly applied?: Applied | undefined
  /** Fixed with the group, also where it has no points: on a node of a cluster, those of the first insertion can be elsewhere. */
  readonly dimension?: number | undefined
}

/** A named collection as it was created. */
export interface CollectionRecord {
  /** Never that of another collection, also after this one is dropped. */
  readonly number: number
  readonly name: string
  /** As given when it was created; undefined when its first insertion fixes it. */
  readonly dimension: number | undefined
  readonly hnsw: HnswSettings
  readonly createdMs: number
}

/** What a collection is created with. */
export interface NewCollection extends Partial<CollectionSettings> {
  readonly name: string
}

/** What a collection holds, as committed. */
export interface CollectionSummary {
  readonly dimension: number | undefined
  readonly points: number
  /** The bytes of a `PartitionDigest`; undefined for one that has applied nothing of the log of a cluster. */
  readonly digest: Uint8Array | undefined
}

/**
 * Everything that a data directory holds. Names are checked by the caller: their syntax, that those given exist, and
 * that no alias has the name of a collection.
 */
export interface DataStore {
  /** The default collection; `close` of the data store closes it. */
  readonly main: Store
  /** Named collections by name, as committed. */
  readonly collections: ReadonlyMap<string, CollectionRecord>
  /** By alias the name of its collection, which may be `defaultCollection`. */
  readonly aliases: ReadonlyMap<string, string>
  /** Bytes on disk of all collections, for people: a recent figure, not an exact one. */
  readonly diskBytes: number

  /**
   * Makes a collection, durable when this resolves; whole or not at all whatever happens before.
   *
   * @throws DatabaseError `disk_full`, when nothing was made; any other error means that the disk can no longer be
   *   trusted, and named collections are not written until a restart
   */
  create(settings: NewCollection): Promise<CollectionRecord>

  /**
   * Removes a collection and the aliases of it, durable when this resolves. The caller has closed its store. Its points
   * go afterwards, in pieces between the commits of others, and after a crash from the next start on.
   *
   * @throws DatabaseError as `create`
   */
  drop(name: string): Promise<void>

  /**
   * Sets aliases, by alias the name of the collection, and removes others, in one commit.
   *
   * @throws DatabaseError as `create`
   */
  setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void>

  /**
   * Opens a collection's points; reads nothing of other collections. One store of a collection at a time.
   *
   * @throws DatabaseError that says what is damaged
   */
  open(number: number): Promise<Store>

  /**
   * What a collection holds, as committed; for one that is not open.
   *
   * @throws DatabaseError when its record is damaged
   */
  summary(number: number): CollectionSummary

  /** Where the index of a named collection goes; removed with the collection. */
  indexDirectory(number: number): string

  /** Waits for running commits, closes all stores and releases the data directory. */
  close(): Promise<void>
}
