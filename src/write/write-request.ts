import type { PartitionSet } from '../base/partitions.ts'
import { payloadBytes } from '../base/payload-bytes.ts'
import type { NewPoint, Patch, Precondition } from '../base/point.ts'
import type { ChangeByFilter, Inserted, RequestIdentity } from '../points/database.ts'
import type { Insertion } from '../storage/store.ts'
import type {
  ChangedByPartition,
  FoundPoints,
  LoggedChangeEach,
  LoggedRequest,
  Stamp,
} from './logged-request.ts'

/** A request to change points, from the queue until its answer. */
export type WriteRequest =
  | InsertRequest
  | PutRequest
  | PatchRequest
  | RemoveRequest
  | FilterRequest
  | ExpiryRequest
  | EachRequest
  | ExpireRequest
  | MarkRequest
  | TakeRequest
  | ClearRequest

export interface InsertRequest extends Answer<Inserted> {
  readonly kind: 'insert'
  readonly points: readonly NewPoint[]
  readonly onError: 'abort' | 'continue'
  readonly keyed: Keyed | undefined
  /** On a node of a cluster: the seed for the ids of points without their own. */
  readonly idSeed?: Uint8Array | undefined
  /**
   * By point, the ids from the seed. A later request of the log can concern these points before this one has taken
   * effect.
   */
  readonly drawnIds?: readonly string[] | undefined
  readonly found?: FoundPoints | undefined
  readonly held?: PartitionSet | undefined
}

export interface PutRequest extends Answer<{ readonly version: number; readonly created: boolean }> {
  readonly kind: 'put'
  readonly id: string
  readonly point: Pick<NewPoint, 'vector' | 'payload'>
  readonly when: Precondition | undefined
  readonly held?: PartitionSet | undefined
}

export interface PatchRequest extends Answer<{ readonly version: number }> {
  readonly kind: 'patch'
  readonly id: string
  readonly patch: Patch
  readonly when: Precondition | undefined
}

export interface RemoveRequest extends Answer<boolean> {
  readonly kind: 'remove'
  readonly id: string
}

/** Changes the points that match a filter. */
export interface FilterRequest extends Answer<{ readonly changed: number; readonly more: boolean }> {
  readonly kind: 'filter'
  readonly request: ChangeByFilter
}

/** Deletes expired points. Created by the engine itself, not by a caller. */
export interface ExpiryRequest extends Answer<void> {
  readonly kind: 'expiry'
}

/** From a cluster's log: see `LoggedChangeEach`. */
export interface EachRequest extends Answer<ChangedByPartition> {
  readonly kind: 'each'
  readonly request: LoggedChangeEach
  readonly held?: PartitionSet | undefined
}

/** From a cluster's log: deletes those of these points that have expired. */
export interface ExpireRequest extends Answer<number> {
  readonly kind: 'expire'
  readonly ids: readonly string[]
  readonly held?: PartitionSet | undefined
}

/** On a node of a cluster: stores how far the log is applied, and changes no points. */
export interface MarkRequest extends Answer<void> {
  readonly kind: 'mark'
  /** The partitions that the node holds from now on. */
  readonly held?: PartitionSet | undefined
}

/**
 * On a node of a cluster: adds points of partitions that the node does not hold yet, with their numbers from the other
 * node.
 */
export interface TakeRequest extends Answer<void> {
  readonly kind: 'take'
  readonly points: readonly TakenPoint[]
}

/** A point as another node has it. */
export interface TakenPoint extends Required<Omit<Insertion, 'kind' | 'point'>> {
  readonly point: Pick<NewPoint, 'vector' | 'payload'>
}

/** On a node of a cluster: removes points of partitions that the node does not hold. */
export interface ClearRequest extends Answer<void> {
  readonly kind: 'clear'
  readonly ids: readonly string[]
  /** Whether the points of a partition are kept; called when the request is carried out. */
  readonly keeps: (partition: number) => boolean
}

/** A request's share of the queue, and how it is answered. */
export interface Answer<Result> {
  readonly bytes: number
  readonly signal: AbortSignal | undefined
  /** Only for requests from a cluster's log. */
  readonly stamp?: Stamp | undefined
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export interface Keyed {
  readonly identity: RequestIdentity
  /** Distinguishes the key from others of the group. */
  readonly name: string
}

export function keyedOf(identity: RequestIdentity): Keyed {
  return { identity, name: Buffer.from(identity.keyHash).toString('base64') }
}

/**
 * Yields what no two requests of a group have in common: the ids that their callers know, and their keys. The points of
 * a group can therefore be looked up before any of its changes has taken effect.
 */
export function* namesOf(request: WriteRequest): Generator<string, void> {
  if (request.kind === 'insert') {
    if (request.keyed !== undefined) yield request.keyed.name
    for (const { id } of request.points) if (id !== undefined) yield id
    if (request.drawnIds !== undefined) yield* request.drawnIds
  } else if (request.kind === 'each') yield* request.request.ids
  else if (request.kind === 'expire') yield* request.ids
  else if ('id' in request) yield request.id
}

/** Whether the request can touch any point and must form a group alone. */
export function isAlone({ kind }: WriteRequest): boolean {
  return kind === 'filter' || kind === 'expiry' || kind === 'take' || kind === 'clear'
}

/** Returns the length of a request's vectors, which are all of one length; undefined if it has none. */
export function dimensionOf(request: WriteRequest): number | undefined {
  if (request.kind === 'insert') return request.points[0]!.vector.length
  if (request.kind === 'put') return request.point.vector.length
  if (request.kind === 'take') return request.points[0]?.point.vector.length
  return request.kind === 'patch' ? request.patch.vector?.length : undefined
}

/** Returns the bytes for which a waiting point counts. */
export function pointBytes({ vector, payload }: Pick<NewPoint, 'vector' | 'payload'>): number {
  return vector.byteLength + payloadBytes(payload) + requestOverheadBytes
}

/** Returns the bytes for which a waiting patch counts. */
export function patchBytes({ set, unset = [], content = '', vector }: Patch): number {
  const unsetBytes = unset.reduce((sum, path) => sum + path.length * 2, 0)
  return (
    (vector?.byteLength ?? 0) + payloadBytes({ content, attributes: set }) + unsetBytes + requestOverheadBytes
  )
}

/** Returns the bytes for which a waiting request of a log counts. */
export function loggedBytes(request: LoggedRequest): number {
  switch (request.kind) {
    case 'insert':
      return request.points.reduce((sum, point) => sum + pointBytes(point), 0)
    case 'put':
      return pointBytes(request.point)
    case 'patch':
      return patchBytes(request.patch)
    case 'each':
      return (request.change === 'delete' ? 0 : patchBytes(request.change)) + request.ids.length * idCost
    case 'expire':
      return request.ids.length * idCost
    case 'remove':
      return requestOverheadBytes
  }
}

/** The bytes for which a waiting request counts, in addition to its vectors and contents. */
export const requestOverheadBytes = 256

/** The bytes for which an id counts, as text. */
const idCost = 64
