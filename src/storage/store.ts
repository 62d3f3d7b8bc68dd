import type { Attributes } from '../base/attributes.ts'
import type { CollectionSettings, HnswSettings, WordSettings } from '../base/collection.ts'
import type { Reason } from '../base/errors.ts'
import type { PartitionSet } from '../base/partitions.ts'
import type { NewPoint, Payload } from '../base/point.ts'
import type { Quotas } from '../base/quotas.ts'
import type { Applied } from './applied.ts'

/**
 * The durable storage of one collection, as the engine uses it.
 *
 * A point is in a slot: a small dense integer that the engine assigns, and reuses after the point has left it.
 *
 * `sequence` numbers are the engine's only notion of time: every change gets a higher number than the change before. A
 * point has three: the sequence number of its row, from the change that wrote its vector; its version, from its last
 * change; and its order, from its insertion. Numbers of refused changes are missing, so do not rely on consecutive
 * numbers.
 */
export interface Store {
  /** Fixed by the first committed insertion; undefined before. */
  readonly dimension: number | undefined
  /**
   * Id of the history that the sequence number counts: random, chosen when a store is created, restored or repaired.
   */
  readonly databaseId: string
  /** Sequence number of the last committed change; 0 for an empty store. */
  readonly sequence: number
  /** The state of a replica, as of the last commit; undefined if the collection was never on a node of a cluster. */
  readonly applied: Applied | undefined
  /** Number of slots that were ever used. Every live slot is below it. */
  readonly slotCount: number
  /** Bytes of its vectors on disk, as of the last commit. The rest is in a file that all collections share. */
  readonly diskBytes: number

  /** Where other threads of the process find the records of points. */
  readonly place: StoredPlace

  /** The place of vectors on disk, for readers of single vectors. */
  vectorsOnDisk(dimension: number): VectorsOnDisk

  /**
   * The place of every live point on disk now, for `readRows`; undefined before the first insertion.
   *
   * @throws DatabaseError `internal` that names the damage
   */
  rows(): StoredRows | undefined

  /**
   * Makes one group of changes durable, completely or not at all. Only one call at a time. When the returned promise
   * resolves, nothing of the group can be lost; when it rejects, nothing of it is stored.
   *
   * @throws DatabaseError `disk_full`, after which later calls may succeed. Any other error means that the disk can no
   *   longer be trusted, and every later commit is refused until the store is reopened
   */
  commit(group: WriteGroup): Promise<void>

  /**
   * The newest request that was committed with a key of this hash, unless it has been removed: see `KeyedRequest`.
   *
   * @throws DatabaseError that names the damage, or the error of `commit` if the disk can no longer be trusted
   */
  keyedRequest(keyHash: Uint8Array): KeyedRequest | undefined

  /** Number of keyed requests on disk, including expired ones. */
  readonly keyedRequestCount: number
  /** How many requests, however large, can be committed together without the removal of the oldest. */
  readonly keyedRequestRoom: number

  /**
   * Reads synchronously the record of the point with this id, if it is in `slot`. During a commit that changes or
   * removes points, returns the record from before the commit; from the moment when `commit` resolves, the new one.
   *
   * @throws DatabaseError `internal` if the record is damaged
   */
  record(slot: number, id: string): PointRecord | undefined

  /**
   * Reads the records of points, without contents, in the order of slots, a limited number in each step. Nothing may be
   * committed to the store at the same time. A batch is overwritten by the next one.
   *
   * @param from the first slot; 0 by default
   * @param limit the most points; all by default
   */
  records(from?: number, limit?: number): Generator<RecordBatch, void>

  /**
   * Opens a snapshot of the committed state. While it is open, the caller must not reuse its slots for other points.
   * The caller should close it soon, because LMDB keeps all its pages until then.
   *
   * @param onClose called once when it is closed: by its reader, or by the store when reading is no longer possible
   * @param known what the caller has in memory
   */
  snapshot(onClose: () => void, known?: KnownPoints): Snapshot

  /** Waits for a running commit, closes open snapshots and releases the data directory. */
  close(): Promise<void>
}

/** All points at one sequence number: with exactly the changes up to it. */
export interface Snapshot {
  /** Id of the history that the sequence number counts: in a cluster, the same on all nodes. */
  readonly databaseId: string
  readonly sequence: number
  readonly dimension: number | undefined
  readonly points: number
  /**
   * The bytes of the snapshot in the format of snapshot-format.ts. Iterate once. They are read when they are needed,
   * and verified before they are passed on.
   *
   * @param choice absent: all points
   * @throws DatabaseError `internal` that names the damage; `cancelled` after `close`
   */
  chunks(choice?: SnapshotChoice): AsyncGenerator<Buffer>
  /** Counts the points with attributes that pass a test. */
  count(matches: AttributesTest): Promise<number>
  /** On a node of a cluster: the state of the replica with these points. */
  readonly applied: Applied | undefined
  readonly keyedRequestCount: number
  /** The records of keyed requests, the oldest first, including expired ones. */
  keyedRequests(): AsyncGenerator<Buffer>
  /** Releases all resources. Idempotent. The reader must always call it, also after an error. */
  close(): void
}

/** What is known in memory of the points in slots, so that not every record has to be read. */
export interface KnownPoints {
  /** All stored changes up to this sequence number have taken effect here. */
  readonly sequence: number
  /** Whether the slot has a point with the numbers below. */
  isVisible(slot: number): boolean
  versionOf(slot: number): number
  orderOf(slot: number): number
  /** Writes the 16-byte id of its point. */
  copyId(slot: number, target: Uint8Array, at: number): void
}

/** Which points a reader of a snapshot needs. */
export interface SnapshotChoice {
  /**
   * Only those that changed after this moment, and the orders of all. The stream has all points if it is not an earlier
   * moment of the same history.
   */
  readonly since?: Moment | undefined
  readonly part?: SnapshotPart | undefined
}

/** A sequence number in a history. */
export interface Moment {
  readonly databaseId: string
  readonly sequence: number
}

/** Some of the points of a snapshot. */
export interface SnapshotPart {
  /** Only points of these. */
  readonly partitions?: PartitionSet | undefined
  /** Only points that pass this test. */
  readonly matches?: AttributesTest | undefined
  /** Number of these points. */
  readonly points: number
}

export type AttributesTest = (attributes: Attributes | undefined) => boolean

/** The records of one collection. Can be sent to other threads. */
export interface StoredPlace {
  readonly dataDir: string
  /** Number and name of the collection. */
  readonly number: number
  readonly collection: string
}

/**
 * A file in which the row of slot n begins at `firstRow + n * rowBytes`: a head that ends with the sequence number (f64),
 * the vector (f32), and the CRC-32 of both; little-endian.
 */
export interface VectorsOnDisk {
  readonly path: string
  readonly firstRow: number
  readonly headBytes: number
  readonly rowBytes: number
}

/** The live points in the row file. Can be sent to other threads. */
export interface StoredRows {
  readonly path: string
  readonly dimension: number
  readonly slotCount: number
  /** Sequence number of the last committed change. No row has a later one. */
  readonly sequence: number
  /** Bit (slot & 7) of byte slot >> 3 is set for a live slot. In shared memory. */
  readonly live: Uint8Array
}

/** The values of a point that are stored outside its row. */
export interface PointRecord {
  readonly payload: Payload
  /** Sequence number of its last change. */
  readonly version: number
  /** Sequence number of its insertion. */
  readonly order: number
}

/** Some records of a store, by column: entry n of each column belongs to the same point. */
export interface RecordBatch {
  readonly count: number
  readonly slots: Uint32Array
  /** 16 bytes each. */
  readonly ids: Uint8Array
  /**
   * Positions in `contentTypes`; `damagedType` of payload-record.ts for a damaged record, of which nothing else is
   * known. Reading the record reports the damage.
   */
  readonly contentTypes: Uint8Array
  /** NaN for a damaged record. */
  readonly versions: Float64Array
  /** NaN for a damaged record. */
  readonly orders: Float64Array
  /** In microseconds since 1970; NaN if the point does not expire. */
  readonly expiresAtUs: Float64Array
  /** Canonical JSON in UTF-8, which `attributesFromJson` reads; undefined if the point has none. */
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
 * A change of one point, with its sequence number. It is decided once, and is the same on every node that applies it.
 * It does not contain the slot of the point, which is chosen each time the change is tried.
 */
export type Change = Insertion | Update | Deletion

/** A new point. Its id is `id`, even if `point` contains another. */
export interface Insertion {
  readonly kind: 'insert'
  /** Lower-case UUID. */
  readonly id: string
  readonly sequence: number
  readonly point: NewPoint
  /** For a restored point: the number of its last change. Absent: `sequence`. */
  readonly version?: number
  /** For a restored point: the number of its first insertion. Absent: `sequence`. */
  readonly order?: number
}

/** A change of a stored point. Its version becomes `sequence`. */
export interface Update {
  readonly kind: 'update'
  readonly id: string
  readonly sequence: number
  /** The order of the point, which it keeps. */
  readonly order: number
  /** The complete new payload, including unchanged parts. */
  readonly payload: Payload
  /** With a new vector, the point gets another slot; without one, it keeps its slot. */
  readonly vector: Float32Array | undefined
}

interface Deletion {
  readonly kind: 'delete'
  readonly id: string
  readonly sequence: number
}

/**
 * An insert with an idempotency key, so that a repetition gets the same answer and changes nothing. It is removed when
 * it is older than the life of a key. When there are too many requests, the oldest are removed.
 */
export interface KeyedRequest {
  readonly keyHash: Uint8Array
  /** Hash of the data to store. */
  readonly bodyHash: Uint8Array
  /** `drawIds` derives the ids of its points from it. */
  readonly idSeed: Uint8Array
  readonly points: number
  /** Time of acceptance, in milliseconds since 1970. */
  readonly acceptedMs: number
  /**
   * In a cluster: the number of the change of its first point. Whether a point was stored follows from the order of the
   * point, and the ids from the seed begin with the first byte of the seed.
   */
  readonly firstSequence?: number | undefined
  /** Outside of clusters: the points that were not stored, as only `continue` allows. */
  readonly refused: readonly RefusedPoint[]
}

/** A point of a keyed request that was refused, and why. */
export interface RefusedPoint {
  /** Its position in the request. */
  readonly index: number
  readonly reason: Reason
  readonly message: string
}

/** Changes that become durable together: at least one change, keyed request or position. */
export interface WriteGroup {
  readonly changes: readonly Change[]
  /** For each change, the slot that its point gets, keeps or leaves. The slot of a point determines its row. */
  readonly slots: readonly number[]
  /**
   * For each change, the slot that the point leaves if it gets another slot, as in an update with a vector. No slot
   * occurs twice in a group, neither in `slots` nor here.
   */
  readonly leaving?: readonly (number | undefined)[]
  /** The requests among the group's insertions that have a key. */
  readonly keyedRequests?: readonly KeyedRequest[]
  /** On a node of a cluster: the state of the replica after these changes. */
  readonly applied?: Applied | undefined
  /**
   * Fixes the dimension, even if the group has no points: on a node of a cluster, the points of the first insertion can
   * be on other nodes.
   */
  readonly dimension?: number | undefined
}

/** A named collection as it was created, with what it declares now. */
export interface CollectionRecord {
  /** Never reused for another collection, even after this one is dropped. */
  readonly number: number
  readonly name: string
  /** As given at its creation; undefined if the first insertion fixes it. */
  readonly dimension: number | undefined
  readonly hnsw: HnswSettings
  readonly words?: WordSettings | undefined
  readonly quotas?: Quotas | undefined
  readonly createdMs: number
}

/** What a collection declares, and may change at any time. */
export type Declared = Pick<CollectionRecord, 'words' | 'quotas'>

/** The name and settings of a new collection. */
export interface NewCollection extends Partial<CollectionSettings> {
  readonly name: string
}

/** What can be seen of the files of a named collection without opening it. */
export interface CollectionFiles {
  /** Damage for which it cannot be opened; other damage is only found by opening it. */
  readonly fault: Error | undefined
  /** Differs after the files were replaced or repaired. */
  readonly mark: string
}

/** A place in a journal of changes. A journal that begins anew has another id. */
export interface JournalPlace {
  /** A UUID. */
  readonly id: string
  readonly at: number
}

/** Which changes a caller wants, and which it has. */
export interface ChangesChoice {
  /** From this place on; absent: only later ones. */
  readonly since?: JournalPlace | undefined
  /** Those up to this place are stored elsewhere: they are forgotten. */
  readonly stored?: JournalPlace | undefined
}

/** A part of a journal. */
export interface JournalRange {
  readonly id: string
  /** The oldest place that is kept. */
  readonly start: number
  readonly from: number
  readonly to: number
  /** The CRC of all bytes up to `to`: copies of a directory that have gone separate ways differ in it. */
  readonly sum: number
  /** All records before `to` have at most this time, all later ones a later time. In milliseconds since 1970. */
  readonly timeMs: number
}

/** A part of the journal of changes. */
export interface KeptChanges extends JournalRange {
  /** Its bytes: see change-format.ts. */
  chunks(): AsyncGenerator<Buffer>
}

/** A summary of a collection, as of the last commit. */
export interface CollectionSummary {
  readonly dimension: number | undefined
  readonly points: number
  /** What the collection has applied of a cluster's log; undefined if nothing. */
  readonly applied: Applied | undefined
}

/**
 * The content of a data directory. The caller checks names: their syntax, that they exist where they must, and that no
 * alias has the name of a collection.
 */
export interface DataStore {
  /** The default collection. Closing it closes the data store. */
  readonly main: Store
  readonly dataDir: string
  /** Named collections by name, as committed. */
  readonly collections: ReadonlyMap<string, CollectionRecord>
  /** The name of the collection, which may be `defaultCollection`, by alias. */
  readonly aliases: ReadonlyMap<string, string>
  /** Bytes on disk of all collections and kept changes, for people: a recent figure, not an exact one. */
  readonly diskBytes: number
  /** Whether changes are kept for the next backup: see `changes`. */
  readonly keepsChanges: boolean

  /**
   * Creates a collection, completely or not at all. It is durable when this resolves.
   *
   * @throws DatabaseError `disk_full` if nothing was created. Any other error means that the disk can no longer be
   *   trusted; nothing is written until a restart
   */
  create(settings: NewCollection): Promise<CollectionRecord>

  /** Returns the words that a collection declares, also the default one. */
  wordsOf(number: number): WordSettings | undefined

  /** Returns the quotas of a collection, also the default one. */
  quotasOf(number: number): Quotas | undefined

  /**
   * Changes what a collection declares, as far as it is given; durable when this resolves.
   *
   * @param declared undefined values remove what was declared
   * @throws DatabaseError like `create`
   */
  declare(number: number, declared: Declared): Promise<void>

  /**
   * Removes a collection and its aliases. This is durable when it resolves. The caller has closed the store of the
   * collection. Its points are removed later, in pieces between the commits of other collections; after a crash, from
   * the next start on.
   *
   * @throws DatabaseError like `create`
   */
  drop(name: string): Promise<void>

  /**
   * Sets aliases and removes others, in one commit.
   *
   * @param set the name of the collection, by alias
   * @throws DatabaseError like `create`
   */
  setAliases(set: ReadonlyMap<string, string>, remove: readonly string[]): Promise<void>

  /**
   * Opens the points of a collection, without reading other collections. A collection has only one open store at a
   * time.
   *
   * @throws DatabaseError that names the damage
   */
  open(number: number): Promise<Store>

  /**
   * Keeps what is committed from now on in a journal, if that is not done already, and reads a part of it. All earlier
   * changes of all collections are before the end of that part.
   *
   * @throws DatabaseError like `create`
   */
  changes(choice: ChangesChoice): Promise<KeptChanges>

  /**
   * Returns a summary of a collection, which need not be open.
   *
   * @throws DatabaseError if its record is damaged
   */
  summary(number: number): CollectionSummary

  /** Looks at the files of a named collection, without opening it. */
  look(number: number): CollectionFiles

  /** The directory for the index of a named collection. It is removed with the collection. */
  indexDirectory(number: number): string

  /** Waits for running commits, closes all stores and releases the data directory. */
  close(): Promise<void>
}
