import { DatabaseError } from '../base/errors.ts'
import type { Filter } from '../base/filter.ts'
import type { PartitionSet } from '../base/partitions.ts'
import { type NewPoint, type Patch, type Payload, type Precondition, payloadBytes } from '../base/point.ts'
import type { ChangeByFilter, Inserted, RequestIdentity } from '../points/database.ts'
import type { Expirations } from '../points/expirations.ts'
import type { OrderedSlot } from '../points/insertion-order.ts'
import type { PointTable } from '../points/point-table.ts'
import type { Change, Insertion, PointRecord } from '../storage/store.ts'

/**
 * Requests to change points. Most come from callers, or on a node of a cluster from its log. What a request of the log
 * changes is decided when it is applied. The decision is the same on every replica, because it depends only on the
 * points after the previous request, on the request, and on its stamp. `keyFilter`: see `Database`.
 */
export type WriteRequest =
  | LoggedRequest
  | InsertRequest
  | FilterRequest
  | MarkRequest
  | TakeRequest
  | ClearRequest

/** A request as the log of a cluster carries it. */
export type LoggedRequest =
  | LoggedInsert
  | PutRequest
  | PatchRequest
  | RemoveRequest
  | LoggedChangeEach
  | ExpireRequest

export interface InsertRequest {
  readonly kind: 'insert'
  readonly points: readonly NewPoint[]
  readonly onError: 'abort' | 'continue'
  readonly identity?: RequestIdentity | undefined
  /**
   * In a log: the seed for the ids of points without their own; all these ids are in the partition of the seed's first
   * byte.
   */
  readonly idSeed?: Uint8Array | undefined
  readonly keyFilter?: Filter | undefined
}

export interface LoggedInsert extends InsertRequest {
  readonly idSeed: Uint8Array
}

interface PutRequest {
  readonly kind: 'put'
  readonly id: string
  readonly point: Pick<NewPoint, 'vector' | 'payload'>
  readonly when?: Precondition | undefined
  readonly keyFilter?: Filter | undefined
}

interface PatchRequest {
  readonly kind: 'patch'
  readonly id: string
  readonly patch: Patch
  readonly when?: Precondition | undefined
  readonly keyFilter?: Filter | undefined
}

interface RemoveRequest {
  readonly kind: 'remove'
  readonly id: string
  readonly keyFilter?: Filter | undefined
}

/** Changes the points that match a filter. */
interface FilterRequest extends ChangeByFilter {
  readonly kind: 'filter'
}

/**
 * Changes those of these points that match the filter. They were found before, for a request to change points by
 * filter.
 */
export interface LoggedChangeEach {
  readonly kind: 'each'
  readonly ids: readonly string[]
  readonly filter: Filter
  readonly change: Patch | 'delete'
}

/** Deletes those of these points that have expired, in a cluster by its clock. */
interface ExpireRequest {
  readonly kind: 'expire'
  readonly ids: readonly string[]
}

/** On a node of a cluster: stores how far the log is applied, and changes no points. */
interface MarkRequest {
  readonly kind: 'mark'
  /** The partitions that the node holds from now on. */
  readonly held: PartitionSet | undefined
}

/**
 * On a node of a cluster: adds points of partitions that the node does not hold yet, with their numbers from the other
 * node.
 */
interface TakeRequest {
  readonly kind: 'take'
  readonly points: readonly TakenPoint[]
}

/** A point as another node has it. */
export interface TakenPoint extends Required<Omit<Insertion, 'kind' | 'point'>> {
  readonly point: Pick<NewPoint, 'vector' | 'payload'>
}

/** On a node of a cluster: removes points of partitions that the node does not hold. */
interface ClearRequest {
  readonly kind: 'clear'
  readonly ids: readonly string[]
  /** Whether the points of a partition are kept; called when the request is carried out. */
  readonly keeps: (partition: number) => boolean
}

/** Where a request comes from. */
export interface RequestSource {
  readonly signal?: AbortSignal | undefined
  /** Only for requests from a cluster's log. */
  readonly stamp?: Stamp | undefined
  /** The partitions that the node holds, if the request is from the log; absent for all. */
  readonly held?: PartitionSet | undefined
  /**
   * For an insert from the log: by point, the ids from its seed. A later request of the log can concern these points
   * before this one has taken effect.
   */
  readonly drawnIds?: readonly string[] | undefined
}

/** The log's data about a request, besides its content. */
export interface Stamp {
  readonly position: number
  /** The cluster's clock in microseconds since 1970; never below that of an earlier record. */
  readonly nowUs: number
}

/** The number of changed points by partition; partitions without any are left out. */
export type ChangedByPartition = ReadonlyMap<number, number>

/** The result of each kind of request, if it was not refused. */
export interface LoggedResults {
  readonly insert: Inserted
  readonly put: { readonly version: number; readonly created: boolean }
  readonly patch: { readonly version: number }
  readonly remove: boolean
  readonly each: ChangedByPartition
  readonly expire: number
}

export type LoggedResult = LoggedResults[keyof LoggedResults]

export interface Results extends LoggedResults {
  readonly filter: { readonly changed: number; readonly more: boolean }
  readonly mark: undefined
  readonly take: undefined
  readonly clear: undefined
}

/**
 * The most changes of a request. The number of a change is this times the position plus the index of its item in the
 * request.
 */
export const changesPerRecord = 65_536

/** Returns the length of a request's vectors, which are all of one length; undefined if it has none. */
export function dimensionOf(request: WriteRequest): number | undefined {
  if (request.kind === 'insert') return request.points[0]!.vector.length
  if (request.kind === 'put') return request.point.vector.length
  if (request.kind === 'take') return request.points[0]?.point.vector.length
  return request.kind === 'patch' ? request.patch.vector?.length : undefined
}

/** Returns the bytes for which a waiting request counts. */
export function bytesOf(request: WriteRequest): number {
  switch (request.kind) {
    case 'insert':
      return request.points.reduce((sum, point) => sum + pointBytes(point), 0)
    case 'take':
      return request.points.reduce((sum, { point }) => sum + pointBytes(point), 0)
    case 'put':
      return pointBytes(request.point)
    case 'patch':
      return patchBytes(request.patch)
    case 'each':
      return (request.change === 'delete' ? 0 : patchBytes(request.change)) + request.ids.length * idCost
    case 'filter':
      return request.change === 'delete' ? requestOverheadBytes : patchBytes(request.change)
    case 'expire':
    case 'clear':
      return request.ids.length * idCost
    case 'remove':
      return requestOverheadBytes
    case 'mark':
      return 0
  }
}

/** Returns the bytes for which a waiting point counts. */
export function pointBytes({ vector, payload }: Pick<NewPoint, 'vector' | 'payload'>): number {
  return vector.byteLength + payloadBytes(payload) + requestOverheadBytes
}

function patchBytes({ set, unset = [], content = '', vector }: Patch): number {
  const unsetBytes = unset.reduce((sum, path) => sum + path.length * 2, 0)
  return (
    (vector?.byteLength ?? 0) + payloadBytes({ content, attributes: set }) + unsetBytes + requestOverheadBytes
  )
}

/** The bytes for which a waiting request counts, in addition to its vectors and contents. */
const requestOverheadBytes = 256

/** The bytes for which an id counts, as text. */
const idCost = 64

/** Whether every replica refuses the request. */
export function isDecided(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && decidedReasons.has(error.reason)
}

const decidedReasons: ReadonlySet<string> = new Set([
  'invalid_argument',
  'key_reused',
  'not_found',
  'already_exists',
  'precondition_failed',
  'permission_denied',
  'request_too_large',
])

/** What decisions depend on: the points as of the changes that have taken effect. */
export interface CurrentPoints {
  /** Fixed by the first insertion that took effect; undefined before that. */
  readonly dimension: number | undefined
  readonly table: Pick<PointTable, 'find' | 'slotOf' | 'idOf' | 'versionOf' | 'orderOf' | 'isVisible'>
  readonly expirations: Pick<
    Expirations,
    'hideDue' | 'hasExpired' | 'postpone' | 'endPostponement' | 'endPostponements'
  >
  /** On a node of a cluster: moves the clock forward to at least the time of a record. Reads can see what expires by it. */
  advanceTo(stamp: Stamp): void
  record(slot: number, id: string): PointRecord
  /** Does in turns what `matches` would do of a long filter at once. */
  prepareFilter(filter: Filter): Promise<void>
  matches(slot: number, filter: Filter): boolean
  /** Finds the visible points that match now. */
  matching(filter: Filter): Promise<MatchingPoints>
}

/** Points that match a filter, as of one moment. */
export interface MatchingPoints {
  readonly count: number
  /** Returns the first `limit` matching points with a higher order than `after`, in the order of insertion. */
  page(after: number, limit: number): Promise<readonly OrderedSlot[]>
}

/** Applies committed changes, and answers the write path's questions about the state that they change. */
export interface ChangeTarget extends CurrentPoints {
  /** Reserves memory for vectors of this dimension up to this slot count; throws `memory_full` if they do not fit. */
  reserve(slotCount: number, dimension: number): void
  /**
   * Starts a check that the payloads of a request fit in memory: `add` throws `memory_full` for the first that does
   * not.
   */
  memoryCheck(): { add(payload: Payload): void }
  /** Does in turns what would take long when the payload is applied; undefined for nothing. */
  prepare(payload: Payload): Promise<void> | undefined
  /** Runs an attempt again after `memory_full` if memory that nobody uses could be freed. */
  withMemory<Result>(attempt: () => Result | Promise<Result>): Promise<Result>
  /** Call when the dimension for which memory was last reserved is on disk. */
  fixDimension(): void
  /** Call when nothing was stored of what memory was last reserved for. */
  commitFailed(): void
  /**
   * Applies a change that is on disk; its point is in `slot`. The slot of a deleted point is returned to the allocator
   * when no graph leads to it any more.
   */
  apply(change: Change, slot: number): void
  /** Call when all changes of a small request, or some of a larger one, have been applied. */
  applied(): void
  /** Call when all changes that are stored have been applied. */
  allApplied(): void
  /** A group is closed when it exceeds this many bytes, to limit how much reaches the index together. */
  readonly comingBytesMax: number
  /** Whether a graph is being rebuilt, which slows inserts down: see `WriterRoom`. */
  readonly isRebuilding: boolean
  /**
   * Undefined when the index can take more points now; otherwise resolves with whether it can, as soon as that is
   * known.
   */
  whenIndexReady(): Promise<boolean> | undefined
}
