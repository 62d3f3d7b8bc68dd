import type { PartitionSet } from '../base/partitions.ts'
import { payloadBytes } from '../base/payload-bytes.ts'
import type { NewPoint, Patch, Precondition } from '../base/point.ts'
import type { Insertion } from '../storage/store.ts'
import type { ChangeByFilter, Inserted, RequestIdentity } from './database.ts'
import type {
  ChangedByPartition,
  FoundPoints,
  LoggedChangeEach,
  LoggedRequest,
  Stamp,
} from './logged-request.ts'

/** A request to change points, from the queue until it is answered. */
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
  /** On a node of a cluster: of the ids of points that have none of their own. */
  readonly idSeed?: Uint8Array | undefined
  /** By point, the ids from the seed: a later request of the log can be about them before this one has taken effect. */
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

/** Changes points that match a filter. */
export interface FilterRequest extends Answer<{ readonly changed: number; readonly more: boolean }> {
  readonly kind: 'filter'
  readonly request: ChangeByFilter
}

/** Deletes points that have expired; ours, no caller's. */
export interface ExpiryRequest extends Answer<void> {
  readonly kind: 'expiry'
}

/** Of a cluster's log: see `LoggedChangeEach`. */
export interface EachRequest extends Answer<ChangedByPartition> {
  readonly kind: 'each'
  readonly request: LoggedChangeEach
  readonly held?: PartitionSet | undefined
}

/** Of a cluster's log: deletes those of these points that have expired. */
export interface ExpireRequest extends Answer<number> {
  readonly kind: 'expire'
  readonly ids: readonly string[]
  readonly held?: PartitionSet | undefined
}

/** On a node of a cluster: stores how far the log is applied, and changes nothing. */
export interface MarkRequest extends Answer<void> {
  readonly kind: 'mark'
  /** What the node has from now on. */
  readonly held?: PartitionSet | undefined
}

/** On a node of a cluster: points of partitions that the node does not have yet, with the numbers that they have elsewhere. */
export interface TakeRequest extends Answer<void> {
  readonly kind: 'take'
  readonly points: readonly TakenPoint[]
}

/** A point as another node has it. */
export interface TakenPoint extends Required<Omit<Insertion, 'kind' | 'point'>> {
  readonly point: Pick<NewPoint, 'vector' | 'payload'>
}

/** On a node of a cluster: removes points of partitions that the node does not have. */
export interface ClearRequest extends Answer<void> {
  readonly kind: 'clear'
  readonly ids: readonly string[]
  /** Whether points of a partition stay, when the request has its turn. */
  readonly keeps: (partition: number) => boolean
}

/** A request's claim on the queue, and how it is answered. */
export interface Answer<Result> {
  readonly bytes: number
  readonly signal: AbortSignal | undefined
  /** Of a request from a cluster's log. */
  readonly stamp?: Stamp | undefined
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

export interface Keyed {
  readonly identity: RequestIdentity
  /** Tells it from other requests of its group. */
  readonly name: string
}

export function keyedOf(identity: RequestIdentity): Keyed {
  return { identity, name: Buffer.from(identity.keyHash).toString('base64') }
}

/**
 * What a request shares with no other of its group: the ids that its caller knows, and its key. The points of a group can
 * then be looked at before any of its changes has taken effect.
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

/** Whether it can touch any point, so that it is a group by itself. */
export function isAlone({ kind }: WriteRequest): boolean {
  return kind === 'filter' || kind === 'expiry' || kind === 'take' || kind === 'clear'
}

/** Length of the vectors that a request brings, all of one length; undefined if it brings none. */
export function dimensionOf(request: WriteRequest): number | undefined {
  if (request.kind === 'insert') return request.points[0]!.vector.length
  if (request.kind === 'put') return request.point.vector.length
  if (request.kind === 'take') return request.points[0]?.point.vector.length
  return request.kind === 'patch' ? request.patch.vector?.length : undefined
}

/** What a waiting point costs. */
export function pointBytes({ vector, payload }: Pick<NewPoint, 'vector' | 'payload'>): number {
  return vector.byteLength + payloadBytes(payload) + requestOverheadBytes
}

/** What a waiting patch costs. */
export function patchBytes({ set, unset = [], content = '', vector }: Patch): number {
  const unsetBytes = unset.reduce((sum, path) => sum + path.length * 2, 0)
  return (
    (vector?.byteLength ?? 0) + payloadBytes({ content, attributes: set }) + unsetBytes + requestOverheadBytes
  )
}

/** What a request from a log costs while it waits. */
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

/** What a waiting request costs besides its vectors and contents. */
export const requestOverheadBytes = 256

/** An id as text. */
const idCost = 64
